"""compare: how the meaning of a word, and what it reads, differs between contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import combinations

import numpy as np

from attncli.analyses.baseline import Baseline, top_dimension_share, word_states
from attncli.analyses.comparison import Comparison
from attncli.analyses.comparison_parts import (
    Aligned,
    Anchor,
    Change,
    Occurrence,
    Pair,
    Reading,
    same_word,
)
from attncli.analyses.reduction import Reduction, States, cosine
from attncli.analyses.sides import reading_job
from attncli.analyses.units import make_units, merge_keys
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.results import RANDOM_NOTE
from attncli.selection import Heads, View, find_occurrences
from attncli.tokenize import Encoded

Array = np.ndarray

ALIKE = 0.5
"""Texts are shown side by side when at least this part of their words is shared, in order."""
MAX_PAIRS = 100_000
MAX_CHANGED = 1_000
"""Pairs for which the keys that changed are worked out; with more they are left out."""


def compare_texts(
    model: Model,
    texts: Sequence[Encoded],
    heads: Heads,
    view: View,
    *,
    word: str | None = None,
    to: Sequence[str] = (),
) -> Comparison:
    """Run all texts and anchors together and compare a word's occurrences.

    Args:
        model: what to run.
        texts: encoded texts.
        heads: layers and heads whose attention from the word is compared.
        view: measure that orders the keys that changed.
        word: the word to follow; None for every word that occurs at least twice.
        to: anchors, each a word alone or `WORD: a sentence holding it`.

    Raises:
        InputProblem: fewer than two occurrences and no anchor.
        UsageProblem: an anchor whose sentence does not hold its word.
    """
    notes = [RANDOM_NOTE] if model.random else []
    if model.spec.encoder is not None:
        notes.append("compare reads with the encoder; the decoder takes no part")
    occurrences = _shared(texts) if word is None else _places_of(texts, word)
    if word is not None:
        notes += _absent(texts, word, occurrences)
    if len(occurrences) < (1 if to else 2):
        raise InputProblem(_too_few(texts, word))
    pairs = [
        (a, b)
        for a, b in combinations(range(len(occurrences)), 2)
        if same_word(occurrences[a], occurrences[b])
    ]
    if len(pairs) > MAX_PAIRS:
        raise InputProblem(
            f"{len(pairs):,} pairs of occurrences are more than the {MAX_PAIRS:,} that compare "
            "takes; give fewer texts."
        )
    anchors = [_encode_anchor(model, anchor) for anchor in to]
    n_layers = model.spec.reader.n_layers
    states = [States(n_layers) for _ in texts]
    anchor_states = [States(n_layers) for _ in anchors]
    readers = [_reader(texts[o.text], o, heads) for o in occurrences]
    baseline = Baseline(model)
    jobs = [
        reading_job(
            model.spec,
            text,
            [states[at], *(r for r, o in zip(readers, occurrences, strict=True) if o.text == at)],
        )
        for at, text in enumerate(texts)
    ]
    jobs += [
        reading_job(model.spec, encoded, [observer])
        for (encoded, _), observer in zip(anchors, anchor_states, strict=True)
    ]
    model.run([*jobs, *baseline.jobs()])

    if any(reader.contributions is None for reader in readers):
        view = replace(view, by="weight")
        notes.append(
            "contributions are left out: transformers does not show what they are made of in this "
            "architecture"
        )
    stacked = [observer.stacked() for observer in states]
    vectors = np.stack([word_states(stacked[o.text], o.tokens) for o in occurrences])
    base = baseline.cosines()
    readings = [_readings(texts[o.text], r) for r, o in zip(readers, occurrences, strict=True)]
    return Comparison(
        card=model.card(),
        texts=tuple(texts),
        heads=heads,
        view=view,
        words=tuple(dict.fromkeys([word] if word else [o.word.casefold() for o in occurrences])),
        occurrences=tuple(occurrences),
        pairs=tuple(
            Pair(
                a,
                b,
                cosine(vectors[a], vectors[b]),
                base,
                top_dimension_share(vectors[a], vectors[b]),
            )
            for a, b in pairs
        ),
        baseline=base,
        anchors=tuple(
            Anchor(name, cosine(vectors, word_states(observer.stacked(), tokens)[None]))
            for name, (_, tokens), observer in zip(to, anchors, anchor_states, strict=True)
        ),
        changed=tuple(
            _changes(texts, occurrences[a], readings[a], occurrences[b], readings[b])
            for a, b in (pairs if len(pairs) <= MAX_CHANGED else ())
        ),
        aligned=_side_by_side(texts, stacked) if len(texts) == 2 else (),
        states=vectors,
        notes=tuple(
            dict.fromkeys(
                [*notes, *_void(model, texts, occurrences, pairs), *_text_notes(texts, len(pairs))]
            )
        ),
    )


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
                by_word.setdefault(word.text.casefold(), []).append(place)
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


def _absent(texts: Sequence[Encoded], word: str, occurrences: Sequence[Occurrence]) -> list[str]:
    missing = sorted(set(range(len(texts))) - {o.text for o in occurrences})
    if not missing or not occurrences:
        return []
    return [f"{word!r} is not in text {', '.join(str(i + 1) for i in missing[:10])}"]


def _too_few(texts: Sequence[Encoded], word: str | None) -> str:
    if word is None:
        return "The texts share no word to compare; give --word W and --to ANCHOR, or other texts."
    where = "the text" if len(texts) == 1 else f"the {len(texts)} texts"
    count = sum(len(find_occurrences(text, word)) for text in texts)
    found = f"only once in {where}" if count else f"not in {where}"
    return f"--word {word}: {found}; compare needs two occurrences, or an anchor (--to WORD)."


def _encode_anchor(model: Model, anchor: str) -> tuple[Encoded, tuple[int, ...]]:
    """Encode `WORD` alone, or `WORD: a sentence holding it`; return its tokens there."""
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


def _reader(text: Encoded, occurrence: Occurrence, heads: Heads) -> Reduction:
    rows = np.array(sorted(occurrence.tokens), dtype=np.int64)
    return Reduction(heads, rows, len(text.tokens))


def _readings(text: Encoded, reader: Reduction) -> list[Reading]:
    """Return what an occurrence reads from each word, and from the special tokens together."""
    units = make_units(text, View(words=True, special="fold"))
    weights = merge_keys(reader.weights, units).mean(axis=0)
    shares = reader.contributions
    contributions = None if shares is None else merge_keys(shares, units).mean(axis=0)
    readings = []
    for i, (unit, weight) in enumerate(zip(units, weights, strict=True)):
        word = text.tokens[unit.tokens[0]].word
        at = -1 if word is None else word
        share = None if contributions is None else float(contributions[i])
        readings.append(Reading(at, unit.text, float(weight), share))
    return readings


def _changes(
    texts: Sequence[Encoded], a: Occurrence, in_a: list[Reading], b: Occurrence, in_b: list[Reading]
) -> tuple[Change, ...]:
    """Pair the keys of two occurrences: same words in the same order, the rest alone."""
    if a.text == b.text:
        return tuple(Change(x, y) for x, y in zip(in_a, in_b, strict=True))
    return tuple(
        Change(None if i is None else in_a[i], None if j is None else in_b[j])
        for i, j in _align([r.text for r in in_a], [r.text for r in in_b])
    )


def _align(a: Sequence[str], b: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Align two lists of words; words replaced one for one stand side by side."""
    matcher = SequenceMatcher(
        None, [w.casefold() for w in a], [w.casefold() for w in b], autojunk=False
    )
    rows: list[tuple[int | None, int | None]] = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and a1 - a0 == b1 - b0 and a1 - a0 <= 3):
            rows += list(zip(range(a0, a1), range(b0, b1), strict=True))
        else:
            rows += [(i, None) for i in range(a0, a1)]
            rows += [(None, j) for j in range(b0, b1)]
    return rows


