"""What attn takes for absent keys is what the configuration classes of transformers take."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from attncli.model.config import ConfigReader
from attncli.model.families import REGISTRY, find_family

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("default")]


def _assumes(module: str) -> bool:
    names = vars(import_module(f"attncli.model.families.{module}"))
    return any(name.startswith("SIZES") for name in names) or "LLAMA_SIZES" in names


MODEL_TYPES = sorted(model_type for model_type, module in REGISTRY.items() if _assumes(module))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_absent_keys_mean_what_the_configuration_class_says(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(model_type)
    family = find_family(model_type)
    written = ConfigReader(json.loads(config.to_json_string(use_diff=False)), "written.json")
    expected = family.read_spec(written)
    written.finish()
    assert family.read_spec(ConfigReader({"model_type": model_type}, "empty.json")) == expected


def test_the_families_with_defaults_are_compared() -> None:
    assert {"llama", "mistral", "gemma3_text", "gpt_oss", "granite"} <= set(MODEL_TYPES)
