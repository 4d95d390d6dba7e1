"""models list: every model found on this machine, and whether attn reads it.

Only configurations and headers are read, never weights, so the list is fast; a model that is broken
is a row that says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from attncli.analyses.models import size
from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.store import TensorStore
from attncli.errors import AttnError
from attncli.model.locate import Place, all_places
from attncli.model.locate.place import CONFIG, gguf_parts, missing_files, weight_files
from attncli.model.resolve import open_folder, open_weights, resolve
from attncli.model.spec import ModelSpec
from attncli.results import Column, Table, count, document

Array = np.ndarray

MOST = 2000
"""Models that are looked at."""
SHORT = 60
"""Characters of a problem in a table; JSON has all of it."""
_MAX_CONFIG = 4 << 20


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that was found, readable or not."""

    name: str
    """What -m takes, and nothing else answers to."""
    source: str
    """Where it was found: bundled, Hugging Face cache, Ollama, LM Studio, llama.cpp, package."""
    path: str
    family: str = ""
    layers: int | None = None
    heads: int | None = None
    n_bytes: int = 0
    format: str = ""
    readable: bool = False
    problem: str = ""

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return {("bytes" if name == "n_bytes" else name): v for name, v in record.items()}


@dataclass(frozen=True, slots=True)
class ModelList:
    """The result of `attn models list`."""

    models: tuple[ListedModel, ...]
    cut: bool = False
    """True when there are more."""

    @property
    def random(self) -> bool:
        """False: a list is no result of a model."""
        return False

    @property
    def notes(self) -> Sequence[str]:
        """Say when models were left out."""
        return (f"only the first {MOST:,} models are listed",) if self.cut else ()

    def headline(self) -> str:
        """Say how many there are and what else -m takes."""
        return (
            f"{count(len(self.models), 'model')} · -m also takes a folder, a .gguf or .npz file, "
            "ORG/NAME of the Hugging Face hub, or random:d_model=64,heads=4"
        )

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.models.list)."""
        models = [model.record() for model in self.models]
        return {**document("models.list", None), "models": models, "notes": list(self.notes)}

    def tables(self) -> list[Table]:
        """Return one row a model."""
        columns = [
            Column("name"),
            Column("from"),
            Column("family"),
            Column("layers × heads"),
            Column("size"),
            Column("format"),
            Column("readable"),
        ]
        rows = [
            (
                m.name,
                m.source,
                m.family or "–",
                f"{_shown(m.layers)} × {_shown(m.heads)}",
                size(m.n_bytes),
                m.format or "–",
                "yes" if m.readable else _short(m.problem, m.path),
            )
            for m in self.models
        ]
        return [Table("models", "", columns, rows, hint="--json has all")]

    def tidy(self) -> Table:
        """Return one row a model."""
        names = list(self.models[0].record()) if self.models else ["name"]
        numbers = ("layers", "heads", "bytes")
        columns = [Column(name, "int" if name in numbers else "text") for name in names]
        rows = [
            [str(v).lower() if isinstance(v, bool) else v for v in m.record().values()]
            for m in self.models
        ]
        return Table("models.list", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return names and sizes."""
        return {
            "names": np.array([m.name for m in self.models]),
            "bytes": np.array([m.n_bytes for m in self.models]),
        }


def list_models() -> ModelList:
    """Look at every model that can be found and whether attn reads it."""
    places = list(islice(all_places(), MOST + 1))
    return ModelList(tuple(_look_at(place) for place in places[:MOST]), len(places) > MOST)


def _look_at(place: Place) -> ListedModel:
    row = ListedModel(place.handle, place.origin, str(place.path))
    if place.problem and not place.incomplete:
        # nothing is read through links that lead elsewhere
        return replace(row, problem=place.problem)
    for look in _LOOKS_AT_GGUF if place.kind == "gguf" else _LOOKS_AT_FOLDER:
        try:
            row = look(row, place)
        except AttnError as problem:
            return replace(row, problem=str(problem))
        except Exception as problem:  # whatever one model's files hold, the others are listed
            return replace(row, problem=f"{type(problem).__name__}: {problem}")
        if row.problem:
            break
    return row


