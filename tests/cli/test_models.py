"""attn models: list, info, pack, init, and models made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from attncli.schemas import read_schema


def check(command: str, ran) -> dict:
    document = json.loads(ran.out)
    Draft202012Validator(json.loads(read_schema(command))).validate(document)
    return document


def test_list_names_the_bundled_model(attn) -> None:
    listed = check("models.list", attn("models", "list", "--json"))["models"][0]
    assert (listed["name"], listed["layers"], listed["heads"]) == ("minilm", 6, 12)
    assert (listed["source"], listed["family"]) == ("bundled", "BERT")
    assert listed["readable"] is True
    assert attn("models").out == attn("models", "list").out
    assert "minilm" in attn("models").out


def test_info_counts_the_parameters_of_the_tensors_it_lists(attn) -> None:
    record = check("models.info", attn("models", "info", "minilm", "--json"))
    used = {tensor["tensor"]: tensor["shape"] for tensor in record["tensors"]}
    assert record["facts"]["parameters"] == sum(int(np.prod(shape)) for shape in used.values())
    assert record["facts"]["scale of q·k"] == pytest.approx(32**-0.5)
    assert "pooler.dense.weight" in record["ignored"]


def test_info_without_a_name_is_of_the_default_model(attn, bert_folder: Path, monkeypatch) -> None:
    assert "minilm" in attn("models", "info").out.splitlines()[0]
    monkeypatch.setenv("ATTN_MODEL", str(bert_folder))
    assert attn("models", "info").out.splitlines()[0].startswith("tiny · BERT · 2 layers × 3 heads")


def test_packing_twice_gives_the_same_bytes(attn, bert_folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        ran = attn("models", "pack", str(bert_folder), "-o", str(tmp_path / name))
        assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert "model.safetensors" in files
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 0.0), ("f16", 2e-3), ("q8", 2e-2)])
def test_packed_model_gives_nearly_the_same_weights(
    attn, bert_folder: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    packed = str(tmp_path / "packed")
    assert attn("models", "pack", str(bert_folder), "--output", packed, "--dtype", dtype).code == 0
    inspect = ["inspect", "the dog sees a cat", "-H", "1.0", "--json", "-m"]
    before, after = (
        attn(*inspect, model).document["weights"] for model in (str(bert_folder), packed)
    )
    assert np.abs(np.subtract(before, after)).max() <= tolerance


def test_packing_over_a_model_needs_force(attn, bert_folder: Path, tmp_path: Path) -> None:
    packed = str(tmp_path / "packed")
    arguments = ["models", "pack", str(bert_folder), "-o", packed]
    assert attn(*arguments).code == 0
    refused = attn(*arguments, "--dtype", "f32")
    assert refused.code == 1
    assert "--force" in refused.err
    assert attn(*arguments, "--dtype", "f32", "--force").code == 0
    facts = check("models.info", attn("models", "info", packed, "--json"))["facts"]
    assert facts["weights stored as"] == "F32"


def test_init_takes_every_size(attn, tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("I like jam and toast")
    folder = str(tmp_path / "toy")
    sizes = ["--d-model", "24", "--heads", "3", "--layers", "2", "--seed", "7"]
    ran = attn("models", "init", folder, *sizes, "--causal", "--vocab-from", str(vocabulary))
    assert (ran.code, ran.out) == (0, "")
    assert "random weights of seed 7" in ran.err
    facts = check("models.info", attn("models", "info", folder, "--json"))["facts"]
    assert (facts["layers"], facts["heads"], facts["width of the residual stream"]) == (2, 3, 24)
    assert facts["rows of the embedding"] == 6
    assert facts["direction"] == "a token sees what came before"
    assert facts["output projection"] is True
    assert facts["feed-forward"].endswith("width 96")
    record = attn("inspect", "I like rye", "-m", folder, "--json").document
    assert record["model"]["random"] is True
    assert [token["id"] for token in record["tokens"]] == [1, 2, 0]
    assert "not in the vocabulary: rye" in record["notes"]


def test_init_without_feed_forward_and_output_has_attention_only(attn, tmp_path: Path) -> None:
    folder = str(tmp_path / "bare")
    assert attn("models", "init", folder, "--no-ffn", "--no-output").code == 0
    record = check("models.info", attn("models", "info", folder, "--json"))
    assert (record["facts"]["feed-forward"], record["facts"]["output projection"]) == (
        "none",
        False,
    )
    assert [tensor["name"] for tensor in record["tensors"]] == [
        "embed.token",
        "0.attn.q.weight",
        "0.attn.k.weight",
        "0.attn.v.weight",
    ]


def test_init_repeats_itself_for_a_seed_and_differs_between_seeds(attn, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert (
            attn("models", "init", str(tmp_path / name), "--d-model", "8", "--seed", seed).code == 0
        )
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--heads", "3"], 2, "64 does not divide by 3 heads"),
        (["--d-model", "0"], 2, "0 is not in the range"),
        (["--vocab-from", "absent.txt"], 1, "absent.txt: cannot be read"),
    ],
)
def test_init_that_cannot_be_is_one_line(attn, tmp_path: Path, options, code, said) -> None:
    ran = attn("models", "init", str(tmp_path / "toy"), *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert said in ran.err
    assert not (tmp_path / "toy").exists()


def test_init_over_a_model_needs_force(attn, tmp_path: Path) -> None:
    folder = str(tmp_path / "toy")
    assert attn("models", "init", folder, "--d-model", "8").code == 0
    assert attn("models", "init", folder, "--d-model", "8").code == 1
    assert attn("models", "init", folder, "--d-model", "8", "--force").code == 0


def test_matrices_typed_by_hand_give_the_attention_worked_out_by_hand(attn, tmp_path: Path) -> None:
    path = tmp_path / "hand.npz"
    np.savez(
        path,
        embedding=np.eye(2, dtype=np.float32),
        w_q=np.eye(2, dtype=np.float32),
        w_k=np.float32([[1, 0], [0, 2]]),
        w_v=np.eye(2, dtype=np.float32),
        vocabulary=np.array(["jam", "toast"]),
        n_heads=np.array(1),
    )
    record = attn("inspect", "jam toast", "-m", str(path), "-H", "0.0", "--json").document
    assert record["model"]["name"] == "hand"
    assert record["model"]["random"] is False
    root = 2**0.5
    np.testing.assert_allclose(record["scores"], [[1 / root, 0], [0, 2 / root]], atol=1e-6)
    e, f = np.exp(1 / root), np.exp(root)
    np.testing.assert_allclose(
        record["weights"], [[e / (1 + e), 1 / (1 + e)], [1 / (1 + f), f / (1 + f)]], atol=1e-6
    )
