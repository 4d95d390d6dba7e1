"""attn explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("explain")
def explain(
    session: Session,
    texts: options.Texts = None,
    query: Annotated[
        str,
        typer.Option(
            "-q",
            "--query",
            metavar="WORD",
            help="The row: a word, token index, or word#2 (its second occurrence).",
            show_default=False,
        ),
    ] = "",
    key: Annotated[
        str | None,
        typer.Option(
            "-k",
            "--key",
            metavar="WORD",
            help="The key that is followed closely.",
            show_default="the one that adds most",
        ),
    ] = None,
    model: options.ModelName = None,
    pair: options.Pair = None,
    target: options.Target = None,
    attention: options.Attention = None,
    layer: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--layer",
            metavar="N",
            help="One layer: 3 or -1.",
            show_default="the most telling",
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "-H",
            "--head",
            metavar="N",
            help="One head; 3.1 names layer 3, head 1.",
            show_default="the most telling",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, max=1000, help="Keys that are listed.")
    ] = 5,
    brief: Annotated[
        bool, typer.Option("--brief", help="Only the numbers, without sentences and formulae.")
    ] = False,
    literal_specials: options.LiteralSpecials = False,
    engine: Annotated[str, typer.Option("--engine", hidden=True)] = "numpy",
    file: options.File = None,
) -> None:
    """Walk through one row of attention step by step, with the numbers of your own sentence.

    Embedding, query and key, the score dimension by dimension, softmax, values, output. Without
    --layer and --head the head is shown that tells most about the query, and a note says why.
    """
    from attncli import api
    from attncli.errors import UsageProblem

    if engine != "numpy":
        raise UsageProblem(
            f"--engine {engine}: explain follows attn's own arithmetic step by step; leave it out."
        )
    loaded = session.load(model)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.explain(
            text.text,
            loaded,
            query=query,
            key=key,
            pair=pair,
            target=target,
            attention=attention,
            layer=layer,
            head=head,
            top=top,
            brief=brief,
            literal_specials=literal_specials,
            line=text.line,
        ),
    )
