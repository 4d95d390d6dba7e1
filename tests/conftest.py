"""Environment of every test: plain output, no chosen model, shape annotations checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"
os.environ["ATTNCLI_SHAPES"] = "1"
os.environ.pop("ATTN_MODEL", None)
sys.path.insert(0, str(Path(__file__).parents[1]))

from jaxtyping import install_import_hook

install_import_hook("attncli", "beartype.beartype")

# ruff: noqa: E402 - the package must be imported after the hook
import pytest
from hypothesis import HealthCheck, settings

from attncli.model.load import Model, load
from tests.toys import tiny_bert, write_folder

settings.register_profile(
    "attn", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("attn")


@pytest.fixture(autouse=True)
def _plain_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("ATTN_MODEL", raising=False)


@pytest.fixture(scope="session")
def minilm() -> Model:
    """The bundled model."""
    return load("minilm")


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    """A folder with a sound, tiny BERT checkpoint, for tests that then break it."""
    config, tensors = tiny_bert()
    return write_folder(tmp_path / "tiny", config, tensors)
