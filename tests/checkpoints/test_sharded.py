"""Safetensors in several files: one store, and an index that cannot lead out of its folder."""

from __future__ import annotations

import builtins
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.safetensors import write_safetensors
from attncli.checkpoints.sharded import ShardedSafetensors
from attncli.errors import ModelProblem
from attncli.model.load import load
from tests.toys import record, tiny_bert, write_folder

Array = np.ndarray


def shard(folder: Path, n_files: int = 3, sub: str = "") -> dict[str, str]:
    """Split model.safetensors of a folder; return the weight map that was written."""
    from attncli.checkpoints.safetensors import SafetensorsFile

    whole = SafetensorsFile(folder / "model.safetensors")
    names = sorted(whole.tensors)
    weight_map = {}
    (folder / sub).mkdir(exist_ok=True)
    for number in range(n_files):
        file = f"{sub}model-{number + 1:05}-of-{n_files:05}.safetensors"
        part = {name: whole.read(name) for name in names[number::n_files]}
        write_safetensors(folder / file, part, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    write_index(folder, weight_map)
    return weight_map


def write_index(folder: Path, weight_map: Any) -> None:
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("sub", ["", "parts/"])
def test_shards_give_the_numbers_of_the_single_file(bert_folder: Path, sub: str) -> None:
    ids = [1, 3, 4, 5, 2]
    single = load(str(bert_folder))
    expected = record(single.spec, single.params, ids).weights
    shard(bert_folder, sub=sub)
    model = load(str(bert_folder))
    np.testing.assert_array_equal(record(model.spec, model.params, ids).weights, expected)
    assert model.sha256() is None  # of which file?


def test_index_itself_may_be_named(bert_folder: Path) -> None:
    shard(bert_folder)
    assert load(str(bert_folder / "model.safetensors.index.json")).name == "tiny"


def test_missing_shard_is_named_with_what_is_lost(bert_folder: Path) -> None:
    names = shard(bert_folder)
    lost = "model-00002-of-00003.safetensors"
    (bert_folder / lost).unlink()
    count = list(names.values()).count(lost)
    with pytest.raises(ModelProblem, match=rf"1 of 3 files.*{lost}.*{count} of {len(names)} tens"):
        load(str(bert_folder))


def test_tensor_in_another_shard_than_the_index_says(bert_folder: Path) -> None:
    names = shard(bert_folder)
    name = "embeddings.LayerNorm.bias"
    wrong = next(file for file in sorted(names.values()) if file != names[name])
    write_index(bert_folder, {**names, name: wrong})
    with pytest.raises(ModelProblem, match=f"{wrong}: lacks 1 .*{name}.*{names[name]} holds some"):
        load(str(bert_folder))


def test_tensor_that_the_index_does_not_name(bert_folder: Path) -> None:
    names = shard(bert_folder)
    name = "embeddings.LayerNorm.bias"
    write_index(bert_folder, {n: file for n, file in names.items() if n != name})
    with pytest.raises(ModelProblem, match=f"{names[name]}: holds 1 .*{name}"):
        load(str(bert_folder))


def test_shards_without_an_index(bert_folder: Path) -> None:
    shard(bert_folder)
    (bert_folder / "model.safetensors.index.json").unlink()
    with pytest.raises(ModelProblem, match=r"3 files.*no model\.safetensors\.index\.json"):
        load(str(bert_folder))


@pytest.mark.parametrize(
    "place",
    [
        "../outside/model.safetensors",
        "/etc/passwd.safetensors",
        "parts/../../outside/model.safetensors",
        "parts/../model-00001-of-00003.safetensors",
        "..\\outside\\model.safetensors",
        "C:model.safetensors",
        "model-00001-of-00003.bin",
        "a\0.safetensors",
        "",
        7,
        None,
        ["model.safetensors"],
    ],
)
def test_place_outside_is_refused_before_anything_is_opened(
    bert_folder: Path, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = shard(bert_folder)
    outside = bert_folder.parent / "outside"
    outside.mkdir()
    write_safetensors(outside / "model.safetensors", {"secret": np.ones(3, np.float32)}, {})
    name = "embeddings.LayerNorm.bias"
    write_index(bert_folder, {**names, name: place})
    opened: list[str] = []
    plain_open = io.open

    def watching(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(str(file))
        return plain_open(file, *args, **kwargs)

    monkeypatch.setattr(io, "open", watching)
    monkeypatch.setattr(builtins, "open", watching)
    with pytest.raises(ModelProblem, match=f"weight_map places '{name}'") as caught:
        ShardedSafetensors(bert_folder / "model.safetensors.index.json")
    assert "secret" not in str(caught.value)
    assert not [file for file in opened if file.endswith(("safetensors", "passwd"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no weight_map"),
        ("{}", "no weight_map"),
        ('{"weight_map": {}}', "no weight_map"),
        ('{"weight_map": ["a"]}', "no weight_map"),
        (
            '{"weight_map": {"a": "m.safetensors", "a": "n.safetensors"}}',
            "the tensor 'a' occurs twice",
        ),
    ],
)
def test_broken_index(tmp_path: Path, text: str, message: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(ModelProblem, match=message):
        ShardedSafetensors(index)


def test_rows_come_from_their_shard(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    folder = write_folder(tmp_path, config, tensors)
    shard(folder)
    store = ShardedSafetensors(folder / "model.safetensors.index.json")
    name = "embeddings.word_embeddings.weight"
    np.testing.assert_array_equal(store.rows(name, [4, 1]), tensors[name][[4, 1]])
    out = np.empty_like(tensors[name])
    np.testing.assert_array_equal(store.read(name, out), tensors[name])
