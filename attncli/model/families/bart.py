"""BART: learned positions, a norm after each sub-layer's residual sum, in both stacks.

Reference: transformers/models/bart/modeling_bart.py (5.24). Honoured: the sizes of both stacks,
activation_function, scale_embedding, decoder_start_token_id. Refused: the switches of other
layouts that one class had before transformers 4 (normalize_before, add_final_layer_norm,
static_position_embeddings, ...) and decoders alone. Ignored tensors: heads, final_logits_bias,
copies of the embedding. mBART, Marian and Pegasus start from here.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm
from attncli.model.families.seq2seq import (
    STACKS,
    find_embedding,
    read_start,
    with_shared_table,
)
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

OFFSET = 2
"""Rows of a learned position table that no token uses."""
_IGNORED = re.compile(
    r"(model\.)?((shared|(en|de)coder\.embed_tokens|lm_head)\.weight|final_logits_bias"
    r"|(en|de)coder\.version)$|classification_head\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a BART configuration into a spec."""
    expect_layout(config, norm_first=False, static_positions=False)
    config.expect("normalize_embedding", True)
    return read_bart_like(config, "BART", start=2, position_offset=OFFSET)


def expect_layout(config: ConfigReader, *, norm_first: bool, static_positions: bool) -> None:
    """Refuse switches that ask for another layout than the one the family has today."""
    config.expect("normalize_before", norm_first)
    config.expect("add_final_layer_norm", norm_first)
    config.expect("static_position_embeddings", static_positions)
    config.expect("do_blenderbot_90_layernorm", False)
    config.expect("is_decoder", False)
    config.expect("is_encoder_decoder", True)
    if static_positions:
        config.pass_over("extra_pos_embeddings")
    else:
        config.expect("extra_pos_embeddings", OFFSET)


def read_bart_like(
    config: ConfigReader,
    family: str,
    *,
    start: int | None,
    position_offset: int = 0,
    sinusoid: bool = False,
) -> ModelSpec:
    """Read what BART and its relatives share.

    Args:
        config: the configuration.
        family: name shown to people.
        start: token in front of what the decoder reads, when the configuration names none.
        position_offset: row of the position table that the first token uses.
        sinusoid: positions are sines and cosines where the file holds no table.
    """
    # about training, or about the logits
    config.pass_over("init_std", "add_bias_logits", "save_step", "replacing_rate", "_num_labels")
    config.pass_over("student_encoder_layers", "student_decoder_layers")
    d_model = config.count("d_model")
    config.expect("hidden_size", d_model)
    # the tensors must fit encoder_layers and decoder_layers, whatever this says
    config.pass_over("num_hidden_layers")
    scaled = config.flag("scale_embedding", False)
    return ModelSpec(
        family=family,
        stack=_read_stack(config, "decoder"),
        encoder=_read_stack(config, "encoder"),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
        position_offset=position_offset,
        sinusoid=sinusoid,
        embed_scale=d_model**0.5 if scaled else 1.0,
        decoder_start=read_start(config, start),
    )


def _read_stack(config: ConfigReader, name: str) -> StackSpec:
    n_heads = config.count(f"{name}_attention_heads")
    config.divides("d_model", f"{name}_attention_heads")
    if name == "encoder":
        config.expect("num_attention_heads", n_heads)
    d_model = config.count("d_model")
    return StackSpec(
        layers=(LayerSpec(),) * config.count(f"{name}_layers"),
        d_model=d_model,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        head_dim=d_model // n_heads,
        scale=(d_model // n_heads) ** -0.5,
        causal=name == "decoder",
        activation=config.choice("activation_function", ACTIVATIONS, "gelu"),
        d_ff=config.count(f"{name}_ffn_dim"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `model.` of whole models is allowed."""
    return bart_like_sources(spec, tensors, norm_first=False, embed_norm=True)


def bart_like_sources(
    spec: ModelSpec, tensors: Collection[str], *, norm_first: bool, embed_norm: bool
) -> dict[str, Source]:
    """Sources of BART and its relatives.

    Args:
        spec: the model.
        tensors: names in the checkpoint.
        norm_first: norms stand before the sub-layers, and one more after the last block.
        embed_norm: the embedding is normalised.
    """
    prefix = "model." if any(name.startswith("model.") for name in tensors) else ""
    found: dict[str, Source] = {}
    for canonical, name in STACKS.items():
        stack = spec.encoder if canonical and spec.encoder else spec.stack
        tensor, d_model = f"{prefix}{name}", stack.d_model
        n_rows = spec.vocab_size if canonical else spec.target_vocab_size or spec.vocab_size
        embedding = find_embedding(tensors, prefix, name)
        found[f"{canonical}embed.token"] = Source(embedding, (n_rows, d_model))
        n_positions = (spec.n_positions or 0) + spec.position_offset
        found[f"{canonical}embed.position"] = Source(
            f"{tensor}.embed_positions.weight", (n_positions, d_model), optional=spec.sinusoid
        )
        if embed_norm:
            found |= norm(f"{canonical}embed_norm", f"{tensor}.layernorm_embedding", d_model)
        if norm_first:
            found |= norm(f"{canonical}final_norm", f"{tensor}.layer_norm", d_model)
        for i in range(stack.n_layers):
            place = f"{canonical}{i}"
            found |= _block(stack, place, f"{tensor}.layers.{i}", norm_first=norm_first)
    return found


def _block(stack: StackSpec, canonical: str, tensor: str, *, norm_first: bool) -> dict[str, Source]:
    d_model, slot = stack.d_model, "in" if norm_first else "residual"
    parts = [("attn", "self_attn"), *([("cross", "encoder_attn")] if stack.causal else [])]
    found: dict[str, Source] = {}
    for kind, name in parts:
        for role in "qkvo":
            projection = f"{tensor}.{name}.{'out' if role == 'o' else role}_proj"
            found |= linear(f"{canonical}.{kind}.{role}", projection, d_model, d_model)
        found |= norm(f"{canonical}.{kind}_{slot}", f"{tensor}.{name}_layer_norm", d_model)
    found |= linear(f"{canonical}.ffn.up", f"{tensor}.fc1", d_model, stack.d_ff)
    found |= linear(f"{canonical}.ffn.down", f"{tensor}.fc2", stack.d_ff, d_model)
    return found | norm(f"{canonical}.ffn_{slot}", f"{tensor}.final_layer_norm", d_model)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, and the bias that is added to them, where a file has it.

    A vocabulary of the decoder's own is tied to the decoder's table (Marian).
    """
    found = lm_head(spec, tensors, config, tied=True)
    if found is None:
        return None
    rows = spec.target_vocab_size or spec.vocab_size
    bias = Source("final_logits_bias", (1, rows), np.ravel, optional=True)
    found = HeadSources(found.spec, {**found.sources, "head.bias": bias}, found.owns)
    return found if spec.target_vocab_size else with_shared_table(found, spec, tensors)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a head or a copy of the embedding."""
    return _IGNORED.match(name) is not None
