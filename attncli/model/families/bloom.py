"""BLOOM: ALiBi counted from the first token, q k v of each head side by side in one tensor.

Reference: transformers/models/bloom/modeling_bloom.py (5.24). Honoured: the sizes in both
spellings, layer_norm_epsilon. Refused: apply_residual_connection_post_layernorm, slow_but_exact
over several parts (it leaves biases out), an inner width other than four times the model's.
Ignored tensors: lm_head and task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import fused_qkv, linear, norm, prefix_in
from attncli.model.params import HeadSources, Source
from attncli.model.position import alibi_slopes
from attncli.model.spec import AlibiSpec, LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(r"lm_head\.weight$|(score|classifier|qa_outputs)\.")


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a BLOOM configuration into a spec."""
    width = config.either("hidden_size", "n_embed")
    heads = config.either("n_head", "num_attention_heads")
    d_model, n_heads = config.count(width), config.count(heads)
    config.divides(width, heads)
    config.expect("apply_residual_connection_post_layernorm", False)
    if config.count("pretraining_tp", 1) > 1:
        config.expect("slow_but_exact", False)
    config.expect("n_inner", 4 * d_model)
    config.pass_over(
        "slow_but_exact",
        # how training ran
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "offset_alibi",
        "seq_length",
        "skip_bias_add",
        "skip_bias_add_qkv",
    )
    head_dim = d_model // n_heads
    return ModelSpec(
        family="BLOOM",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count(config.either("n_layer", "num_hidden_layers")),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation="gelu_new",
            d_ff=4 * d_model,
            position_bias=AlibiSpec(alibi_slopes(n_heads)),
        ),
        vocab_size=config.count("vocab_size"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "transformer.")
    heads = stack.n_heads, stack.n_kv_heads
    found = {
        "embed.token": Source(f"{prefix}word_embeddings.weight", (spec.vocab_size, d_model)),
        **norm("embed_norm", f"{prefix}word_embeddings_layernorm", d_model),
        **norm("final_norm", f"{prefix}ln_f", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}h.{i}"
        attention = f"{layer}.self_attention"
        fused = f"{attention}.query_key_value"
        found |= fused_qkv(f"{i}.attn", fused, d_model, heads, stack.head_dim)
        found |= linear(f"{i}.attn.o", f"{attention}.dense", d_model, d_model)
        found |= linear(f"{i}.ffn.up", f"{layer}.mlp.dense_h_to_4h", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.dense_4h_to_h", stack.d_ff, d_model)
        found |= norm(f"{i}.attn_in", f"{layer}.input_layernorm", d_model)
        found |= norm(f"{i}.ffn_in", f"{layer}.post_attention_layernorm", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a head on top."""
    return _IGNORED.match(name) is not None
