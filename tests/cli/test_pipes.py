"""attn as a process among others: pipes, signals, environments, what starting it imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import process_environment

LINES = b"I like jam\n" * 500


def test_reader_that_goes_away_ends_the_run_quietly(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        for arguments in (
            ["tokens", "--json"],
            ["inspect", "hi"],
            ["--help"],
            ["schema", "tokens"],
        ):
            ran = subprocess.run(
                [sys.executable, "-m", "attncli", *arguments],
                input=LINES,
                stdout=write,
                stderr=subprocess.PIPE,
                env=process_environment(),
                check=False,
            )
            assert (ran.returncode, ran.stderr) == (141, b"")
    finally:
        os.close(write)


def test_reader_gets_each_line_before_the_next_is_typed() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "attncli", "tokens", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=process_environment(),
    ) as process:
        assert process.stdin
        assert process.stdout
        for text in ("one", "two"):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        # it now waits for a third line: an interrupt can only come there
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130


def test_full_disk_is_one_line(attn_process) -> None:
    if not Path("/dev/full").exists():  # pragma: no cover - only Linux has it
        return
    with Path("/dev/full").open("wb") as full:
        for format_ in ("json", "npz"):
            ran = subprocess.run(
                [sys.executable, "-m", "attncli", "tokens", "hi", "-f", format_],
                stdout=full,
                stderr=subprocess.PIPE,
                env=process_environment(),
                check=False,
            )
            assert ran.returncode == 1
            assert ran.stderr.count(b"\n") == 1
            assert b"standard output: cannot be written (No space left on device)" in ran.stderr


def test_bytes_of_arguments_that_are_no_utf8_are_one_line(attn_process) -> None:
    ran = attn_process("tokens", os.fsdecode(b"jam \xff"))
    assert ran.returncode == 1
    assert ran.stderr.count(b"\n") == 1
    assert b"not valid Unicode" in ran.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
)
def test_any_locale_shows_every_text(attn_process, environment: dict[str, str]) -> None:
    ran = attn_process("tokens", "-", "--json", stdin="日本 café\n".encode(), **environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["text"] == "日本 café"
    table = attn_process("inspect", "-", "--debug", stdin="日本 café\n".encode(), **environment)
    assert (table.returncode, table.stderr) == (0, b"")


def test_two_runs_into_the_same_file_leave_one_whole_result(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    command = [sys.executable, "-m", "attncli", "inspect", "I like jam", "--json", "-o", str(path)]
    runs = [subprocess.Popen(command, env=process_environment()) for _ in range(2)]
    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    assert json.loads(path.read_bytes())["text"] == "I like jam"


def test_command_and_module_run_main_with_one_thread_unless_told() -> None:
    code = (
        "import os, sys; sys.argv = ['attn', '--version']\n"
        "from attncli import cli\n"
        "try: cli.main()\n"
        "except SystemExit as leaving: assert leaving.code == 0\n"
        "print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    for given, wanted in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")):
        clean = process_environment(**given)
        if not given:
            clean.pop("OPENBLAS_NUM_THREADS", None)
        ran = subprocess.run(
            [sys.executable, "-c", code], env=clean, capture_output=True, check=True
        )
        assert ran.stdout.split()[-1] == wanted.encode()


HEAVY = ("numpy", "tokenizers", "rich", "huggingface_hub", "safetensors", "pydantic", "asyncio")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["inspect", "--help"], ["models", "init", "--help"], ["schema"]],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom attncli.cli import run\n"
        f"assert run({arguments!r}) == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=process_environment(), capture_output=True, check=True
    )
    loaded = ran.stderr.decode().split()
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    own = {name for name in loaded if name.startswith("attncli.")}
    assert not any(name.startswith(("attncli.model", "attncli.analyses")) for name in own)


def test_start_of_a_command_is_not_slowed_by_another_commands_analysis() -> None:
    code = (
        "import sys\nfrom attncli.cli import run\nrun(['tokens', 'hi'])\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=process_environment(), capture_output=True, check=True
    )
    loaded = ran.stderr.decode().split()
    assert [name for name in loaded if name.startswith("attncli.analyses.")] == [
        "attncli.analyses.tokens"
    ]
    assert "huggingface_hub" not in loaded
