"""A model's parameters under canonical names, read from their store when a layer needs them.

Canonical names: `embed.token`, `embed.position`, `embed.type`, then norm slots and projections
as NAME.weight and NAME.bias, those of block i under `i.`: `0.attn.q`, `0.attn.o`, `0.ffn.up`,
`0.attn_residual`. Projections are [input, output], so that y = x @ weight + bias.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attncli._shapes import Float, Int
from attncli.checkpoints.store import FLOAT_TYPES, TensorStore
from attncli.errors import ModelProblem, listing
from attncli.model.spec import HeadSpec

Array = np.ndarray
Shape = tuple[int, ...]
_EXPERT = re.compile(r"\.\d+\.")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a parameter comes from: a tensor of the checkpoint and what is done to it."""

    tensor: str
    shape: Shape
    """Shape the tensor must have in the checkpoint; a first axis of -1 may have any length."""
    transform: Callable[[Array], Array] | None = None
    """Rename, transpose, split or cast only: values are never folded together."""
    optional: bool = False
    """True when the family also exists without this parameter."""
    rows: tuple[int, int] | None = None
    """First axis from, to: the part of a fused tensor that is read; None: all of it."""
    others: tuple[str, ...] = ()
    """More tensors of this shape; with them the values are stacked along a new first axis."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all tensors that are read."""
        return (self.tensor, *self.others)

    @property
    def read_shape(self) -> Shape:
        """Shape of what is read, before `transform`."""
        return self.shape if self.rows is None else (self.rows[1] - self.rows[0], *self.shape[1:])


@dataclass(frozen=True, slots=True)
class HeadSources:
    """A model's output head: what it computes, and where its parameters stand."""

    spec: HeadSpec
    sources: Mapping[str, Source]
    """Canonical names `head.dense`, `head.norm`, `head.token.weight`, `head.bias`; without
    `head.token.weight` the embedding is the table."""
    owns: Callable[[str], bool]
    """Tells which tensors of a file belong to the head, so that none of them is left unused."""


@dataclass(slots=True)
class Params:
    """Lazy parameters of one model."""

    store: TensorStore
    sources: Mapping[str, Source]
    keep: bool = False
    """Keep what was read, for runs over many texts; otherwise each layer is read and dropped."""
    find_head: Callable[[], tuple[HeadSpec, Params] | None] = lambda: None
    """Bind the output head, when something asks for it; None: the file has none."""
    _kept: dict[str, Array] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        """Tell whether the model has this parameter."""
        return name in self.sources

    def get(self, name: str, out: Array | None = None) -> Float[Array, "..."] | None:
        """Return a parameter as float32, or None when the model has none of that name.

        Args:
            name: canonical name.
            out: memory of the stored tensor's shape that may be used; see `LayerParams`.
        """
        source = self.sources.get(name)
        if source is None:
            return None
        values = self._kept.get(name)
        if values is None:
            if source.others:
                values = np.stack([self.store.read(tensor) for tensor in source.tensors])
            elif source.rows is None:
                values = self.store.read(source.tensor, None if self.keep else out)
            else:
                values = self.store.rows(source.tensor, slice(*source.rows))
            if source.transform is not None:
                values = source.transform(values)
            if self.keep:
                # products with few rows are faster on rows that stand in order; worth it when kept
                values = self._kept[name] = np.ascontiguousarray(values)
        return values

    def need(self, name: str, out: Array | None = None) -> Float[Array, "..."]:
        """Return a parameter that the arithmetic cannot do without."""
        values = self.get(name, out)
        if values is None:
            raise ModelProblem(f"{self.store.path}: the parameter {name} is missing.")
        return values

    def linear(self, name: str) -> tuple[Array, Array | None]:
        """Return weight [input, output] and bias of a projection outside the blocks."""
        return self.need(f"{name}.weight"), self.get(f"{name}.bias")

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Float[Array, "row ..."]:
        """Return chosen rows of a table such as the token embedding, reading only those."""
        return self.store.rows(self.sources[name].tensor, index)


