"""What the user chose: layers, heads, queries, keys, and how numbers are merged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attncli.display import display
from attncli.errors import UsageProblem, did_you_mean
from attncli.tokenize import Encoded
from attncli.words import same_form, split_words

Reduce = Literal["mean", "max"]
By = Literal["contribution", "weight", "rollout", "value-zeroing"]
Shade = Literal["linear", "log"]
Special = Literal["show", "fold", "hide"]
Attention = Literal["encoder", "self", "cross"]
"""Of an encoder-decoder: within the encoder, within the decoder, from the decoder to the encoder;
all other models have "self" only."""

_RANGE = re.compile(r"(-?\d{1,9})(?:-(-?\d{1,9}))?")
_LAYER_HEAD = re.compile(r"(-?\d{1,9})\.(-?\d{1,9})")
_ORDINAL = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Heads:
    """The chosen layers and heads, resolved."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    reduce: Reduce = "mean"
    """How several heads become one matrix of weights."""

    @property
    def single(self) -> bool:
        """True when exactly one head is chosen."""
        return len(self.layers) == 1 and len(self.heads) == 1

    def describe(self, n_layers: int, n_heads: int) -> str:
        """Say in words what is shown."""
        if self.single:
            return f"L{self.layers[0]} H{self.heads[0]}"
        everything = len(self.layers) == n_layers and len(self.heads) == n_heads
        if everything:
            return f"{self.reduce} over all layers and heads"
        layers = "all layers" if len(self.layers) == n_layers else f"L{_spans(self.layers)}"
        heads = "all heads" if len(self.heads) == n_heads else f"H{_spans(self.heads)}"
        return f"{self.reduce} over {layers}, {heads}"


@dataclass(frozen=True, slots=True)
class View:
    """How a result is cut and merged, whatever the model."""

    by: By = "contribution"
    special: Special = "show"
    words: bool = False
    top: int = 3
    shade: Shade = "linear"
    """How the shades of a matrix in a terminal follow its numbers; nothing else depends on it."""

    def __post_init__(self) -> None:
        """Refuse values that are none of these.

        Raises:
            UsageProblem: names what is accepted.
        """
        one_of("by", self.by, get_args(By))
        one_of("special", self.special, get_args(Special))
        one_of("shade", self.shade, get_args(Shade))
        if self.top < 1:
            raise UsageProblem(f"--top {self.top}: expected 1 or more.")

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"by": self.by, "special": self.special, "words": self.words, "top": self.top}


def choose_heads(
    layer: str | None, head: str | None, n_layers: int, n_heads: int, reduce: Reduce = "mean"
) -> Heads:
    """Resolve --layer and --head.

    Args:
        layer: `3`, `-1`, `0-2`, `0,2`, `all`, or None for all.
        head: likewise, or `3.1` for layer 3, head 1.
        n_layers: layers of the model.
        n_heads: query heads of a layer.
        reduce: how several heads become one matrix.

    Raises:
        UsageProblem: out of range or not understood; names the valid range.
    """
    one_of("reduce", reduce, get_args(Reduce))
    both = _LAYER_HEAD.fullmatch(head.strip()) if head is not None else None
    if both is None:
        layers = parse_indexes("all" if layer is None else layer, n_layers, "layer")
        heads = parse_indexes("all" if head is None else head, n_heads, "head")
        return Heads(layers, heads, reduce)
    layers = parse_indexes(both[1], n_layers, "layer")
    if layer is not None and parse_indexes(layer, n_layers, "layer") != layers:
        raise UsageProblem(
            f"--layer {layer} and --head {head} name different layers; give one of them."
        )
    return Heads(layers, parse_indexes(both[2], n_heads, "head"), reduce)


def parse_indexes(text: str, n: int, what: str) -> tuple[int, ...]:
    """Resolve `3`, `-1`, `0-2`, `0,2`, `all` to rising indexes below n.

    Raises:
        UsageProblem: names the valid range.
    """
    if text.strip() == "all":
        return tuple(range(n))
    chosen: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise UsageProblem(f"--{what} {text}: expected a number, a range such as 0-2, or all.")
        first = _resolve(int(match[1]), n, what, text)
        last = first if match[2] is None else _resolve(int(match[2]), n, what, text)
        if last < first:
            raise UsageProblem(f"--{what} {text}: the range ends before it begins.")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))


