"""MPT: ALiBi counted back from the last token, q k v as three parts of one tensor, no biases.

Reference: transformers/models/mpt/modeling_mpt.py (5.24). Honoured: the sizes, max_seq_len (the
longest text), layer_norm_epsilon, and of attn_config clip_qkv and softmax_scale. Refused: what the
reference does not compute (attn_config alibi false, alibi_bias_max other than 8, qk_ln, prefix_lm,
attn_uses_sequence_id, multi-query; biases; other norms; expansion_ratio other than 4). Without
effect: learned_pos_emb (ALiBi switches it off), logit_scale, embedding_fraction. Ignored tensors:
lm_head and task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, part, prefix_in
from attncli.model.params import HeadSources, Source
from attncli.model.position import alibi_slopes
from attncli.model.spec import AlibiSpec, LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(r"lm_head\.weight$|(score|classifier|qa_outputs)\.")


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an MPT configuration into a spec."""
    width = config.either("d_model", "hidden_size")
    heads = config.either("n_heads", "num_attention_heads")
    d_model, n_heads = config.count(width), config.count(heads)
    config.divides(width, heads)
    head_dim = d_model // n_heads
    config.expect("no_bias", True)
    config.expect("norm_type", "low_precision_layernorm", "layernorm")
    config.expect("expansion_ratio", 4)
    config.pass_over(
        "learned_pos_emb",
        "logit_scale",
        "embedding_fraction",
        "emb_init_std",
        "emb_init_uniform_lim",
    )
    config.pass_over("init_config", "init_device", "tokenizer_name", "verbose")
    clip, scale = _attention(config, head_dim**-0.5)
    return ModelSpec(
        family="MPT",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count(config.either("n_layers", "num_hidden_layers")),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=scale,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation="gelu",
            d_ff=4 * d_model,
            qkv_clip=clip,
            position_bias=AlibiSpec(alibi_slopes(n_heads), from_end=True),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_seq_len"),
    )


def _attention(config: ConfigReader, scale: float) -> tuple[float | None, float]:
    """Read the map attn_config: bound of queries, keys and values, and factor on q·k."""
    inner = ConfigReader(config.mapping("attn_config") or {}, f"{config.path}: attn_config")
    inner.expect("attn_type", "multihead_attention")
    inner.expect("alibi", True)
    inner.expect("alibi_bias_max", 8)
    for key in ("qk_ln", "prefix_lm", "attn_uses_sequence_id"):
        inner.expect(key, False)
    # 0 means none
    clip = inner.number("clip_qkv", 0.0, least=0.0) or None
    scale = inner.number("softmax_scale", scale)
    inner.pass_over("attn_impl")
    inner.finish()
    return clip, scale


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "transformer.")
    found = {
        "embed.token": Source(f"{prefix}wte.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}norm_f", d_model, bias=False),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}blocks.{i}"
        for place, role in enumerate("qkv"):
            rows = place * d_model, (place + 1) * d_model
            tensor = f"{layer}.attn.Wqkv"
            found |= part(f"{i}.attn.{role}", tensor, d_model, 3 * d_model, rows, bias=False)
        for name, tensor, d_in, d_out in (
            ("attn.o", "attn.out_proj", d_model, d_model),
            ("ffn.up", "ffn.up_proj", d_model, stack.d_ff),
            ("ffn.down", "ffn.down_proj", stack.d_ff, d_model),
        ):
            found |= linear(f"{i}.{name}", f"{layer}.{tensor}", d_in, d_out, bias=False)
        found |= norm(f"{i}.attn_in", f"{layer}.norm_1", d_model, bias=False)
        found |= norm(f"{i}.ffn_in", f"{layer}.norm_2", d_model, bias=False)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a head on top."""
    return _IGNORED.match(name) is not None
