"""BERT: learned positions, two token types, a norm after each sub-layer's residual sum.

Reference: transformers/models/bert/modeling_bert.py (5.24). Honoured: the sizes, hidden_act,
layer_norm_eps, position_embedding_type "absolute". Refused: relative position types, decoders,
cross-attention. Ignored tensors: pooler, masked-word and next-sentence heads, position_ids.
Other encoders of this shape start from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.families.heads import mask_head
from attncli.model.families.names import linear, norm, old_norm_names
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_HEADS = re.compile(
    r"(bert\.)?(pooler\.|embeddings\.position_ids$)|cls\.|classifier\.|qa_outputs\."
)


@dataclass(frozen=True, slots=True)
class BlockNames:
    """What a block's tensors are called, after the name of the block."""

    q: str = "attention.self.query"
    k: str = "attention.self.key"
    v: str = "attention.self.value"
    o: str = "attention.output.dense"
    attn_residual: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    ffn_residual: str = "output.LayerNorm"


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a BERT configuration into a spec."""
    config.expect("directionality", "bidi")
    config.count("type_vocab_size", 2)
    return read_bert_like(config, "BERT")


def read_bert_like(
    config: ConfigReader, family: str, *, activation: str = "gelu", eps: float = 1e-12
) -> ModelSpec:
    """Read what BERT and its relatives share; a relative changes the result with `replace`.

    Args:
        config: the configuration.
        family: name shown to people.
        activation: used when the configuration names none.
        eps: likewise.
    """
    config.expect("position_embedding_type", "absolute")
    config.expect("is_encoder_decoder", False)
    config.expect("is_decoder", False)
    config.expect("add_cross_attention", False)
    config.expect("pruned_heads", {})
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    config.divides("hidden_size", "num_attention_heads")
    head_dim = d_model // n_heads
    return ModelSpec(
        family=family,
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count("num_hidden_layers", most=MAX_LAYERS),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=False,
            norm="layer",
            eps=config.number("layer_norm_eps", eps, least=0.0),
            activation=config.choice("hidden_act", ACTIVATIONS, activation),
            d_ff=config.count("intermediate_size"),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `bert.` of whole models is allowed."""
    prefix = find_prefix(tensors, "bert.")
    found = embedding_sources(spec, prefix) | block_sources(spec, prefix, BlockNames())
    return old_norm_names(found, tensors)


def find_prefix(tensors: Collection[str], prefix: str) -> str:
    """Return the prefix of models with a head on top when this file uses it, else nothing."""
    return prefix if any(name.startswith(prefix) for name in tensors) else ""


def embedding_sources(
    spec: ModelSpec,
    prefix: str,
    *,
    width: int | None = None,
    positions: bool = True,
    types: bool = True,
) -> dict[str, Source]:
    """Sources of the embedding.

    Args:
        spec: the model.
        prefix: of all tensors.
        width: of the embedding where it differs from the blocks'.
        positions: there is a table of positions.
        types: there is a table of token types.
    """
    width = width or spec.stack.d_model
    embeddings, shape = f"{prefix}embeddings", (spec.vocab_size, width)
    found = {"embed.token": Source(f"{embeddings}.word_embeddings.weight", shape)}
    if positions:
        rows = (spec.n_positions or 0) + spec.position_offset
        found["embed.position"] = Source(f"{embeddings}.position_embeddings.weight", (rows, width))
    if types:
        found["embed.type"] = Source(f"{embeddings}.token_type_embeddings.weight", (-1, width))
    return found | norm("embed_norm", f"{embeddings}.LayerNorm", width)


def block_sources(
    spec: ModelSpec,
    prefix: str,
    names: BlockNames,
    block: Callable[[int], str] = "encoder.layer.{}".format,
) -> dict[str, Source]:
    """Sources of all blocks.

    Args:
        spec: the model.
        prefix: of all tensors.
        names: of the tensors in a block.
        block: gives the name of block i.
    """
    stack, d_model = spec.stack, spec.stack.d_model
    found: dict[str, Source] = {}
    for i in range(stack.n_layers):
        layer = f"{prefix}{block(i)}"
        for role in "qkvo":
            tensor = f"{layer}.{getattr(names, role)}"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, d_model)
        found |= norm(f"{i}.attn_residual", f"{layer}.{names.attn_residual}", d_model)
        found |= linear(f"{i}.ffn.up", f"{layer}.{names.up}", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.{names.down}", stack.d_ff, d_model)
        found |= norm(f"{i}.ffn_residual", f"{layer}.{names.ffn_residual}", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, where a file holds one."""
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"cls\.predictions\.",
        dense="cls.predictions.transform.dense",
        norm_name="cls.predictions.transform.LayerNorm",
        table="cls.predictions.decoder",
        biases=("cls.predictions.decoder.bias", "cls.predictions.bias"),
        activation=spec.stack.activation,
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None