def _as_header(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with what a GGUF file says about itself."""
    file = GgufFile(place.path)
    family = file.metadata.get("general.architecture")
    return replace(
        row,
        family=family[:SHORT] if isinstance(family, str) else "",
        layers=_first(file.metadata, f"{family}.block_count"),
        heads=_first(file.metadata, f"{family}.attention.head_count"),
        format=f"gguf {_usual_type(file)}".strip(),
    )


def _as_bound(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with what attn would compute with a GGUF file."""
    from attncli.model.gguf.open import bind_gguf

    file = GgufFile(place.path)
    spec, _ = bind_gguf(file, resolve)
    there = "tokenizer.ggml.model" in file.metadata
    problem = "" if there else "no tokenizer in it"
    return replace(_as_specified(row, spec), readable=there, problem=problem)


def _with_size(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with the size of all files of weights."""
    if place.kind == "gguf":
        files = gguf_parts(place.path)
    else:
        files = [place.path / name for name in weight_files(place.path)]
    return replace(row, n_bytes=sum(file.stat().st_size for file in files if file.is_file()))


def _as_configured(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with what config.json says, as far as it can be understood."""
    try:
        with (place.path / CONFIG).open("rb") as file:
            values = json.loads(file.read(_MAX_CONFIG))
        inner = values.get("text_config")
        inner = inner if isinstance(inner, dict) else {}
    except (OSError, ValueError, AttributeError, RecursionError):
        return row  # what is wrong with it is said later
    both = {**values, **inner}
    family = values.get("model_type")
    return replace(
        row,
        family=family[:SHORT] if isinstance(family, str) else "",
        layers=_first(both, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        heads=_first(both, "num_attention_heads", "n_head", "n_heads", "num_heads"),
    )


def _as_stored(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with the type of most numbers, or with what the folder lacks."""
    problem = place.problem or missing_files(place.path)
    if problem:
        return replace(row, problem=problem)
    usual = _usual_type(open_weights(place.path))
    return replace(row, format=f"safetensors {usual}".strip())


def _as_resolved(row: ListedModel, place: Place) -> ListedModel:
    """Return the row with what attn would compute with."""
    spec, _ = resolve(*open_folder(place.path))
    there = (place.path / "tokenizer.json").exists()
    problem = "" if there else "no tokenizer.json in it"
    return replace(_as_specified(row, spec), readable=there, problem=problem)


def _as_specified(row: ListedModel, spec: ModelSpec) -> ListedModel:
    stack = spec.stack
    return replace(row, family=spec.family, layers=stack.n_layers, heads=stack.n_heads)


_LOOKS_AT_FOLDER = (_with_size, _as_configured, _as_stored, _as_resolved)
_LOOKS_AT_GGUF = (_with_size, _as_header, _as_bound)
"""Each adds to a row; the first problem ends it."""


def _usual_type(store: TensorStore) -> str:
    """Return the storage type of most bytes."""
    bytes_of: Counter[str] = Counter()
    for info in store.tensors.values():
        bytes_of[info.dtype] += info.n_bytes
    return bytes_of.most_common(1)[0][0] if bytes_of else ""


def _first(values: Mapping[str, Any], *keys: str) -> int | None:
    found = (values.get(key) for key in keys)
    return next((v for v in found if type(v) is int and 0 < v < 1_000_000), None)


def _short(problem: str, path: str) -> str:
    """Return a problem without its path, up to the first sentence."""
    problem = problem.removeprefix(path).removeprefix(f"/{CONFIG}").lstrip(": /")
    first = problem.split(". ")[0].split("; ")[0].removesuffix(".")
    return first if len(first) <= SHORT else first[: SHORT - 1] + "…"


def _shown(number: int | None) -> str:
    return "–" if number is None else str(number)
