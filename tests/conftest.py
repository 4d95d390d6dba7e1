"""Environment of every test: plain output, no chosen model, shape annotations checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"
os.environ["ATTNCLI_SHAPES"] = "1"
# as the command line does: for short texts a second thread costs more than it brings
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("ATTN_MODEL", None)
sys.path.insert(0, str(Path(__file__).parents[1]))

from jaxtyping import install_import_hook

install_import_hook("attncli", "beartype.beartype")

# ruff: noqa: E402 - the package must be imported after the hook
import pytest
from hypothesis import HealthCheck, settings

from attncli.model.load import Model, load
from attncli.model.locate import ollama
from tests.toys import tiny_bert, write_folder

settings.register_profile(
    "attn", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("attn")


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder that holds no models."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, empty_home: Path) -> None:
    """Models of this machine are not found, nothing is downloaded or kept outside the tests."""
    for name in list(os.environ):
        if (
            name.startswith(("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "XDG_"))
            or name == "LLAMA_CACHE"
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(empty_home))
    monkeypatch.setenv("OLLAMA_MODELS", str(empty_home / "ollama"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("ATTN_MODEL", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of this test alone."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("OLLAMA_MODELS")
    # the machine's own service must not be seen
    monkeypatch.setattr(ollama, "SERVICE", tmp_path / "service")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Model:
    """The bundled model."""
    return load("minilm")


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    """A folder with a sound, tiny BERT checkpoint, for tests that then break it."""
    config, tensors = tiny_bert()
    return write_folder(tmp_path / "tiny", config, tensors)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With ATTN_TESTS_NO_SKIP=1 a skipped test is a failure: what should be there is not."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("ATTN_TESTS_NO_SKIP") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
