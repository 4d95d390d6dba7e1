"""Models of the hub: fetched whole and nothing else, or one line that says what to do."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import process_environment
from tests.hub import Hub, serve
from tests.stores import COMMIT, model_files

EXTRAS = {
    "pytorch_model.bin": b"a pickle",
    "modeling_tiny.py": b"raise SystemExit",
    "README.md": b"# tiny",
    "vocab.txt": b"the",
    "consolidated.safetensors": b"the same again",
    "model.fp16.safetensors": b"once more",
    "onnx/model.safetensors": b"and again",
    "tf_model.h5": b"",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return model_files(tmp_path / "made") | {"tokenizer_config.json": b"{}"}


@pytest.fixture
def hub(files: dict[str, bytes]) -> Iterator[Hub]:
    """A hub with one model, and with what real repositories hold beside it."""
    with serve(Hub({"org/tiny": files | EXTRAS})) as served:
        yield served


@pytest.fixture
def run(attn_process, hub: Hub, tmp_path: Path) -> Callable:
    """Run attn with this hub and a cache of this test."""

    def ran(*arguments: str, **environment: str) -> tuple[int, str, str]:
        settings = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1",
        }
        done = attn_process(*arguments, **(settings | environment))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return ran


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / COMMIT


INSPECT = ("inspect", "the dog sees a cat", "-H", "1.0", "--json", "-m")


def test_model_is_fetched_once_and_then_needs_no_hub(
    run, hub: Hub, files, tmp_path: Path, snapshot: Path
) -> None:
    code, out, err = run(*INSPECT, "org/tiny")
    assert (code, err) == (0, "")
    first = json.loads(out)
    assert first["model"]["name"] == "org/tiny"
    assert first["model"]["source"] == str(snapshot)
    assert {path.name: path.read_bytes() for path in snapshot.iterdir()} == files
    hub.requests.clear()
    assert run(*INSPECT, "org/tiny") == (0, out, "")
    assert run(*INSPECT, "org/tiny", HF_HUB_OFFLINE="1") == (0, out, "")
    assert hub.requests == []
    code, out, _ = run(*INSPECT, str(tmp_path / "made"))
    assert json.loads(out)["weights"] == first["weights"]
    assert json.loads(out)["model"]["sha256"] == first["model"]["sha256"]


def test_only_what_attn_reads_is_asked_for(run, hub: Hub, files) -> None:
    assert run("models", "get", "org/tiny")[0] == 0
    assert hub.fetched == set(files)


def test_get_prints_where_the_model_is_and_nothing_else(run, snapshot: Path) -> None:
    code, out, err = run("models", "get", "hub:org/tiny")
    assert (code, out) == (0, f"{snapshot}\n")
    assert err == "attn: org/tiny is there; try attn inspect -m org/tiny TEXT\n"


def test_sharded_model_is_fetched_by_its_index(run, hub: Hub, files, snapshot: Path) -> None:
    weights = files["model.safetensors"]
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "more/b.safetensors"}}
    shards = {"model-00001-of-00002.safetensors": weights, "more/b.safetensors": weights}
    rest = {name: data for name, data in files.items() if name != "model.safetensors"}
    rest |= shards | {"model.safetensors.index.json": json.dumps(index).encode()}
    hub.repos["org/tiny"] = rest | {k: v for k, v in EXTRAS.items() if k != "more"}
    assert run("models", "get", "org/tiny")[0] == 0
    assert hub.fetched == set(rest)
    assert (snapshot / "more" / "b.safetensors").read_bytes() == weights


@pytest.mark.parametrize("entry", ["../../escape.safetensors", "model.bin", 7])
def test_index_that_names_other_files_fetches_none_of_them(run, hub: Hub, files, entry) -> None:
    del files["model.safetensors"]
    files["model.safetensors.index.json"] = json.dumps({"weight_map": {"a": entry}}).encode()
    hub.repos["org/tiny"] = files | EXTRAS | {"model.bin": b"pickle"}
    code, out, err = run("models", "get", "org/tiny")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "model.safetensors.index.json" in err
    assert hub.fetched == {"config.json", "model.safetensors.index.json"}


def test_model_attn_cannot_compute_is_refused_before_its_weights_are_fetched(
    run, hub: Hub, files, tmp_path: Path
) -> None:
    config = json.loads(files["config.json"])
    for change, said in [({"model_type": "mamba"}, "'mamba'"), ({"novel_norm": 3}, "novel_norm")]:
        hub.repos["org/other"] = files | {"config.json": json.dumps(config | change).encode()}
        code, out, err = run(*INSPECT, "org/other", HF_HOME=str(tmp_path / said))
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert said in err
    assert hub.fetched == {"config.json"}


@pytest.mark.parametrize(
    ("lost", "added", "said"),
    [
        ("model.safetensors", {"pytorch_model.bin": b"x"}, "only pickles (pytorch_model.bin)"),
        ("model.safetensors", {"a.Q4_0.gguf": b"x"}, "only GGUF files (a.Q4_0.gguf)"),
        ("model.safetensors", {"model.onnx": b"x"}, "nothing that attn reads"),
        ("tokenizer.json", {}, "no tokenizer.json on the hub"),
        ("config.json", {}, "no config.json on the hub"),
    ],
)
def test_repository_without_what_is_needed_is_refused_before_anything_is_fetched(
    run, hub: Hub, files, lost: str, added: dict[str, bytes], said: str
) -> None:
    del files[lost]
    hub.repos["org/tiny"] = files | added
    code, out, err = run(*INSPECT, "org/tiny")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert said in err
    assert hub.fetched == set()


def test_unknown_model_is_one_line_with_a_close_name(run, hub: Hub) -> None:
    assert run("models", "get", "org/tiny")[0] == 0
    code, out, err = run(*INSPECT, "org/tinny")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{hub.endpoint} has no such model, or it is private" in err
    assert err.endswith("or set HF_TOKEN. Did you mean hub:org/tiny?\n")


def test_private_model_needs_the_right_token(run, hub: Hub) -> None:
    hub.tokens["org/tiny"] = "hf_right"
    code, _, err = run("models", "get", "org/tiny")
    assert (code, err.count("\n")) == (1, 1)
    assert "private" in err
    assert "HF_TOKEN" in err
    code, _, err = run("models", "get", "org/tiny", HF_TOKEN="hf_wrong")
    assert (code, err.count("\n")) == (1, 1)
    assert "HF_TOKEN is wrong" in err
    assert "hf_wrong" not in err
    hub.authorizations.clear()
    assert run("models", "get", "org/tiny", HF_TOKEN="hf_right")[0] == 0
    assert hub.authorizations == {"Bearer hf_right"}


def test_gated_model_says_where_to_accept_the_terms(run, hub: Hub) -> None:
    hub.gated.add("org/tiny")
    code, _, err = run("models", "get", "org/tiny")
    assert (code, err.count("\n")) == (1, 1)
    assert f"accept the terms at {hub.endpoint}/org/tiny and set HF_TOKEN" in err


def test_offline_is_one_line_and_no_request(run, hub: Hub) -> None:
    code, out, err = run(*INSPECT, "org/tiny", HF_HUB_OFFLINE="1")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "org/tiny: no such path or model on this machine, and HF_HUB_OFFLINE forbids" in err
    assert hub.requests == []


def test_hub_that_does_not_answer_is_one_line(run, hub: Hub) -> None:
    code, out, err = run(*INSPECT, "org/tiny", HF_ENDPOINT="http://127.0.0.1:9")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the download from http://127.0.0.1:9 failed" in err
    hub.down = True
    code, out, err = run(*INSPECT, "org/tiny")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{hub.endpoint} answered 503; try again later" in err


def test_download_that_breaks_off_is_one_line_and_goes_on_with_the_missing_file(
    run, hub: Hub, files, snapshot: Path
) -> None:
    hub.cut_after = 2000
    code, out, err = run(*INSPECT, "org/tiny")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert not (snapshot / "model.safetensors").exists()
    rows = json.loads(run("models", "list", "--json")[1])["models"]
    (row,) = [row for row in rows if row["name"] == "hub:org/tiny"]
    assert (row["readable"], row["problem"]) == (False, "no model.safetensors in it")
    hub.down = False
    hub.requests.clear()
    code, out, err = run(*INSPECT, "org/tiny")
    assert (code, err) == (0, "")
    bodies = {path for verb, path in hub.requests if verb == "GET" and "/resolve/" in path}
    assert bodies == {"/org/tiny/resolve/main/model.safetensors"}
    assert (snapshot / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_connection_that_breaks_once_is_tried_again(run, hub: Hub, files, snapshot: Path) -> None:
    hub.cut_after, hub.stays_down = 2000, False
    code, _, err = run(*INSPECT, "org/tiny")
    assert (code, err) == (0, "")
    assert (
        sum(path.endswith("model.safetensors") for verb, path in hub.requests if verb == "GET") > 1
    )
    assert (snapshot / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_cache_that_cannot_be_written_is_one_line(run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    code, out, err = run(*INSPECT, "org/tiny", HF_HOME=str(tmp_path / "taken"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"cannot be kept in {tmp_path / 'taken' / 'hub'}" in err


def test_get_of_what_is_there_already(run, hub: Hub, snapshot: Path) -> None:
    assert run("models", "get", "org/tiny")[0] == 0
    assert run("models", "get", "org/tiny", HF_HUB_OFFLINE="1")[:2] == (0, f"{snapshot}\n")
    hub.down = True
    code, _, err = run("models", "get", "org/tiny")
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize("name", ["./org/tiny", "a/b/c", "org/", "https://huggingface.co/org/tiny"])
def test_get_of_what_is_no_name_of_the_hub(run, hub: Hub, name: str) -> None:
    code, _, err = run("models", "get", name)
    assert (code, err.count("\n")) == (1, 1)
    assert "expected ORG/NAME" in err
    assert hub.requests == []


def test_progress_is_shown_on_a_terminal_only(run, hub: Hub, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "attncli", "models", "get", "org/tiny"]
    settings = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 80))
    environment = process_environment(**settings, NO_PROXY="127.0.0.1")
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=end) as ran:
        os.close(end)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while data := os.read(terminal, 4096):
                shown += data
        out, _ = ran.communicate(timeout=60)
    os.close(terminal)
    assert ran.returncode == 0
    assert out.count(b"\n") == 1
    assert b"100%" in shown
