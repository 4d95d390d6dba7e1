"""attn predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("predict")
def predict(
    session: Session,
    texts: options.Texts = None,
    model: options.ModelName = None,
    pair: options.Pair = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="TEXT",
            help="Of an encoder-decoder: what the decoder has said so far; TEXT is its source.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", metavar="N", min=1, max=1000, help="Candidates listed."),
    ] = 10,
    lens: Annotated[
        bool,
        typer.Option(
            "--lens",
            help="Also what each layer would have said: its state through the final norm and head.",
        ),
    ] = False,
    layer: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--layer",
            metavar="N",
            help="Layers that --lens shows: 3, -1, 0-2, 0,4 or all.",
            show_default="all, and the embedding",
        ),
    ] = None,
    literal_specials: Annotated[
        bool,
        typer.Option(
            "--literal-specials",
            help="Read control strings in TEXT as plain text; a mask is then no mask.",
        ),
    ] = False,
    file: options.File = None,
) -> None:
    """Show the next token, or what fills a mask: candidates with probabilities.

    A decoder continues TEXT. An encoder fills each [MASK] (or <mask>) in TEXT. An encoder-decoder
    begins the target, or continues --target. The model's file must hold its output head: encoders
    of sentences, such as the bundled one, have none. Probabilities are the softmax over the whole
    vocabulary.
    """
    from attncli import api

    loaded = session.load(model)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.predict(
            text.text,
            loaded,
            pair=pair,
            target=target,
            top=top,
            lens=lens,
            layer=layer,
            literal_specials=literal_specials,
            line=text.line,
        ),
    )
