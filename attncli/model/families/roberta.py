"""RoBERTa, XLM-RoBERTa, CamemBERT. As BERT, except: positions begin after the padding's row.

The first token uses row pad_token_id + 1 of the position table, so 514 rows fit 512 tokens; a
padding token typed into the text keeps the row pad_token_id and is not counted.
Reference: transformers/models/roberta/modeling_roberta.py (5.24), with which those of the other
two agree. Honoured: as BERT, and pad_token_id. Ignored tensors: pooler, heads, position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.bert import (
    BlockNames,
    block_sources,
    embedding_sources,
    find_prefix,
    read_bert_like,
)
from attncli.model.families.heads import mask_head
from attncli.model.families.names import old_norm_names
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

_NAMES = {"roberta": "RoBERTa", "xlm-roberta": "XLM-RoBERTa", "camembert": "CamemBERT"}
_HEADS = re.compile(
    r"(roberta\.)?(pooler\.|embeddings\.position_ids$)|lm_head\.|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a RoBERTa configuration into a spec."""
    config.count("type_vocab_size", 2)
    spec = read_bert_like(config, _NAMES[config.text("model_type")])
    return after_padding(spec, config, config.count("pad_token_id", 1, least=0))


def after_padding(spec: ModelSpec, config: ConfigReader, padding: int) -> ModelSpec:
    """Begin the positions after the row of the padding token.

    Raises:
        ModelProblem: no row is left for a token.
    """
    rows = spec.n_positions or 0
    if rows <= padding + 1:
        raise ModelProblem(
            f"{config.path}: max_position_embeddings is {rows}, expected more than "
            f"{padding + 1}, as positions begin after the row of the padding token {padding}."
        )
    return replace(
        spec,
        n_positions=rows - padding - 1,
        position_offset=padding + 1,
        uncounted_token=padding,
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `roberta.` of whole models is allowed."""
    prefix = find_prefix(tensors, "roberta.")
    found = embedding_sources(spec, prefix) | block_sources(spec, prefix, BlockNames())
    return old_norm_names(found, tensors)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, where a file holds one."""
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"lm_head\.",
        dense="lm_head.dense",
        norm_name="lm_head.layer_norm",
        table="lm_head.decoder",
        biases=("lm_head.decoder.bias", "lm_head.bias"),
        activation="gelu",
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
