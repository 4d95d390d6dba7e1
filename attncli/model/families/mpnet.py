"""MPNet. As BERT, except: a bias by distance, positions from row 2, no token types.

Reference: transformers/models/mpnet/modeling_mpnet.py (5.24), which always computes 32 buckets
up to 128 tokens, and takes token 1 for padding, whatever the configuration says. Honoured: as
BERT. Refused: another number of buckets. Ignored tensors: pooler, heads, position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.bert import (
    BlockNames,
    block_sources,
    embedding_sources,
    find_prefix,
    read_bert_like,
)
from attncli.model.families.names import old_norm_names
from attncli.model.families.roberta import after_padding, head
from attncli.model.params import Source
from attncli.model.spec import BucketSpec, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
_BUCKETS = BucketSpec(n_buckets=32, max_distance=128)
_PADDING = 1
_BLOCK = BlockNames(
    q="attention.attn.q",
    k="attention.attn.k",
    v="attention.attn.v",
    o="attention.attn.o",
    attn_residual="attention.LayerNorm",
)
_HEADS = re.compile(
    r"(mpnet\.)?(pooler\.|embeddings\.position_ids$)|lm_head\.|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an MPNet configuration into a spec."""
    config.expect("relative_attention_num_buckets", _BUCKETS.n_buckets)
    spec = after_padding(read_bert_like(config, "MPNet"), config, _PADDING)
    return replace(spec, stack=replace(spec.stack, position_bias=_BUCKETS))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `mpnet.` of whole models is allowed."""
    prefix = find_prefix(tensors, "mpnet.")
    found = embedding_sources(spec, prefix, types=False) | block_sources(spec, prefix, _BLOCK)
    found["position_bias.weight"] = Source(
        f"{prefix}encoder.relative_attention_bias.weight",
        (_BUCKETS.n_buckets, spec.stack.n_heads),
    )
    return old_norm_names(found, tensors)


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
