"""Files from strangers: nothing is run, nothing outside is opened, no text is cut in silence."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from attncli.errors import ModelProblem
from attncli.model.load import load
from tests.cases.folders import on_disk
from tests.toys import Tensors, tiny_bert, write_folder


class Canary:
    """Makes a folder when it is unpickled."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.sign),)


def test_pickles_are_never_run(attn, bert_folder: Path, tmp_path: Path) -> None:
    sign = tmp_path / "was_run"
    (bert_folder / "model.safetensors").unlink()
    code = f"cos\nmkdir\n(S'{sign}'\ntR."
    (bert_folder / "pytorch_model.bin").write_bytes(code.encode())
    objects = tmp_path / "objects.npz"
    held = np.array([Canary(sign)], dtype=object)
    np.savez(objects, embedding=held, w_q=held, w_k=held, w_v=held, vocabulary=held)
    for model, named in ((bert_folder, "pytorch_model.bin"), (objects, "array ")):
        for command in (["inspect", "the dog", "-m"], ["models", "info"]):
            ran = attn(*command, str(model), "--json")
            assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
            assert named in ran.err
    assert not sign.exists()
    with np.load(objects, allow_pickle=True) as arrays:
        arrays["w_q"]
    assert sign.is_dir()  # it would have been seen


def sharded(folder: Path, place: str, tensors: Tensors, file: Path) -> None:
    """Write an index that names one file for all tensors; move the weights there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").rename(file)
    index = {"weight_map": dict.fromkeys(tensors, place)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("place", ["../outside/model.safetensors", "{outside}/model.safetensors"])
def test_weights_beside_the_folder_are_not_slipped_in(attn, tmp_path: Path, place: str) -> None:
    config, tensors = tiny_bert()
    folder, outside = write_folder(tmp_path / "m", config, tensors), tmp_path / "outside"
    place = place.format(outside=outside)
    sharded(folder, place, tensors, outside / "model.safetensors")
    ran = attn("inspect", "the dog", "-m", str(folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "index.json: weight_map places 'embeddings." in ran.err
    assert f" in '{place[:40]}" in ran.err
    assert "nothing outside it is read" in ran.err


def test_shards_in_a_folder_within_are_fine(attn, tmp_path: Path) -> None:
    case = on_disk(tmp_path / "m", "bert")
    place = "parts/model.safetensors"
    sharded(case.folder, place, case.golden.tensors, case.folder / place)
    case.assert_numbers(attn)


@pytest.mark.parametrize("length", [2**64 - 1, 2**40, 99_000_000])
def test_memory_is_not_taken_on_the_word_of_a_header(bert_folder: Path, length: int) -> None:
    file = bert_folder / "model.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + file.read_bytes()[8:])
    tracemalloc.start()
    try:
        with pytest.raises(ModelProblem, match=f"{length:,} bytes"):
            load(str(bert_folder))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_tensor_of_absurd_shape_takes_no_memory(bert_folder: Path) -> None:
    file = bert_folder / "model.safetensors"
    entry = {"dtype": "F32", "shape": [100_000, 100_000], "data_offsets": [0, 8]}
    header = json.dumps({"embeddings.word_embeddings.weight": entry}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    tracemalloc.start()
    try:
        with pytest.raises(ModelProblem, match=r"word_embeddings.*its range has 8"):
            load(str(bert_folder))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_text_beyond_the_positions_is_refused_and_never_cut(attn, bert_folder: Path) -> None:
    options = ("-m", str(bert_folder), "--json")
    ran = attn("inspect", "the " * 7, *options)
    assert len(ran.document["tokens"]) == 9
    long = "the " * 7 + "dog"
    for query in ((), ("-q", "dog")):
        ran = attn("inspect", long, *options, *query)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "10 tokens, tiny takes at most 9" in ran.err
        assert "not in the text" not in ran.err
    # one long line does not end a run over many
    ran = attn("inspect", *options, stdin=f"{long}\nthe dog\n".encode())
    assert ran.code == 1
    first, second = (json.loads(line) for line in ran.out.splitlines())
    assert "tokens" not in first
    assert [token["text"] for token in second["tokens"]] == ["", "the", "dog", ""]
