"""Architectures with tensor names of their own."""

from __future__ import annotations

from typing import Any

from attncli.model.gguf.architecture import Architecture, by_group, by_head, has
from attncli.model.gguf.keys import DECODER, LAYER_NORM, ROTARY, SIZES
from attncli.model.gguf.metadata import Metadata
from attncli.model.gguf.rotary import head_dim, partial_rotary, rotary


def _gpt_neox(metadata: Metadata) -> dict[str, Any]:
    found = partial_rotary(metadata)
    parallel = metadata.get("use_parallel_residual")
    return {
        "rotary_pct": found.pop("partial_rotary_factor"),
        **found,
        "use_parallel_residual": True if parallel is None else parallel,
        "attention_bias": has(metadata, "blk.0.attn_qkv.bias"),
    }


def _gpt2(metadata: Metadata) -> dict[str, Any]:
    return {"n_positions": metadata.rows("position_embd.weight")}


def _falcon(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("rope.dimension_count", head_dim(metadata))
    n_kv_heads = metadata.count("attention.head_count_kv")
    two_norms = has(metadata, "blk.0.attn_norm_2.weight")
    # groups of heads only occur in the newer kind, which has one norm or two
    new = two_norms or 1 < n_kv_heads < metadata.count("attention.head_count")
    found: dict[str, Any] = {"num_ln_in_parallel_attn": 2 if two_norms else 1} if new else {}
    return {
        **found,
        **rotary(metadata),
        "new_decoder_architecture": new,
        "multi_query": n_kv_heads == 1,
        "num_kv_heads": n_kv_heads,
        "parallel_attn": True,
        "alibi": False,
        "bias": has(metadata, "blk.0.attn_qkv.bias"),
    }


def _mpt(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("attention.head_count_kv", metadata.count("attention.head_count"))
    attention: dict[str, Any] = {"alibi_bias_max": metadata.number("attention.max_alibi_bias")}
    if metadata.has("attention.clamp_kqv"):
        attention["clip_qkv"] = metadata.number("attention.clamp_kqv")
    return {"attn_config": attention, "no_bias": not has(metadata, "blk.0.attn_qkv.bias")}


def _bert(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("attention.causal", False)
    return {
        "max_position_embeddings": metadata.rows("position_embd.weight"),
        "type_vocab_size": metadata.rows("token_types.weight"),
    }


def _t5(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("attention.value_length", metadata.count("attention.key_length"))
    gated = has(metadata, "enc.blk.0.ffn_gate.weight")
    return {
        "num_decoder_layers": metadata.count("decoder_block_count", metadata.count("block_count")),
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "decoder_start_token_id": metadata.get("decoder_start_token_id") or 0,
    }


def _t5_names() -> dict[str, str]:
    """Return the names of both stacks; each sub-layer is a layer of its own in a block."""
    names = {"token_embd": "shared", "output": "lm_head"}
    for short, stack in (("enc", "encoder"), ("dec", "decoder")):
        block = f"{stack}.block.{{i}}"
        names[f"{short}.output_norm"] = f"{stack}.final_layer_norm"
        names[f"{short}.blk.{{i}}.attn_norm"] = f"{block}.layer.0.layer_norm"
        for role in ("q", "k", "v", "o"):
            names[f"{short}.blk.{{i}}.attn_{role}"] = f"{block}.layer.0.SelfAttention.{role}"
            cross = f"{block}.layer.1.EncDecAttention.{role}"
            names[f"{short}.blk.{{i}}.cross_attn_{role}"] = cross
        bias = "relative_attention_bias"
        names[f"{short}.blk.{{i}}.attn_rel_b"] = f"{block}.layer.0.SelfAttention.{bias}"
        names[f"{short}.blk.{{i}}.cross_attn_rel_b"] = f"{block}.layer.1.EncDecAttention.{bias}"
        names[f"{short}.blk.{{i}}.cross_attn_norm"] = f"{block}.layer.1.layer_norm"
        last = f"{block}.layer.{1 if short == 'enc' else 2}"
        names[f"{short}.blk.{{i}}.ffn_norm"] = f"{last}.layer_norm"
        names[f"{short}.blk.{{i}}.ffn_up"] = f"{last}.DenseReluDense.wi"
        names[f"{short}.blk.{{i}}.ffn_gate"] = f"{last}.DenseReluDense.wi_0"
        names[f"{short}.blk.{{i}}.ffn_down"] = f"{last}.DenseReluDense.wo"
    return names


OTHERS = {
    "gptneox": Architecture(
        "gpt_neox",
        {
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
            "blk.{i}.attn_norm": "gpt_neox.layers.{i}.input_layernorm",
            "blk.{i}.attn_qkv": "gpt_neox.layers.{i}.attention.query_key_value",
            "blk.{i}.attn_output": "gpt_neox.layers.{i}.attention.dense",
            "blk.{i}.ffn_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
            "blk.{i}.ffn_up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
        },
        {**ROTARY, LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "gelu"},
        _gpt_neox,
        orders={"attn_qkv": by_head},
    ),
    "gpt2": Architecture(
        "gpt2",
        {
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.ln_1",
            "blk.{i}.attn_qkv": "transformer.h.{i}.attn.c_attn",
            "blk.{i}.attn_output": "transformer.h.{i}.attn.c_proj",
            "blk.{i}.ffn_norm": "transformer.h.{i}.ln_2",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.c_fc",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.c_proj",
        },
        {
            "embedding_length": "n_embd",
            "block_count": "n_layer",
            "attention.head_count": "n_head",
            "feed_forward_length": "n_inner",
            LAYER_NORM: "layer_norm_epsilon",
        },
        {"activation_function": "gelu_new"},
        _gpt2,
        neutral=frozenset({"context_length"}),
        transposed=frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"}),
    ),
    "bloom": Architecture(
        "bloom",
        {
            "token_embd": "transformer.word_embeddings",
            "token_embd_norm": "transformer.word_embeddings_layernorm",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.input_layernorm",
            "blk.{i}.attn_qkv": "transformer.h.{i}.self_attention.query_key_value",
            "blk.{i}.attn_output": "transformer.h.{i}.self_attention.dense",
            "blk.{i}.ffn_norm": "transformer.h.{i}.post_attention_layernorm",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.dense_4h_to_h",
        },
        {
            "embedding_length": "hidden_size",
            "block_count": "n_layer",
            "attention.head_count": "n_head",
            LAYER_NORM: "layer_norm_epsilon",
        },
        neutral=frozenset({"context_length", "feed_forward_length", "attention.head_count_kv"}),
        orders={"attn_qkv": by_head},
    ),
    "falcon": Architecture(
        "falcon",
        {
            "token_embd": "transformer.word_embeddings",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.input_layernorm",
            "blk.{i}.attn_norm_2": "transformer.h.{i}.ln_attn",
            "blk.{i}.attn_qkv": "transformer.h.{i}.self_attention.query_key_value",
            "blk.{i}.attn_output": "transformer.h.{i}.self_attention.dense",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.dense_4h_to_h",
        },
        {**SIZES, "feed_forward_length": "ffn_hidden_size", LAYER_NORM: "layer_norm_epsilon"},
        {"activation": "gelu"},
        _falcon,
        neutral=frozenset({"context_length"}),
        orders={"attn_qkv": by_group},
        names_if={"blk.0.attn_norm_2.weight": {"blk.{i}.attn_norm": "transformer.h.{i}.ln_mlp"}},
    ),
    "mpt": Architecture(
        "mpt",
        {
            "token_embd": "transformer.wte",
            "output_norm": "transformer.norm_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.blocks.{i}.norm_1",
            "blk.{i}.attn_qkv": "transformer.blocks.{i}.attn.Wqkv",
            "blk.{i}.attn_output": "transformer.blocks.{i}.attn.out_proj",
            "blk.{i}.ffn_norm": "transformer.blocks.{i}.norm_2",
            "blk.{i}.ffn_up": "transformer.blocks.{i}.ffn.up_proj",
            "blk.{i}.ffn_down": "transformer.blocks.{i}.ffn.down_proj",
        },
        {
            "embedding_length": "d_model",
            "block_count": "n_layers",
            "attention.head_count": "n_heads",
            "context_length": "max_seq_len",
            LAYER_NORM: "layer_norm_epsilon",
        },
        special=_mpt,
        neutral=frozenset({"feed_forward_length"}),
    ),
    "bert": Architecture(
        "bert",
        {
            "token_embd": "embeddings.word_embeddings",
            "position_embd": "embeddings.position_embeddings",
            "token_types": "embeddings.token_type_embeddings",
            "token_embd_norm": "embeddings.LayerNorm",
            "blk.{i}.attn_q": "encoder.layer.{i}.attention.self.query",
            "blk.{i}.attn_k": "encoder.layer.{i}.attention.self.key",
            "blk.{i}.attn_v": "encoder.layer.{i}.attention.self.value",
            "blk.{i}.attn_output": "encoder.layer.{i}.attention.output.dense",
            "blk.{i}.attn_output_norm": "encoder.layer.{i}.attention.output.LayerNorm",
            "blk.{i}.ffn_up": "encoder.layer.{i}.intermediate.dense",
            "blk.{i}.ffn_down": "encoder.layer.{i}.output.dense",
            "blk.{i}.layer_output_norm": "encoder.layer.{i}.output.LayerNorm",
        },
        {**DECODER, LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "gelu"},
        _bert,
        neutral=frozenset({"context_length", "attention.head_count_kv"}),
    ),
    "t5": Architecture(
        "t5",
        _t5_names(),
        {
            "embedding_length": "d_model",
            "feed_forward_length": "d_ff",
            "block_count": "num_layers",
            "attention.head_count": "num_heads",
            "attention.key_length": "d_kv",
            "attention.relative_buckets_count": "relative_attention_num_buckets",
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        },
        # no key says how far the last bucket reaches
        {"relative_attention_max_distance": 128},
        _t5,
        names_if={
            f"{short}.blk.0.ffn_gate.weight": {
                f"{short}.blk.{{i}}.ffn_up": f"{stack}.DenseReluDense.wi_1"
            }
            for short, stack in (
                ("enc", "encoder.block.{i}.layer.1"),
                ("dec", "decoder.block.{i}.layer.2"),
            )
        },
        neutral=frozenset({"context_length", "attention.head_count_kv", LAYER_NORM}),
    ),
}
"""`general.architecture` to what attn makes of it."""
