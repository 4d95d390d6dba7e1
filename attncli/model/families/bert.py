"""BERT: learned positions, two token types, a norm after each sub-layer's residual sum.

Reference: transformers/models/bert/modeling_bert.py (5.24). Honoured: the sizes, hidden_act,
layer_norm_eps, position_embedding_type "absolute". Refused: relative position types, decoders,
cross-attention. Ignored tensors: pooler, masked-word and next-sentence heads, position_ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.families.names import linear, norm
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_HEADS = re.compile(
    r"(bert\.)?(pooler\.|embeddings\.position_ids$)|cls\.|classifier\.|qa_outputs\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a BERT configuration into a spec."""
    config.expect("position_embedding_type", "absolute")
    config.expect("directionality", "bidi")
    config.expect("is_decoder", False)
    config.expect("add_cross_attention", False)
    d_model, n_heads = config.count("hidden_size"), config.count("num_attention_heads")
    config.divides("hidden_size", "num_attention_heads")
    config.count("type_vocab_size", 2)
    head_dim = d_model // n_heads
    return ModelSpec(
        family="BERT",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count("num_hidden_layers", most=MAX_LAYERS),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=False,
            norm="layer",
            eps=config.number("layer_norm_eps", 1e-12, least=0.0),
            activation=config.choice("hidden_act", ACTIVATIONS, "gelu"),
            d_ff=config.count("intermediate_size"),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count("max_position_embeddings"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `bert.` of whole models is allowed."""
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    gamma = any(name.endswith("LayerNorm.gamma") for name in tensors)
    stack, d_model = spec.stack, spec.stack.d_model
    embeddings = f"{prefix}embeddings"
    found = {
        "embed.token": Source(f"{embeddings}.word_embeddings.weight", (spec.vocab_size, d_model)),
        "embed.position": Source(
            f"{embeddings}.position_embeddings.weight", (spec.n_positions or 0, d_model)
        ),
        "embed.type": Source(f"{embeddings}.token_type_embeddings.weight", (-1, d_model)),
        **norm("embed_norm", f"{embeddings}.LayerNorm", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}encoder.layer.{i}"
        attention = f"{layer}.attention"
        for role, tensor in (("q", "query"), ("k", "key"), ("v", "value")):
            found |= linear(f"{i}.attn.{role}", f"{attention}.self.{tensor}", d_model, d_model)
        found |= linear(f"{i}.attn.o", f"{attention}.output.dense", d_model, d_model)
        found |= norm(f"{i}.attn_residual", f"{attention}.output.LayerNorm", d_model)
        found |= linear(f"{i}.ffn.up", f"{layer}.intermediate.dense", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.output.dense", stack.d_ff, d_model)
        found |= norm(f"{i}.ffn_residual", f"{layer}.output.LayerNorm", d_model)
    return {name: _old_name(source) if gamma else source for name, source in found.items()}


def ignored(name: str) -> bool:
    """Tell whether a tensor belongs to a head on top of the encoder."""
    return _HEADS.match(name) is not None


def _old_name(source: Source) -> Source:
    """Spell a norm as checkpoints from before 2019 do: LayerNorm.gamma and LayerNorm.beta."""
    old = source.tensor.replace("LayerNorm.weight", "LayerNorm.gamma")
    old = old.replace("LayerNorm.bias", "LayerNorm.beta")
    return Source(old, source.shape, source.transform, source.optional)
