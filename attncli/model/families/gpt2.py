"""GPT-2: learned positions, a norm before each sub-layer, weights stored [input, output].

Reference: transformers/models/gpt2/modeling_gpt2.py (5.24). Honoured: the sizes in both spellings
(n_embd or hidden_size, ...), n_inner, activation_function, layer_norm_epsilon, scale_attn_weights,
scale_attn_by_inverse_layer_idx. Without effect: reorder_and_upcast_attn (the order of two float32
products), n_ctx. Refused: cross-attention. Ignored tensors: the mask buffers attn.bias and
attn.masked_bias, lm_head and task heads. Names begin with "transformer." or, in the original
folders, with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import columns, norm, prefix_in
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

_IGNORED = re.compile(
    r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$|lm_head\.weight$"
    r"|(score|classifier|qa_outputs|multiple_choice_head)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a GPT-2 configuration into a spec."""
    width, heads = (
        config.either("n_embd", "hidden_size"),
        config.either("n_head", "num_attention_heads"),
    )
    d_model, n_heads = config.count(width), config.count(heads)
    config.divides(width, heads)
    head_dim = d_model // n_heads
    scale = head_dim**-0.5 if config.flag("scale_attn_weights", True) else 1.0
    n_layers = config.count(config.either("n_layer", "num_hidden_layers"))
    by_layer = config.flag("scale_attn_by_inverse_layer_idx", False)
    config.pass_over("reorder_and_upcast_attn", "n_ctx")
    return ModelSpec(
        family="GPT-2",
        stack=StackSpec(
            layers=tuple(
                LayerSpec(scale=scale / (i + 1 if by_layer else 1)) for i in range(n_layers)
            ),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=scale,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
            d_ff=config.count("n_inner", 4 * d_model),
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count(config.either("n_positions", "max_position_embeddings")),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; nothing is transposed."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "transformer.")
    found = {
        "embed.token": Source(f"{prefix}wte.weight", (spec.vocab_size, d_model)),
        "embed.position": Source(f"{prefix}wpe.weight", (spec.n_positions or 0, d_model)),
        **norm("final_norm", f"{prefix}ln_f", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}h.{i}"
        fused = f"{layer}.attn.c_attn"
        for place, role in enumerate("qkv"):
            part = place * d_model, (place + 1) * d_model
            found[f"{i}.attn.{role}.weight"] = Source(
                f"{fused}.weight", (d_model, 3 * d_model), columns(*part)
            )
            found[f"{i}.attn.{role}.bias"] = Source(f"{fused}.bias", (3 * d_model,), rows=part)
        for name, tensor, d_in, d_out in (
            ("attn.o", "attn.c_proj", d_model, d_model),
            ("ffn.up", "mlp.c_fc", d_model, stack.d_ff),
            ("ffn.down", "mlp.c_proj", stack.d_ff, d_model),
        ):
            found[f"{i}.{name}.weight"] = Source(f"{layer}.{tensor}.weight", (d_in, d_out))
            found[f"{i}.{name}.bias"] = Source(f"{layer}.{tensor}.bias", (d_out,))
        found |= norm(f"{i}.attn_in", f"{layer}.ln_1", d_model)
        found |= norm(f"{i}.ffn_in", f"{layer}.ln_2", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a mask buffer or a head on top."""
    return _IGNORED.match(name) is not None
