"""JSON Schemas (draft 2020-12) of the documents that commands print, one file a command."""

from __future__ import annotations

from pathlib import Path

from attncli.errors import UsageProblem, did_you_mean

_FOLDER = Path(__file__).parent


def schema_commands() -> list[str]:
    """Return the commands that have a schema."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def read_schema(command: str) -> str:
    """Return the schema of a command's JSON, as text.

    Raises:
        UsageProblem: no such command; lists those that have one.
    """
    known = schema_commands()
    name = command.replace(" ", ".")
    if name not in known:
        raise UsageProblem(
            f"schema {command}: no such command; there are {', '.join(known)}."
            f"{did_you_mean(name, known)}"
        )
    return (_FOLDER / f"{name}.json").read_text("utf-8")
