"""What every command does around its analysis: inputs, one result a text, output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from attncli.errors import AttnError, UsageProblem
from attncli.inputs import Inputs, Text, read_inputs
from attncli.model.load import Device, Dtype, Engine, Model, load
from attncli.outputs import Format, deliver
from attncli.outputs.sink import Sink, print_problem
from attncli.results import Failure, Result


class Session:
    """One call of a command: its model, its inputs and its output."""

    def __init__(
        self,
        command: str,
        *,
        format_: Format,
        json: bool,
        output: Path | None,
        no_color: bool,
        verbose: bool,
    ) -> None:
        """Take the options that say where output goes."""
        self._command, self._verbose = command, verbose
        if json and format_ not in ("table", "json"):
            raise UsageProblem(f"--json and -f {format_} name different formats; give one of them.")
        self._format: Format = "json" if json else format_
        self._sink = Sink(output, color=not no_color)
        self._began = time.perf_counter()
        self._skipped = False

    @property
    def keeps_heads(self) -> bool:
        """True when the format holds the matrices of every head."""
        return self._format == "npz"

    def load(
        self,
        name: str | None,
        *,
        engine: Engine = "numpy",
        device: Device | None = None,
        dtype: Dtype | None = None,
    ) -> Model:
        """Load the model."""
        model = load(name, engine=engine, device=device, dtype=dtype)
        if self._format in ("json", "jsonl"):
            model.prepare_sha256()
        self.say(f"{model.name}: {model.spec.family}, {model.dtype}, from {model.place.path}")
        if self._format in ("json", "jsonl"):
            # people see notes beside the numbers; programs may not look at them
            for note in model.tokenizer.notes:
                print_problem(note)
        return model

    def each(
        self,
        model: Model,
        texts: list[str] | None,
        file: Path | None,
        work: Callable[[Text], Result],
    ) -> None:
        """Work on every text and write the results as they come."""
        inputs = read_inputs(texts or [], file)
        # parameters that are read once are worth keeping when more than one text comes
        model.params.keep = inputs.streamed or len(texts or []) > 1
        self.deliver(_results(self._command, inputs, work))

    def usable(self, inputs: Inputs, check: Callable[[str], object]) -> list[str]:
        """Return the texts that pass a check; of a batch the others are reported and left out."""
        passed = []
        for text in inputs.texts:
            try:
                check(text.checked())
                passed.append(text.text)
            except AttnError as problem:
                if not inputs.streamed:
                    raise
                self._skipped = True
                print_problem(f"line {text.line}: {problem}")
        return passed

    def deliver(self, results: Iterable[Result | Failure]) -> None:
        """Write results; exit code 1 when a line failed."""
        try:
            good = deliver(results, self._format, self._sink)
        finally:
            self._sink.close()
        self.say(f"done in {time.perf_counter() - self._began:.2f} s")
        if self._skipped or not good:
            raise typer.Exit(1)

    def say(self, message: str) -> None:
        """Tell a user who asked for it what happens."""
        if self._verbose:
            print_problem(message)
            sys.stderr.flush()


def _results(
    command: str, inputs: Inputs, work: Callable[[Text], Result]
) -> Iterator[Result | Failure]:
    for text in inputs.texts:
        if text.problem:
            yield Failure(command, text.line, text.problem)
            continue
        try:
            yield work(text)
        except AttnError as problem:
            if not inputs.streamed:
                raise
            yield Failure(command, text.line, str(problem))
