"""Run commands inside this process, or as a user would."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from attncli import cli
from attncli.commands import models
from attncli.schemas import read_schema

ROOT = Path(__file__).parents[2]

# typer hands over a Context that is not of the class its users annotate; the type checker of the
# tests would refuse it
assert models.app.registered_callback
assert models.app.registered_callback.callback
models.app.registered_callback.callback = inspect.unwrap(models.app.registered_callback.callback)


@dataclass
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document of the output."""
        (document,) = self.documents
        return document

    @property
    def documents(self) -> list[Any]:
        """All JSON documents of the output, checked against their schemas."""
        found = [json.loads(line) for line in self.out.splitlines()]
        for document in found:
            command = document["schema"].removeprefix("attn.").split("/")[0]
            Draft202012Validator(json.loads(read_schema(command))).validate(document)
        return found


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), "utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def attn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `attn ARGUMENTS` here; stdin None is a terminal."""

    def run(*arguments: str, stdin: bytes | None = None) -> Ran:
        monkeypatch.setattr(sys, "stdin", Stdin(stdin or b"", terminal=stdin is None))
        capsys.readouterr()
        code = cli.run(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def attn_process() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run `python -m attncli ARGUMENTS` as a process of its own."""

    def run(
        *arguments: str, stdin: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "attncli", *arguments],
            input=stdin,
            capture_output=True,
            env=process_environment(**environment),
            timeout=60,
            check=False,
        )

    return run


def process_environment(**changes: str) -> dict[str, str]:
    """Return the environment of a process: this one without the tests' own settings."""
    kept = {k: v for k, v in os.environ.items() if k not in ("ATTNCLI_SHAPES", "NO_COLOR")}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}
