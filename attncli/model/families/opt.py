"""OPT: learned positions from row 2, a norm before or (350m) after each sub-layer.

Reference: transformers/models/opt/modeling_opt.py (5.24). Honoured: the sizes, word_embed_proj_dim
(project_in, without bias), do_layer_norm_before, _remove_final_layer_norm, enable_bias,
activation_function. Refused: layer_norm_elementwise_affine false, learned_embeddings false,
scale_embeddings. Ignored tensors: lm_head and task heads. Names begin with "model.decoder." or
"decoder.". The last state is the input of project_out, which leads back to the width of the
embedding and so belongs to the output head; transformers' last hidden state is its output.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(r"lm_head\.weight$|(score|qa_outputs)\.")


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an OPT configuration into a spec."""
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    config.divides("hidden_size", "num_attention_heads")
    config.expect("layer_norm_elementwise_affine", True)
    config.expect("learned_embeddings", True)
    config.expect("scale_embeddings", False)
    config.count("word_embed_proj_dim", d_model)
    config.flag("enable_bias", True)
    config.flag("do_layer_norm_before", True)
    config.flag("_remove_final_layer_norm", False)
    config.pass_over("init_std", "prefix")
    head_dim = d_model // n_heads
    return ModelSpec(
        family="OPT",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count("num_hidden_layers"),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            eps=1e-5,
            activation=config.choice("activation_function", ACTIVATIONS, "relu"),
            d_ff=config.count("ffn_dim"),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
        position_offset=2,
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "model.decoder.", "decoder.")
    width = config.count("word_embed_proj_dim", d_model)
    bias = config.flag("enable_bias", True)
    before = config.flag("do_layer_norm_before", True)
    rows = (spec.n_positions or 0) + spec.position_offset
    found = {
        "embed.token": Source(f"{prefix}embed_tokens.weight", (spec.vocab_size, width)),
        "embed.position": Source(f"{prefix}embed_positions.weight", (rows, d_model)),
    }
    if width != d_model:
        found |= linear("token_proj", f"{prefix}project_in", width, d_model, bias=False)
        # part of the output head, which alone reads it: a file without it is not whole
        found |= linear("head_proj", f"{prefix}project_out", d_model, width, bias=False)
    if before and not config.flag("_remove_final_layer_norm", False):
        found |= norm("final_norm", f"{prefix}final_layer_norm", d_model)
    slots = ("attn_in", "ffn_in") if before else ("attn_residual", "ffn_residual")
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        for role, tensor in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
            tensor = f"{layer}.self_attn.{tensor}"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, d_model, bias=bias)
        found |= linear(f"{i}.ffn.up", f"{layer}.fc1", d_model, stack.d_ff, bias=bias)
        found |= linear(f"{i}.ffn.down", f"{layer}.fc2", stack.d_ff, d_model, bias=bias)
        found |= norm(f"{i}.{slots[0]}", f"{layer}.self_attn_layer_norm", d_model)
        found |= norm(f"{i}.{slots[1]}", f"{layer}.final_layer_norm", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, after the way back to its width."""
    prefix = prefix_in(tensors, "model.decoder.", "decoder.")
    d_model = spec.stack.d_model
    width = config.count("word_embed_proj_dim", d_model)
    before = None
    if width != d_model:
        before = linear("head.dense", f"{prefix}project_out", d_model, width, bias=False)
    return lm_head(spec, tensors, config, tied=True, width=width, before=before)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a head on top."""
    return _IGNORED.match(name) is not None
