"""The torch engine where torch is not installed, and its options without it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from attncli.errors import ModelProblem, UsageProblem
from attncli.model.load import load
from tests.cli.conftest import process_environment


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_missing_library_is_one_line_with_the_way_out(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == missing else find(name, *a)
    )
    with pytest.raises(ModelProblem, match=r"pip install 'attncli\[torch\]'\.$") as caught:
        load("minilm", engine="torch")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("choice", [{"device": "cpu"}, {"dtype": "float16"}])
def test_device_and_type_without_the_engine_are_refused(choice: dict[str, str]) -> None:
    with pytest.raises(UsageProblem, match="only for --engine torch"):
        load("minilm", **choice)


def test_unknown_engine_is_refused() -> None:
    # in a process without the tests' checks of annotations
    code = "from attncli import api; api.load('minilm', engine='jax')"
    environment = process_environment()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith("UsageProblem: --engine jax: expected numpy or torch.\n")
