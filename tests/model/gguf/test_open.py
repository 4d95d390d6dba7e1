"""GGUF files from a name to numbers: where they lie, what they hold, what the user is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.analyses.models import describe_model
from attncli.checkpoints.store import FLOAT_TYPES
from attncli.errors import InputProblem, ModelProblem
from attncli.model.load import load
from attncli.model.locate import locate
from tests.gguf_converter import bytes_tokenizer, convert
from tests.ggufs import quantised, write_gguf
from tests.parity.comparison import read_golden
from tests.toys import record

TEXT = "it's 12 !"
ROOT = Path(__file__).parents[3]


def attn(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "attncli", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "ATTNCLI_SHAPES"},
        capture_output=True,
        text=True,
        check=False,
    )


def llama_parts(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and tensors of a Llama with a token for every byte."""
    golden = read_golden("llama")
    metadata, tensors = convert("llama", golden.config, golden.tensors)
    tensors["token_embd.weight"] = np.resize(tensors["token_embd.weight"], (260, 16))
    metadata["llama.attention.layer_norm_rms_epsilon"] = 1e-6
    return {**metadata, **bytes_tokenizer(260), **changes}, tensors


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "models" / "small.gguf", *llama_parts())


def test_file_and_its_folder_are_the_same_model(model: Path) -> None:
    by_file, by_folder = load(str(model)), load(str(model.parent))
    assert (by_file.name, by_folder.name) == ("small", "models")
    assert by_folder.place.kind == "gguf"
    assert by_folder.place.path == model
    assert by_file.sha256() == by_folder.sha256()
    assert by_file.card().dtype == "F32"


def test_image_encoder_beside_a_model_is_passed_over(model: Path) -> None:
    (model.parent / "mmproj-small.gguf").write_bytes(b"GGUF")
    assert locate(str(model.parent)).path == model


def test_one_of_several_must_be_named(model: Path) -> None:
    model.with_name("other.gguf").write_bytes(model.read_bytes())
    with pytest.raises(ModelProblem, match=r"2 models.*other\.gguf, .*small\.gguf"):
        load(str(model.parent))


def test_folder_with_a_config_is_no_gguf_model(model: Path) -> None:
    (model.parent / "config.json").write_text("{}")
    assert locate(str(model.parent)).kind == "folder"


