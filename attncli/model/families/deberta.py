"""DeBERTa. As BERT, except: disentangled attention instead of positions in the embedding.

in_proj holds query, key and value rows of the first head, then those of the second, and so on;
queries and values have a bias, keys have none.
Reference: transformers/models/deberta/modeling_deberta.py (5.24). Honoured: as BERT, and
relative_attention, max_relative_positions, pos_att_type (a list, or "c2p|p2c"),
position_biased_input, type_vocab_size 0. Refused: talking heads, an embedding of another width,
other terms. Ignored tensors: heads, pooler, position_ids, and a position table where
position_biased_input is false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from attncli.errors import ModelProblem, listing
from attncli.model.config import ConfigReader
from attncli.model.families.bert import (
    BlockNames,
    block_sources,
    embedding_sources,
    find_prefix,
    read_bert_like,
)
from attncli.model.families.bert import head as bert_head
from attncli.model.families.heads import mask_head
from attncli.model.families.names import linear, old_norm_names
from attncli.model.params import HeadSources, Source
from attncli.model.spec import DisentangledSpec, ModelSpec

_HEADS = re.compile(
    r"(deberta\.)?(pooler\.|embeddings\.position_(ids$|embeddings\.))|cls\.|lm_predictions\."
    r"|mask_predictions\.|pooler\.|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a DeBERTa configuration into a spec."""
    config.expect("talking_head", False)
    return read_disentangled(config, "DeBERTa", n_buckets=0)


def read_disentangled(config: ConfigReader, family: str, *, n_buckets: int) -> ModelSpec:
    """Read what all DeBERTa versions share.

    Raises:
        ModelProblem: terms of attention that are not known.
    """
    config.pass_over("pooler_hidden_size", "pooler_hidden_act", "legacy", "padding_idx")
    config.expect("embedding_size", config.count("hidden_size"))
    config.count("type_vocab_size", 0, least=0)
    terms = _terms(config)
    spec = read_bert_like(config, family, eps=1e-7)
    n_positions = config.count("max_position_embeddings", 512)
    reach = config.count("max_relative_positions", -1, least=-1)
    bias = DisentangledSpec(
        n_positions=reach if reach >= 1 else n_positions,
        n_buckets=n_buckets,
        content_to_position="c2p" in terms,
        position_to_content="p2c" in terms,
    )
    relative = config.flag("relative_attention", False)
    stack = replace(
        spec.stack,
        # the terms count in the scale even where relative_attention is off
        scale=(spec.stack.head_dim * (1 + len(terms))) ** -0.5,
        position_bias=bias if relative else None,
    )
    biased_input = config.flag("position_biased_input", True)
    return replace(spec, stack=stack, n_positions=n_positions if biased_input else None)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `deberta.` of whole models is allowed."""
    stack, d_model = spec.stack, spec.stack.d_model
    found = disentangled_sources(spec, tensors, config)
    prefix = find_prefix(tensors, "deberta.")
    for i in range(stack.n_layers):
        attention = f"{prefix}encoder.layer.{i}.attention.self"
        for part, role in enumerate("qkv"):
            found.pop(f"{i}.attn.{role}.bias")
            found[f"{i}.attn.{role}.weight"] = Source(
                f"{attention}.in_proj.weight", (3 * d_model, d_model), _part(part, stack.n_heads)
            )
        for role in "qv":
            found[f"{i}.attn.{role}.bias"] = Source(f"{attention}.{role}_bias", (d_model,))
        position = stack.position_bias
        if isinstance(position, DisentangledSpec) and position.content_to_position:
            tensor = f"{attention}.pos_proj"
            found |= linear(f"{i}.attn.position_k", tensor, d_model, d_model, bias=False)
        if isinstance(position, DisentangledSpec) and position.position_to_content:
            found |= linear(f"{i}.attn.position_q", f"{attention}.pos_q_proj", d_model, d_model)
    return old_norm_names(found, tensors)


def disentangled_sources(
    spec: ModelSpec,
    tensors: Collection[str],
    config: ConfigReader,
    names: BlockNames | None = None,
) -> dict[str, Source]:
    """Sources that all DeBERTa versions share; a version adds the projections of positions."""
    prefix, position = find_prefix(tensors, "deberta."), spec.stack.position_bias
    found = embedding_sources(
        spec,
        prefix,
        positions=config.flag("position_biased_input", True),
        types=config.count("type_vocab_size", 0, least=0) > 0,
    )
    if isinstance(position, DisentangledSpec):
        found["position_table"] = Source(
            f"{prefix}encoder.rel_embeddings.weight", (2 * position.span, spec.stack.d_model)
        )
    return found | block_sources(spec, prefix, names or BlockNames())


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, in either of its two forms, where a file holds one."""
    older, newer = (
        any(name.startswith(prefix) for name in tensors)
        for prefix in ("cls.predictions.", "lm_predictions.")
    )
    # `legacy` chooses where a file holds both
    if older and not (newer and config.look("legacy") is False):
        return bert_head(spec, tensors, config)
    # the newer form has no table of its own, whatever the configuration says
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"lm_predictions\.",
        dense="lm_predictions.lm_head.dense",
        norm_name="lm_predictions.lm_head.LayerNorm",
        table=None,
        biases=("lm_predictions.lm_head.bias",),
        activation=spec.stack.activation,
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head, or is a position table that is not used."""
    return _HEADS.match(name) is not None


def _terms(config: ConfigReader) -> list[str]:
    """Return the terms that join content to content, from either spelling."""
    if config.is_text("pos_att_type"):
        terms = [term.strip() for term in config.text("pos_att_type").lower().split("|")]
    else:
        terms = config.texts("pos_att_type") or []
    if not {*terms} <= {"c2p", "p2c"} or len({*terms}) < len(terms):
        raise ModelProblem(
            f"{config.path}: pos_att_type is {listing(terms)}, expected c2p, p2c or both; "
            "results would be wrong, so attn stops here."
        )
    return terms


def _part(part: int, n_heads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Take query, key or value rows (part 0, 1, 2) out of in_proj; turn to [input, output]."""

    def take(values: np.ndarray) -> np.ndarray:
        by_head = values.reshape(n_heads, 3, -1, values.shape[-1])[:, part]
        return by_head.reshape(-1, values.shape[-1]).T

    return take
