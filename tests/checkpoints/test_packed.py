"""8-bit packing: its error bound, its file form, and what a reader refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli.checkpoints import packed
from attncli.checkpoints.safetensors import SafetensorsFile, write_safetensors
from attncli.errors import ModelProblem

MATRIX = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.sampled_from([32, 64])),
    elements=st.floats(-9, 9, width=32),
)


@given(MATRIX)
def test_error_is_at_most_half_a_step_of_each_group(values: np.ndarray) -> None:
    whole, scales = packed.pack(values)
    error = np.abs(packed.unpack(whole, scales) - values).reshape(len(values), -1, 32)
    # where float16 has no such small scale, a group may lose all of its 127 steps
    smallest = 127 * 2.0**-24
    assert (error <= scales.astype(np.float32)[..., None] * 0.5001 + smallest).all()


@given(MATRIX)
def test_packing_what_was_unpacked_changes_no_value_by_more_than_rounding(
    values: np.ndarray,
) -> None:
    once = packed.unpack(*packed.pack(values))
    again = packed.unpack(*packed.pack(once))
    np.testing.assert_allclose(again, once, rtol=2e-3, atol=1e-4)


def test_groups_have_scales_of_their_own() -> None:
    values = np.concatenate([np.full(32, 1e-3), np.full(32, 100.0)])[None].astype(np.float32)
    np.testing.assert_allclose(packed.unpack(*packed.pack(values)), values, rtol=1e-3)


@pytest.mark.parametrize(
    ("shape", "can"), [((4, 32), True), ((4, 33), False), ((32,), False), ((2, 2, 32), False)]
)
def test_only_matrices_of_whole_groups_are_packed(shape: tuple[int, ...], can: bool) -> None:
    assert packed.can_pack(shape) is can


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_packed_pair_reads_as_one_float_tensor_whole_and_by_rows(file: Path) -> None:
    values = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    whole, scales = packed.pack(values)
    write_safetensors(file, {"a": whole, "a.scale": scales}, packed.METADATA)
    store = SafetensorsFile(file)
    assert list(store.tensors) == ["a"]
    assert store.tensors["a"].dtype == "Q8"
    assert store.tensors["a"].n_bytes == whole.nbytes + scales.nbytes
    np.testing.assert_array_equal(store.read("a"), packed.unpack(whole, scales))
    np.testing.assert_array_equal(store.rows("a", [4, 1]), store.read("a")[[4, 1]])


def test_integers_of_a_file_that_is_not_packed_are_no_packed_tensor(file: Path) -> None:
    whole, scales = packed.pack(np.ones((1, 32), np.float32))
    write_safetensors(file, {"a": whole, "a.scale": scales}, {})
    assert {name: info.dtype for name, info in SafetensorsFile(file).tensors.items()} == {
        "a": "I8",
        "a.scale": "F16",
    }


def test_missing_or_misshapen_scales_are_refused_by_name(file: Path) -> None:
    whole, scales = packed.pack(np.ones((2, 64), np.float32))
    for tensors in ({"w": whole}, {"w": whole, "w.scale": scales[:, :1]}, {"w": whole[0]}):
        write_safetensors(file, tensors, packed.METADATA)
        with pytest.raises(ModelProblem, match="packed tensor w"):
            SafetensorsFile(file)


def test_infinite_scale_is_refused_by_name(file: Path) -> None:
    whole, scales = packed.pack(np.ones((1, 32), np.float32))
    scales[0, 0] = np.inf
    write_safetensors(file, {"w": whole, "w.scale": scales}, packed.METADATA)
    with pytest.raises(ModelProblem, match="tensor w holds NaN"):
        SafetensorsFile(file).read("w")


def test_packing_of_another_version_is_refused(file: Path) -> None:
    write_safetensors(file, {"w": np.zeros((1, 32), np.int8)}, {"attn.packed": "q4/64"})
    with pytest.raises(ModelProblem, match=r"q4/64.*reads 'q8/32'"):
        SafetensorsFile(file)
