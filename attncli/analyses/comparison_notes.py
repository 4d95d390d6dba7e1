"""What must be said about a comparison before its numbers are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attncli.analyses.comparison_parts import Occurrence, place_names, text_name
from attncli.model.load import Model
from attncli.tokenize import Encoded
from attncli.words import split_words

NAMED = 10
"""Texts or words that a note lists; of more it gives the number."""


def word_notes(
    model: Model, texts: Sequence[Encoded], occurrences: Sequence[Occurrence], word: str | None
) -> list[str]:
    """Say what the question asks that it may not seem to ask, or cannot be answered.

    Args:
        model: what read the texts.
        texts: encoded texts.
        occurrences: places of the followed words.
        word: the word that was named, or None.
    """
    notes = []
    if model.spec.encoder is not None:
        notes.append("compare reads with the encoder; the decoder takes no part")
    if word is not None:
        notes += _absent(texts, word, occurrences) + _repeated(texts, word, occurrences)
    notes += _pieces(occurrences, word)
    if model.spec.reader.causal:
        notes += _unread(texts, occurrences)
    own = list(dict.fromkeys(note for text in texts for note in text.notes))
    more = [f"{len(own) - NAMED:,} more notes on single texts"] if len(own) > NAMED else []
    return [*notes, *own[:NAMED], *more]


def left_out(n_pairs: int, most: int, most_changed: int) -> list[str]:
    """Say which parts of a comparison so many pairs leave no room for."""
    if n_pairs > most:
        return [
            f"pairs and the keys that changed are left out: {n_pairs:,} pairs, at most {most:,}; "
            "self-similarity is over all of them"
        ]
    if n_pairs > most_changed:
        return [f"changed keys are left out: {n_pairs:,} pairs, at most {most_changed:,}"]
    return []


def _absent(texts: Sequence[Encoded], word: str, occurrences: Sequence[Occurrence]) -> list[str]:
    missing = sorted(set(range(len(texts))) - {o.text for o in occurrences})
    if not missing:
        return []
    named = ", ".join(text_name(number) for number in missing[:NAMED])
    more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
    return [f"{word!r} is not in text {named}{more}"]


def _repeated(texts: Sequence[Encoded], word: str, occurrences: Sequence[Occurrence]) -> list[str]:
    """Say where a text holds the word more than once: its places are compared with each other."""
    count = Counter(o.text for o in occurrences)
    several = [text for text, n in count.items() if n > 1]
    if not several:
        return []
    if len(texts) == 1:
        return [f"{word!r} occurs {len(occurrences)} times in the text, and these are compared"]
    named = ", ".join(text_name(text) for text in several[:NAMED])
    more = f" and {len(several) - NAMED:,} more" if len(several) > NAMED else ""
    pairs = "all pairs" if len(count) == 1 else "some pairs"
    names = place_names(occurrences)
    here = [name for name, o in zip(names, occurrences, strict=True) if o.text == several[0]]
    return [
        f"{word!r} occurs more than once in text {named}{more}, where its places are {here[0]}, "
        f"{here[1]} and so on; {pairs} are of one text"
    ]


def _pieces(occurrences: Sequence[Occurrence], word: str | None) -> list[str]:
    """Say whose vector is a mean of several."""
    cut: dict[str, tuple[str, int]] = {}
    for o in occurrences:
        if len(o.tokens) > 1:
            cut.setdefault(o.key, (o.word, len(o.tokens)))
    if not cut:
        return []
    if word is not None:
        least, most = (f(len(o.tokens) for o in occurrences) for f in (min, max))
        n = f"{most}" if least == most else f"{least} to {most}"
        what = "pieces" if len(split_words(word)) == 1 else "tokens"
        return [f"{word!r} is cut into {n} {what}: its vector is their mean"]
    named = ", ".join(f"{word!r} ({n})" for word, n in list(cut.values())[:NAMED])
    more = f" and {len(cut) - NAMED:,} more" if len(cut) > NAMED else ""
    return [f"words cut into pieces, whose vector is the mean of their pieces: {named}{more}"]


def _unread(texts: Sequence[Encoded], occurrences: Sequence[Occurrence]) -> list[str]:
    """Say when rows are equal because a causal model has not read the difference yet."""
    read: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for number, o in enumerate(occurrences):
        ids = tuple(texts[o.text].ids[: o.tokens[-1] + 1])
        read.setdefault((o.key, ids), []).append(number)
    equal = max(read.values(), key=len)
    if len(equal) < 2:
        return []
    word, n = occurrences[equal[0]].word, len({o.text for o in occurrences})
    where = "both texts" if len(equal) == n == 2 else f"{len(equal):,} of its places"
    return [
        f"{word!r} is equal in {where} because the model is causal: a token sees only what came "
        "before, and the texts differ only after it"
    ]
