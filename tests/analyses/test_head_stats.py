"""Statistics of heads against their definitions, and on heads written down by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.analyses.head_measures import MEASURES
from attncli.analyses.head_stats import HeadStatistics, HeadStats, is_punctuation
from attncli.model.observe import AttentionBlock
from attncli.selection import Heads
from attncli.tokenize import Encoded
from tests.analyses.attention_by_hand import random_weights, show, sides_of, stack_like, text_of

Array = np.ndarray


def statistics(
    weights: Array,
    words: str,
    *,
    causal: bool = False,
    window: int | None = None,
    special: bool = False,
    rows: int = 3,
    heads: tuple[int, ...] | None = None,
) -> HeadStatistics:
    """Feed weights [layer, head, query, key] and return what comes out."""
    stack = stack_like(weights, causal=causal, window=window)
    chosen = tuple(range(weights.shape[1])) if heads is None else heads
    selected = Heads(tuple(range(len(weights))), chosen)
    observer = HeadStats(selected, sides_of(words, special=special), stack)
    show(observer, weights, rows=rows, causal=causal, window=window)
    return observer.finish()


def by_definition(
    a: Array, text: Encoded, *, causal: bool, window: int | None
) -> dict[str, float | None]:
    """Return every measure of one head, in plain loops over queries and keys."""
    n, tokens, ids = len(a), text.tokens, text.ids

    def sees(i: int, j: int) -> bool:
        near = window is None or (i - j < window if causal else abs(i - j) <= window)
        return near and (j <= i or not causal)

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    def entropy(i: int) -> float:
        return -sum(a[i, j] * math.log(a[i, j]) for j in range(n) if a[i, j] > 0)

    def on(keys: list[int]) -> float | None:
        return mean([sum(a[i, j] for j in keys) for i in range(n)]) if keys else None

    seen = [sum(sees(i, j) for j in range(n)) for i in range(n)]
    earlier = [
        [p for p in range(i) if ids[p] == ids[i] and not tokens[i].special] for i in range(n)
    ]
    follow = [[p + 1 for p in earlier[i] if p + 1 < i] for i in range(n)]
    ordinary = [t.index for t in tokens if not t.special]
    total = a.sum()
    return {
        "entropy": mean([entropy(i) for i in range(n)]),
        "relative_entropy": mean([entropy(i) / math.log(seen[i]) for i in range(n) if seen[i] > 1]),
        "distance": sum(a[i, j] * (j - i) for i in range(n) for j in range(n)) / total,
        "absolute_distance": sum(a[i, j] * abs(j - i) for i in range(n) for j in range(n)) / total,
        "previous": mean([a[i, i - 1] for i in range(1, n)]),
        "next": None if causal else mean([a[i, i + 1] for i in range(n - 1)]),
        "self": mean([a[i, i] for i in range(n)]),
        "first": mean([a[i, 0] for i in range(1, n) if sees(i, 0)]) if n > 1 else None,
        "special": on([t.index for t in tokens if t.special]),
        "punctuation": on([t.index for t in tokens if t.text in (".", "!")]),
        "sink": mean([a[i, 0] for i in range(n) if sees(i, 0)]),
        "confidence": mean([max(a[i, j] for j in ordinary) for i in range(n)]),
        "duplicate": mean([sum(a[i, j] for j in earlier[i]) for i in range(n) if earlier[i]]),
        "induction": mean([sum(a[i, j] for j in follow[i]) for i in range(n) if follow[i]]),
    }


@given(
    st.lists(st.sampled_from([*"abcd", ".", "!"]), min_size=1, max_size=9),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1, 2, 4]),
    st.integers(1, 5),
    st.integers(0, 20),
)
def test_every_measure_is_as_defined(
    words: list[str], causal: bool, special: bool, window: int | None, rows: int, seed: int
) -> None:
    text = text_of(" ".join(words), special=special)
    n = len(text.tokens)
    weights = random_weights((2, 2, n, n), seed, causal=causal, window=window)
    found = statistics(
        weights, " ".join(words), causal=causal, window=window, special=special, rows=rows
    )
    for layer, head in np.ndindex(2, 2):
        expected = by_definition(weights[layer, head], text, causal=causal, window=window)
        for name, value in expected.items():
            array = found.values[name]
            if value is None:
                assert array is None, name
            else:
                assert array is not None, name
                assert array[layer, head] == pytest.approx(value, abs=2e-5), name
    assert set(found.values) | {m.name for m in MEASURES if m.name.startswith("probe")} == {
        measure.name for measure in MEASURES
    }


def test_effective_keys_of_four_equal_keys_are_four() -> None:
    found = statistics(np.full((1, 1, 4, 4), 0.25), "a b c d")
    assert found.values["effective_keys"] == pytest.approx(4, abs=1e-4)
    assert found.values["relative_entropy"] == pytest.approx(1, abs=1e-6)


def test_row_of_a_learned_sink_has_the_entropy_of_what_the_tokens_get() -> None:
    weights = np.full((1, 1, 2, 2), 0.1)
    found = statistics(weights, "a b")
    assert found.values["entropy"] == pytest.approx(math.log(2), abs=1e-6)
    assert found.values["distance"] == pytest.approx(0, abs=1e-6)


def test_top_key_is_one_that_half_of_the_queries_see() -> None:
    # the last token gives itself everything, but nobody else sees it
    weights = np.array(
        [[[[1, 0, 0, 0], [0.2, 0.8, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0, 1.0]]]], np.float64
    )
    found = statistics(weights, "a b c d", causal=True)
    assert found.top_key.item() == 1
    assert found.top_weight.item() == pytest.approx((0.8 + 0.9 + 0) / 3)


def test_uniform_sink_of_a_causal_text_is_the_mean_of_one_over_the_place() -> None:
    n = 6
    weights = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    found = statistics(weights[None, None], "a b c d e f", causal=True)
    assert found.uniform_sink == pytest.approx(sum(1 / i for i in range(1, n + 1)) / n)
    assert found.values["sink"] == pytest.approx(found.uniform_sink)


def test_chosen_heads_keep_their_numbers() -> None:
    weights = random_weights((1, 4, 5, 5), 3, causal=False)
    everything = statistics(weights, "a b a b .")
    some = statistics(weights, "a b a b .", heads=(1, 3))
    for name, values in some.values.items():
        whole = everything.values[name]
        assert (values is None) == (whole is None)
        if values is not None and whole is not None:
            np.testing.assert_array_equal(values, whole[:, [1, 3]])


def test_what_is_kept_grows_with_the_text_and_not_with_its_square() -> None:
    kept = {}
    for n in (50, 400):
        weights = np.zeros((1, 2, n, n))
        stack = stack_like(weights, causal=True)
        observer = HeadStats(Heads((0,), (0, 1)), sides_of(" ".join("a" * n)), stack)
        sizes = [v.size for v in vars(observer).values() if isinstance(v, np.ndarray)]
        kept[n] = sum(sizes)
    assert kept[400] < 9 * kept[50]


@pytest.mark.parametrize(
    ("word", "expected"), [(".", True), ("!", True), ("a", False), ("[CLS]", False)]
)
def test_punctuation_has_no_letter_and_is_not_special(word: str, expected: bool) -> None:
    text = text_of("a . !", special=True)
    (token,) = [token for token in text.tokens if token.token == word]
    assert is_punctuation(token) is expected


def test_keys_are_told_by_scores_where_windows_are_not_known() -> None:
    weights = random_weights((1, 2, 6, 6), 4, causal=True, window=2)
    stack = stack_like(weights, causal=True)
    expected = statistics(weights, "a b c d e f", causal=True, window=2)
    for scores in (np.log(weights[0], where=weights[0] > 0, out=np.full((2, 6, 6), -np.inf)), None):
        observer = HeadStats(
            Heads((0,), (0, 1)), sides_of("a b c d e f"), stack, knows_windows=False
        )
        assert observer.wants_scores
        everything = slice(0, 6)
        block = weights[0].astype(np.float32)
        shown = None if scores is None else scores.astype(np.float32)
        observer.on_attention(
            AttentionBlock(0, everything, everything, None, None, None, block, shown)
        )
        found = observer.finish()
        assert found.windows_known is (scores is not None)
        relative, as_known = found.values["relative_entropy"], expected.values["relative_entropy"]
        assert relative is not None
        assert as_known is not None
        assert np.allclose(relative, as_known, atol=1e-5) is (scores is not None)
