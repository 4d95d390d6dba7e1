"""As GPT-2, except: separate q, k, v without bias, no factor on q·k, windows in "local" layers.

Reference: transformers/models/gpt_neo/modeling_gpt_neo.py (5.24). Honoured: the sizes,
attention_types and attention_layers (which must agree), window_size, activation_function,
layer_norm_epsilon. Ignored tensors: as GPT-2.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(
    r"(transformer\.)?h\.\d+\.attn\.attention\.(bias|masked_bias)$|lm_head\.weight$"
    r"|(score|classifier|qa_outputs)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a GPT-Neo configuration into a spec."""
    heads = config.either("num_heads", "num_attention_heads")
    d_model, n_heads = config.count("hidden_size"), config.count(heads)
    config.divides("hidden_size", heads)
    n_layers = config.count(config.either("num_layers", "num_hidden_layers"))
    window = config.count("window_size", 256)
    windows = {"local": window, "global": None}
    return ModelSpec(
        family="GPT-Neo",
        stack=StackSpec(
            layers=tuple(LayerSpec(windows[kind]) for kind in _kinds(config, n_layers)),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=d_model // n_heads,
            scale=1.0,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
            d_ff=config.count("intermediate_size", 4 * d_model),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
    )


def _kinds(config: ConfigReader, n_layers: int) -> list[str]:
    """Return "global" or "local" for each layer, from patterns such as [["global"], 12]."""
    patterns: list[Any] = config.items("attention_types") or [[["global", "local"], 12]]
    try:
        kinds = [kind for names, count in patterns for _ in range(count) for kind in names]
    except (TypeError, ValueError):
        raise ModelProblem(
            f"{config.path}: attention_types is no list of [kinds, how often]."
        ) from None
    listed = config.texts("attention_layers") or kinds
    if len(kinds) != n_layers or listed != kinds or not set(kinds) <= {"global", "local"}:
        raise ModelProblem(
            f"{config.path}: attention_types and attention_layers should both name {n_layers} "
            'layers as "global" or "local", and agree.'
        )
    return kinds


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "transformer.")
    found = {
        "embed.token": Source(f"{prefix}wte.weight", (spec.vocab_size, d_model)),
        "embed.position": Source(f"{prefix}wpe.weight", (spec.n_positions or 0, d_model)),
        **norm("final_norm", f"{prefix}ln_f", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}h.{i}"
        attention = f"{layer}.attn.attention"
        for role in "qkv":
            tensor = f"{attention}.{role}_proj"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, d_model, bias=False)
        found |= linear(f"{i}.attn.o", f"{attention}.out_proj", d_model, d_model)
        found |= linear(f"{i}.ffn.up", f"{layer}.mlp.c_fc", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.c_proj", stack.d_ff, d_model)
        found |= norm(f"{i}.attn_in", f"{layer}.ln_1", d_model)
        found |= norm(f"{i}.ffn_in", f"{layer}.ln_2", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a mask buffer or a head on top."""
    return _IGNORED.match(name) is not None
