"""Mixtral: as Mistral, except: a router sends each token to a few of many feed-forward parts.

Reference: transformers/models/mixtral/modeling_mixtral.py (5.24): softmax over all experts, the
largest num_experts_per_tok of them scaled to sum to 1. Honoured: as Llama, sliding_window (none
when absent), num_local_experts, num_experts_per_tok. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.experts import expert_sources
from attncli.model.families.llama import (
    head,
    ignored,
    llama_like_sources,
    model_prefix,
    read_llama_like,
    with_layers,
    with_stack,
)
from attncli.model.families.mistral import SIZES as MISTRAL_SIZES
from attncli.model.families.names import linear
from attncli.model.params import Source
from attncli.model.spec import ExpertsSpec, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **MISTRAL_SIZES,
    "sliding_window": None,
    "rms_norm_eps": 1e-5,
    "num_experts_per_tok": 2,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Mixtral configuration into a spec."""
    config.assume(SIZES)
    spec = read_llama_like(config, "Mixtral", base=1_000_000.0)
    window = config.count("sliding_window") if config.has("sliding_window") else None
    experts = read_experts(config, 8, renormalise=True)
    return with_stack(with_layers(spec, window=[window] * spec.stack.n_layers), experts=experts)


def read_experts(config: ConfigReader, default: int, *, renormalise: bool) -> ExpertsSpec:
    """Read how many experts there are, under either name, and how many a token goes to.

    Args:
        config: the configuration.
        default: number of experts where it is named nowhere.
        renormalise: the shares of the chosen experts are scaled to sum to 1.
    """
    name = "num_experts" if config.has("num_experts") else "num_local_experts"
    n_experts = config.count(name, default)
    config.expect("num_local_experts", n_experts)
    n_chosen = config.count("num_experts_per_tok", most=n_experts)
    return ExpertsSpec(n_experts, n_chosen, renormalise)


def n_experts_of(spec: ModelSpec) -> int:
    """Return the number of experts of a block that has a router."""
    return 0 if spec.stack.experts is None else spec.stack.experts.n_experts


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; experts one by one (w1, w3, w2) or all together."""
    stack, n_experts = spec.stack, n_experts_of(spec)
    found = llama_like_sources(spec, tensors, feed_forward=False)
    for i in range(stack.n_layers):
        layer = f"{model_prefix(tensors)}layers.{i}"
        old = f"{layer}.block_sparse_moe"
        router = old if f"{old}.gate.weight" in tensors else f"{layer}.mlp"
        found |= linear(f"{i}.ffn.router", f"{router}.gate", stack.d_model, n_experts, bias=False)
        found |= expert_sources(
            i,
            f"{old}.experts",
            tensors,
            n_experts=n_experts,
            d_model=stack.d_model,
            d_ff=stack.d_ff,
            names=("w1", "w3", "w2"),
            fused=f"{router}.experts",
        )
    return found
