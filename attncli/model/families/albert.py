"""ALBERT. As BERT, except: the embedding is widened, and blocks share their parameters.

Layer i belongs to group floor(i · num_hidden_groups / num_hidden_layers); a group has
inner_group_num blocks, run one after another, so the stack has num_hidden_layers times as many.
Reference: transformers/models/albert/modeling_albert.py (5.24). Honoured: as BERT, and
embedding_size, num_hidden_groups, inner_group_num. Refused: as BERT, and keys of the original
code that ask for something else (gap_size, num_memory_blocks, ...). Ignored tensors: pooler,
heads, position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.families.bert import (
    BlockNames,
    block_sources,
    embedding_sources,
    find_prefix,
    read_bert_like,
)
from attncli.model.families.heads import mask_head
from attncli.model.families.names import linear, old_norm_names
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

_BLOCK = BlockNames(
    q="attention.query",
    k="attention.key",
    v="attention.value",
    o="attention.dense",
    attn_residual="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    ffn_residual="full_layer_layer_norm",
)
_HEADS = re.compile(
    r"(albert\.)?(pooler\.|embeddings\.position_ids$)|predictions\.|sop_classifier\."
    r"|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an ALBERT configuration into a spec."""
    config.expect("down_scale_factor", 1)
    config.expect("gap_size", 0)
    config.expect("net_structure_type", 0)
    config.expect("num_memory_blocks", 0)
    config.expect("layers_to_keep", [])
    config.count("type_vocab_size", 2)
    config.count("embedding_size", 128)
    config.count("num_hidden_groups", 1, most=MAX_LAYERS)
    spec = read_bert_like(config, "ALBERT", activation="gelu_new")
    inner = config.count("inner_group_num", 1, most=MAX_LAYERS // spec.stack.n_layers)
    layers = spec.stack.layers * inner
    return replace(spec, stack=replace(spec.stack, layers=layers))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `albert.` of whole models is allowed."""
    prefix = find_prefix(tensors, "albert.")
    width, d_model = config.count("embedding_size", 128), spec.stack.d_model
    n_groups, inner = config.count("num_hidden_groups", 1), config.count("inner_group_num", 1)
    n_layers = config.count("num_hidden_layers")

    def block(i: int) -> str:
        layer, part = divmod(i, inner)
        # divided as the reference does, whose rounding decides where groups are uneven
        group = int(layer / (n_layers / n_groups))
        return f"encoder.albert_layer_groups.{group}.albert_layers.{part}"

    found = embedding_sources(spec, prefix, width=width)
    mapping = f"{prefix}encoder.embedding_hidden_mapping_in"
    found |= linear("embed_proj", mapping, width, d_model)
    return old_norm_names(found | block_sources(spec, prefix, _BLOCK, block), tensors)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, where a file holds one."""
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"predictions\.",
        dense="predictions.dense",
        norm_name="predictions.LayerNorm",
        table="predictions.decoder",
        biases=("predictions.decoder.bias", "predictions.bias"),
        activation=spec.stack.activation,
        width=config.count("embedding_size", 128),
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
