"""GPT-J: rotary positions in neighbouring pairs, attention and feed-forward part side by side.

One norm feeds both. Reference: transformers/models/gptj/modeling_gptj.py (5.24). Honoured: the
sizes in both spellings, rotary_dim (required), n_inner, activation_function, layer_norm_epsilon.
Ignored tensors: mask buffers, lm_head and task heads.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.names import linear, norm, prefix_in
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import HeadSources, Source
from attncli.model.spec import LayerSpec, ModelSpec, RopeSpec, StackSpec

_IGNORED = re.compile(
    r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$|lm_head\.(weight|bias)$"
    r"|(score|qa_outputs)\."
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a GPT-J configuration into a spec."""
    width = config.either("n_embd", "hidden_size")
    heads = config.either("n_head", "num_attention_heads")
    d_model, n_heads = config.count(width), config.count(heads)
    config.divides(width, heads)
    head_dim = d_model // n_heads
    turning = config.count("rotary_dim", least=2)
    if turning > head_dim or turning % 2:
        raise ModelProblem(
            f"{config.path}: rotary_dim is {turning}, expected an even number up to {head_dim}."
        )
    config.expect("rotary", True)
    config.expect("scale_attn_weights", True)
    config.pass_over("n_ctx")
    rope = RopeSpec(base=10_000.0, dim=turning, adjacent=True)
    return ModelSpec(
        family="GPT-J",
        stack=StackSpec(
            layers=(LayerSpec(rope=rope),)
            * config.count(config.either("n_layer", "num_hidden_layers")),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=True,
            eps=config.number("layer_norm_epsilon", 1e-5, least=0.0),
            activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
            d_ff=config.count("n_inner", 4 * d_model),
            parallel=True,
        ),
        vocab_size=config.count("vocab_size"),
        n_positions=config.count(config.either("n_positions", "max_position_embeddings")),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = prefix_in(tensors, "transformer.")
    found = {
        "embed.token": Source(f"{prefix}wte.weight", (spec.vocab_size, d_model)),
        **norm("final_norm", f"{prefix}ln_f", d_model),
    }
    for i in range(stack.n_layers):
        layer = f"{prefix}h.{i}"
        for role, tensor in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
            tensor = f"{layer}.attn.{tensor}"
            found |= linear(f"{i}.attn.{role}", tensor, d_model, d_model, bias=False)
        found |= linear(f"{i}.ffn.up", f"{layer}.mlp.fc_in", d_model, stack.d_ff)
        found |= linear(f"{i}.ffn.down", f"{layer}.mlp.fc_out", stack.d_ff, d_model)
        for slot in ("attn_in", "ffn_in"):
            found |= norm(f"{i}.{slot}", f"{layer}.ln_1", d_model)
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits, with a bias for each token."""
    return lm_head(spec, tensors, config, tied=False, bias=True)


def ignored(name: str) -> bool:
    """Tell whether a tensor is a mask buffer or a head on top."""
    return _IGNORED.match(name) is not None
