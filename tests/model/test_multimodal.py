"""Text parts of models that see images: found under every prefix, all else passed over by name."""

from __future__ import annotations

from typing import Any

import pytest

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import find_family
from tests.parity.cases.llama_like import GEMMA, TINY_LLAMA, TINY_VISION
from tests.parity.comparison import assert_same, read_golden, renamed, run_golden


@pytest.mark.parametrize("name", ["llava", "mistral3", "gemma3-multimodal", "internvl"])
@pytest.mark.parametrize(
    ("text", "vision"),
    [
        ("language_model.model.", ""),
        ("model.language_model.", "model."),
        ("language_model.", ""),
    ],
)
def test_text_part_is_found_under_every_prefix(name: str, text: str, vision: str) -> None:
    golden = read_golden(name)

    def rename(tensor: str) -> str:
        inside = tensor.removeprefix("language_model.")
        return f"{vision}{tensor}" if inside == tensor else f"{text}{inside}"

    golden = renamed(golden, rename)
    head = golden.tensors[f"{text}embed_tokens.weight"]
    golden.tensors["lm_head.weight"] = golden.tensors["language_model.lm_head.weight"] = head
    assert any("vision_tower" in tensor for tensor in golden.tensors)
    assert_same(name, golden, run_golden(golden))


def test_text_part_of_smolvlm_stands_where_its_files_have_it() -> None:
    golden = renamed(read_golden("smolvlm"), lambda name: f"model.{name}")
    golden.tensors["lm_head.weight"] = golden.tensors["model.text_model.embed_tokens.weight"]
    assert any(name.startswith("model.connector.") for name in golden.tensors)
    golden.config["text_config"] |= {"qk_layer_norms": False, "perceiver_config": {"depth": 3}}
    assert_same("smolvlm", golden, run_golden(golden))
    golden.config["text_config"]["qk_layer_norms"] = True
    with pytest.raises(ModelProblem, match="text_config: qk_layer_norms"):
        golden.model()


def test_layers_of_the_vision_tower_are_not_counted_and_its_keys_not_read() -> None:
    text = {"model_type": "gemma3_text", **GEMMA, "num_hidden_layers": 3}
    vision = {**TINY_VISION, "num_hidden_layers": 5, "hidden_act": "unheard_of"}
    config = ConfigReader(
        {"model_type": "gemma3", "text_config": text, "vision_config": vision}, "config.json"
    )
    assert find_family("gemma3").read_spec(config).stack.n_layers == 3
    config.finish()


def test_a_key_of_the_text_part_that_nobody_reads_is_refused() -> None:
    config = ConfigReader(
        {"model_type": "llava", "text_config": {**TINY_LLAMA, "warp": 1}}, "config.json"
    )
    spec = find_family("llava").read_spec(config)
    assert spec.family == "Llama"
    with pytest.raises(ModelProblem, match=r"config\.json, text_config: .*warp"):
        config.finish()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "text_config is missing"),
        ({"text_config": "llama"}, "text_config"),
        ({"text_config": {"model_type": "mamba"}}, "mamba.*inside 'llava'.*llama"),
    ],
)
def test_text_part_that_cannot_be_read_is_named(values: dict[str, Any], named: str) -> None:
    config = ConfigReader({"model_type": "llava", **values}, "config.json")
    with pytest.raises(ModelProblem, match=named):
        find_family("llava").read_spec(config)