def _side_by_side(texts: Sequence[Encoded], stacked: Sequence[Array]) -> tuple[Aligned, ...]:
    words = [[word.text for word in text.words] for text in texts]
    rows = _align(*words)
    shared = sum(
        i is not None and j is not None and words[0][i].casefold() == words[1][j].casefold()
        for i, j in rows
    )
    if shared < ALIKE * max(map(len, words)):
        return ()
    tokens = [text.tokens_by_word() for text in texts]
    found = []
    for i, j in rows:
        both = None
        if i is not None and j is not None:
            both = cosine(
                word_states(stacked[0], tokens[0][i]), word_states(stacked[1], tokens[1][j])
            )
        found.append(Aligned(i, j, both))
    return tuple(found)


def _void(
    model: Model,
    texts: Sequence[Encoded],
    occurrences: Sequence[Occurrence],
    pairs: Sequence[tuple[int, int]],
) -> list[str]:
    """Say when two rows are equal because a causal model has not read the difference yet."""
    if not model.spec.reader.causal:
        return []
    equal = [
        (occurrences[a], occurrences[b])
        for a, b in pairs
        if texts[occurrences[a].text].ids[: occurrences[a].tokens[-1] + 1]
        == texts[occurrences[b].text].ids[: occurrences[b].tokens[-1] + 1]
    ]
    if not equal:
        return []
    return [
        f"{equal[0][0].word!r} is equal in both texts because the model is causal: a token sees "
        "only what came before, and the texts differ only after it"
    ]


def _text_notes(texts: Sequence[Encoded], n_pairs: int) -> list[str]:
    notes = [note for text in texts for note in text.notes]
    if n_pairs > MAX_CHANGED:
        notes.append(f"changed keys are left out: {n_pairs:,} pairs, at most {MAX_CHANGED:,}")
    return notes
