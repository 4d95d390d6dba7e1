"""attn compare."""

from __future__ import annotations

from typing import Annotated

import typer

from attncli.commands import options


def compare(
    texts: options.Texts = None,
    word: Annotated[
        str | None,
        typer.Option(
            "-w",
            "--word",
            metavar="WORD",
            help="The word to follow; without it every word that occurs twice.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="ANCHOR",
            help='Compare with a word alone, or with "WORD: a sentence holding it". Repeatable.',
            show_default=False,
        ),
    ] = None,
    model: options.ModelName = None,
    layer: options.Layer = None,
    head: options.Head = None,
    by: options.Measure = "contribution",
    literal_specials: options.LiteralSpecials = False,
    engine: options.Engine = "numpy",
    device: options.Device = None,
    dtype: options.Dtype = None,
    format_: options.OutputFormat = "table",
    json: options.Json = False,
    output: options.Output = None,
    file: options.File = None,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,
) -> None:
    """Set one word in several contexts side by side: how alike it stays, what it reads in each.

    Cosines come with the mean of random pairs of words at the same layer. --layer and --head
    choose whose attention from the word is compared.
    """
    from attncli import api
    from attncli.commands.batch import Session
    from attncli.inputs import read_inputs

    session = Session(
        "compare", format_=format_, json=json, output=output, no_color=no_color, verbose=verbose
    )
    loaded = session.load(model, engine=engine, device=device, dtype=dtype)
    inputs = read_inputs(texts or [], file)
    result = api.compare(
        *session.usable(
            inputs, lambda text: loaded.encode(text, literal_specials=literal_specials)
        ),
        model=loaded,
        word=word,
        to=to or (),
        layer=layer,
        head=head,
        by=by,
        literal_specials=literal_specials,
    )
    session.deliver([result])
