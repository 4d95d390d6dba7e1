"""models info: what a model is made of, in words and numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.checkpoints.store import TensorStore
from attncli.model.load import Model
from attncli.model.stack import ENCODER
from attncli.results import RANDOM_NOTE, Column, ModelCard, Table, count, document

Array = np.ndarray

MIB = 1 << 20
_LAYER = re.compile(rf"({ENCODER})?\d+\.")


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One parameter: where it stands in the file and what it is in the arithmetic."""

    name: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    n_bytes: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The result of `attn models info`."""

    card: ModelCard
    facts: dict[str, str | int | float | bool | None]
    """The resolved spec, in words."""
    tensors: tuple[TensorRow, ...]
    ignored: tuple[str, ...]
    """Tensors of the file that attention does not need, such as task heads."""

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    @property
    def notes(self) -> tuple[str, ...]:
        """Say when the weights are random."""
        return (RANDOM_NOTE,) if self.card.random else ()

    def headline(self) -> str:
        """Say in one line what the model is."""
        return self.card.headline()

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.models.info)."""
        return {
            **document("models.info", self.card),
            "facts": self.facts,
            "tensors": [
                {
                    "name": row.name,
                    "tensor": row.tensor,
                    "dtype": row.dtype,
                    "shape": list(row.shape),
                    "bytes": row.n_bytes,
                }
                for row in self.tensors
            ],
            "ignored": list(self.ignored),
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return the facts and the tensors; those of a layer once, for all layers alike."""
        facts = [(name, _in_words(value)) for name, value in self.facts.items()]
        shown = [Table("facts", "", [Column(""), Column("")], facts)]
        columns = [Column("parameter"), Column("tensor"), Column("type"), Column("shape")]
        rows = [
            (row.name, row.tensor, row.dtype, " × ".join(map(str, row.shape)))
            for row in self.tensors
            if row.name.removeprefix(ENCODER).startswith("0.") or not _LAYER.match(row.name)
        ]
        one = self.card.layers == 1
        title = "parameters" if one else f"parameters (layer 0 for all {self.card.layers} layers)"
        shown.append(Table("tensors", title, columns, rows, hint="--json has all"))
        if self.ignored:
            ignored = [(name,) for name in self.ignored]
            title, columns = "not needed for attention", [Column("tensor")]
            shown.append(Table("ignored", title, columns, ignored, hint="--json has all"))
        return shown

    def tidy(self) -> Table:
        """Return one row a parameter."""
        columns = [
            Column("parameter"),
            Column("tensor"),
            Column("dtype"),
            Column("shape"),
            Column("bytes", "int"),
        ]
        rows = [
            (r.name, r.tensor, r.dtype, "x".join(map(str, r.shape)), r.n_bytes)
            for r in self.tensors
        ]
        return Table("models.info", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return names and sizes of the parameters."""
        return {
            "parameters": np.array([row.name for row in self.tensors]),
            "bytes": np.array([row.n_bytes for row in self.tensors]),
            "random": np.array(self.card.random),
        }


def describe_model(model: Model) -> ModelInfo:
    """Gather the resolved spec and the tensors of a model."""
    store, stack = model.params.store, model.spec.reader
    tensors = tuple(
        TensorRow(name, tensor, info.dtype, info.shape, info.n_bytes)
        for name, source in model.params.sources.items()
        for tensor in source.tensors
        for info in [store.tensors[tensor]]
    )
    used = {row.tensor for row in tensors}
    n_parameters = sum(math.prod(store.tensors[tensor].shape) for tensor in used)
    # a fused tensor stands in several rows
    prefix = "0." if model.spec.encoder is None else f"{ENCODER}0."
    first = {row.tensor: row.shape for row in tensors if row.name.startswith(prefix)}
    layer = sum(math.prod(shape) for shape in first.values())
    facts: dict[str, str | int | float | bool | None] = {
        "family": model.spec.family,
        "source": model.card().source,
        "parameters": n_parameters,
        "layers": stack.n_layers,
        "heads": stack.n_heads,
        "key/value heads": stack.n_kv_heads,
        "width of the residual stream": stack.d_model,
        "width of a head": stack.head_dim,
        "scale of q·k": float(f"{stack.scale:.7g}"),
        "direction": "a token sees what came before" if stack.causal else "a token sees all others",
        "norm": _norm_in_words(model),
        "norms in a block": ", ".join(_slots(model)) or "none",
        "output projection": "0.attn.o.weight" in model.params,
        "feed-forward": f"{stack.activation}, width {stack.d_ff}" if stack.d_ff else "none",
        "rows of the embedding": model.spec.vocab_size,
        "most tokens of a text": model.spec.n_positions,
        "weights stored as": ", ".join(_types(used, store)),
        "size on disk": size(sum(info.n_bytes for info in store.tensors.values())),
        "memory for one text": f"{size(4 * layer)} for a layer at a time",
        "memory for many texts": f"{size(4 * layer * stack.n_layers)} for all layers",
    }
    if model.spec.encoder is not None:
        decoder = model.spec.stack
        shape = f"{count(decoder.n_layers, 'layer')} × {count(decoder.n_heads, 'head')}"
        facts["decoder"] = f"{shape}, reads the encoder's output"
    ignored = tuple(sorted(set(store.tensors) - used))
    return ModelInfo(model.card(), facts, tensors, ignored)


def _types(used: Iterable[str], store: TensorStore) -> list[str]:
    """Storage types of tensors, the one of most bytes first."""
    n_bytes: Counter[str] = Counter()
    for tensor in sorted(used):
        info = store.tensors[tensor]
        n_bytes[info.dtype] += info.n_bytes
    return [name for name, _ in n_bytes.most_common()]


def _in_words(value: str | int | float | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _norm_in_words(model: Model) -> str:
    if not any(
        ".weight" in name and "norm" in name for name in model.params.sources
    ) and not _slots(model):
        return "none"
    kind = "layer norm" if model.spec.stack.norm == "layer" else "RMS norm"
    return f"{kind}, eps {model.spec.stack.eps:g}"


def _slots(model: Model) -> list[str]:
    from attncli.model.spec import NORM_SLOTS

    return [slot for slot in NORM_SLOTS if f"0.{slot}.weight" in model.params]


def size(n_bytes: int) -> str:
    """Write a number of bytes for people."""
    if 0 < n_bytes < MIB / 10:
        return f"{n_bytes / 1024:.1f} KiB"
    return f"{n_bytes / MIB:.1f} MiB" if n_bytes < 1024 * MIB else f"{n_bytes / MIB / 1024:.1f} GiB"
