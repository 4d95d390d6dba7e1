"""attn compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("compare")
def compare(
    session: Session,
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
    file: options.File = None,
) -> None:
    """Set one word in several contexts side by side: how alike it stays, what it reads in each.

    Cosines come with the mean of random pairs of words at the same layer; those of the last layer
    are taken after the final norm, where the model has one. --layer and --head choose whose
    attention from the word is compared.
    """
    from attncli import api
    from attncli.inputs import read_inputs

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
