"""SmolLM3: as Llama, except: some layers have no positions, and only those may have a window.

Reference: transformers/models/smollm3/modeling_smollm3.py (5.24). Honoured: as Llama, and
no_rope_layers (1: the layer has rotary positions), else every no_rope_layer_interval-th layer has
none; use_sliding_window, sliding_window, layer_types. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import ignored, read_llama_like, sources, with_layers
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.params import HeadSources
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **LLAMA_SIZES,
    "vocab_size": 128_256,
    "hidden_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "no_rope_layer_interval": 4,
    "use_sliding_window": False,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a SmolLM3 configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias", False)
    config.flag("mlp_bias", False)
    config.pass_over("max_window_layers")
    spec = read_llama_like(config, "SmolLM3", base=2_000_000.0)
    n_layers = spec.stack.n_layers
    interval = config.count("no_rope_layer_interval")
    turns = config.counts("no_rope_layers")
    if turns is None:
        turns = [int((i + 1) % interval != 0) for i in range(n_layers)]
    if len(turns) < n_layers:
        raise ModelProblem(
            f"{config.path}: no_rope_layers has {len(turns)} entries, expected {n_layers}."
        )
    on = config.flag("use_sliding_window")
    slides = on and config.has("sliding_window")
    types = layer_types(config, n_layers, lambda i: slides and not turns[i])
    ropes = [
        layer.rope if turn else None for layer, turn in zip(spec.stack.layers, turns, strict=False)
    ]
    return with_layers(spec, rope=ropes, window=window_sizes(config, types, on=on))


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)
