"""Unpacking of quantised blocks: bit for bit what the gguf package gives."""

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from attncli.checkpoints import gguf_quants
from attncli.checkpoints.gguf_quants import NotFiniteError, dequantise
from attncli.checkpoints.gguf_types import BLOCKS, QUANTISED
from tests.ggufs import random_blocks

Array = np.ndarray


@pytest.mark.parametrize("kind", sorted(QUANTISED))
def test_every_type_equals_the_reference_bit_for_bit(kind: str) -> None:
    rng = np.random.default_rng(1)
    data = random_blocks(rng, kind, rows=37, columns=768)
    out = np.full((37, 768), np.nan, np.float32)
    dequantise(kind, data, out)
    expected = dequantize(data, GGMLQuantizationType[kind])
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))
    assert len(np.unique(out)) > 30  # the blocks were not all alike


@pytest.mark.parametrize("kind", sorted(gguf_quants.OWN))
def test_chunks_do_not_show(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_blocks(np.random.default_rng(2), kind, rows=5, columns=512)
    whole, pieces = np.empty((2, 5, 512), np.float32)
    dequantise(kind, data, whole)
    monkeypatch.setattr(gguf_quants, "CHUNK_VALUES", 3 * BLOCKS[kind][0])
    dequantise(kind, data, pieces)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize("kind", sorted(QUANTISED - {"MXFP4"}))
def test_infinite_scale_is_seen(kind: str) -> None:
    data = random_blocks(np.random.default_rng(3), kind, rows=2, columns=256)
    data[1] = 0xFF  # float16 of all ones is NaN
    with pytest.raises(NotFiniteError):
        dequantise(kind, data, np.empty((2, 256), np.float32))


def test_common_types_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gguf.quants", None)
    for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        data = random_blocks(np.random.default_rng(4), kind, rows=1, columns=256)
        dequantise(kind, data, np.empty((1, 256), np.float32))
