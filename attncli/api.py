"""The Python interface: the same analyses and results as the commands, one call each.

Each call imports its own analysis, so that a command starts without those of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attncli.errors import UsageProblem
from attncli.model.load import Model, load
from attncli.selection import Attention, By, Reduce, Shade, Special, View, choose_heads

if TYPE_CHECKING:
    from attncli.analyses.comparison import Comparison
    from attncli.analyses.explanation import Explanation
    from attncli.analyses.head_changes import HeadChanges
    from attncli.analyses.head_links import HeadLinks
    from attncli.analyses.head_survey import HeadSurvey
    from attncli.analyses.inspection import Inspection
    from attncli.analyses.prediction import Prediction
    from attncli.analyses.tokens import Tokens

Names = str | int | Sequence[str | int]
"""Words or token indexes: one, or several."""

__all__ = ["Model", "compare", "explain", "heads", "inspect", "load", "predict", "tokens"]


def inspect(
    text: str,
    model: Model | str | None = None,
    *,
    pair: str | None = None,
    target: str | None = None,
    attention: Attention | None = None,
    layer: str | int | None = None,
    head: str | int | None = None,
    reduce: Reduce = "mean",
    query: Names = (),
    key: Names = (),
    by: By = "contribution",
    special: Special = "show",
    words: bool = False,
    top: int = 3,
    shade: Shade = "linear",
    literal_specials: bool = False,
    every_head: bool = False,
    line: int | None = None,
) -> Inspection:
    """Return what each token of a text attends to.

    Args:
        text: one text, as typed.
        model: a loaded model, a name or path, or None for the default.
        pair: second text of a pair, for encoders; both are read as one sequence.
        target: text for the decoder of an encoder-decoder; `text` is then its source.
        attention: of an encoder-decoder, `encoder`, or with a target `cross` (target reads source)
            or `self` (within the target); None for `cross` with a target, else `encoder`.
        layer: `3`, `-1`, `0-2`, `all`; None for all.
        head: likewise, or `3.1` for layer 3, head 1.
        reduce: how several heads become one matrix of weights.
        query: words or token indexes that become rows; empty for all.
        key: words or token indexes that become columns; empty for all.
        by: measure that orders the top keys; `rollout` and `value-zeroing` are computed only when
            asked for.
        special: show, fold or hide special tokens.
        words: merge the pieces of a word.
        top: length of the lists of keys.
        shade: how a matrix in a terminal is shaded.
        literal_specials: read control strings in the text as plain characters.
        every_head: also keep the matrices of each chosen head, `Inspection.by_head`.
        line: line of a file the text came from, for the record.

    Raises:
        AttnError: the model cannot be read, the text not taken, or a choice does not fit.
    """
    from attncli.analyses.inspect import inspect_text
    from attncli.analyses.sides import choose_attention, stack_of

    loaded = _loaded(model)
    attention = choose_attention(loaded, attention, has_target=target is not None)
    stack = stack_of(loaded.spec, attention)
    heads = choose_heads(_text(layer), _text(head), stack.n_layers, stack.n_heads, reduce)
    view = View(by=by, special=special, words=words, top=top, shade=shade)
    encoded = loaded.encode(text, pair, literal_specials=literal_specials)
    decoded = (
        None if target is None else loaded.encode_target(target, literal_specials=literal_specials)
    )
    return inspect_text(
        loaded,
        encoded,
        heads,
        view,
        target=decoded,
        attention=attention,
        query=_names(query),
        key=_names(key),
        every_head=every_head,
        line=line,
    )


def compare(
    *texts: str,
    model: Model | str | None = None,
    word: str | None = None,
    to: Names = (),
    layer: str | int | None = None,
    head: str | int | None = None,
    by: By = "contribution",
    state: str | int | None = None,
    neighbours: int | None = None,
    centred: bool = False,
    literal_specials: bool = False,
) -> Comparison:
    """Return how one word, or each word the texts share, differs between its contexts.

    Args:
        texts: one or more texts.
        model: a loaded model, a name or path, or None for the default.
        word: the word to follow; None for all words that occur at least twice.
        to: anchors, each a word alone or `WORD: a sentence holding it`.
        layer: layers whose attention is compared, as for `inspect`.
        head: heads whose attention is compared.
        by: measure that orders the keys that changed.
        state: state of the matrix of similarities: `embedding`, `L3`, or a number (0 is the
            embedding, -1 the last); None for the last.
        neighbours: tokens of the vocabulary nearest to each occurrence, listed at every state;
            None for no lists.
        centred: subtract the mean vector of fixed sample sentences before every cosine.
        literal_specials: read control strings in the texts as plain characters.

    Raises:
        AttnError: the model cannot be read, a text not taken, or the word is not there.
    """
    from attncli.analyses.compare import compare_texts

    loaded = _loaded(model)
    stack = loaded.spec.reader
    heads = choose_heads(_text(layer), _text(head), stack.n_layers, stack.n_heads)
    encoded = [loaded.encode(text, literal_specials=literal_specials) for text in texts]
    return compare_texts(
        loaded,
        encoded,
        heads,
        View(by=by),
        word=word,
        to=_names(to),
        state=_text(state),
        n_neighbours=neighbours,
        centred=centred,
    )


def explain(
    text: str,
    model: Model | str | None = None,
    *,
    query: str | int,
    key: str | int | None = None,
    pair: str | None = None,
    target: str | None = None,
    attention: Attention | None = None,
    layer: str | int | None = None,
    head: str | int | None = None,
    top: int = 5,
    brief: bool = False,
    literal_specials: bool = False,
    line: int | None = None,
) -> Explanation:
    """Return the whole computation of one row of attention, step by step.

    Args:
        text: one text, as typed.
        model: a loaded model, a name or path, or None for the default.
        query: word or token index of the row.
        key: likewise of the key that is followed; None for the one that adds most.
        pair: second text, for encoders.
        target: text for the decoder of an encoder-decoder; `text` is then its source.
        attention: of an encoder-decoder, as for `inspect`.
        layer: one layer; None for the one that tells most.
        head: one head, or `3.1` for layer 3, head 1; None for the one that tells most.
        top: keys that tables list.
        brief: leave sentences and formulae out of tables.
        literal_specials: read control strings in the text as plain characters.
        line: line of a file the text came from, for the record.

    Raises:
        AttnError: the model cannot be read, the text not taken, or a choice does not fit.
    """
    from attncli.analyses.explain import explain_row
    from attncli.analyses.sides import choose_attention, stack_of

    if query == "":
        raise UsageProblem("explain: say which row to explain, such as --query it.")
    if top < 1:
        raise UsageProblem(f"--top {top}: expected 1 or more.")
    loaded = _loaded(model)
    attention = choose_attention(loaded, attention, has_target=target is not None)
    stack = stack_of(loaded.spec, attention)
    heads = choose_heads(_text(layer), _text(head), stack.n_layers, stack.n_heads)
    for option, given, chosen in (("layer", layer, heads.layers), ("head", head, heads.heads)):
        if given is not None and len(chosen) > 1:
            raise UsageProblem(
                f"--{option} {given}: explain shows one head; give one {option}, or leave "
                f"--{option} out for the most telling. attn heads ranks them."
            )
    decoded = (
        None if target is None else loaded.encode_target(target, literal_specials=literal_specials)
    )
    return explain_row(
        loaded,
        loaded.encode(text, pair, literal_specials=literal_specials),
        heads,
        str(query),
        key=_text(key),
        target=decoded,
        attention=attention,
        top=top,
        brief=brief,
        line=line,
    )


def heads(
    text: str,
    model: Model | str | None = None,
    *,
    pair: str | None = None,
    target: str | None = None,
    attention: Attention | None = None,
    layer: str | int | None = None,
    head: str | int | None = None,
    sort: str | None = None,
    role: Names = (),
    top: int | None = None,
    grid: str | None = None,
    shade: Shade = "linear",
    probe: bool = False,
    seed: int = 0,
    from_: str | int | None = None,
    to: str | int | None = None,
    by: str | None = None,
    contrast: str | None = None,
    swap: str | None = None,
    literal_specials: bool = False,
    line: int | None = None,
) -> HeadSurvey | HeadLinks | HeadChanges:
    """Return what every head of a model does on a text, or which heads link two words.

    Args:
        text: one text, as typed.
        model: a loaded model, a name or path, or None for the default.
        pair: second text of a pair, for encoders; both are read as one sequence.
        target: text for the decoder of an encoder-decoder; `text` is then its source.
        attention: as for `inspect`.
        layer: layers whose heads are looked at, as for `inspect`.
        head: heads that are looked at.
        sort: measure that orders the heads, largest first; None: layer by layer.
        role: list only heads of these roles; empty for all.
        top: most heads listed; None for all.
        grid: measure of the grid, layers by heads; None for one that suits the text.
        shade: how the grid is shaded in a terminal.
        probe: also measure induction, duplicates and previous tokens on random repeats.
        seed: of the random repeats.
        from_: with `to`: rank heads by what this word, or token index, reads from the other.
        to: the word that is read.
        by: `weight` (None), `contribution` or `excess`: what `from_` and `to` rank by.
        contrast: a second text: rank heads by what differs between the two.
        swap: two words, such as `he,she`: compare the text with its copy that exchanges them.
        literal_specials: read control strings in the text as plain characters.
        line: line of a file the text came from, for the record.

    Raises:
        AttnError: the model cannot be read, a text not taken, or choices do not fit each other.
    """
    from attncli.analyses.head_request import HeadRequest, answer

    loaded = _loaded(model)
    request = HeadRequest(
        pair=pair,
        target=target,
        attention=attention,
        layer=_text(layer),
        head=_text(head),
        sort=sort,
        roles=tuple(_names(role)),
        top=top,
        grid=grid,
        shade=shade,
        probe=probe,
        seed=seed,
        from_=_text(from_),
        to=_text(to),
        by=by,
        contrast=contrast,
        swap=swap,
        literal_specials=literal_specials,
    )
    return answer(loaded, text, request, line)


def predict(
    text: str,
    model: Model | str | None = None,
    *,
    pair: str | None = None,
    target: str | None = None,
    top: int = 10,
    lens: bool = False,
    layer: str | int | None = None,
    literal_specials: bool = False,
    line: int | None = None,
) -> Prediction:
    """Return the next token's candidates, or those of each mask, with probabilities.

    Args:
        text: one text, as typed; of an encoder with each word to fill written as its mask.
        model: a loaded model, a name or path, or None for the default (which has no output head).
        pair: second text, for encoders.
        target: of an encoder-decoder, what the decoder has said so far; None for nothing.
        top: number of candidates.
        lens: also what each layer would have said.
        layer: layers that the lens shows, as for `inspect`; None for all, and the embedding.
        literal_specials: read control strings in the text as plain characters.
        line: line of a file the text came from, for the record.

    Raises:
        AttnError: the model cannot be read or has no output head, the text is not taken or has no
            mask, or a choice does not fit.
    """
    from attncli.analyses.predict import predict_text

    return predict_text(
        _loaded(model),
        text,
        pair=pair,
        target=target,
        top=top,
        lens=lens,
        layer=_text(layer),
        literal_specials=literal_specials,
        line=line,
    )


def tokens(
    text: str,
    model: Model | str | None = None,
    *,
    pair: str | None = None,
    literal_specials: bool = False,
    line: int | None = None,
) -> Tokens:
    """Return the tokens of a text, or of a pair of texts: ids, pieces, character spans, words.

    Raises:
        AttnError: the model cannot be read or the text not taken.
    """
    from attncli.analyses.tokens import list_tokens

    loaded = _loaded(model)
    encoded = loaded.encode(text, pair, literal_specials=literal_specials)
    return list_tokens(loaded, encoded, line=line)


def _loaded(model: Model | str | None) -> Model:
    return model if isinstance(model, Model) else load(model)


def _names(choice: Names) -> list[str]:
    """A single word or index stands for itself, not for its letters."""
    return [str(choice)] if isinstance(choice, str | int) else [str(name) for name in choice]


def _text(choice: str | int | None) -> str | None:
    return None if choice is None else str(choice)