def one_of(option: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a value that is not one of those allowed.

    Raises:
        UsageProblem: names them.
    """
    if value not in allowed:
        raise UsageProblem(f"--{option} {value}: expected {' or '.join(allowed)}.")


def find_tokens(encoded: Encoded, wanted: str, option: str) -> tuple[int, ...]:
    """Resolve a word, phrase, special token, `word#2` or token index to token indexes.

    A number is a token index (negative: from the end); `7#1` is the first word "7". A word finds
    all its occurrences: letters in the same case first, any case if there are none or the
    tokenizer lower-cases anyway. Composed and decomposed accents are equal.

    Raises:
        UsageProblem: nothing found; names close words.
    """
    groups = find_groups(encoded, wanted, option)
    return tuple(dict.fromkeys(index for group in groups for index in group))


def find_groups(encoded: Encoded, wanted: str, option: str) -> list[tuple[int, ...]]:
    """Resolve the same to the token indexes of each occurrence.

    Raises:
        UsageProblem: nothing found; names close words.
    """
    if re.fullmatch(r"-?\d{1,9}", wanted):
        return [(_token_index(encoded, wanted, option),)]
    groups = find_occurrences(encoded, wanted)
    match = _ORDINAL.fullmatch(wanted)
    if not groups and match is not None:
        groups = find_occurrences(encoded, match[1])
        if groups and not 1 <= int(match[2]) <= len(groups):
            where = "the text has" if encoded.pair is None else "the texts have"
            raise UsageProblem(
                f"--{option} {display(wanted)}: {where} {len(groups)} of "
                f"{display(match[1])!r}, so #1 to #{len(groups)}."
            )
        groups = groups[int(match[2]) - 1 :][:1] if groups else []
    if not groups:
        words = [word.text for word in encoded.words]
        there = display(" ".join(dict.fromkeys(words)))[:120]
        where = "text" if encoded.pair is None else "texts"
        raise UsageProblem(
            f"--{option} {display(wanted)}: not in the {where} "
            f"(words: {there}).{did_you_mean(wanted, words)}"
        )
    return groups


def find_occurrences(encoded: Encoded, wanted: str) -> list[tuple[int, ...]]:
    """Return the token indexes of each occurrence of a word, phrase or special token."""
    special: list[tuple[int, ...]] = [
        (t.index,) for t in encoded.tokens if t.special and t.token == wanted
    ]
    if special:
        return special
    for fold in (same_form, lambda text: same_form(text).casefold()):
        found = _by_words(encoded, wanted, fold) or _by_tokens(encoded, wanted, fold)
        if found and (fold is not same_form or not encoded.lowercased):
            return found
    return found


def _by_words(encoded: Encoded, wanted: str, fold: Any) -> list[tuple[int, ...]]:
    target = [fold(word.text) for word in split_words(wanted)]
    # a phrase of a pair stands in one of its texts
    words = [(word.part, fold(word.text)) for word in encoded.words]
    if not target:
        return []
    wanted_in = [[(part, word) for word in target] for part in (0, 1)]
    starts = [i for i in range(len(words)) if words[i : i + len(target)] in wanted_in]
    of_word = encoded.tokens_by_word()
    return [
        tuple(token for word in range(at, at + len(target)) for token in of_word[word])
        for at in starts
    ]


def _by_tokens(encoded: Encoded, wanted: str, fold: Any) -> list[tuple[int, ...]]:
    """Find text that begins and ends at token borders, as words of unspaced scripts do."""
    target, found = fold(wanted).strip(), []
    tokens = [token for token in encoded.tokens if token.text.strip() and not token.special]
    for first, token in enumerate(tokens):
        start = token.start + len(token.text) - len(token.text.lstrip())
        text = encoded.text_of(token.part)
        for last in range(first, min(first + 64, len(tokens))):
            if tokens[last].part != token.part:
                break
            piece = fold(text[start : tokens[last].end])
            if piece == target:
                found.append(tuple(t.index for t in tokens[first : last + 1]))
                break
            if not target.startswith(piece):
                break
    return found


def _token_index(encoded: Encoded, wanted: str, option: str) -> int:
    try:
        return _resolve(int(wanted), len(encoded.tokens), option, wanted, "token")
    except UsageProblem as problem:
        if find_occurrences(encoded, wanted):
            raise UsageProblem(f"{problem} For the word: --{option} {wanted}#1") from None
        raise


def _resolve(index: int, n: int, option: str, given: str, what: str = "") -> int:
    if not -n <= index < n:
        raise UsageProblem(
            f"--{option} {given}: valid {what or option}s are 0 to {n - 1} "
            f"(or -1 to -{n} from the end)."
        )
    return index % n


def _spans(indexes: Sequence[int]) -> str:
    """Write rising indexes shortly: 0-2,5."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
