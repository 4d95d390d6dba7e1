"""Where a word stands in texts, and the anchors it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from attncli.analyses.comparison_parts import Occurrence
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.selection import find_occurrences
from attncli.tokenize import Encoded


def occurrences_of(
    texts: Sequence[Encoded], word: str | None, *, at_least: int
) -> list[Occurrence]:
    """Return every place of a word, or of each word that stands at two places or more.

    Args:
        texts: encoded texts.
        word: the word; None for every word that occurs at least twice.
        at_least: places that a comparison needs.

    Raises:
        InputProblem: there are fewer.
    """
    found = _shared(texts) if word is None else _places_of(texts, word)
    if len(found) < at_least:
        raise InputProblem(_too_few(texts, word))
    return found


def groups_of(occurrences: Sequence[Occurrence]) -> list[list[int]]:
    """Return the numbers of the occurrences of each word, in the order of the words."""
    groups: dict[str, list[int]] = {}
    for number, occurrence in enumerate(occurrences):
        groups.setdefault(occurrence.key, []).append(number)
    return list(groups.values())


def count_pairs(groups: Sequence[Sequence[int]]) -> int:
    """Return how many pairs of occurrences of the same word there are."""
    return sum(len(group) * (len(group) - 1) // 2 for group in groups)


def pairs_of(groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Return the pairs of occurrences of the same word."""
    return (pair for group in groups for pair in combinations(group, 2))


def encode_anchor(model: Model, anchor: str) -> tuple[Encoded, tuple[int, ...]]:
    """Encode `WORD` alone, or `WORD: a sentence holding it`; return its tokens there.

    Raises:
        UsageProblem: the sentence does not hold the word.
        InputProblem: the model cannot take the text.
    """
    word, colon, sentence = anchor.partition(":")
    if colon and word.strip() and sentence.strip():
        encoded = model.encode(sentence.strip())
        found = find_occurrences(encoded, word.strip())
        if not found:
            raise UsageProblem(
                f"--to {anchor}: the sentence does not hold the word {word.strip()!r}."
            )
        return encoded, found[0]
    encoded = model.encode(anchor)
    return encoded, tuple(token.index for token in encoded.tokens if not token.special)


def _places_of(texts: Sequence[Encoded], word: str) -> list[Occurrence]:
    found = []
    for at, text in enumerate(texts):
        for tokens in find_occurrences(text, word):
            start, end = _span(text, tokens)
            own = text.text_of(text.tokens[tokens[0]].part)
            found.append(Occurrence(at, own[start:end] or word, tokens, start, end))
    return found


def _shared(texts: Sequence[Encoded]) -> list[Occurrence]:
    """Return all occurrences of the words that occur at least twice, word by word."""
    by_word: dict[str, list[Occurrence]] = {}
    for at, text in enumerate(texts):
        for word, tokens in zip(text.words, text.tokens_by_word(), strict=True):
            if any(char.isalnum() for char in word.text):
                place = Occurrence(at, word.text, tokens, word.start, word.end)
                by_word.setdefault(place.key, []).append(place)
    return [place for places in by_word.values() if len(places) > 1 for place in places]


def _span(text: Encoded, tokens: Sequence[int]) -> tuple[int, int]:
    words = [w for w in (text.tokens[t].word for t in tokens) if w is not None]
    covered = [text.tokens[t] for t in tokens]
    start = covered[0].start + len(covered[0].text) - len(covered[0].text.lstrip())
    end = covered[-1].end
    whole = words and all(
        token.index in tokens for token in text.tokens if token.word in (words[0], words[-1])
    )
    return (text.words[words[0]].start, text.words[words[-1]].end) if whole else (start, end)


def _too_few(texts: Sequence[Encoded], word: str | None) -> str:
    if word is None:
        return "The texts share no word to compare; give --word W and --to ANCHOR, or other texts."
    where = "the text" if len(texts) == 1 else f"the {len(texts)} texts"
    count = sum(len(find_occurrences(text, word)) for text in texts)
    found = f"only once in {where}" if count else f"not in {where}"
    return f"--word {word}: {found}; compare needs two occurrences, or an anchor (--to WORD)."
