"""As Llama, except: q, k and v in one tensor, gate and up in another, and a window.

Reference: transformers/models/phi3/modeling_phi3.py (5.24). Honoured: as Llama, and
sliding_window, partial_rotary_factor, longrope with its original_max_position_embeddings ("su" is
its older name). Refused: other rope scalings, biases. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import llama
from attncli.model.families.names import part
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

ignored = llama.ignored


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Phi-3 configuration into a spec."""
    for key in ("attention_bias", "mlp_bias"):
        config.expect(key, False)
    for key in ("full_attn_mod", "interpolate_factor"):
        config.expect(key, 1)
    config.ignore("lm_head_bias")
    config.count("max_position_embeddings")
    spec = llama.read_llama_like(config, "Phi-3")
    # Llama has another default
    eps = config.number("rms_norm_eps", 1e-5, least=0.0)
    spec = replace(spec, stack=replace(spec.stack, eps=eps))
    rope = spec.stack.layers[0].rope
    scaling = rope.scaling if rope else None
    if scaling is not None and scaling.kind != "longrope":
        raise ModelProblem(
            f"{config.path}: rope scaling {scaling.kind!r} is not supported here (expected "
            "longrope); results would be wrong, so attn stops here."
        )
    # the reference has a default for this key, which only longrope uses
    config.count("original_max_position_embeddings", None if scaling else 4096)
    window = config.count("sliding_window") if config.has("sliding_window") else None
    return llama.with_windows(spec, [window] * spec.stack.n_layers)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands: as Llama, with two fused tensors."""
    stack, d_model = spec.stack, spec.stack.d_model
    found = llama.llama_like_sources(spec, tensors)
    q_width, kv_width = stack.n_heads * stack.head_dim, stack.n_kv_heads * stack.head_dim
    parts = (
        ("attn", "qkv", (("q", q_width), ("k", kv_width), ("v", kv_width))),
        ("ffn", "gate_up", (("gate", stack.d_ff), ("up", stack.d_ff))),
    )
    for i in range(stack.n_layers):
        for block, fused, roles in parts:
            width, start = sum(rows for _, rows in roles), 0
            for role, rows in roles:
                slot = f"{i}.{block}.{role}"
                single = f"{role}_proj.weight"
                tensor = found[f"{slot}.weight"].tensor.removesuffix(single) + f"{fused}_proj"
                place = start, start + rows
                found |= part(slot, tensor, d_model, width, place, bias=False)
                start += rows
    return found
