"""Merges worked out from scores, and kept for the next run."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import cache
from attncli.model.gguf import merges
from attncli.model.gguf.merges import derive, merges_of

PIECES = ["a", "b", "c", "ab", "bc", "abc"]
SCORES = np.array([0, 0, 0, -2, -1, -3], np.float32)


def naive(pieces: list[str], scores: list[float]) -> list[tuple[str, str]]:
    """Every cut of every piece, sorted as the reference sorts them."""
    found = [
        (scores[i], cut, len(piece) - cut, piece[:cut], piece[cut:])
        for i, piece in enumerate(pieces)
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
    found.sort(key=lambda merge: merge[:3], reverse=True)
    return [merge[3:] for merge in found]


def test_best_whole_first_then_longest_left_half() -> None:
    found = [(PIECES[a], PIECES[b]) for a, b in derive(PIECES, SCORES).tolist()]
    assert found == [("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")]


@given(st.lists(st.text("ab▁", min_size=1, max_size=6), unique=True, max_size=30), st.data())
def test_equals_the_naive_way(pieces: list[str], data: st.DataObject) -> None:
    scores = [data.draw(st.integers(-3, 0)) for _ in pieces]
    found = derive(pieces, np.array(scores, np.float32)).tolist()
    assert [(pieces[a], pieces[b]) for a, b in found] == naive(pieces, scores)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often merges are worked out."""
    calls: list[int] = []

    def counting(*args: object) -> object:
        calls.append(1)
        return derive(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(merges, "derive", counting)
    return calls


def entries(model: Path) -> list[Path]:
    return sorted((model.parent / "cache" / "attn").iterdir())


def test_second_run_reads_what_the_first_kept(model: Path, derived: list[int]) -> None:
    first = merges_of(model, PIECES, SCORES)
    assert merges_of(model, PIECES, SCORES) == first
    assert derived == [1]
    assert len(entries(model)) == 1  # no leftovers


def test_changed_file_is_worked_out_again(model: Path, derived: list[int]) -> None:
    merges_of(model, PIECES, SCORES)
    model.write_bytes(b"GGUF, another")
    merges_of(model, PIECES, SCORES)
    assert len(derived) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:-3] + b"\x01" + data[-2:],
        lambda data: b"\0" * len(data),
    ],
)
def test_damaged_entry_is_built_again(model: Path, derived: list[int], damage: object) -> None:
    expected = merges_of(model, PIECES, SCORES)
    (entry,) = entries(model)
    sound = entry.read_bytes()
    entry.write_bytes(damage(sound))  # type: ignore[operator]
    assert merges_of(model, PIECES, SCORES) == expected
    assert len(derived) == 2
    assert entry.read_bytes() == sound


def test_entry_of_another_vocabulary_is_built_again(model: Path, derived: list[int]) -> None:
    key = cache.file_key(model, merges._PURPOSE, str(len(PIECES)))
    cache.write_entry(key, np.array([[0, 99]], np.int32).tobytes())
    assert len(merges_of(model, PIECES, SCORES)) == 4
    assert derived == [1]


def test_folder_that_cannot_be_written_only_costs_time(
    model: Path, derived: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(model))  # a file, no folder
    first = merges_of(model, PIECES, SCORES)
    assert merges_of(model, PIECES, SCORES) == first
    assert len(derived) == 2


def test_full_disk_leaves_nothing_behind(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    assert len(merges_of(model, PIECES, SCORES)) == 4
    assert entries(model) == []


def test_runs_side_by_side_agree(model: Path) -> None:
    expected = merges_of(model, PIECES, SCORES)
    found: list[list[tuple[str, str]]] = []

    def work() -> None:
        for _ in range(30):
            found.append(merges_of(model, PIECES, SCORES))
            for entry in entries(model):
                entry.unlink(missing_ok=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    assert all(merge == expected for merge in found)


def test_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cache.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache.cache_folder() == tmp_path / ".cache" / "attn"
    monkeypatch.setattr(cache.sys, "platform", "darwin")
    assert cache.cache_folder() == tmp_path / "Library" / "Caches" / "attn"
