"""GGUF as a tensor store: values, rows, parts, and what is refused."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from attncli.checkpoints import gguf
from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.gguf_types import QUANTISED
from attncli.checkpoints.store import TensorStore
from attncli.errors import ModelProblem
from tests.ggufs import gguf_bytes, quantised, write_gguf

Array = np.ndarray


def unpacked(tensor: Any) -> Array:
    kind, shape, data = tensor
    rows = np.frombuffer(data, np.uint8).reshape(*shape[:-1], -1)
    return dequantize(rows, GGMLQuantizationType[kind])


def test_it_is_a_store(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {}, {"a": np.ones((2, 3), np.float32)})
    store = GgufFile(path)
    assert isinstance(store, TensorStore)
    assert store.files == (path,)
    assert store.tensors["a"].shape == (2, 3)


@pytest.mark.parametrize("kind", sorted(QUANTISED))
def test_rows_read_only_their_blocks(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = quantised(np.random.default_rng(0), kind, (50, 512))
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, {"t": tensor}))
    expected = unpacked(tensor)
    sizes: list[int] = []
    plain = gguf.dequantise

    def watching(kind: str, data: Array, out: Array) -> None:
        sizes.append(len(data))
        plain(kind, data, out)

    monkeypatch.setattr(gguf, "dequantise", watching)
    np.testing.assert_array_equal(store.rows("t", [49, 3, 3]), expected[[49, 3, 3]])
    np.testing.assert_array_equal(store.rows("t", slice(10, 12)), expected[10:12])
    np.testing.assert_array_equal(store.read("t"), expected)
    assert sizes == [3, 2, 50]


def test_memory_that_fits_is_used(tmp_path: Path) -> None:
    tensor = quantised(np.random.default_rng(0), "Q4_K", (4, 256))
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, {"t": tensor}))
    out = np.empty((4, 256), np.float32)
    assert store.read("t", out) is out
    assert store.rows("t", [3, 0, 2, 1], out) is out
    np.testing.assert_array_equal(out, unpacked(tensor)[[3, 0, 2, 1]])
    assert store.read("t", np.empty((2, 2), np.float32)).shape == (4, 256)


def test_vector_and_stack_of_matrices(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = {"v": quantised(rng, "Q8_0", (64,)), "s": quantised(rng, "Q4_0", (3, 2, 32))}
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, tensors))
    np.testing.assert_array_equal(store.read("v"), unpacked(tensors["v"]))
    np.testing.assert_array_equal(store.rows("v", slice(3, 9)), unpacked(tensors["v"])[3:9])
    np.testing.assert_array_equal(store.read("s"), unpacked(tensors["s"]))
    np.testing.assert_array_equal(store.rows("s", [2]), unpacked(tensors["s"])[[2]])


def test_plain_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(0, 1, (3, 4)).astype(np.float32)
    high = (values.view(np.uint32) >> 16).astype(np.uint16)
    tensors: dict[str, Any] = {
        "f32": values,
        "f16": values.astype(np.float16),
        "bf16": ("BF16", (3, 4), high.tobytes()),
        "f64": ("F64", (3, 4), values.astype(np.float64).tobytes()),
        "i32": ("I32", (2,), np.array([7, -7], np.int32).tobytes()),
    }
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, tensors))
    np.testing.assert_array_equal(store.read("f32"), values)
    np.testing.assert_array_equal(store.read("f64"), values)
    np.testing.assert_array_equal(store.read("f16"), tensors["f16"].astype(np.float32))
    expected = (high.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(store.read("bf16"), expected)
    np.testing.assert_array_equal(store.rows("bf16", [2, 0]), expected[[2, 0]])
    np.testing.assert_array_equal(store.read("i32"), [7, -7])
    assert {store.read(name).dtype.name for name in tensors if name != "i32"} == {"float32"}


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_1", "Q6_K", "IQ4_NL"])
def test_what_is_not_finite_is_named(tmp_path: Path, kind: str) -> None:
    if kind.startswith("F"):
        dtype = np.float32 if kind == "F32" else np.float16
        tensor: Any = np.array([[1, np.inf]], dtype)
    else:
        _, shape, data = quantised(np.random.default_rng(0), kind, (1, 256))
        tensor = kind, shape, b"\xff" * len(data)
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, {"bad": tensor}))
    with pytest.raises(ModelProblem, match="tensor bad holds NaN or infinite values"):
        store.read("bad")


def test_types_of_products_are_not_read(tmp_path: Path) -> None:
    tensor = ("Q8_K", (1, 256), bytes(292))
    store = GgufFile(write_gguf(tmp_path / "m.gguf", {}, {"t": tensor}))
    with pytest.raises(ModelProblem, match="tensor t is stored as Q8_K"):
        store.read("t")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer of 43 bytes"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"GGML" + bytes(60), "not a GGUF file"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelProblem, match=message):
        GgufFile(path)
    with pytest.raises(ModelProblem, match="cannot be read"):
        GgufFile(tmp_path / "none.gguf")


def split(folder: Path, n_parts: int = 3) -> tuple[list[Path], dict[str, Array]]:
    """Write a model in parts, its metadata in the first."""
    rng = np.random.default_rng(0)
    tensors = {f"t{i}": rng.normal(0, 1, (2, 4)).astype(np.float32) for i in range(7)}
    paths = []
    for part in range(n_parts):
        metadata = {"split.no": part, "split.count": n_parts, "split.tensors.count": 7}
        if part == 0:
            metadata["general.architecture"] = "llama"
        mine = {name: t for i, (name, t) in enumerate(tensors.items()) if i % n_parts == part}
        name = f"m-{part + 1:05}-of-{n_parts:05}.gguf"
        paths.append(write_gguf(folder / name, metadata, mine))
    return paths, tensors


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_part_opens_the_whole(tmp_path: Path, which: int) -> None:
    paths, tensors = split(tmp_path)
    store = GgufFile(paths[which])
    assert store.files == tuple(paths)
    assert store.path == paths[which]
    assert store.metadata["general.architecture"] == "llama"
    assert store.tensors.keys() == tensors.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(store.read(name), values)


def test_missing_part_is_named(tmp_path: Path) -> None:
    paths, _ = split(tmp_path)
    paths[1].unlink()
    message = r"1 of the model's 3 files are missing \(m-00002-of-00003\.gguf\)"
    with pytest.raises(ModelProblem, match=message):
        GgufFile(paths[0])


def test_absurd_number_of_parts(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m-00001-of-99999.gguf", {}, {})
    with pytest.raises(ModelProblem, match="99998 of the model's 99999 files") as caught:
        GgufFile(path)
    assert len(str(caught.value)) < 600


def test_part_of_another_download(tmp_path: Path) -> None:
    paths, _ = split(tmp_path)
    other, _ = split(tmp_path / "other", 2)
    paths[1].write_bytes(other[1].read_bytes())
    with pytest.raises(ModelProblem, match=r"m-00002.*says it is part 1 of 2.*expected 1 of 3"):
        GgufFile(paths[0])


def test_tensor_in_two_parts(tmp_path: Path) -> None:
    paths, tensors = split(tmp_path)
    metadata = {"split.no": 1, "split.count": 3}
    write_gguf(paths[1], metadata, {"t0": tensors["t0"]})
    with pytest.raises(ModelProblem, match="an earlier part already holds: t0"):
        GgufFile(paths[0])


def test_fewer_tensors_than_promised(tmp_path: Path) -> None:
    paths, _ = split(tmp_path)
    write_gguf(paths[1], {"split.no": 1, "split.count": 3}, {})
    with pytest.raises(ModelProblem, match="promises 7 tensors in all parts, they have 5"):
        GgufFile(paths[0])


def test_part_under_another_name(tmp_path: Path) -> None:
    paths, _ = split(tmp_path)
    renamed = paths[0].rename(tmp_path / "alone.gguf")
    with pytest.raises(ModelProblem, match="part of a model in 3 files, but named as one of 1"):
        GgufFile(renamed)


def test_file_is_mapped_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({}, {"t": np.zeros((1000, 1000), np.float32)}))
    mapped: list[int] = []
    plain = mmap.mmap

    def watching(*args: Any, **kwargs: Any) -> mmap.mmap:
        mapped.append(1)
        return plain(*args, **kwargs)

    monkeypatch.setattr(gguf.mmap, "mmap", watching)
    store = GgufFile(path)
    assert mapped == [1]
    assert store.rows("t", slice(999, 1000)).base is not None  # a view of the mapping
