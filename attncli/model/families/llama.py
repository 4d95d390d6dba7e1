"""Llama 1 to 3: RMS norms before each sub-layer, rotary positions, grouped heads, gated SiLU.

Reference: transformers/models/llama/modeling_llama.py (5.24). Honoured: sizes, head_dim,
num_key_value_heads, rms_norm_eps, rope settings, attention_bias, mlp_bias, hidden_act. Ignored
tensors: lm_head, rotary inv_freq buffers. Other families of this shape start from here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.names import linear, norm
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(r"(model\.)?(lm_head\.weight|layers\.\d+\.self_attn\.rotary_emb\.inv_freq)$")


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Llama configuration into a spec."""
    config.flag("attention_bias", False)
    config.flag("mlp_bias", False)
    config.expect("pretraining_tp", 1)
    return read_llama_like(config, "Llama")


def read_llama_like(
    config: ConfigReader, family: str, *, activation_key: str = "hidden_act", base: float = 10_000.0
) -> ModelSpec:
    """Read what Llama and its relatives share; a relative changes the result with `replace`."""
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    n_kv_heads = config.count("num_key_value_heads", n_heads)
    if not config.has("head_dim"):
        config.divides("hidden_size", "num_attention_heads")
    head_dim = config.count("head_dim", d_model // n_heads)
    n_positions = config.count("max_position_embeddings", 2048)
    rope = read_rope(config, head_dim, "full_attention", base=base, n_positions=n_positions)
    config.flag("tie_word_embeddings", False)
    return ModelSpec(
        family=family,
        stack=StackSpec(
            layers=(LayerSpec(rope=rope),) * config.count("num_hidden_layers"),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            norm="rms",
            eps=config.number("rms_norm_eps", 1e-6),
            activation=config.choice(activation_key, ACTIVATIONS, "silu"),
            d_ff=config.count("intermediate_size"),
        ),
        vocab_size=config.count("vocab_size"),
    )


def with_windows(spec: ModelSpec, windows: list[int | None]) -> ModelSpec:
    """Return the spec with a window for each layer."""
    layers = tuple(
        replace(layer, window=window)
        for layer, window in zip(spec.stack.layers, windows, strict=True)
    )
    return replace(spec, stack=replace(spec.stack, layers=layers))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    attention, mlp = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    return llama_like_sources(spec, tensors, qkv_bias=attention, o_bias=attention, mlp_bias=mlp)


def llama_like_sources(
    spec: ModelSpec,
    tensors: Collection[str],
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    mlp_bias: bool = False,
) -> dict[str, Source]:
    """Sources of Llama and its relatives; a relative adds norms or renames slots."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = "model." if any(name.startswith("model.") for name in tensors) else ""
    q_width, kv_width = stack.n_heads * stack.head_dim, stack.n_kv_heads * stack.head_dim
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}norm", d_model, bias=False),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        for role, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            tensor = f"{layer}.self_attn.{role}_proj"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, width, bias=qkv_bias)
        tensor = f"{layer}.self_attn.o_proj"
        found |= linear(f"{i}.attn.o", tensor, q_width, d_model, bias=o_bias)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model, bias=False)
        found |= norm(f"{i}.ffn_in", f"{layer}.post_attention_layernorm", d_model, bias=False)
        for role, d_in, d_out in (
            ("gate", d_model, stack.d_ff),
            ("up", d_model, stack.d_ff),
            ("down", stack.d_ff, d_model),
        ):
            tensor = f"{layer}.mlp.{role}_proj"
            found |= linear(f"{i}.ffn.{role}", tensor, d_in, d_out, bias=mlp_bias)
    return found


def ignored(name: str) -> bool:
    """Tell whether a tensor is the output head or a buffer that is computed anew."""
    return _IGNORED.match(name) is not None
