"""T5, T5 v1.1 and FLAN: RMS norms before each sub-layer, distance buckets, no scale, no biases.

Reference: transformers/models/t5/modeling_t5.py (5.24). Honoured: the sizes, num_decoder_layers,
feed_forward_proj (plain or gated), layer_norm_epsilon, relative_attention_num_buckets and
_max_distance, decoder_start_token_id; encoders without a decoder (T5EncoderModel). All layers of
a stack share the bias that the file holds in its first block; cross-attention has none. Ignored
tensors: heads, copies of the embedding, the unused bias table of the first cross-attention.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import is_tied, lm_head
from attncli.model.families.names import linear, norm
from attncli.model.families.seq2seq import (
    STACKS,
    find_embedding,
    read_start,
    with_shared_table,
)
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import BucketSpec, HeadSpec, LayerSpec, ModelSpec, StackSpec
from attncli.model.stack import ENCODER

_IGNORED = re.compile(
    r"(transformer\.)?((shared|(en|de)coder\.embed_tokens|lm_head)\.weight$"
    r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$"
    r"|classification_head\.|classifier\.|qa_outputs\.)"
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a T5 configuration into a spec."""
    return read_t5_like(config, "T5", feed_forward="relu")


def read_t5_like(config: ConfigReader, family: str, *, feed_forward: str) -> ModelSpec:
    """Read what T5 and its relatives share.

    Args:
        config: the configuration.
        family: name shown to people.
        feed_forward: used where feed_forward_proj is not named.
    """
    # nothing reads the first, and only the head the second
    config.pass_over("n_positions", "scale_decoder_outputs")
    config.expect("is_decoder", False)
    n_layers = config.count("num_layers")
    n_decoder = config.count("num_decoder_layers", n_layers)
    stacks = [
        _read_stack(config, count, feed_forward, causal=causal)
        for count, causal in ((n_layers, False), (n_decoder, True))
    ]
    alone = _is_encoder_alone(config)
    return ModelSpec(
        family=family,
        stack=stacks[0] if alone else stacks[1],
        vocab_size=config.count("vocab_size"),
        encoder=None if alone else stacks[0],
        decoder_start=read_start(config),
    )


def _is_encoder_alone(config: ConfigReader) -> bool:
    """Tell whether the checkpoint is an encoder that was cut off its decoder."""
    names = config.texts("architectures") or []
    flag = config.flag("is_encoder_decoder", True)
    return not flag or any(name.endswith("EncoderModel") for name in names)


def _read_stack(
    config: ConfigReader, n_layers: int, feed_forward: str, *, causal: bool
) -> StackSpec:
    names = [f"{gate}{name}" for name in ACTIVATIONS for gate in ("", "gated-")]
    feed_forward = config.choice("feed_forward_proj", names, feed_forward)
    activation = feed_forward.removeprefix("gated-")
    if feed_forward == "gated-gelu":
        activation = "gelu_new"
    config.expect("dense_act_fn", activation)
    config.expect("is_gated_act", feed_forward.startswith("gated-"))
    n_heads = config.count("num_heads")
    return StackSpec(
        layers=(LayerSpec(),) * n_layers,
        d_model=config.count("d_model"),
        n_heads=n_heads,
        n_kv_heads=n_heads,
        head_dim=config.count("d_kv", 64),
        scale=1.0,
        causal=causal,
        norm="rms",
        eps=config.number("layer_norm_epsilon", 1e-6, least=0.0),
        activation=activation,
        d_ff=config.count("d_ff"),
        position_bias=BucketSpec(
            config.count("relative_attention_num_buckets", 32, least=4),
            config.count("relative_attention_max_distance", 128),
        ),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    gated = config.text("feed_forward_proj") if config.has("feed_forward_proj") else ""
    return t5_like_sources(spec, tensors, gated=gated.startswith("gated-"))


def t5_like_sources(
    spec: ModelSpec, tensors: Collection[str], *, gated: bool, own_bias: bool = False
) -> dict[str, Source]:
    """Sources of T5 and its relatives.

    Args:
        spec: the model.
        tensors: names in the checkpoint.
        gated: the feed-forward part has a gate.
        own_bias: each layer has a table of position biases instead of the stack.
    """
    prefix = "transformer." if any(n.startswith("transformer.") for n in tensors) else ""
    stacks = {ENCODER: spec.encoder, "": spec.stack} if spec.encoder else {"": spec.stack}
    found: dict[str, Source] = {}
    for canonical, stack in stacks.items():
        name = STACKS[canonical] if spec.encoder else "encoder"
        table = (spec.vocab_size, stack.d_model)
        found[f"{canonical}embed.token"] = Source(find_embedding(tensors, prefix, name), table)
        blocks = f"{prefix}{name}"
        final = f"{blocks}.final_layer_norm"
        found |= norm(f"{canonical}final_norm", final, stack.d_model, bias=False)
        for i in range(stack.n_layers):
            found |= _block(stack, f"{canonical}{i}", f"{blocks}.block.{i}.layer", gated=gated)
            if own_bias or i == 0:
                place = f"{canonical}{i}." if own_bias else canonical
                tensor = f"{blocks}.block.{i}.layer.0.SelfAttention.relative_attention_bias"
                found[f"{place}position_bias.weight"] = Source(
                    f"{tensor}.weight", _bias_shape(stack)
                )
    return found


def _bias_shape(stack: StackSpec) -> tuple[int, int]:
    assert isinstance(stack.position_bias, BucketSpec)
    return stack.position_bias.n_buckets, stack.n_heads


def _block(stack: StackSpec, canonical: str, tensor: str, *, gated: bool) -> dict[str, Source]:
    d_model, width = stack.d_model, stack.n_heads * stack.head_dim
    parts = [("attn", "SelfAttention"), *([("cross", "EncDecAttention")] if stack.causal else [])]
    found: dict[str, Source] = {}
    for at, (kind, name) in enumerate(parts):
        for role in "qkv":
            place = f"{canonical}.{kind}.{role}"
            found |= linear(place, f"{tensor}.{at}.{name}.{role}", d_model, width, bias=False)
        out = f"{tensor}.{at}.{name}.o"
        found |= linear(f"{canonical}.{kind}.o", out, width, d_model, bias=False)
        found |= norm(f"{canonical}.{kind}_in", f"{tensor}.{at}.layer_norm", d_model, bias=False)
    last = f"{tensor}.{len(parts)}"
    inner = {"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"}
    for role, name in inner.items():
        place, dense = f"{canonical}.ffn.{role}", f"{last}.DenseReluDense.{name}"
        found |= linear(place, dense, d_model, stack.d_ff, bias=False)
    down = f"{last}.DenseReluDense.wo"
    found |= linear(f"{canonical}.ffn.down", down, stack.d_ff, d_model, bias=False)
    return found | norm(f"{canonical}.ffn_in", f"{last}.layer_norm", d_model, bias=False)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, which are scaled unless the first version was untied.

    The reference ties the table to the shared embedding whatever tie_word_embeddings says, and
    takes that key for a sign of version 1.1, whose logits are not scaled.
    """
    scaled = config.flag("scale_decoder_outputs", is_tied(config, True))
    scale = spec.stack.d_model**-0.5 if scaled else 1.0
    return with_shared_table(
        lm_head(spec, tensors, config, tied=True, head=HeadSpec(scale=scale)), spec, tensors
    )


def ignored(name: str) -> bool:
    """Tell whether a tensor is a head, a copy of the embedding, or a table nobody reads."""
    return _IGNORED.match(name) is not None
