"""Falcon: three layouts of one tensor for q, k and v; rotary positions or ALiBi.

* 7b: one key/value head (multi_query), attention and feed-forward part side by side after one norm;
* 40b (new_decoder_architecture): groups of heads, side by side after a norm each, or one (11b);
* rw: every head its own key and value, one sub-layer after the other, ALiBi, biases.

Reference: transformers/models/falcon/modeling_falcon.py (5.24). ALiBi is rounded to bfloat16 and
added to q·k before both are scaled. The reference does so once in its default mode (sdpa), in
which the models were trained; its eager mode adds the bias a second time with the mask, so the
weights it returns there are not those behind its outputs. Honoured: the sizes, ffn_hidden_size,
alibi, multi_query, parallel_attn, new_decoder_architecture, num_kv_heads,
num_ln_in_parallel_attn, bias, rope settings, activation, layer_norm_epsilon. Refused:
apply_residual_connection_post_layernorm, and combinations the reference cannot run. Ignored
tensors: lm_head and task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import fused_qkv, linear, norm, prefix_in
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.position import alibi_slopes
from attncli.model.spec import AlibiSpec, LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(
    r"(transformer\.)?h\.\d+\.self_attention\.rotary_emb\.inv_freq$|lm_head\.weight$"
    r"|(score|classifier|qa_outputs)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Falcon configuration into a spec."""
    width = config.either("hidden_size", "n_embed")
    d_model, n_heads = config.count(width), config.count("num_attention_heads")
    config.divides(width, "num_attention_heads")
    head_dim = d_model // n_heads
    config.expect("apply_residual_connection_post_layernorm", False)
    config.flag("bias", False)
    config.expect("ff_factor", 4)
    alibi, n_positions = config.flag("alibi", False), config.count("max_position_embeddings", 2048)
    rope = None
    if alibi:
        config.pass_over("rope_theta", "rope_scaling", "rope_parameters")
    else:
        rope = read_rope(config, head_dim, n_positions=n_positions)
        if rope.dim != head_dim:
            raise ModelProblem(
                f"{config.path}: partial_rotary_factor is not supported here: the reference turns "
                "whole heads; results would be wrong, so attn stops here."
            )
    _norms(config)
    bias = AlibiSpec(alibi_slopes(n_heads), factor=head_dim**-0.5, bfloat16=True)
    return ModelSpec(
        family="Falcon",
        stack=StackSpec(
            layers=(LayerSpec(rope=rope),) * config.count("num_hidden_layers"),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=_kv_heads(config, n_heads),
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation=config.choice("activation", ACTIVATIONS, "gelu"),
            d_ff=config.count("ffn_hidden_size", 4 * d_model),
            parallel=config.flag("parallel_attn"),
            position_bias=bias if alibi else None,
        ),
        vocab_size=config.count("vocab_size"),
    )


def _kv_heads(config: ConfigReader, n_heads: int) -> int:
    """Return the number of key/value heads; num_kv_heads only counts in the new architecture."""
    n_kv_heads = config.count("num_kv_heads", n_heads)
    multi_query = config.flag("multi_query")
    if config.flag("new_decoder_architecture", False):
        if n_heads % n_kv_heads:
            config.divides("num_attention_heads", "num_kv_heads")
        return n_kv_heads
    if multi_query:
        return 1
    config.expect("num_kv_heads", n_heads)
    return n_heads


def _norms(config: ConfigReader) -> dict[str, str]:
    """Return the norm slots of a block and the names of their tensors."""
    new, parallel = config.flag("new_decoder_architecture", False), config.flag("parallel_attn")
    count = config.count("num_ln_in_parallel_attn", 2 if new else 1)
    if not parallel and not new:
        return {"attn_in": "input_layernorm", "ffn_in": "post_attention_layernorm"}
    if parallel and new and count == 2:
        return {"attn_in": "ln_attn", "ffn_in": "ln_mlp"}
    if parallel and count == 1:
        return {"attn_in": "input_layernorm", "ffn_in": "input_layernorm"}
    raise ModelProblem(
        f"{config.path}: new_decoder_architecture {new}, parallel_attn {parallel} and "
        f"num_ln_in_parallel_attn {count} do not go together."
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix, bias = prefix_in(tensors, "transformer."), config.flag("bias", False)
    heads = stack.n_heads, stack.n_kv_heads
    found = {
        "embed.token": Source(f"{prefix}word_embeddings.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}ln_f", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}h.{i}"
        attention = f"{layer}.self_attention"
        fused = f"{attention}.query_key_value"
        found |= fused_qkv(f"{i}.attn", fused, d_model, heads, stack.head_dim, bias=bias)
        found |= linear(f"{i}.attn.o", f"{attention}.dense", d_model, d_model, bias=bias)
        up, down = f"{layer}.mlp.dense_h_to_4h", f"{layer}.mlp.dense_4h_to_h"
        found |= linear(f"{i}.ffn.up", up, d_model, stack.d_ff, bias=bias)
        found |= linear(f"{i}.ffn.down", down, stack.d_ff, d_model, bias=bias)
        for slot, tensor in _norms(config).items():
            found |= norm(f"{i}.{slot}", f"{layer}.{tensor}", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a buffer that is computed anew or a head on top."""
    return _IGNORED.match(name) is not None
