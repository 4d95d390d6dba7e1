"""What analyses hand to the output formats: plain values with names and units, no model inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from attncli import __version__

if TYPE_CHECKING:
    import numpy as np

    from attncli.tokenize import Encoded, Token


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What every output says about the model behind it."""

    name: str
    family: str
    layers: int
    heads: int
    kv_heads: int
    causal: bool
    dtype: str
    """Storage type of the attention weights: F32, F16, BF16, Q8; torch: the type computed in."""
    sha256: str | Callable[[], str | None] | None
    """Sum of the weights file, or what computes it when a record is made; None for weights that
    are no file, or several."""
    source: str
    random: bool
    """True when any weight was initialised rather than trained: the numbers mean nothing."""
    engine: Literal["numpy", "torch"] = "numpy"
    """What computed: attn itself, or transformers."""
    stack: Literal["encoder", "decoder"] | None = None
    """Which stack of an encoder-decoder the sizes are of; None for models with one stack."""

    def record(self) -> dict[str, Any]:
        """Return the JSON form; it waits for the sum of the weights file.

        Models with one stack have no field `stack`.
        """
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["sha256"] = self.sha256() if callable(self.sha256) else self.sha256
        return {name: value for name, value in fields.items() if name != "stack" or value}

    def headline(self, *, reads_source: bool = False) -> str:
        """Say in words which model it is.

        Args:
            reads_source: what is shown is a decoder's attention to the source text.
        """
        direction = "sees only what came before" if self.causal else "sees both ways"
        direction = "reads the source text" if reads_source else direction
        shape = f"{count(self.layers, 'layer')} × {count(self.heads, 'head')}"
        shape = shape if self.stack is None else f"{self.stack} of {shape}"
        engine = "" if self.engine == "numpy" else f" · computed by {self.engine}"
        return f"{self.name} · {self.family} · {shape} · {direction}{engine}"


RANDOM_NOTE = "random weights: these numbers show the arithmetic and mean nothing"


@dataclass(frozen=True, slots=True)
class Label:
    """A token or word as tables show it."""

    text: str
    special: bool = False
    index: int | None = None
    """Number shown before it; in a matrix a label without one stands alone."""


@dataclass(frozen=True, slots=True)
class Share:
    """A label with a number, such as a key and its weight; several of them make one cell."""

    label: Label
    value: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: Literal["text", "label", "int", "fraction", "cosine", "number", "bar", "shares"] = "text"
    unit: str = ""
    """Unit or meaning, shown in the table's caption or kept in exports; empty for texts."""
    digits: int = 2
    priority: int = 100
    """Columns with the lowest number are the first to go when the terminal is narrow."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    important: Sequence[float] = ()
    """One number a row; where not all rows fit, those with the largest are shown."""
    importance: str = ""
    """What the important rows have, such as "the largest weights"."""
    hint: str = ""
    """How to see rows that were left out."""
    limit: int = 0
    """Most rows that a terminal shows; 0 for the usual number."""
    text: Sequence[str] = ()
    """Sentences that stand between title and rows."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Queries × keys. Rows are queries, columns are keys, always."""

    name: str
    title: str
    unit: str
    queries: Sequence[Label]
    keys: Sequence[Label]
    values: np.ndarray
    """[query, key]; masked entries are -inf."""
    digits: int = 2
    hint: str = ""
    """How to see a matrix that was left out because it does not fit."""
    sides: str = "rows query, columns key"
    """What rows and columns are."""
    shading: Literal["linear", "log", "cosine"] = "linear"
    """How shades follow fractions where numbers do not fit, and colours where they do."""


@runtime_checkable
class Result(Protocol):
    """One answer of a command, ready for any format."""

    @property
    def notes(self) -> Sequence[str]:
        """What a reader must know to not misread the numbers."""

    @property
    def random(self) -> bool:
        """True when the model's weights were initialised: the numbers mean nothing."""

    def headline(self) -> str:
        """One line in plain words: model, selection, units."""

    def record(self) -> dict[str, Any]:
        """Return the JSON document."""

    def tables(self) -> Sequence[Table | Matrix]:
        """Return what people read, in order."""

    def tidy(self) -> Table:
        """Return the numbers as one long table, for CSV."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the numbers as named arrays, for npz."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A line of a batch that could not be used; the rest goes on."""

    command: str
    line: int | None
    problem: str
    notes: Sequence[str] = field(default=())

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        head = {"schema": schema_name(self.command), "attn": __version__}
        return {**head, "line": self.line, "error": self.problem}


def schema_name(command: str) -> str:
    """Return the name and version of a command's JSON; a changed meaning changes the number."""
    return f"attn.{command}/1"


def document(command: str, card: ModelCard | None) -> dict[str, Any]:
    """Return the opening fields that every JSON document has."""
    head: dict[str, Any] = {"schema": schema_name(command), "attn": __version__}
    if card is not None:
        head["model"] = card.record()
    return head


def token_record(token: Token, *, pair: bool = False) -> dict[str, Any]:
    """Return the JSON form of a token; of a pair it says which text the token stands in."""
    names = token.__slots__ if pair else [n for n in token.__slots__ if n not in ("part", "type")]
    return {name: getattr(token, name) for name in names}


def text_record(encoded: Encoded) -> dict[str, Any]:
    """Return the fields that describe a text and its tokens."""
    is_pair = encoded.pair is not None
    tokens = [token_record(token, pair=is_pair) for token in encoded.tokens]
    second = {"pair": encoded.pair} if is_pair else {}
    return {"text": encoded.text, **second, "tokens": tokens}


def pair_arrays(encoded: Encoded) -> dict[str, np.ndarray]:
    """Return which text each token of a pair stands in (-1: neither) and its type; else nothing."""
    import numpy as np

    if encoded.pair is None:
        return {}
    parts = [-1 if token.part is None else token.part for token in encoded.tokens]
    return {"parts": np.array(parts), "types": np.array(encoded.types)}


def count(n: int, what: str) -> str:
    """Write a number of things: 1 word, 2 words."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
