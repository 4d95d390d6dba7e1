"""npz: arrays under their names, those of several texts under numbers."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from attncli.errors import UsageProblem
from attncli.outputs import deliver
from attncli.outputs.sink import Sink
from attncli.results import Failure
from tests.outputs.streams import Made, to_file

WEIGHTS = np.array([[0.25, 0.75]], np.float32)


def read(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def test_one_text_has_plain_names_and_exact_numbers(tmp_path: Path) -> None:
    found = read(to_file([Made(named={"weights": WEIGHTS})], "npz", tmp_path))
    assert found["weights"].dtype == np.float32
    np.testing.assert_array_equal(found.pop("weights"), WEIGHTS)
    assert not found


def test_several_texts_are_numbered_and_a_failed_one_keeps_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(named={"weights": WEIGHTS}, notes=["random weights"])
    found = read(to_file([made, Failure("inspect", 2, "no good"), made], "npz", tmp_path))
    assert set(found) == {"0/weights", "2/weights"}
    assert "attn: line 2: no good\n" in capsys.readouterr().err


def test_every_head_of_a_selection_is_in_the_archive(samples, tmp_path: Path) -> None:
    found = read(to_file([samples("every head")], "npz", tmp_path))
    n = len(found["tokens"])
    assert found["weights_by_head"].shape == (2, 12, n, n)
    mean = found["weights_by_head"].mean(axis=(0, 1))
    np.testing.assert_allclose(mean, found["weights"], atol=1e-6)


def test_terminal_is_refused_before_any_work(stdout) -> None:
    stream = stdout(terminal=True)

    def results():
        raise AssertionError("worked for nothing")
        yield

    with pytest.raises(UsageProblem, match="-o FILE"):
        deliver(results(), "npz", Sink())
    assert stream.written == ""


def test_pipe_gets_the_bytes(stdout) -> None:
    stream = stdout()
    deliver([Made(named={"weights": WEIGHTS})], "npz", Sink())
    np.testing.assert_array_equal(read(stream.bytes.getvalue())["weights"], WEIGHTS)
