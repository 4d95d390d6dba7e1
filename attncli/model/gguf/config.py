"""GGUF metadata to the configuration a family reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from attncli.checkpoints.gguf import GgufFile
from attncli.errors import ModelProblem, did_you_mean, listing
from attncli.model.families import REGISTRY
from attncli.model.gguf.architecture import Architecture, Sizes
from attncli.model.gguf.metadata import Metadata
from attncli.model.gguf.rotary import ROPE_FREQUENCIES
from attncli.model.gguf.table import ARCHITECTURES
from attncli.model.spec import ModelSpec, RopeScaling, StackSpec


def find_architecture(metadata: Metadata) -> Architecture:
    """Return what attn knows about the file's architecture.

    Raises:
        ModelProblem: nothing, or no family computes it.
    """
    known = {name for name, a in ARCHITECTURES.items() if a.model_type in REGISTRY}
    if metadata.architecture not in known:
        raise ModelProblem(
            f"{metadata.path}: the architecture {metadata.architecture!r} is not supported in "
            f"GGUF files; supported: {listing(known, 40)}."
            f"{did_you_mean(metadata.architecture, known)}"
        )
    return ARCHITECTURES[metadata.architecture]


def read_config(metadata: Metadata, architecture: Architecture) -> dict[str, Any]:
    """Return the configuration in the family's own spelling.

    Raises:
        ModelProblem: a key is missing, holds another value in each layer, or is of no known use.
    """
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "vocab_size": metadata.rows("token_embd.weight"),
        # no key says so: without a table of its own the head uses the embedding
        "tie_word_embeddings": "output.weight" not in metadata.tensors,
        **architecture.constants,
    }
    for key, name in architecture.keys.items():
        config[name] = _same_everywhere(metadata, key)
    config |= architecture.special(metadata)
    metadata.finish(architecture.neutral)
    return config


def read_sizes(metadata: Metadata) -> Sizes:
    """Return what the order of rows depends on."""
    n_heads = metadata.count("attention.head_count")
    n_kv_heads = metadata.count("attention.head_count_kv", n_heads)
    width = metadata.count("embedding_length") // n_heads
    return Sizes(n_heads, n_kv_heads, metadata.count("attention.key_length", width))


def adapt_spec(file: GgufFile, architecture: Architecture) -> Callable[[ModelSpec], ModelSpec]:
    """Return what the file's values change in the spec its configuration gives."""

    def adapt(spec: ModelSpec) -> ModelSpec:
        stack = spec.stack
        if architecture.norm_offset_included:
            stack = replace(stack, norm_offset=0.0)
        if ROPE_FREQUENCIES in architecture.consumed & file.tensors.keys():
            stack = _with_rope_divisors(file, stack)
        return replace(spec, stack=stack)

    return adapt


def _with_rope_divisors(file: GgufFile, stack: StackSpec) -> StackSpec:
    """Divide the angle of each rotary pair by the number the file has for it.

    This is how converters store the llama3 scaling: worked out, and named nowhere else.
    """
    divisors = file.read(ROPE_FREQUENCIES)
    layers = []
    for layer in stack.layers:
        rope = layer.rope
        if rope is None or rope.scaling is not None or divisors.shape != (rope.dim // 2,):
            raise ModelProblem(
                f"{file.path}: {ROPE_FREQUENCIES} has shape {list(divisors.shape)}, which does not "
                f"fit the rotary positions of the metadata ({rope}); results would be wrong."
            )
        if not (divisors > 0).all():
            raise ModelProblem(f"{file.path}: {ROPE_FREQUENCIES} holds values of 0 or below.")
        factors = tuple(np.asarray(divisors, np.float64).tolist())
        scaling = RopeScaling("longrope", short_factors=factors, long_factors=factors)
        layers.append(replace(layer, rope=replace(rope, scaling=scaling)))
    return replace(stack, layers=tuple(layers))


def _same_everywhere(metadata: Metadata, key: str) -> Any:
    """Return a number, or the one that a list holds for every layer.

    Nothing is left to the family's defaults, which are those of one checkpoint.
    """
    value = metadata.get(key)
    if value is None and key == "attention.head_count_kv":
        return metadata.count("attention.head_count")
    if not isinstance(value, list):
        return metadata.number(key)
    if len(set(value)) != 1:
        raise ModelProblem(
            f"{metadata.path}: {metadata.architecture}.{key} differs from layer to layer, "
            "which attn does not compute."
        )
    return value[0]
