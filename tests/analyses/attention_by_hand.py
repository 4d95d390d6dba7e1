"""Attention that a test writes down, shown to observers in blocks as a run would show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli.analyses.sides import Sides
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.spec import LayerSpec, StackSpec
from attncli.tokenize import Encoded, TextTokenizer
from tests.toys import toy, word_tokenizer

Array = np.ndarray

WORDS = ["[UNK]", *"abcdefghijklmnop", ".", "!"]


def text_of(words: str, *, special: bool = False) -> Encoded:
    """Encode words of one letter, with [CLS] and [SEP] around them where asked for."""
    vocabulary = [*WORDS, "[CLS]", "[SEP]"] if special else WORDS
    return TextTokenizer(word_tokenizer(vocabulary)).encode(words)


def sides_of(words: str, *, special: bool = False) -> Sides:
    """Return self-attention within these words."""
    return Sides("self", text_of(words, special=special))


def stack_like(weights: Array, *, causal: bool, window: int | None = None) -> StackSpec:
    """Return a stack for weights [layer, head, query, key]."""
    spec, _ = toy(causal=causal)
    layers = (LayerSpec(window=window),) * len(weights)
    return replace(spec.stack, layers=layers, n_heads=weights.shape[1])


def show(
    observer: Observer,
    weights: Array,
    *,
    rows: int = 3,
    causal: bool = False,
    window: int | None = None,
) -> None:
    """Show weights [layer, head, query, key] in blocks of rows, keys cut as in a run."""
    n = weights.shape[2]
    for layer, start in ((i, s) for i in range(len(weights)) for s in range(0, n, rows)):
        queries = slice(start, min(start + rows, n))
        keys = slice(0, weights.shape[3])
        if causal:
            keys = slice(max(0, start - window + 1) if window else 0, queries.stop)
        block = weights[layer, :, queries, keys].astype(np.float32)
        observer.on_attention(AttentionBlock(layer, queries, keys, None, None, None, block))


def random_weights(
    shape: Sequence[int], seed: int, *, causal: bool, window: int | None = None
) -> Array:
    """Return softmax rows of random scores, masked as a stack masks them."""
    scores = np.random.default_rng(seed).normal(0, 2, shape)
    distance = np.subtract.outer(np.arange(shape[2]), np.arange(shape[3]))
    if causal:
        scores[..., distance < 0] = -np.inf
    if window is not None:
        far = distance >= window if causal else np.abs(distance) > window
        scores[..., far] = -np.inf
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
