"""A job that needs more memory than there is never starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncli import api, memory
from attncli.errors import InputProblem
from attncli.model.load import Model


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Let the machine and its container have so much memory."""

    def has(kilobytes: int | None, limit: str | None = None, used: str = "0") -> None:
        monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
        monkeypatch.setattr(memory, "_CGROUP", tmp_path)
        if kilobytes is not None:
            (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {kilobytes} kB\n")
        if limit is not None:
            (tmp_path / "memory.max").write_text(f"{limit}\n")
            (tmp_path / "memory.current").write_text(f"{used}\n")

    return has


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [
        (None, "0", 2_048_000),
        ("max", "5", 2_048_000),
        ("1000000", "400000", 600_000),
        ("1000", "2000", 0),
        ("none of these", "0", 2_048_000),
    ],
)
def test_the_least_of_system_and_container_counts(machine, limit, used, free: int) -> None:
    machine(2_000, limit, used)
    assert memory.available() == free


def test_system_without_such_a_file_is_asked_in_another_way(machine) -> None:
    machine(None)
    assert memory.available() > 1_000_000


def test_matrices_that_do_not_fit_are_refused_with_number_and_way(minilm: Model, machine) -> None:
    machine(10)
    with pytest.raises(InputProblem) as caught:
        api.inspect("We were stuck in a traffic jam", minilm)
    assert str(caught.value).startswith("The matrices of 9 × 9 tokens need 0.0 GB, and 0.0 GB of")
    assert "choose rows with --query, or use attn heads" in str(caught.value)


def test_every_head_needs_more_than_their_mean(minilm: Model, machine) -> None:
    text = "We were stuck in a traffic jam " * 30
    machine(10_000)
    api.inspect(text, minilm)
    with pytest.raises(InputProblem, match="choose fewer heads with --layer and --head"):
        api.inspect(text, minilm, every_head=True)
    api.inspect(text, minilm, every_head=True, head="0.1")


def test_rows_that_are_chosen_need_less_than_all(minilm: Model, machine) -> None:
    text = "We were stuck in a traffic jam " * 60
    machine(9_400)
    with pytest.raises(InputProblem, match="The matrices of 422 × 422 tokens"):
        api.inspect(text, minilm)
    api.inspect(text, minilm, query="traffic#1")
