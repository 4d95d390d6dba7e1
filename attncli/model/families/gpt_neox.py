"""GPT-NeoX and Pythia: part of each head turns, q k v of each head side by side in one tensor.

Attention and feed-forward part run side by side, each with its norm, or one after the other.
Reference: transformers/models/gpt_neox/modeling_gpt_neox.py (5.24). Honoured: the sizes,
rotary_pct and rotary_emb_base or rope_parameters, rope scalings, use_parallel_residual,
attention_bias, hidden_act, layer_norm_eps. Ignored tensors: mask and frequency buffers, embed_out
and task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import fused_qkv, linear, norm, prefix_in
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(
    r"(gpt_neox\.)?layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$"
    r"|(embed_out|lm_head)\.weight$|(score|classifier|qa_outputs)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a GPT-NeoX configuration into a spec."""
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    config.divides("hidden_size", "num_attention_heads")
    head_dim = d_model // n_heads
    rope = read_rope(
        config,
        head_dim,
        base=config.number("rotary_emb_base", 10_000.0, least=1.0),
        partial=config.number("rotary_pct", 0.25, least=0.0),
        n_positions=config.count("max_position_embeddings", 2048),
    )
    config.flag("attention_bias", True)
    config.pass_over("is_decoder")
    return ModelSpec(
        family="GPT-NeoX",
        stack=StackSpec(
            layers=(LayerSpec(rope=rope),) * config.count("num_hidden_layers"),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            eps=config.number("layer_norm_eps", 1e-5, least=0.0),
            activation=config.choice("hidden_act", ACTIVATIONS, "gelu"),
            d_ff=config.count("intermediate_size"),
            parallel=config.flag("use_parallel_residual", True),
        ),
        vocab_size=config.count("vocab_size"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix, bias = prefix_in(tensors, "gpt_neox."), config.flag("attention_bias", True)
    heads = stack.n_heads, stack.n_kv_heads
    found = {
        "embed.token": Source(f"{prefix}embed_in.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}final_layer_norm", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        fused = f"{layer}.attention.query_key_value"
        found |= fused_qkv(f"{i}.attn", fused, d_model, heads, stack.head_dim, bias=bias)
        found |= linear(f"{i}.attn.o", f"{layer}.attention.dense", d_model, d_model, bias=bias)
        found |= linear(f"{i}.ffn.up", f"{layer}.mlp.dense_h_to_4h", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.dense_4h_to_h", stack.d_ff, d_model)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model)
        found |= norm(f"{i}.ffn_in", f"{layer}.post_attention_layernorm", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, under its older or newer name."""
    return lm_head(spec, tensors, config, tied=False, names=("embed_out", "lm_head"))


def ignored(name: str) -> bool:
    """Tell whether a tensor is a buffer that is computed anew or a head on top."""
    return _IGNORED.match(name) is not None
