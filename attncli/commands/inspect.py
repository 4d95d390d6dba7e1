"""attn inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.commands import options
from attncli.commands.writing import writes

if TYPE_CHECKING:
    from attncli.commands.batch import Session


@writes("inspect")
def inspect(
    session: Session,
    texts: options.Texts = None,
    model: options.ModelName = None,
    pair: options.Pair = None,
    target: options.Target = None,
    attention: options.Attention = None,
    layer: options.Layer = None,
    head: options.Head = None,
    reduce: options.Reduce = "mean",
    query: options.Query = None,
    key: options.Key = None,
    top: options.Top = 3,
    by: options.Measure = "contribution",
    words: options.Words = False,
    special: options.Specials = "show",
    shade: options.Shade = "linear",
    literal_specials: options.LiteralSpecials = False,
    engine: options.Engine = "numpy",
    device: options.Device = None,
    dtype: options.Dtype = None,
    file: options.File = None,
) -> None:
    """Show what each token attends to: weights, scores of one head, top keys, telling heads, shift.

    Without --layer and --head the numbers are means over all of them; with one layer and one head
    the scores before the softmax are shown too. Of an encoder-decoder the encoder is shown, or
    with --target how its decoder reads the source.
    """
    from attncli import api

    loaded = session.load(model, engine=engine, device=device, dtype=dtype)
    session.each(
        loaded,
        texts,
        file,
        lambda text: api.inspect(
            text.text,
            loaded,
            pair=pair,
            target=target,
            attention=attention,
            layer=layer,
            head=head,
            reduce=reduce,
            query=query or (),
            key=key or (),
            by=by,
            special=special,
            words=words,
            top=top,
            shade=shade,
            literal_specials=literal_specials,
            every_head=session.keeps_heads,
            line=text.line,
        ),
    )
