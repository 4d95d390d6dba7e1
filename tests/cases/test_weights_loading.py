"""Weights as files really hold them: old names, buffers, two bytes, several spellings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.model.load import load
from tests.cases.folders import Case, in_two_bytes, on_disk
from tests.parity.comparison import TOLERANCE
from tests.toys import record, write_folder


def old_bert_name(name: str) -> str:
    """Name a tensor as the first BERT files do."""
    return "bert." + name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")


def test_old_bert_file_gives_the_numbers_of_its_gamma_and_beta(attn, tmp_path: Path) -> None:
    more = {
        "bert.embeddings.position_ids": np.arange(16)[None],
        "bert.pooler.dense.weight": np.ones((24, 24), np.float32),
        "cls.predictions.bias": np.ones(40, np.float32),
        "cls.seq_relationship.weight": np.ones((2, 24), np.float32),
    }
    case = on_disk(tmp_path / "m", "bert", rename=old_bert_name, more=more)
    case.assert_numbers(attn)
    # with norms at 1 and 0 the numbers would be others
    golden = case.golden
    for name, values in golden.tensors.items():
        if "Norm" in name:
            golden.tensors[name] = np.full_like(values, name.endswith("weight"))
    flat = record(*golden.model(), golden.ids)
    assert np.abs(flat.weights - golden.weights).max() > 1000 * TOLERANCE


@pytest.mark.parametrize("kind", ["BF16", "F16"])
def test_two_byte_weights_are_widened_exactly_and_computed_in_float32(
    attn, tmp_path: Path, kind: str
) -> None:
    case = on_disk(tmp_path / "short", "llama")
    wide = in_two_bytes(case.folder, kind)
    stored = load(str(case.folder))
    assert stored.dtype == kind
    for name, values in wide.items():
        np.testing.assert_array_equal(stored.params.store.read(name), values)
    whole = Case(case.golden, write_folder(tmp_path / "wide", case.golden.config, wide))
    whole.folder.joinpath("tokenizer.json").write_bytes(
        case.folder.joinpath("tokenizer.json").read_bytes()
    )
    found = case.weights_of(attn, 1, 0)
    np.testing.assert_array_equal(found, whole.weights_of(attn, 1, 0))
    np.testing.assert_allclose(found, case.golden.weights[1, 0], atol=0.05)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)


def transformer_name(name: str) -> str:
    return f"transformer.{name}"


@pytest.mark.parametrize("rename", [str, transformer_name])
def test_gpt2_file_with_mask_buffers_gives_the_same_numbers_with_and_without_prefix(
    attn, tmp_path: Path, rename
) -> None:
    more = {}
    for i in range(2):
        mask = np.tril(np.ones((12, 12), np.float32))[None, None]
        more[rename(f"h.{i}.attn.bias")] = 1000 * mask
        more[rename(f"h.{i}.attn.masked_bias")] = np.array(-1e4, np.float32)
    on_disk(tmp_path / "m", "gpt2", rename=rename, more=more).assert_numbers(attn)


SPELLINGS: list[dict[str, Any]] = [
    {"rope_theta": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {"rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 100}},
]


def llama_linear(folder: Path, rotary: dict[str, Any]) -> Case:
    """Write the Llama with linear scaling, its rotary settings spelled so."""
    case = on_disk(folder, "llama-linear")
    kept = {k: v for k, v in case.golden.config.items() if k != "rope_parameters"}
    (folder / "config.json").write_text(json.dumps({**kept, **rotary}))
    return case


@pytest.mark.parametrize("rotary", SPELLINGS)
def test_rotary_settings_are_found_in_every_spelling(attn, tmp_path: Path, rotary) -> None:
    llama_linear(tmp_path / "m", rotary).assert_numbers(attn)


def test_rotary_settings_that_are_not_found_would_show(attn, tmp_path: Path) -> None:
    case = llama_linear(tmp_path / "m", {})
    assert np.abs(case.weights_of(attn, 0, 3) - case.golden.weights[0, 3]).max() > 0.01


def test_unknown_kind_of_rotary_scaling_is_refused_by_name(attn, tmp_path: Path) -> None:
    rotary = {"rope_theta": 100.0, "rope_scaling": {"type": "foo", "factor": 2.0}}
    case = llama_linear(tmp_path / "m", rotary)
    ran = attn("inspect", case.text, "-m", str(case.folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert '"foo"' in ran.err


def test_only_texts_with_a_token_beyond_the_table_are_refused(attn, tmp_path: Path) -> None:
    case = on_disk(tmp_path / "m", "bert")
    tokenizer = json.loads((case.folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["newword"] = 40
    (case.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    ran = attn("inspect", "w1 newword w2", "-m", str(case.folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "token 'newword' has id 40, the embedding table has 40 rows" in ran.err
    case.assert_numbers(attn)


def test_table_padded_beyond_the_vocabulary_is_read_without_a_word(attn, tmp_path: Path) -> None:
    case = on_disk(tmp_path / "m", "bert")
    table = case.golden.tensors["embeddings.word_embeddings.weight"]
    padded = np.concatenate([table, np.ones((24, table.shape[1]), np.float32)])
    on_disk(
        tmp_path / "m",
        "bert",
        more={"embeddings.word_embeddings.weight": padded},
        config={**case.golden.config, "vocab_size": 64},
    )
    case.assert_numbers(attn)
