"""The problems a user can meet, each one line: what, found, expected, next step.

Exit codes: 1 when a model or an input cannot be used, 2 for a wrong option (as Typer's own),
130 after Ctrl-C, 141 when the reader of a pipe went away.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class AttnError(Exception):
    """A problem that is shown to the user as one line, without a traceback."""

    exit_code = 1


class ModelProblem(AttnError):
    """Files that cannot be read as a model, or a model that cannot be computed exactly."""


class InputProblem(AttnError):
    """A text that this model cannot take: empty, too long, not decodable."""


class UsageProblem(AttnError):
    """An option whose value does not fit the model or the text."""

    exit_code = 2


def listing(names: Iterable[str], limit: int = 10) -> str:
    """Join names for a message, sorted, cut at `limit` with the count of the rest."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:limit])
    rest = len(ordered) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean X?" for the closest known name, or an empty string."""
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""