class Workspace:
    """Memory for the parameters of one layer, used again for the next: fresh pages cost time.

    What `layer(i)` gives is valid until the next layer is asked for.
    """

    def __init__(self, params: Params, prefix: str = "") -> None:
        """Take the parameters of a model, and what the names of this stack begin with."""
        self._params, self._prefix = params, prefix
        self._memory: dict[str, Array] = {}
        self._roles: dict[int, list[str]] = {}
        for name in params.sources:
            number, dot, role = name.removeprefix(prefix).partition(".")
            if name.startswith(prefix) and dot and number.isdigit():
                self._roles.setdefault(int(number), []).append(role)

    def layer(self, i: int) -> LayerParams:
        """Return the parameters of block i."""
        return LayerParams(
            self._params, f"{self._prefix}{i}.", self._memory, self._roles.get(i, ())
        )


@dataclass(frozen=True, slots=True)
class LayerParams:
    """The parameters of one block under their names in it, such as `attn.q.weight`."""

    _params: Params
    _prefix: str
    _memory: dict[str, Array]
    _roles: Sequence[str] = ()
    """All parameters the block has."""
    _ready: dict[str, Array] = field(default_factory=dict)
    """What was read already; threads must not read into the same memory twice."""

    def __contains__(self, role: str) -> bool:
        """Tell whether the block has this parameter."""
        return f"{self._prefix}{role}" in self._params

    def get(self, role: str) -> Float[Array, "..."] | None:
        """Return a parameter, or None when the block has none of that name."""
        ready = self._ready.get(role)
        if ready is not None:
            return ready
        source = self._params.sources.get(f"{self._prefix}{role}")
        if source is None:
            return None
        # experts are used one after another and share their memory
        place = _EXPERT.sub(".", role)
        memory = self._memory.get(place)
        if memory is None or memory.shape != source.read_shape:
            memory = self._memory[place] = np.empty(source.read_shape, np.float32)
        values = self._params.get(f"{self._prefix}{role}", memory)
        if values is not None and place == role:
            self._ready[role] = values
        return values

    def make_ready(self, *roles: str) -> None:
        """Read all parameters whose names begin so, experts apart, before threads ask for them."""
        for role in self._roles:
            if role.startswith(roles) and _EXPERT.sub(".", role) == role:
                self.get(role)

    def linear(self, role: str) -> tuple[Array, Array | None]:
        """Return weight and bias of a projection that the block has."""
        weight = self.get(f"{role}.weight")
        if weight is None:
            raise ModelProblem(
                f"{self._params.store.path}: {self._prefix}{role}.weight is missing."
            )
        return weight, self.get(f"{role}.bias")


def bind(
    store: TensorStore, sources: Mapping[str, Source], ignored: Callable[[str], bool]
) -> Params:
    """Match a family's sources with the tensors of a store, exactly.

    Args:
        store: the checkpoint.
        sources: canonical name to source, for this model's spec.
        ignored: tells which tensors of the file are knowingly left unused.

    Raises:
        ModelProblem: tensors are missing, have another shape or type, or are used by nobody.
    """
    needed = {tensor for s in sources.values() if not s.optional for tensor in s.tensors}
    missing = needed - store.tensors.keys()
    if missing:
        raise ModelProblem(
            f"{store.path}: {len(missing)} of {len(needed)} tensors missing ({listing(missing)}). "
            f"The file has {len(store.tensors)}; it may be incomplete or of another family."
        )
    bound = {name: s for name, s in sources.items() if s.tensor in store.tensors}
    for source in bound.values():
        for tensor in source.tensors:
            _check(store, tensor, source.shape)
    used = {tensor for source in bound.values() for tensor in source.tensors}
    unused = {name for name in store.tensors if name not in used and not ignored(name)}
    if unused:
        raise ModelProblem(
            f"{store.path}: {len(unused)} tensors that attn does not know what to do with "
            f"({listing(unused)}); results could be wrong, so attn stops here."
        )
    return Params(store, bound)


def _check(store: TensorStore, tensor: str, expected: Shape) -> None:
    """Refuse a tensor of another type or shape than the config leads to expect."""
    info = store.tensors[tensor]
    if info.dtype not in FLOAT_TYPES:
        raise ModelProblem(
            f"{store.path}: tensor {tensor} is stored as {info.dtype}, expected "
            "floating-point numbers; models quantised by other tools are not read."
        )
    length = info.shape[:1] if expected[0] < 0 else expected[:1]
    if info.shape != (*length, *expected[1:]):
        raise ModelProblem(
            f"{store.path}: tensor {tensor} has shape {list(info.shape)}, "
            f"expected {list(expected)} from the config."
        )
