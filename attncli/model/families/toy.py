"""The attention of the textbooks: an embedding table, W_Q, W_K, W_V, and little else.

Every layer adds its attention to the residual stream; W_O and a feed-forward part are there
when their tensors are. No positions and no norms, so that each number can be checked by hand.
Written by `attn models init`, or read from an .npz file with arrays of these names.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import MAX_LAYERS, ConfigReader
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import Source
from attncli.model.spec import LayerSpec, ModelSpec, StackSpec

PROJECTIONS = {"w_q": "attn.q", "w_k": "attn.k", "w_v": "attn.v"}


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a toy configuration into a spec."""
    d_model, n_heads = config.count("d_model"), config.count("n_heads")
    width = config.count("width", d_model)
    if width % n_heads:
        raise ModelProblem(
            f"{config.path}: the width {width} of w_q does not divide by {n_heads} heads."
        )
    config.flag("random", False)
    config.count("seed", 0, least=0)
    return ModelSpec(
        family="toy attention",
        stack=StackSpec(
            layers=(LayerSpec(),) * config.count("n_layers", 1, most=MAX_LAYERS),
            d_model=d_model,
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=width // n_heads,
            scale=(width // n_heads) ** -0.5,
            causal=config.flag("causal", False),
            activation=config.choice("activation", ACTIVATIONS, "gelu"),
            d_ff=config.count("d_ff", 0, least=0),
        ),
        vocab_size=config.count("vocab_size"),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; all are stored [input, output], as formulas write them."""
    stack, d_model = spec.stack, spec.stack.d_model
    width = stack.n_heads * stack.head_dim
    found = {"embed.token": Source("embedding", (spec.vocab_size, d_model))}
    for i in range(stack.n_layers):
        prefix = "" if stack.n_layers == 1 and "w_q" in tensors else f"layers.{i}."
        for tensor, name in PROJECTIONS.items():
            found[f"{i}.{name}.weight"] = Source(f"{prefix}{tensor}", (d_model, width))
        # without W_O the heads' outputs, side by side, are added to the residual stream
        found[f"{i}.attn.o.weight"] = Source(
            f"{prefix}w_o", (width, d_model), optional=width == d_model
        )
        if stack.d_ff:
            found[f"{i}.ffn.up.weight"] = Source(f"{prefix}w_up", (d_model, stack.d_ff))
            found[f"{i}.ffn.down.weight"] = Source(f"{prefix}w_down", (stack.d_ff, d_model))
    return found


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> None:
    """Return nothing: a toy model predicts no tokens."""
    return


def ignored(name: str) -> bool:
    """No tensor of a toy model is left unused."""
    return False
