"""Phi 1 to 2: part of each head turns, attention and feed-forward part side by side.

One norm feeds both. Reference: transformers/models/phi/modeling_phi.py (5.24). Honoured: the
sizes, num_key_value_heads, partial_rotary_factor and rope settings, qk_layernorm (one norm for all
heads), hidden_act, layer_norm_eps. Ignored tensors: lm_head, frequency buffers, task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(
    r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq$|lm_head\.(weight|bias)$"
    r"|(score|classifier|qa_outputs)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Phi configuration into a spec."""
    config.flag("qk_layernorm", False)
    return read_phi_like(config, "Phi", partial=0.5, activation="gelu_new", parallel=True)


def read_phi_like(
    config: ConfigReader,
    family: str,
    *,
    partial: float,
    activation: str,
    parallel: bool,
    eps_key: str = "layer_norm_eps",
    any_head_dim: bool = False,
) -> ModelSpec:
    """Read what Phi and its relatives share; a relative changes the result with `replace`.

    Args:
        config: the configuration.
        family: name shown to people.
        partial: part of a head that turns, when the configuration names none.
        activation: used when the configuration names none.
        parallel: attention and feed-forward part are side by side.
        eps_key: spelling of the norms' epsilon.
        any_head_dim: the key head_dim may say something else than width / heads.
    """
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    n_kv_heads = config.count("num_key_value_heads", n_heads)
    if not (any_head_dim and config.has("head_dim")):
        config.divides("hidden_size", "num_attention_heads")
    if n_heads % n_kv_heads:
        config.divides("num_attention_heads", "num_key_value_heads")
    head_dim = d_model // n_heads
    if any_head_dim:
        head_dim = config.count("head_dim", head_dim)
    n_positions = config.count("max_position_embeddings")
    rope = read_rope(config, head_dim, partial=partial, n_positions=n_positions)
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
            eps=config.number(eps_key, 1e-5, least=0.0),
            activation=config.choice("hidden_act", ACTIVATIONS, activation),
            d_ff=config.count("intermediate_size"),
            parallel=parallel,
        ),
        vocab_size=config.count("vocab_size"),
    )


def with_window(spec: ModelSpec, config: ConfigReader) -> ModelSpec:
    """Give all layers the window that the configuration names, if any."""
    if not config.has("sliding_window"):
        return spec
    window = config.count("sliding_window")
    layers = tuple(replace(layer, window=window) for layer in spec.stack.layers)
    return replace(spec, stack=replace(spec.stack, layers=layers))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "model.")
    kv_width = stack.n_kv_heads * stack.head_dim
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}final_layernorm", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        attention = f"{layer}.self_attn"
        found |= linear(f"{i}.attn.q", f"{attention}.q_proj", d_model, d_model)
        found |= linear(f"{i}.attn.k", f"{attention}.k_proj", d_model, kv_width)
        found |= linear(f"{i}.attn.v", f"{attention}.v_proj", d_model, kv_width)
        found |= linear(f"{i}.attn.o", f"{attention}.dense", d_model, d_model)
        if config.flag("qk_layernorm", False):
            for role in "qk":
                tensor = f"{attention}.{role}_layernorm"
                found |= norm(f"{i}.attn.{role}_norm", tensor, stack.head_dim)
        found |= linear(f"{i}.ffn.up", f"{layer}.mlp.fc1", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.fc2", stack.d_ff, d_model)
        for slot in ("attn_in", "ffn_in"):
            found |= norm(f"{i}.{slot}", f"{layer}.input_layernorm", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, with a bias for each token."""
    return lm_head(spec, tensors, config, tied=False, bias=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a buffer that is computed anew or a head on top."""
    return _IGNORED.match(name) is not None
