"""Stores in memory, and .npz files that may be hostile."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.checkpoints import arrays as stores
from attncli.checkpoints.arrays import ArrayStore, read_npz, take
from attncli.errors import ModelProblem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.npz"


def member(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """Return the bytes of a .npy file with this header."""
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


def write_zip(path: Path, name: str, content: bytes, method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(name, content)


def test_arrays_are_read_as_float32_under_lower_case_names(path: Path) -> None:
    np.savez_compressed(path, W_Q=np.array([[0.1, 2]]), n_heads=np.array(3), words=np.array(["é"]))
    found = read_npz(path)
    assert found["w_q"].dtype == np.float32
    assert found["w_q"].tolist() == [[np.float32(0.1), 2]]
    assert found["n_heads"].dtype.kind == "i"
    assert found["words"].tolist() == ["é"]


def test_objects_are_refused_by_the_arrays_name_and_never_read(path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("the pickle was run",))

    np.savez(path, vocabulary=np.array([Trap()], dtype=object))
    with pytest.raises(ModelProblem, match="array vocabulary holds Python objects"):
        read_npz(path)


def test_decompression_bomb_is_refused_before_it_is_read(path: Path) -> None:
    np.savez_compressed(path, w_q=np.zeros((1 << 20,), np.float32))
    with pytest.raises(ModelProblem, match=r"array w_q would grow from .* to 4,194,304 bytes"):
        read_npz(path)


def test_archive_that_claims_too_much_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_BYTES", 1000)
    np.savez(path, w_q=np.zeros(200, np.float64))
    with pytest.raises(ModelProblem, match="more than attn reads"):
        read_npz(path)


def test_header_that_claims_more_than_the_archive_has_is_refused(path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }\n"
    write_zip(path, "w_q.npy", member(header, bytes(8)))
    with pytest.raises(
        ModelProblem, match="array w_q claims 4,000,000,000 bytes, the archive has 8"
    ):
        read_npz(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        member(b"__import__('os')"),
        member(b"{'descr': '<f4'}"),
        member(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n"),
        member(b"{'descr': '<f4', 'fortran_order': False, 'shape': (", bytes(8)),
        member(b"(" * 5000),
        member(b"{}", version=b"\x03\x00"),
        member(b"{}", version=b"\x09\x00"),
    ],
)
def test_member_that_is_no_array_is_a_model_problem(path: Path, content: bytes) -> None:
    write_zip(path, "w_q.npy", content)
    with pytest.raises(ModelProblem, match=r"toy\.npz"):
        read_npz(path)


def test_file_that_is_no_archive_or_not_there_is_named(path: Path) -> None:
    with pytest.raises(ModelProblem, match=r"toy\.npz: no such file"):
        read_npz(path)
    path.write_bytes(b"PK no archive")
    with pytest.raises(ModelProblem, match="not a sound"):
        read_npz(path)


def test_missing_arrays_are_listed_beside_those_found() -> None:
    with pytest.raises(ModelProblem, match=r"arrays missing: w_k, w_v \(found embedding, w_q\)"):
        take(
            Path("toy"),
            {"w_q": np.ones(1), "embedding": np.ones(1)},
            ("w_q", "w_k", "w_v", "embedding"),
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_is_refused_by_name(bad: float) -> None:
    with pytest.raises(ModelProblem, match="array w_v holds NaN"):
        ArrayStore(Path("toy"), {"w_q": np.ones(2), "w_v": np.array([1, bad])})


def test_rows_are_those_of_the_array() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert ArrayStore(Path("toy"), {"a": values}).rows("a", [2, 0]).tolist() == [[4, 5], [0, 1]]


def _sound(method: int) -> bytes:
    buffer = io.BytesIO()
    npy = io.BytesIO()
    np.save(npy, np.arange(40, dtype=np.float32))
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("w_q.npy", npy.getvalue())
    return buffer.getvalue()


SOUND = [_sound(zipfile.ZIP_STORED), _sound(zipfile.ZIP_DEFLATED)]


@given(
    st.sampled_from(SOUND),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=3)), min_size=1, max_size=3),
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_archives_raise_only_model_problems(
    tmp_path_factory: pytest.TempPathFactory, sound: bytes, edits: list[tuple[float, bytes]]
) -> None:
    content = bytearray(sound)
    for place, replacement in edits:
        at = int(place * (len(content) - 1))
        content[at : at + len(replacement)] = replacement
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content)
    with suppress(ModelProblem):
        read_npz(path)
