"""Sources of parameters matched with tensors, exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attncli.checkpoints import packed
from attncli.checkpoints.safetensors import SafetensorsFile, write_safetensors
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.params import Params, Source, Workspace, bind
from attncli.model.resolve import resolve
from tests.toys import Tensors, tiny_bert

QUERY = "encoder.layer.1.attention.self.query.weight"


def bound(tmp_path: Path, tensors: Tensors) -> Params:
    """Write the tensors and resolve them as a tiny BERT."""
    path = tmp_path / "model.safetensors"
    write_safetensors(path, tensors, {})
    return resolve(ConfigReader(tiny_bert()[0], "config.json"), SafetensorsFile(path))[1]


def problem(tmp_path: Path, tensors: Tensors) -> str:
    """Return the message that refuses these tensors."""
    with pytest.raises(ModelProblem) as caught:
        bound(tmp_path, tensors)
    assert "\n" not in str(caught.value)
    assert "model.safetensors" in str(caught.value)
    return str(caught.value)


def test_missing_tensors_are_counted_and_named(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    del tensors[QUERY], tensors["embeddings.LayerNorm.bias"]
    message = problem(tmp_path, tensors)
    assert "2 of 37 tensors missing" in message
    assert f"embeddings.LayerNorm.bias, {QUERY}" in message


def test_tensor_that_nobody_uses_is_refused_by_name(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    tensors["encoder.layer.2.output.dense.weight"] = np.ones((12, 20), np.float32)
    assert "encoder.layer.2.output.dense.weight" in problem(tmp_path, tensors)


def test_long_lists_are_cut_with_the_count_of_the_rest(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    tensors |= {f"extra.{i:02}": np.ones(1, np.float32) for i in range(13)}
    message = problem(tmp_path, tensors)
    assert "13 tensors" in message
    assert "extra.09 and 3 more" in message


def test_wrong_shape_is_refused_with_both_shapes(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    tensors[QUERY] = np.ones((12, 11), np.float32)
    message = problem(tmp_path, tensors)
    assert QUERY in message
    assert "[12, 11], expected [12, 12]" in message


def test_integers_are_no_parameters(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    tensors[QUERY] = np.ones((12, 12), np.int8)
    assert f"{QUERY} is stored as I8" in problem(tmp_path, tensors)


def test_heads_on_top_of_the_encoder_are_left_unused(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    tensors["pooler.dense.weight"] = np.ones((12, 12), np.float32)
    tensors["cls.predictions.bias"] = np.ones(10, np.float32)
    tensors["embeddings.position_ids"] = np.arange(9)[None]
    assert "0.attn.q.weight" in bound(tmp_path, tensors)


def test_linear_maps_are_turned_to_input_by_output(tmp_path: Path) -> None:
    tensors = tiny_bert()[1]
    params = bound(tmp_path, tensors)
    np.testing.assert_array_equal(params.need("1.attn.q.weight"), tensors[QUERY].T)
    up = tensors["encoder.layer.0.intermediate.dense.weight"]
    assert params.need("0.ffn.up.weight").shape == up.shape[::-1]


def test_parameters_are_read_again_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    params = bound(tmp_path, tiny_bert()[1])
    assert params.need("0.attn.q.bias") is not params.need("0.attn.q.bias")
    params.keep = True
    assert params.need("0.attn.q.bias") is params.need("0.attn.q.bias")


def test_absent_parameter_is_none_or_a_problem(tmp_path: Path) -> None:
    params = bound(tmp_path, tiny_bert()[1])
    assert params.get("final_norm.weight") is None
    assert "final_norm.weight" not in params
    with pytest.raises(ModelProblem, match=r"final_norm\.weight is missing"):
        params.need("final_norm.weight")


def test_memory_of_a_layer_serves_the_next_one_unless_its_shape_differs(tmp_path: Path) -> None:
    shapes = [(2, 32), (2, 32), (4, 32)]
    tensors: Tensors = {}
    for i, shape in enumerate(shapes):
        whole, scales = packed.pack(np.full(shape, i + 1, np.float32))
        tensors |= {f"w{i}": whole, f"w{i}.scale": scales}
    write_safetensors(tmp_path / "model.safetensors", tensors, packed.METADATA)
    store = SafetensorsFile(tmp_path / "model.safetensors")
    sources = {f"{i}.attn.q.weight": Source(f"w{i}", shape) for i, shape in enumerate(shapes)}
    workspace = Workspace(Params(store, sources))
    first, second, third = (workspace.layer(i).linear("attn.q")[0] for i in range(3))
    assert np.shares_memory(first, second)
    assert not np.shares_memory(second, third)
    np.testing.assert_array_equal(third, store.read("w2"))


def test_tensors_of_the_heads_are_stacked_and_each_is_needed(tmp_path: Path) -> None:
    tensors = {f"norms.{i}": np.full(3, i, np.float32) for i in range(3)}
    path = tmp_path / "model.safetensors"
    write_safetensors(path, tensors, {})
    source = Source("norms.0", (3,), others=("norms.1", "norms.2"))
    params = bind(SafetensorsFile(path), {"norm": source}, lambda name: False)
    np.testing.assert_array_equal(params.need("norm"), [[0] * 3, [1] * 3, [2] * 3])
    for name, other in (("norms.3", "1 of 3 tensors missing .norms.3"), ("norms.1", "norms.2")):
        bad = Source("norms.0", (3,), others=("norms.1", name))
        with pytest.raises(ModelProblem, match=other):
            bind(SafetensorsFile(path), {"norm": bad}, lambda name: False)
    with pytest.raises(ModelProblem, match=r"norms.0 has shape \[3\]"):
        bind(SafetensorsFile(path), {"norm": replace(source, shape=(4,))}, lambda name: False)
