"""What the configurations and checkpoints of encoder-decoders have in common."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec
from attncli.model.stack import ENCODER

STACKS = {ENCODER: "encoder", "": "decoder"}
"""Prefix of canonical names to the name that checkpoints give the stack."""


def read_start(config: ConfigReader, default: int | None = None) -> int | None:
    """Return the token that stands first in what the decoder reads, or None."""
    if default is None and not config.has("decoder_start_token_id"):
        return None
    return config.count("decoder_start_token_id", default, least=0)


def find_embedding(tensors: Collection[str], prefix: str, stack: str) -> str:
    """Return the tensor with the token embedding of a stack.

    A table of the stack's own comes first, then the shared one, then that of the other stack:
    tied checkpoints hold any of the three. Two copies that differ are two embeddings, as
    transformers 5 reads them.
    """
    other = "decoder" if stack == "encoder" else "encoder"
    names = [f"{prefix}{own}" for own in (f"{stack}.embed_tokens", "shared")]
    names = [f"{name}.weight" for name in (*names, f"{prefix}{other}.embed_tokens")]
    return next((name for name in names if name in tensors), names[1])


def with_shared_table(
    head: HeadSources | None, spec: ModelSpec, tensors: Collection[str]
) -> HeadSources | None:
    """Let the table that both stacks share serve a tied head, where the file names one.

    The decoder may hold a copy, which transformers ties to the shared one, not to the head.
    """
    shared = next(
        (
            n
            for n in ("shared.weight", "model.shared.weight", "transformer.shared.weight")
            if n in tensors
        ),
        None,
    )
    if head is None or shared is None or "head.token.weight" in head.sources:
        return head
    table = Source(shared, (spec.vocab_size, spec.stack.d_model))
    return replace(head, sources={**head.sources, "head.token.weight": table})
