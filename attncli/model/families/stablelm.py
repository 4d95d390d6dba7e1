"""As Phi, except: a gated feed-forward part, biases for q, k and v only, a norm for each head.

Attention and feed-forward part come one after the other with a norm each, or side by side after
one. Reference: transformers/models/stablelm/modeling_stablelm.py (5.24). Honoured: the sizes,
num_key_value_heads, use_qkv_bias, qk_layernorm (a weight for each head, no bias),
use_parallel_residual, partial_rotary_factor and rope settings, hidden_act, layer_norm_eps. Ignored
tensors: as Phi.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families import phi
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

ignored = phi.ignored


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a StableLM configuration into a spec."""
    # no default: the reference's is a number of its own
    config.count("num_key_value_heads")
    config.flag("use_qkv_bias", False)
    config.flag("qk_layernorm", False)
    parallel = config.flag("use_parallel_residual", False)
    return phi.read_phi_like(config, "StableLM", partial=0.25, activation="silu", parallel=parallel)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix, bias = prefix_in(tensors, "model."), config.flag("use_qkv_bias", False)
    n_heads = {"q": stack.n_heads, "k": stack.n_kv_heads, "v": stack.n_kv_heads}
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}norm", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        attention = f"{layer}.self_attn"
        for role, heads in n_heads.items():
            tensor, width = f"{attention}.{role}_proj", heads * stack.head_dim
            found |= linear(f"{i}.attn.{role}", tensor, d_model, width, bias=bias)
        found |= linear(f"{i}.attn.o", f"{attention}.o_proj", d_model, d_model, bias=False)
        if config.flag("qk_layernorm", False):
            for role in "qk":
                first, *others = (
                    f"{attention}.{role}_layernorm.norms.{head}.weight"
                    for head in range(n_heads[role])
                )
                found[f"{i}.attn.{role}_norm.weight"] = Source(
                    first, (stack.head_dim,), others=tuple(others)
                )
        for role, d_in, d_out in (
            ("gate", d_model, stack.d_ff),
            ("up", d_model, stack.d_ff),
            ("down", stack.d_ff, d_model),
        ):
            found |= linear(f"{i}.ffn.{role}", f"{layer}.mlp.{role}_proj", d_in, d_out, bias=False)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model)
        second = "input_layernorm" if stack.parallel else "post_attention_layernorm"
        found |= norm(f"{i}.ffn_in", f"{layer}.{second}", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits."""
    return lm_head(spec, tensors, config, tied=False)
