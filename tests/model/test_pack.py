"""Packing a folder: what is written, how far it is off, and that it is repeatable."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from attncli.checkpoints.safetensors import SafetensorsFile
from attncli.errors import ModelProblem
from attncli.model.load import load
from attncli.model.pack import pack_model
from tests.toys import record, tiny_bert, write_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    config, tensors = tiny_bert(hidden_size=32, num_attention_heads=4, intermediate_size=64)
    tensors["embeddings.position_ids"] = np.arange(9, dtype=np.int32)[None]
    folder = write_folder(tmp_path / "source", config, tensors)
    (folder / "LICENSE.txt").write_text("terms")
    return folder


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 0), ("f16", 2e-3), ("q8", 0.05)])
def test_packed_folder_loads_and_stays_close(
    source: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    done = pack_model(source, tmp_path / "packed", dtype)
    before, after = load(str(source)), load(str(tmp_path / "packed"))
    ids = before.encode("the dog sees a cat").ids
    assert after.encode("the dog sees a cat").ids == ids
    difference = np.abs(
        record(before.spec, before.params, ids).weights
        - record(after.spec, after.params, ids).weights
    ).max()
    assert difference <= tolerance
    assert (done.largest_error == 0) is (dtype == "f32")
    assert done.bytes_after == (tmp_path / "packed" / "model.safetensors").stat().st_size


def test_reported_error_is_the_largest_one_of_all_tensors(source: Path, tmp_path: Path) -> None:
    done = pack_model(source, tmp_path / "packed", "q8")
    before = SafetensorsFile(source / "model.safetensors")
    after = SafetensorsFile(tmp_path / "packed" / "model.safetensors")
    errors = [np.abs(before.read(n) - after.read(n)).max() for n in before.tensors]
    assert done.largest_error == pytest.approx(max(errors))
    assert before.tensors.keys() == after.tensors.keys()


def test_eight_bits_are_for_matrices_only(source: Path, tmp_path: Path) -> None:
    pack_model(source, tmp_path / "packed", "q8")
    tensors = SafetensorsFile(tmp_path / "packed" / "model.safetensors").tensors
    kinds = {name: info.dtype for name, info in tensors.items()}
    assert kinds.pop("embeddings.position_ids") == "I32"
    assert {kind for name, kind in kinds.items() if name.endswith("bias")} == {"F32"}
    assert {kind for name, kind in kinds.items() if name.endswith("dense.weight")} == {"Q8"}


def test_packing_twice_gives_the_same_bytes_and_right_sums(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    pack_model(source, first, "q8")
    pack_model(source, second, "q8")
    for file in first.iterdir():
        assert (second / file.name).read_bytes() == file.read_bytes()
    for line in (first / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((first / name).read_bytes()).hexdigest() == digest


def test_licence_and_tokenizer_go_along(source: Path, tmp_path: Path) -> None:
    pack_model(source, tmp_path / "packed", "f16")
    for name in ("LICENSE.txt", "config.json", "tokenizer.json"):
        assert (tmp_path / "packed" / name).read_bytes() == (source / name).read_bytes()


def test_packed_model_can_be_widened_again(source: Path, tmp_path: Path) -> None:
    pack_model(source, tmp_path / "packed", "q8")
    assert pack_model(tmp_path / "packed", tmp_path / "wide", "f32").largest_error == 0
    assert load(str(tmp_path / "wide")).dtype == "F32"


def test_model_that_is_there_is_replaced_only_when_asked(source: Path, tmp_path: Path) -> None:
    pack_model(source, tmp_path / "packed", "q8")
    with pytest.raises(ModelProblem, match="already there"):
        pack_model(source, tmp_path / "packed", "f16")
    assert pack_model(source, tmp_path / "packed", "f16", overwrite=True).dtype == "f16"


def test_source_is_never_overwritten(source: Path) -> None:
    before = (source / "model.safetensors").read_bytes()
    with pytest.raises(ModelProblem, match="already there"):
        pack_model(source, source, "q8", overwrite=True)
    assert (source / "model.safetensors").read_bytes() == before


def test_model_that_attn_cannot_compute_is_refused_before_anything_is_written(
    source: Path, tmp_path: Path
) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    with pytest.raises(ModelProblem, match="mamba"):
        pack_model(source, tmp_path / "packed", "q8")
    assert not (tmp_path / "packed").exists()


def test_number_too_large_for_float16_is_refused_by_name(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    tensors["encoder.layer.1.output.dense.bias"][0] = 1e6
    folder = write_folder(tmp_path / "large", config, tensors)
    with pytest.raises(ModelProblem, match=r"layer\.1\.output\.dense\.bias does not fit float16"):
        pack_model(folder, tmp_path / "packed", "f16")
