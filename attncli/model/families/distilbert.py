"""DistilBERT. As BERT, except: no token types, other names, a fixed eps.

Reference: transformers/models/distilbert/modeling_distilbert.py (5.24). Honoured: dim, n_heads,
n_layers, hidden_dim, activation. sinusoidal_pos_embds says how the position table was made; it
is stored either way. Ignored tensors: heads, position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.families.bert import (
    BlockNames,
    block_sources,
    embedding_sources,
    find_prefix,
)
from attncli.model.families.heads import mask_head
from attncli.model.families.names import old_norm_names
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_BLOCK = BlockNames(
    q="attention.q_lin",
    k="attention.k_lin",
    v="attention.v_lin",
    o="attention.out_lin",
    attn_residual="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    ffn_residual="output_layer_norm",
)
_HEADS = re.compile(
    r"(distilbert\.)?embeddings\.position_ids$|vocab_(transform|layer_norm|projector)\."
    r"|(pre_)?classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a DistilBERT configuration into a spec."""
    config.expect("is_encoder_decoder", False)
    config.pass_over("sinusoidal_pos_embds", "tie_weights_", "output_past")
    config.expect("pruned_heads", {})
    d_model, n_heads = config.count("dim"), config.count("n_heads")
    config.divides("dim", "n_heads")
    head_dim = d_model // n_heads
    return ModelSpec(
        family="DistilBERT",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count("n_layers", most=MAX_LAYERS),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=False,
            norm="layer",
            eps=1e-12,
            activation=config.choice("activation", ACTIVATIONS, "gelu"),
            d_ff=config.count("hidden_dim"),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `distilbert.` of whole models is allowed."""
    prefix = find_prefix(tensors, "distilbert.")
    blocks = block_sources(spec, prefix, _BLOCK, "transformer.layer.{}".format)
    return old_norm_names(embedding_sources(spec, prefix, types=False) | blocks, tensors)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, where a file holds one."""
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"vocab_",
        dense="vocab_transform",
        norm_name="vocab_layer_norm",
        table="vocab_projector",
        biases=("vocab_projector.bias",),
        activation=spec.stack.activation,
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
