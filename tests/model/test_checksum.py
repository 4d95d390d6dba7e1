"""The sum of a weights file: right, taken from where it is known, kept, and in nobody's way."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attncli import cache
from attncli.cache import read_entry, write_entry
from attncli.errors import ModelProblem
from attncli.model import checksum
from attncli.model.checksum import Checksum, sum_of
from attncli.model.load import load

DATA = b"weights" * 1000
SUM = hashlib.sha256(DATA).hexdigest()
NOT = "0" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that was written long ago."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(DATA)
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept sums, of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "attn"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_sum_is_kept_and_taken_from_there(file: Path, kept: Path) -> None:
    assert sum_of(file) == SUM
    (entry,) = entries(kept)
    write_entry(entry.name, NOT.encode())
    assert sum_of(file) == NOT


@pytest.mark.parametrize("change", ["size", "time", "path"])
def test_changed_file_is_read_again(file: Path, change: str) -> None:
    sum_of(file)
    data = DATA + b"!" if change == "size" else DATA[::-1]
    path = file.with_name("other") if change == "path" else file
    path.write_bytes(data)
    when = 1e9 + (1e-3 if change == "time" else 0)
    os.utime(path, (when, when))
    assert sum_of(path) == hashlib.sha256(data).hexdigest()


def test_file_that_changed_a_moment_ago_is_not_kept(file: Path, kept: Path) -> None:
    os.utime(file)
    assert sum_of(file) == SUM
    assert entries(kept) == []


@pytest.mark.parametrize("junk", [b"", b"\xff" * 64, b"z" * 64, b"0" * 63, b"0" * 65])
@pytest.mark.parametrize("damaged", [True, False])
def test_kept_sum_that_is_none_is_made_again(
    file: Path, kept: Path, junk: bytes, damaged: bool
) -> None:
    sum_of(file)
    (entry,) = entries(kept)
    if damaged:
        entry.write_bytes(junk)
    else:
        write_entry(entry.name, junk)
    assert sum_of(file) == SUM
    assert read_entry(entry.name) == SUM.encode()


@pytest.mark.parametrize("name", [NOT, f"sha256-{NOT}", f"sha256:{NOT}"])
def test_blob_is_named_by_its_sum_and_not_read(tmp_path: Path, kept: Path, name: str) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / name).write_bytes(DATA)
    link = tmp_path / "model.safetensors"
    link.symlink_to(tmp_path / "blobs" / name)
    assert sum_of(link) == NOT
    assert entries(kept) == []


@pytest.mark.parametrize("name", ["blobs/" + "0" * 40, NOT])
def test_other_names_say_nothing_of_the_sum(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(DATA)
    assert sum_of(path) == SUM


def test_folder_that_cannot_be_written_is_no_problem(
    file: Path, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    assert sum_of(file) == SUM


def test_disk_that_fails_half_way_leaves_nothing(kept: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    write_entry("key", b"data")
    assert entries(kept) == []


def test_runs_at_the_same_time_see_whole_entries_only(kept: Path) -> None:
    values = {bytes([65 + i]) * 64 for i in range(4)}
    seen = set()

    def work(value: bytes) -> None:
        for _ in range(50):
            write_entry("key", value)
            seen.add(read_entry("key"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, values))
    assert seen <= values
    assert len(entries(kept)) == 1


def test_sum_is_computed_once_however_often_it_is_asked_for(file: Path, monkeypatch) -> None:
    calls = []

    def counted(path: Path) -> str:
        calls.append(threading.current_thread().name)
        return SUM

    monkeypatch.setattr(checksum, "sum_of", counted)
    prepared = Checksum(file)
    prepared.start()
    assert [prepared.result(), prepared.result()] == [SUM, SUM]
    assert len(calls) == 1


def test_file_that_goes_away_is_one_line_and_no_noise_of_a_thread(file: Path, recwarn) -> None:
    missing = Checksum(file.with_name("gone"))
    missing.start()
    with pytest.raises(ModelProblem, match=r"gone: cannot be read \(No such file"):
        missing.result()
    assert not recwarn.list


def test_table_does_not_wait_for_the_sum_and_a_record_has_it(
    bert_folder: Path, monkeypatch
) -> None:
    asked = threading.Event()

    def slow(path: Path) -> str:
        asked.set()
        return SUM

    monkeypatch.setattr(checksum, "sum_of", slow)
    card = load(str(bert_folder)).card()
    assert "tiny" in card.headline()
    assert not asked.is_set()
    assert card.record()["sha256"] == SUM


def test_process_ends_without_waiting_for_a_sum_nobody_asked_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless")
    program = (
        "import sys, threading, time; from pathlib import Path\n"
        "from attncli.model import checksum\n"
        "checksum.sum_of = lambda path: time.sleep(60)\n"
        "checksum.Checksum(Path(sys.argv[1])).start()\n"
    )
    root = Path(checksum.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    environment.pop("ATTNCLI_SHAPES", None)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment,
        timeout=30,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_weights_that_are_no_file_have_no_sum() -> None:
    assert load("random:d_model=8,heads=2").sha256() is None
