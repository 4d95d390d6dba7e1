"""As Phi, except: one sub-layer after the other with a norm each, heads that turn whole, a window.

Reference: transformers/models/starcoder2/modeling_starcoder2.py (5.24). Honoured: the sizes,
num_key_value_heads, sliding_window, use_bias, rope settings, hidden_act, norm_epsilon. Refused:
other values of norm_type and mlp_type than the released ones. Ignored tensors: as Phi.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import phi
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

ignored = phi.ignored


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a StarCoder2 configuration into a spec."""
    # no default: the reference's is a number of its own
    config.count("num_key_value_heads")
    config.expect("norm_type", "layer_norm")
    config.expect("mlp_type", "default")
    config.flag("use_bias", True)
    spec = phi.read_phi_like(
        config,
        "StarCoder2",
        partial=1.0,
        activation="gelu_pytorch_tanh",
        parallel=False,
        eps_key="norm_epsilon",
    )
    rope = spec.stack.layers[0].rope
    if rope is None or rope.dim != spec.stack.head_dim:
        raise ModelProblem(
            f"{config.path}: partial_rotary_factor is not supported here: the reference turns "
            "whole heads; results would be wrong, so attn stops here."
        )
    return phi.with_window(spec, config)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix, bias = prefix_in(tensors, "model."), config.flag("use_bias", True)
    kv_width = stack.n_kv_heads * stack.head_dim
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}norm", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        for name, tensor, d_in, d_out in (
            ("attn.q", "self_attn.q_proj", d_model, d_model),
            ("attn.k", "self_attn.k_proj", d_model, kv_width),
            ("attn.v", "self_attn.v_proj", d_model, kv_width),
            ("attn.o", "self_attn.o_proj", d_model, d_model),
            ("ffn.up", "mlp.c_fc", d_model, stack.d_ff),
            ("ffn.down", "mlp.c_proj", stack.d_ff, d_model),
        ):
            found |= linear(f"{i}.{name}", f"{layer}.{tensor}", d_in, d_out, bias=bias)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model)
        found |= norm(f"{i}.ffn_in", f"{layer}.post_attention_layernorm", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)
