"""The README tells the truth: its transcripts are run, its commands and options exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attncli.cli import app
from attncli.model.families import REGISTRY

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
TRANSCRIPTS = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", README)
WIDTH = "80"
LAST_DIGIT = 0.011
"""Other processors sum in another order: a printed number may differ in its last digit."""
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+)?\.\d+")
BAR = re.compile(r" *[▏▎▍▌▋▊▉█]+ *| {2,}")


def words_of(output: str) -> str:
    """Everything that must be equal to the letter: text, layout in words, whole numbers."""
    return BAR.sub(" ", NUMBER.sub("#", output))


def numbers_of(output: str) -> list[float]:
    """All numbers with a decimal point."""
    return [float(number) for number in NUMBER.findall(output)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Make `attn` the package under test, whatever else is installed."""
    folder = tmp_path_factory.mktemp("bin")
    launcher = folder / "attn"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncli "$@"\n')
    launcher.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if k not in ("ATTN_MODEL", "ATTNCLI_SHAPES")}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return inherited | {"PATH": path, "COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(("command", "expected"), TRANSCRIPTS, ids=[c for c, _ in TRANSCRIPTS])
def test_transcript_is_what_the_command_prints(command, expected, environment):
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert words_of(done.stdout) == words_of(expected)
    assert numbers_of(done.stdout) == pytest.approx(numbers_of(expected), abs=LAST_DIGIT)


def test_first_command_of_the_readme_is_its_first_transcript():
    set_up = re.search(r"```sh\n(.*)\n```", README)[1]
    assert set_up.endswith(TRANSCRIPTS[0][0].removeprefix("attn"))


def test_python_example_runs(environment):
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 11) traffic\n")


def test_readme_names_every_command():
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"`attn {name}" not in README] == []


def test_readme_names_every_family():
    assert [
        name for name in REGISTRY if name != "attn-toy" and name.lower() not in README.lower()
    ] == []


def test_sample_texts_hold_the_sentences_of_the_transcripts():
    samples = "\n".join(path.read_text("utf-8") for path in (ROOT / "sample_texts").iterdir())
    for command, _ in TRANSCRIPTS[:3]:
        for text in re.findall(r'"([^"]{20,})"', command):
            assert text in samples
