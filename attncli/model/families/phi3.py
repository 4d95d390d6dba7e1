"""As Llama, except: q, k and v in one tensor, gate and up in another, and a window.

Reference: transformers/models/phi3/modeling_phi3.py (5.24). Honoured: the sizes, head_dim,
num_key_value_heads, sliding_window, partial_rotary_factor, longrope with its
original_max_position_embeddings ("su" is its older name), hidden_act, rms_norm_eps. Refused: other
rope scalings, biases. Ignored tensors: as Phi.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import phi
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, part, prefix_in
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

ignored = phi.ignored


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Phi-3 configuration into a spec."""
    for key in ("attention_bias", "mlp_bias"):
        config.expect(key, False)
    for key in ("full_attn_mod", "interpolate_factor"):
        config.expect(key, 1)
    config.pass_over("lm_head_bias")
    spec = phi.read_phi_like(
        config,
        "Phi-3",
        partial=1.0,
        activation="silu",
        parallel=False,
        eps_key="rms_norm_eps",
        any_head_dim=True,
    )
    rope = spec.stack.layers[0].rope
    scaling = rope.scaling if rope else None
    if scaling is not None and scaling.kind != "longrope":
        raise ModelProblem(
            f"{config.path}: rope scaling {scaling.kind!r} is not supported here (expected "
            "longrope); results would be wrong, so attn stops here."
        )
    # the reference has a default for this key, which only longrope uses
    config.count("original_max_position_embeddings", None if scaling else 4096)
    spec = phi.with_window(spec, config)
    return replace(spec, stack=replace(spec.stack, norm="rms"))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; of a fused tensor only the wanted rows are read."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "model.")
    q_width, kv_width = stack.n_heads * stack.head_dim, stack.n_kv_heads * stack.head_dim
    fused = (
        ("attn", "self_attn.qkv_proj", (("q", q_width), ("k", kv_width), ("v", kv_width))),
        ("ffn", "mlp.gate_up_proj", (("gate", stack.d_ff), ("up", stack.d_ff))),
    )
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}norm", d_model, bias=False),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        for block, tensor, roles in fused:
            d_out, start = sum(width for _, width in roles), 0
            for role, width in roles:
                slot, rows = f"{i}.{block}.{role}", (start, start + width)
                found |= part(slot, f"{layer}.{tensor}", d_model, d_out, rows, bias=False)
                start += width
        output, down = f"{layer}.self_attn.o_proj", f"{layer}.mlp.down_proj"
        found |= linear(f"{i}.attn.o", output, q_width, d_model, bias=False)
        found |= linear(f"{i}.ffn.down", down, stack.d_ff, d_model, bias=False)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model, bias=False)
        found |= norm(f"{i}.ffn_in", f"{layer}.post_attention_layernorm", d_model, bias=False)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits."""
    return lm_head(spec, tensors, config, tied=False)
