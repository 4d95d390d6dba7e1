"""ModernBERT: rotary positions, local and global layers, gated feed-forward, norms before.

The embedding is normalised, and the first attention has no norm of its own. Wqkv holds query,
key and value rows one after another; Wi the rows that are activated, then those that gate.
A local layer sees local_attention // 2 tokens to each side, that far included.
Reference: transformers/models/modernbert/modeling_modernbert.py (5.24). Honoured: sizes,
hidden_activation, norm_eps, norm_bias, attention_bias, mlp_bias, local_attention; layer_types and
rope_parameters, or before transformers 5 global_attn_every_n_layers, global_rope_theta and
local_rope_theta. Ignored tensors: the prediction head, decoder, classifier.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.errors import ModelProblem, listing
from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.families.bert import find_prefix
from attncli.model.families.heads import mask_head
from attncli.model.families.names import linear, norm, transpose
from attncli.model.families.rotary import read_rope
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, RopeSpec, StackSpec

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_HEADS = re.compile(r"head\.|decoder\.|classifier\.|qa_outputs\.")


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a ModernBERT configuration into a spec."""
    # of the heads, of training, and keys of BERT that the reference does not read either
    config.pass_over(
        *("classifier_activation", "classifier_bias", "classifier_pooling", "decoder_bias"),
        *("initializer_cutoff_factor", "sparse_prediction", "sparse_pred_ignore_index"),
        *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        *("layer_norm_eps", "position_embedding_type"),
    )
    config.expect("is_encoder_decoder", False)
    config.expect("rope_theta", None)
    config.expect("partial_rotary_factor", 1.0)
    for flag in ("attention_bias", "mlp_bias", "norm_bias"):
        config.flag(flag, False)
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    config.divides("hidden_size", "num_attention_heads")
    head_dim = d_model // n_heads
    global_base = config.number("global_rope_theta", 160_000.0, least=1.0)
    # written as null it is the global one
    default = global_base if config.mentions("local_rope_theta") else 10_000.0
    local_base = config.number("local_rope_theta", default, least=1.0)
    layers = {
        _GLOBAL: LayerSpec(rope=_rope(config, head_dim, _GLOBAL, global_base)),
        _LOCAL: LayerSpec(
            window=config.count("local_attention", 128) // 2,
            rope=_rope(config, head_dim, _LOCAL, local_base),
        ),
    }
    return ModelSpec(
        family="ModernBERT",
        stack=StackSpec(
            layers=tuple(layers[kind] for kind in _layer_types(config)),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=False,
            norm="layer",
            eps=config.number("norm_eps", 1e-5, least=0.0),
            activation=config.choice("hidden_activation", ACTIVATIONS, "gelu"),
            d_ff=config.count("intermediate_size"),
        ),
        vocab_size=config.count("vocab_size"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `model.` of whole models is allowed."""
    prefix = find_prefix(tensors, "model.")
    stack, d_model, d_ff = spec.stack, spec.stack.d_model, spec.stack.d_ff
    norm_bias, mlp_bias = config.flag("norm_bias", False), config.flag("mlp_bias", False)
    attention_bias = config.flag("attention_bias", False)
    found = {
        "embed.token": Source(
            f"{prefix}embeddings.tok_embeddings.weight", (spec.vocab_size, d_model)
        ),
        **norm("embed_norm", f"{prefix}embeddings.norm", d_model, bias=norm_bias),
        **norm("final_norm", f"{prefix}final_norm", d_model, bias=norm_bias),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}layers.{i}"
        if i > 0:
            found |= norm(f"{i}.attn_in", f"{layer}.attn_norm", d_model, bias=norm_bias)
        found |= norm(f"{i}.ffn_in", f"{layer}.mlp_norm", d_model, bias=norm_bias)
        attention = [f"{i}.attn.{role}" for role in "qkv"]
        found |= _fused(attention, f"{layer}.attn.Wqkv", d_model, d_model, bias=attention_bias)
        found |= linear(f"{i}.attn.o", f"{layer}.attn.Wo", d_model, d_model, bias=attention_bias)
        inner = [f"{i}.ffn.gate", f"{i}.ffn.up"]
        found |= _fused(inner, f"{layer}.mlp.Wi", d_model, d_ff, bias=mlp_bias)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.Wo", d_ff, d_model, bias=mlp_bias)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the head that fills masks, where a file holds one."""
    # a classifier has the dense part too, and no table
    if any(name.startswith("classifier.") for name in tensors):
        return None
    biased = {
        "dense": config.flag("classifier_bias", False),
        "norm": config.flag("norm_bias", False),
        "table": config.flag("decoder_bias", True),
    }
    return mask_head(
        spec,
        tensors,
        config,
        prefix=r"(head|decoder)\.",
        dense="head.dense",
        norm_name="head.norm",
        table="decoder",
        biases=("decoder.bias",),
        activation=config.choice("classifier_activation", ACTIVATIONS, "gelu"),
        plain=[part for part, bias in biased.items() if not bias],
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None


def _rope(config: ConfigReader, head_dim: int, kind: str, base: float) -> RopeSpec:
    n_positions = config.count("max_position_embeddings", 8192)
    rope = read_rope(config, head_dim, kind, base=base, n_positions=n_positions)
    if rope.dim != head_dim:
        raise ModelProblem(
            f"{config.path}: {kind} turns {rope.dim} of {head_dim} dimensions of a head, "
            "expected all: the reference knows no other."
        )
    return rope


def _layer_types(config: ConfigReader) -> list[str]:
    """Return the kind of each layer, from either spelling."""
    n_layers = config.count("num_hidden_layers", most=MAX_LAYERS)
    every = config.count("global_attn_every_n_layers", 3)
    kinds = config.texts("layer_types")
    if kinds is None:
        return [_LOCAL if i % every else _GLOBAL for i in range(n_layers)]
    if len(kinds) != n_layers or not {*kinds} <= {_GLOBAL, _LOCAL}:
        raise ModelProblem(
            f"{config.path}: layer_types has {len(kinds)} entries ({listing({*kinds})}), "
            f"expected {n_layers}, each {_GLOBAL} or {_LOCAL}."
        )
    return kinds


def _fused(
    names: list[str], tensor: str, d_in: int, d_out: int, *, bias: bool
) -> dict[str, Source]:
    """Sources of several linear maps stored as one, each d_out rows after the other."""
    found = {}
    for part, name in enumerate(names):
        rows = (part * d_out, (part + 1) * d_out)
        shape = (len(names) * d_out, d_in)
        found[f"{name}.weight"] = Source(f"{tensor}.weight", shape, transpose, rows=rows)
        if bias:
            found[f"{name}.bias"] = Source(f"{tensor}.bias", shape[:1], rows=rows)
    return found
