"""A matrix in the terminal: numbers if they fit, shaded cells if not, else a line saying how."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attncli.display import display
from attncli.outputs.cells import format_number
from attncli.outputs.style import (
    DIM,
    HEAD,
    HEAT,
    LEVELS,
    NOTE,
    SHADE_COLORS,
    SHADES,
    TITLE,
    cut,
    level,
    padded,
    wrapped,
)
from attncli.results import Label, Matrix

MAX_LABEL = 14
MAX_QUERIES = 80
SHADED = ("fraction", "cosine")
"""Units whose numbers are shaded as they are."""
LEAST_LABEL = 4
"""Narrower cells have no line of labels: the numbers of the columns are in the rows' labels."""


def draw_matrix(matrix: Matrix, width: int) -> list[Text]:
    """Lay out a matrix in `width` columns, rows queries and columns keys."""
    labels = [cut(display(label.text), MAX_LABEL) for label in matrix.queries]
    digits = len(str(max((label.index or 0) for label in (*matrix.queries, *matrix.keys))))
    numbered = matrix.queries[0].index is not None
    side = (digits + 1 if numbered else 0) + max(map(cell_len, labels)) + 1
    room = width - side
    n_keys = len(matrix.keys)
    title = f"{matrix.title} · {matrix.sides}"
    if len(matrix.queries) <= MAX_QUERIES:
        # one digit still orders scores; of fractions it would leave only ".0" and ".1"
        for places in (matrix.digits,) if matrix.unit == "fraction" else (matrix.digits, 1):
            cells = [[format_number(float(v), places) for v in row] for row in matrix.values]
            names = [len(_column_name(key)) for key in matrix.keys]
            need = 1 + max(*names, *(len(text) for row in cells for text in row))
            if need * n_keys <= room:
                most = 1 + max(need - 1, *(_label_width(k) for k in matrix.keys))
                size = min(room // n_keys, most)
                lines = wrapped(title, width, TITLE)
                return [*lines, *_numbers(matrix, labels, cells, digits, side, size)]
        for size in (2, 1):
            if size * n_keys <= room and matrix.unit in SHADED:
                lines = [*wrapped(title, width, TITLE), *wrapped(_legend(matrix), width, NOTE)]
                return [
                    *lines,
                    *_shades(matrix, labels, digits, side, size),
                    *_remark(matrix, width),
                ]
    count = f"{len(matrix.queries)} × {n_keys} numbers do not fit in {width} columns"
    text = f"{matrix.title}: {count}; {matrix.hint}"
    return wrapped(text, width, NOTE)


def _numbers(
    matrix: Matrix,
    labels: Sequence[str],
    cells: Sequence[Sequence[str]],
    digits: int,
    side: int,
    size: int,
) -> list[Text]:
    lines = [_index_line(matrix.keys, side, size)]
    if size > LEAST_LABEL and matrix.keys[0].index is not None:
        lines.append(_label_line(matrix.keys, side, size))
    shares = _shares_of_row(matrix)
    for at, query in enumerate(matrix.queries):
        line = _row_label(query, labels[at], digits, side)
        for key, text in enumerate(cells[at]):
            style = HEAT[level(float(shares[at, key]), matrix.shading)]
            line.append(" " * (size - len(text)))
            line.append(text, style)
        lines.append(line)
    return lines


def _shades(matrix: Matrix, labels: Sequence[str], digits: int, side: int, size: int) -> list[Text]:
    lines = [_tick_line(matrix.keys, side, size)]
    shares = _shares_of_row(matrix)
    for at, query in enumerate(matrix.queries):
        line = _row_label(query, labels[at], digits, side)
        for key in range(len(matrix.keys)):
            shade = level(float(shares[at, key]), matrix.shading)
            line.append(SHADES[shade] * size, SHADE_COLORS[shade])
        lines.append(line)
    return lines


def _legend(matrix: Matrix) -> str:
    digits = 3 if matrix.shading == "log" else 2
    return "shades: " + "  ".join(
        f"{shade}\u00a0≥{format_number(bound, digits)}"
        for shade, bound in zip(SHADES[1:], LEVELS[matrix.shading], strict=True)
    )


def _shares_of_row(matrix: Matrix) -> np.ndarray:
    """Return fractions for shading: weights as they are, scores as the softmax would share them."""
    if matrix.unit in SHADED:
        return matrix.values
    largest = matrix.values.max(axis=1, keepdims=True)
    # a row whose chosen keys are all masked has nothing to share
    shifted = np.exp(matrix.values - np.where(np.isneginf(largest), 0, largest))
    total = shifted.sum(axis=1, keepdims=True)
    return np.divide(shifted, total, out=np.zeros_like(shifted), where=total > 0)


def _row_label(query: Label, label: str, digits: int, side: int) -> Text:
    text = Text()
    if query.index is not None:
        text.append(f"{query.index:>{digits}} ", DIM)
    text.append(label, DIM if query.special else "")
    text.append(" " * (side - cell_len(text.plain)))
    return text


def _index_line(keys: Sequence[Label], side: int, size: int) -> Text:
    return Text(" " * side + "".join(f"{_column_name(key):>{size}}" for key in keys), DIM)


def _column_name(key: Label) -> str:
    return display(key.text) if key.index is None else str(key.index)


def _label_line(keys: Sequence[Label], side: int, size: int) -> Text:
    line = Text(" " * side)
    for key in keys:
        # a column is no place for the mark of a continued word
        label = display(key.text).removeprefix("##").removeprefix("·") or display(key.text)
        short = label if cell_len(label) < size else cut(label, size - 1)
        line.append(" ")
        line.append(padded(short, size - 1, right=True, style=DIM if key.special else HEAD))
    return line


def _tick_line(keys: Sequence[Label], side: int, size: int) -> Text:
    """Number every fifth column (every tenth when cells are one character wide)."""
    line = [" "] * (side + size * len(keys) + 8)
    for at, key in enumerate(keys):
        if at % (5 if size > 1 else 10) == 0:
            for i, char in enumerate(_column_name(key)):
                line[side + at * size + i] = char
    return Text("".join(line).rstrip(), DIM)


def _label_width(key: Label) -> int:
    return cell_len(display(key.text))


def _remark(matrix: Matrix, width: int) -> list[Text]:
    return wrapped(f"(numbers do not fit in {width} columns; {matrix.hint})", width, NOTE)
