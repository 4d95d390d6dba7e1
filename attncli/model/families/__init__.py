"""The families attn can compute: one small module each, named here and nowhere else.

A family module offers

* `read_spec(config) -> ModelSpec`: every key of the configuration that changes the numbers;
* `sources(spec, tensors, config) -> {canonical name: Source}`: where each parameter stands;
* `head(spec, tensors, config) -> HeadSources | None`: the output head, if the checkpoint has one;
* `ignored(name) -> bool`: tensors that are knowingly left unused by everything but the head.

Where a module says that it ignores heads, only its `head` reads the one that predicts tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Protocol, cast, runtime_checkable

from attncli.model.config import ConfigReader
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

REGISTRY = {
    "albert": "albert",
    "attn-toy": "toy",
    "bart": "bart",
    "bert": "bert",
    "bloom": "bloom",
    "camembert": "roberta",
    "deberta": "deberta",
    "deberta-v2": "deberta_v2",
    "distilbert": "distilbert",
    "electra": "electra",
    "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "multimodal",
    "gemma3_text": "gemma3",
    "gpt2": "gpt2",
    "gpt_neo": "gpt_neo",
    "gpt_neox": "gpt_neox",
    "gpt_oss": "gpt_oss",
    "gptj": "gptj",
    "granite": "granite",
    "idefics3": "multimodal",
    "internvl": "multimodal",
    "llama": "llama",
    "llava": "multimodal",
    "llava_next": "multimodal",
    "llava_onevision": "multimodal",
    "marian": "marian",
    "mbart": "mbart",
    "ministral": "ministral",
    "mistral": "mistral",
    "mistral3": "multimodal",
    "mixtral": "mixtral",
    "modernbert": "modernbert",
    "mpnet": "mpnet",
    "mpt": "mpt",
    "mt5": "mt5",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "opt": "opt",
    "pegasus": "pegasus",
    "phi": "phi",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen_moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen_moe",
    "roberta": "roberta",
    "smollm3": "smollm3",
    "smolvlm": "multimodal",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
    "t5": "t5",
    "umt5": "umt5",
    "xlm-roberta": "roberta",
}
"""`model_type` of a configuration to the module that knows the family."""


@runtime_checkable
class Family(Protocol):
    """What a family module offers."""

    def read_spec(self, config: ConfigReader) -> ModelSpec:
        """Turn a configuration into what the arithmetic needs."""

    def sources(
        self, spec: ModelSpec, tensors: Collection[str], config: ConfigReader
    ) -> Mapping[str, Source]:
        """Say where each parameter stands in a checkpoint with these tensor names.

        Whether a bias exists is read from the configuration where it says so, never guessed from
        the tensors: a missing one must be seen.
        """

    def head(
        self, spec: ModelSpec, tensors: Collection[str], config: ConfigReader
    ) -> HeadSources | None:
        """Say what turns states into logits, and where its parameters stand; None: nothing does.

        Only asked for when something predicts, so that no other command depends on it.
        """

    def ignored(self, name: str) -> bool:
        """Tell whether a tensor is knowingly left unused."""


def find_family(model_type: str) -> Family:
    """Return the module of a registered family."""
    return cast(Family, import_module(f"{__name__}.{REGISTRY[model_type]}"))
