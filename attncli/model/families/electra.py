"""ELECTRA. As BERT, except: the embedding may be narrower than the blocks, and is widened.

Reference: transformers/models/electra/modeling_electra.py (5.24). Honoured: as BERT, and
embedding_size. Refused: as BERT. Ignored tensors: discriminator, generator and other heads,
position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
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

_HEADS = re.compile(
    r"(electra\.)?embeddings\.position_ids$|(discriminator|generator)_predictions\."
    r"|generator_lm_head\.|sequence_summary\.|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an ELECTRA configuration into a spec."""
    config.pass_over("summary_type", "summary_use_proj", "summary_activation")
    config.count("type_vocab_size", 2)
    config.count("embedding_size", 128)
    return read_bert_like(config, "ELECTRA")


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `electra.` of whole models is allowed."""
    prefix = find_prefix(tensors, "electra.")
    width, d_model = config.count("embedding_size", 128), spec.stack.d_model
    found = embedding_sources(spec, prefix, width=width)
    if width != d_model:
        found |= linear("embed_proj", f"{prefix}embeddings_project", width, d_model)
    return old_norm_names(found | block_sources(spec, prefix, BlockNames()), tensors)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head of a generator; a discriminator has none."""
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"generator_",
        dense="generator_predictions.dense",
        norm_name="generator_predictions.LayerNorm",
        table="generator_lm_head",
        biases=("generator_lm_head.bias",),
        activation="gelu",
        width=config.count("embedding_size", 128),
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
