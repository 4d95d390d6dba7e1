"""attn tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("tokens")
def tokens(
    session: Session,
    texts: options.Texts = None,
    model: options.ModelName = None,
    pair: options.Pair = None,
    literal_specials: options.LiteralSpecials = False,
    file: options.File = None,
) -> None:
    """Show how the model's tokenizer cuts a text: ids, pieces, character spans, words, specials."""
    from attncli import api

    loaded = session.load(model)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.tokens(
            text.text, loaded, pair=pair, literal_specials=literal_specials, line=text.line
        ),
    )
