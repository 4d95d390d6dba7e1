"""Which attention of a model is looked at, and which text stands on each side of it.

Rows are what reads, columns what is read. In self-attention both are one text; in the
cross-attention of an encoder-decoder the target reads the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attncli.errors import UsageProblem
from attncli.model.forward import Job
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.model.spec import ModelSpec, StackSpec
from attncli.selection import Attention
from attncli.tokenize import Encoded


@dataclass(frozen=True, slots=True)
class Sides:
    """The texts of one run and the attention between them that is shown."""

    attention: Attention
    source: Encoded
    """The user's text: the only one, or the one that the encoder reads."""
    target: Encoded | None = None
    """What the decoder reads; None where no decoder runs."""

    @property
    def queries(self) -> Encoded:
        """The text whose tokens are rows."""
        return self.source if self.target is None else self.target

    @property
    def keys(self) -> Encoded:
        """The text whose tokens are columns."""
        return self.source if self.is_cross else self.queries

    @property
    def is_cross(self) -> bool:
        """True when rows and columns are different texts."""
        return self.attention == "cross"

    def job(self, spec: ModelSpec, observers: Sequence[Observer]) -> Job:
        """Return the run that shows this attention to the observers."""
        if self.target is None:
            return reading_job(spec, self.source, observers)
        for observer in observers:
            observer.kind = "cross" if self.is_cross else "self"
        return Job(self.target.ids, self.target.types, observers, source=self.source.ids)


def reading_job(spec: ModelSpec, encoded: Encoded, observers: Sequence[Observer]) -> Job:
    """Return the run that reads one text, or a pair as one sequence with its token types.

    It goes through the encoder of two stacks, or through the only one.
    """
    return ids_job(spec, encoded.ids, encoded.types, observers)


def ids_job(
    spec: ModelSpec, ids: Sequence[int], types: Sequence[int], observers: Sequence[Observer]
) -> Job:
    """Return the run that reads these tokens, as `reading_job` reads those of a text."""
    if spec.encoder is None:
        return Job(ids, types, observers)
    for observer in observers:
        observer.stack = "encoder"
    return Job((), (), observers, source=ids)


def choose_attention(model: Model, attention: Attention | None, *, has_target: bool) -> Attention:
    """Return the attention to show: the one asked for, or what suits the texts.

    Raises:
        UsageProblem: the model has no such attention, or a text for it is missing.
    """
    name = f"{model.name} ({model.spec.family})"
    if model.spec.encoder is None:
        if has_target:
            raise UsageProblem(
                f"--target: {name} is no encoder-decoder, it reads one text; leave it out."
            )
        if attention not in (None, "self"):
            raise UsageProblem(
                f"--attention {attention}: {name} has one stack, with self-attention only."
            )
        return "self"
    if attention is None:
        return "cross" if has_target else "encoder"
    if attention != "encoder" and not has_target:
        raise UsageProblem(
            f"--attention {attention}: the decoder of {name} needs a text too; add --target TEXT."
        )
    if attention == "encoder" and has_target:
        raise UsageProblem(
            f"--attention encoder: the encoder of {name} does not read the target; "
            "leave --target out."
        )
    return attention


def stack_of(spec: ModelSpec, attention: Attention) -> StackSpec:
    """Return the stack whose layers hold this attention."""
    return spec.reader if attention == "encoder" else spec.stack
