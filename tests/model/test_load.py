"""A name or path to a model that runs, or one line that says why not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from attncli.errors import InputProblem, ModelProblem
from attncli.model.load import Model, load
from attncli.model.locate import BUNDLED, locate
from tests.toys import WORDS, record, tiny_bert, word_tokenizer, write_folder

TEXT = "the dog sees a cat"


def run(folder: Path) -> np.ndarray:
    """Load a folder and return the residual stream of a text."""
    model = load(str(folder))
    return record(model.spec, model.params, model.encode(TEXT).ids).resid


def test_checkpoint_with_prefix_and_old_norm_names_equals_the_plain_one(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    old = {
        "bert." + n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): values
        for n, values in tensors.items()
    }
    old["cls.predictions.bias"] = np.ones(len(WORDS), np.float32)
    plain, renamed = tmp_path / "plain", tmp_path / "renamed"
    write_folder(plain, config, tensors)
    write_folder(renamed, config, old)
    np.testing.assert_array_equal(run(renamed), run(plain))


def test_half_precision_checkpoint_equals_the_one_widened_before(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    half = {name: values.astype(np.float16) for name, values in tensors.items()}
    wide = {name: values.astype(np.float32) for name, values in half.items()}
    write_folder(tmp_path / "half", config, half)
    write_folder(tmp_path / "wide", config, wide)
    np.testing.assert_array_equal(run(tmp_path / "half"), run(tmp_path / "wide"))
    assert load(str(tmp_path / "half")).dtype == "F16"


def test_folder_and_the_files_in_it_lead_to_the_same_model(bert_folder: Path) -> None:
    for path in (bert_folder, bert_folder / "config.json", bert_folder / "model.safetensors"):
        model = load(str(path))
        assert (model.name, model.place.kind) == ("tiny", "folder")


def test_card_says_what_was_loaded(bert_folder: Path) -> None:
    card = load(str(bert_folder)).card()
    assert (card.name, card.family, card.layers, card.heads) == ("tiny", "BERT", 2, 3)
    assert (card.dtype, card.causal, card.random) == ("F32", False, False)
    weights = (bert_folder / "model.safetensors").read_bytes()
    assert card.sha256 == hashlib.sha256(weights).hexdigest()


def test_bundled_files_have_the_sums_that_stand_beside_them(minilm: Model) -> None:
    lines = (BUNDLED / "minilm" / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    assert set(sums) == {"config.json", "model.safetensors", "tokenizer.json"}
    for name, digest in sums.items():
        content = (BUNDLED / "minilm" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
    assert minilm.card().sha256 == sums["model.safetensors"]


def test_environment_chooses_the_default_model(
    bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load().name == "minilm"
    monkeypatch.setenv("ATTN_MODEL", str(bert_folder))
    assert load().name == "tiny"


def test_folder_with_only_a_pickle_is_refused_and_never_read(bert_folder: Path) -> None:
    (bert_folder / "model.safetensors").unlink()
    (bert_folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(ModelProblem, match=r"only pytorch_model\.bin.*pickle.*save_pretrained"):
        load(str(bert_folder))


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_folder_without_a_needed_file_names_it(bert_folder: Path, missing: str) -> None:
    (bert_folder / missing).unlink()
    with pytest.raises(ModelProblem) as caught:
        load(str(bert_folder))
    assert missing in str(caught.value)


def test_unknown_name_lists_what_there_is_and_suggests() -> None:
    with pytest.raises(ModelProblem, match=r"minilmm: no such model.*Did you mean minilm\?"):
        load("minilmm")


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"GGUF")
    with pytest.raises(ModelProblem, match=r"model\.onnx: not a model that attn reads"):
        load(str(tmp_path / "model.onnx"))


def test_bundled_name_wins_over_a_folder_of_that_name(
    bert_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(bert_folder, bert_folder.parent / "minilm")
    monkeypatch.chdir(bert_folder.parent)
    assert locate("minilm").kind == "bundled"
    assert locate("./minilm").kind == "folder"


def test_text_beyond_the_position_table_is_refused_and_the_longest_one_runs(
    bert_folder: Path,
) -> None:
    model = load(str(bert_folder))
    longest = model.encode("the " * 7)
    assert record(model.spec, model.params, longest.ids).weights.shape[-1] == 9
    with pytest.raises(InputProblem, match=r"10 tokens, tiny takes at most 9"):
        model.encode("the " * 8)


def test_token_without_a_row_in_the_embedding_is_named(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    folder = write_folder(tmp_path, config, tensors, word_tokenizer([*WORDS, "zebra"]))
    model = load(str(folder))
    assert model.encode("the dog")
    with pytest.raises(InputProblem, match=r"token 'zebra' has id 10, .* has 10 rows"):
        model.encode("the zebra")


def test_nan_in_the_weights_stops_the_run_with_the_tensors_name(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    tensors["encoder.layer.1.attention.self.value.bias"][3] = np.nan
    write_folder(tmp_path, config, tensors)
    with pytest.raises(ModelProblem, match=r"layer\.1\.attention\.self\.value\.bias holds NaN"):
        run(tmp_path)


def test_trained_model_cannot_be_declared_random_by_its_config(bert_folder: Path) -> None:
    config = json.loads((bert_folder / "config.json").read_text())
    (bert_folder / "config.json").write_text(json.dumps({**config, "random": True}))
    with pytest.raises(ModelProblem, match="random"):
        load(str(bert_folder))
