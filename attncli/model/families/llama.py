"""Llama 1 to 3: RMS norms before each sub-layer, rotary positions, grouped heads, gated SiLU.

Reference: transformers/models/llama/modeling_llama.py (5.24). Honoured: sizes, head_dim,
num_key_value_heads, rms_norm_eps, rope settings, attention_bias, mlp_bias, hidden_act. Ignored
tensors: lm_head, rotary inv_freq buffers. Other families of this shape start from here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(r"(model\.)?(lm_head\.weight|layers\.\d+\.self_attn\.rotary_emb\.inv_freq)$")


SIZES = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Llama configuration into a spec."""
    config.assume(SIZES)
    config.pass_over("is_llama_config")
    config.flag("attention_bias", False)
    config.flag("mlp_bias", False)
    config.expect("rope_interleaved", False)
    return read_llama_like(config, "Llama")


def read_llama_like(
    config: ConfigReader,
    family: str,
    *,
    activation_key: str = "hidden_act",
    base: float = 10_000.0,
    partial: float | None = None,
    layer_type: str = "full_attention",
) -> ModelSpec:
    """Read what Llama and its relatives share; a relative changes the result with `replace`.

    Args:
        config: the configuration, with the family's defaults assumed.
        family: name for people.
        activation_key: key that names the activation function.
        base: of the rotary positions where the configuration names none.
        partial: part of a head that turns, where the configuration names none; None: the
            reference turns whole heads whatever the configuration says, so all else is refused.
        layer_type: kind of layer whose rotary settings are read.
    """
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    n_kv_heads = config.count("num_key_value_heads", n_heads)
    if config.has("num_key_value_heads"):
        config.divides("num_attention_heads", "num_key_value_heads")
    if not config.has("head_dim"):
        config.divides("hidden_size", "num_attention_heads")
    head_dim = config.count("head_dim", d_model // n_heads)
    n_positions = config.count("max_position_embeddings", 2048)
    rope = read_rope(
        config,
        head_dim,
        layer_type,
        base=base,
        partial=1.0 if partial is None else partial,
        n_positions=n_positions,
    )
    if partial is None and rope.dim != head_dim:
        raise ModelProblem(
            f"{config.path}: partial_rotary_factor is not supported in {family}, whose reference "
            "turns whole heads; results would be wrong, so attn stops here."
        )
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
            eps=config.number("rms_norm_eps", 1e-6, least=0.0),
            activation=config.choice(activation_key, ACTIVATIONS, "silu"),
            d_ff=config.count("intermediate_size"),
        ),
        vocab_size=config.count("vocab_size"),
    )


def with_layers(spec: ModelSpec, **columns: Sequence[object]) -> ModelSpec:
    """Return the spec with fields of each layer changed: window=[4, None], rope=[...]."""
    layers = list(spec.stack.layers)
    for name, values in columns.items():
        changes: list[dict[str, Any]] = [{name: value} for value in values]
        layers = [replace(layer, **change) for layer, change in zip(layers, changes, strict=True)]
    return with_stack(spec, layers=tuple(layers))


def with_stack(spec: ModelSpec, **changes: Any) -> ModelSpec:
    """Return the spec with fields of its stack changed."""
    return replace(spec, stack=replace(spec.stack, **changes))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    attention, mlp = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    return llama_like_sources(spec, tensors, qkv_bias=attention, o_bias=attention, mlp_bias=mlp)


NORMS = {"attn_in": "input_layernorm", "ffn_in": "post_attention_layernorm"}
"""Norm slots of a block and their tensors."""


def llama_like_sources(
    spec: ModelSpec,
    tensors: Collection[str],
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    mlp_bias: bool = False,
    norms: Mapping[str, str] = NORMS,
    qk_norm: Literal["head", "all"] | None = None,
    feed_forward: bool = True,
) -> dict[str, Source]:
    """Sources of Llama and its relatives.

    Args:
        spec: sizes.
        tensors: names in the checkpoint; the prefix `model.` is there or not.
        qkv_bias: queries, keys and values have biases.
        o_bias: the output projection has one.
        mlp_bias: the feed-forward part has them.
        norms: norm slot of a block to its tensor.
        qk_norm: queries and keys are normalised, over each head or over all heads together.
        feed_forward: every block has one gated feed-forward part; else a relative adds its own.
    """
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = model_prefix(tensors)
    q_width, kv_width = stack.n_heads * stack.head_dim, stack.n_kv_heads * stack.head_dim
    found = {"embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model))}
    if "final_norm" not in stack.plain_norms:
        found |= norm("final_norm", f"{prefix}norm", d_model, bias=False)
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        for role, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            tensor = f"{layer}.self_attn.{role}_proj"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, width, bias=qkv_bias)
        tensor = f"{layer}.self_attn.o_proj"
        found |= linear(f"{i}.attn.o", tensor, q_width, d_model, bias=o_bias)
        for slot, tensor in norms.items():
            found |= norm(f"{i}.{slot}", f"{layer}.{tensor}", d_model, bias=False)
        if qk_norm is not None:
            for role, width in (("q", q_width), ("k", kv_width)):
                width = stack.head_dim if qk_norm == "head" else width
                tensor = f"{layer}.self_attn.{role}_norm"
                found |= norm(f"{i}.attn.{role}_norm", tensor, width, bias=False)
        if feed_forward:
            found |= gated(f"{i}.ffn", f"{layer}.mlp", d_model, stack.d_ff, bias=mlp_bias)
    return found


def model_prefix(tensors: Collection[str]) -> str:
    """Return what the names of the model without a head begin with."""
    return "model." if any(name.startswith("model.") for name in tensors) else ""


def gated(
    name: str, tensor: str, d_model: int, d_ff: int, *, bias: bool = False
) -> dict[str, Source]:
    """Sources of one gated feed-forward part."""
    found = linear(f"{name}.gate", f"{tensor}.gate_proj", d_model, d_ff, bias=bias)
    found |= linear(f"{name}.up", f"{tensor}.up_proj", d_model, d_ff, bias=bias)
    return found | linear(f"{name}.down", f"{tensor}.down_proj", d_ff, d_model, bias=bias)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits."""
    return lm_head(spec, tensors, config, tied=False)


def ignored(name: str) -> bool:
    """Tell whether a tensor is the output head or a buffer that is computed anew."""
    return _IGNORED.match(name) is not None