def test_parts_give_the_numbers_of_the_whole(model: Path, tmp_path: Path) -> None:
    metadata, tensors = llama_parts()
    names = sorted(tensors)
    for part in range(3):
        about = {"split.no": part, "split.count": 3, "split.tensors.count": len(names)}
        about |= metadata if part == 0 else {"general.architecture": "llama"}
        mine = {name: tensors[name] for name in names[part::3]}
        write_gguf(tmp_path / "parts" / f"m-{part + 1:05}-of-00003.gguf", about, mine)
    whole = load(str(model))
    ids = whole.encode(TEXT).ids
    expected = record(whole.spec, whole.params, ids).weights
    for name in ("parts", "parts/m-00001-of-00003.gguf", "parts/m-00003-of-00003.gguf"):
        split = load(str(tmp_path / name))
        assert split.encode(TEXT).ids == ids
        np.testing.assert_array_equal(record(split.spec, split.params, ids).weights, expected)
        assert split.sha256() is None
    (tmp_path / "parts" / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(ModelProblem, match=r"files are missing \(m-00002-of-00003\.gguf\)"):
        load(str(tmp_path / "parts"))


def mixed(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Llama of width 256 whose tensors are of five quantised types, as real files are."""
    kinds = {
        "attn_q": ("Q4_K", (256, 256)),
        "attn_k": ("Q4_K", (128, 256)),
        "attn_v": ("Q6_K", (128, 256)),
        "attn_output": ("IQ4_NL", (256, 256)),
        "ffn_gate": ("Q8_0", (256, 256)),
        "ffn_up": ("Q5_K", (256, 256)),
        "ffn_down": ("Q6_K", (256, 256)),
    }
    tensors: dict[str, Any] = {
        "token_embd.weight": quantised(rng, "Q8_0", (260, 256)),
        "output_norm.weight": np.ones(256, np.float32),
    }
    for i in range(2):
        for role, (kind, shape) in kinds.items():
            tensors[f"blk.{i}.{role}.weight"] = quantised(rng, kind, shape)
        for role in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{role}.weight"] = rng.normal(1, 0.3, 256).astype(np.float32)
    sizes = {
        "embedding_length": 256,
        "block_count": 2,
        "feed_forward_length": 256,
        "context_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    metadata = {f"llama.{key}": value for key, value in sizes.items()}
    return {"general.architecture": "llama", **metadata, **bytes_tokenizer(260)}, tensors


def test_mixed_types_equal_the_unpacked_numbers(tmp_path: Path) -> None:
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    metadata, tensors = mixed(np.random.default_rng(0))
    plain = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, tuple):
            kind, shape, data = tensor
            rows = np.frombuffer(data, np.uint8).reshape(shape[0], -1)
            plain[name] = dequantize(rows, GGMLQuantizationType[kind])
        else:
            plain[name] = tensor
    packed = load(str(write_gguf(tmp_path / "packed.gguf", metadata, tensors)))
    whole = load(str(write_gguf(tmp_path / "plain.gguf", metadata, plain)))
    ids = packed.encode(TEXT).ids
    ours, theirs = (record(m.spec, m.params, ids) for m in (packed, whole))
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    np.testing.assert_array_equal(ours.resid, theirs.resid)
    types = {info.dtype for info in packed.params.store.tensors.values()}
    assert types == {"F32", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "Q8_0"}
    assert types <= FLOAT_TYPES
    shown = describe_model(packed).facts["weights stored as"]
    assert set(str(shown).split(", ")) == types
    assert str(shown).startswith("Q8_0, ")  # the embedding


def test_type_that_is_not_read_is_refused_before_any_number(tmp_path: Path) -> None:
    metadata, tensors = mixed(np.random.default_rng(0))
    tensors["blk.1.ffn_up.weight"] = ("Q8_K", (256, 256), bytes(256 * 292))
    path = write_gguf(tmp_path / "m.gguf", metadata, tensors)
    with pytest.raises(ModelProblem, match="stored as Q8_K"):
        load(str(path))


def test_token_without_a_row(tmp_path: Path) -> None:
    metadata, tensors = llama_parts()
    tensors["token_embd.weight"] = tensors["token_embd.weight"][:20]
    model = load(str(write_gguf(tmp_path / "m.gguf", metadata, tensors)))
    with pytest.raises(InputProblem, match="the embedding table has 20 rows"):
        model.encode(TEXT)


@pytest.mark.parametrize("pre", [None, "my-own-rule"])
def test_note_about_the_rule_reaches_stderr_and_json(tmp_path: Path, pre: str | None) -> None:
    metadata, tensors = llama_parts()
    del metadata["tokenizer.ggml.pre"]
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    path = write_gguf(tmp_path / "m.gguf", metadata, tensors)
    result = attn("tokens", "-m", str(path), TEXT, "--json")
    assert result.returncode == 0
    (note,) = json.loads(result.stdout)["notes"]
    assert (pre or "tokenizer.ggml.pre") in note
    assert note in result.stderr
    shown = attn("tokens", "-m", str(path), TEXT)
    assert "gpt-2 is used instead" in " ".join(shown.stdout.split())


def test_refusal_is_one_line_and_no_output(tmp_path: Path, model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-100])
    result = attn("inspect", "-m", str(model), TEXT, "--json")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "the download may be incomplete" in result.stderr


def test_long_text_says_that_a_window_may_be_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(str(model))
    assert loaded.encode("a b").notes == loaded.tokenizer.encode("a b").notes
    monkeypatch.setattr("attncli.model.load.UNTOLD_WINDOW", 1)
    assert "sliding window" in loaded.encode("a b").notes[-1]
