"""attn schema."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    command: Annotated[
        str | None,
        typer.Argument(
            help="The command whose JSON is described; without it a list.", show_default=False
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a command's output."""
    from attncli.outputs.sink import Sink
    from attncli.schemas import read_schema, schema_commands

    if command is None:
        Sink().text("".join(f"{name}\n" for name in schema_commands()))
    else:
        Sink().text(read_schema(command))
