"""attn models: everything that is found on a machine, readable or not."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from attncli.checkpoints.safetensors import SafetensorsFile
from attncli.schemas import read_schema
from tests.stores import gguf, hub_repo, model_files, ollama_model, package
from tests.toys import word_tokenizer


@pytest.fixture
def cache(home: Path) -> Path:
    return home / ".cache" / "huggingface" / "hub"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return model_files(tmp_path / "made")


@pytest.fixture
def rows(attn):
    """Return the rows of `attn models list --json` by name, checked against the schema."""

    def listed() -> dict[str, dict]:
        ran = attn("models", "list", "--json")
        assert (ran.code, ran.err) == (0, "")
        document = json.loads(ran.out)
        Draft202012Validator(json.loads(read_schema("models.list"))).validate(document)
        names = [row["name"] for row in document["models"]]
        assert len(set(names)) == len(names)
        return {row["name"]: row for row in document["models"]}

    return listed


def test_models_of_every_store_are_listed_in_the_order_of_looking(
    home: Path, cache: Path, files, rows, tmp_path: Path, monkeypatch
) -> None:
    hub_repo(cache, "org/tiny", files)
    hub_repo(cache, "org/tiny-GGUF", {"tiny.F32.gguf": gguf(), "config.json": b"{}"})
    store = home / ".ollama/models"
    ollama_model(store, gguf(), "registry.ollama.ai", "library", "llama3.2", "1b")
    for place in (".lmstudio/models/org/Repo/m.gguf", ".cache/llama.cpp/org_m.gguf"):
        (home / place).parent.mkdir(parents=True)
        (home / place).write_bytes(gguf("rwkv", layers=3, heads=4))
    package(tmp_path / "site", "tiny-gguf", {"tiny/m.gguf": gguf()})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    found = rows()
    assert [(name, row["source"]) for name, row in found.items()] == [
        ("minilm", "bundled"),
        ("hub:org/tiny", "Hugging Face cache"),
        ("hub:org/tiny-GGUF/tiny.F32.gguf", "Hugging Face cache"),
        ("ollama:llama3.2:1b", "Ollama"),
        ("lmstudio:org/Repo/m.gguf", "LM Studio"),
        ("llamacpp:org_m.gguf", "llama.cpp"),
        ("package:tiny-gguf", "package"),
    ]
    tiny = found["hub:org/tiny"]
    assert (tiny["family"], tiny["layers"], tiny["heads"]) == ("BERT", 2, 3)
    assert (tiny["readable"], tiny["problem"]) == (True, "")
    assert tiny["bytes"] == len(files["model.safetensors"])
    assert tiny["format"] == "safetensors F32"
    llama = found["ollama:llama3.2:1b"]
    assert (llama["family"], llama["layers"], llama["heads"]) == ("Llama", 2, 2)
    assert (llama["readable"], llama["format"]) == (True, "gguf F32")
    assert llama["bytes"] == len(gguf())
    other = found["lmstudio:org/Repo/m.gguf"]
    assert (other["family"], other["layers"], other["heads"]) == ("rwkv", 3, 4)
    assert "architecture 'rwkv' is not supported" in other["problem"]


def test_every_name_of_the_list_is_taken_by_model(
    home: Path, cache: Path, files, rows, attn
) -> None:
    hub_repo(cache, "org/tiny", files)
    shutil.copytree(home.parent / "made", home / ".lmstudio/models/org/tiny")
    store = home / ".ollama/models"
    ollama_model(store, gguf(), "registry.ollama.ai", "library", "llama3.2", "1b")
    for name, row in rows().items():
        ran = attn("tokens", "the dog", "-m", name, "--json")
        assert ran.code == 0, ran.err
        source = ran.document["model"]["source"]
        assert source == ("bundled" if name == "minilm" else row["path"])


def change_config(**changes):
    def change(files: dict[str, bytes]) -> None:
        config = {**json.loads(files["config.json"]), **changes}
        files["config.json"] = json.dumps(config).encode()

    return change


def drop(name: str):
    return lambda files: files.pop(name)


def put(name: str, data: bytes):
    return lambda files: files.update({name: data})


@pytest.mark.parametrize(
    ("break_it", "said", "layers"),
    [
        (change_config(model_type="mamba"), "model_type 'mamba' is not supported", 2),
        (change_config(novel_norm=2), "attn does not know what these keys change: novel_norm", 2),
        (change_config(num_hidden_layers=3), "tensor", 3),
        (change_config(num_hidden_layers="two"), "num_hidden_layers", None),
        (put("config.json", b"{"), "not valid JSON", None),
        (put("config.json", b"[" * 200_000), "not valid JSON", None),
        (put("config.json", b"[]"), "expected a JSON object", None),
        (drop("config.json"), "no config.json", None),
        (drop("model.safetensors"), "no model.safetensors in it", 2),
        (drop("tokenizer.json"), "no tokenizer.json in it", 2),
        (put("model.safetensors", b"version https://git-lfs.github"), "a Git LFS pointer", 2),
        (put("model.safetensors", b""), "the file is empty", 2),
        (put("model.safetensors", b"\xff" * 20), "not a sound safetensors file", 2),
    ],
)
def test_broken_model_is_a_row_that_says_why(
    cache: Path, files, rows, attn, break_it, said: str, layers: int | None
) -> None:
    hub_repo(cache, "org/good", files)
    break_it(files)
    hub_repo(cache, "org/bad", files)
    found = rows()
    assert found["hub:org/good"]["readable"] is True
    bad = found["hub:org/bad"]
    assert bad["readable"] is False
    assert said in bad["problem"]
    assert bad["layers"] == layers
    ran = attn("models")
    assert ran.code == 0
    assert "org/bad" in ran.out


def test_model_with_only_a_pickle_says_so(cache: Path, files, rows) -> None:
    del files["model.safetensors"]
    hub_repo(cache, "org/old", files | {"pytorch_model.bin": b"cos\nsystem\n."})
    problem = rows()["hub:org/old"]["problem"]
    assert problem == "no model.safetensors, only pytorch_model.bin, a pickle, which is never read"


def test_link_that_leads_out_is_a_row_and_not_followed(
    cache: Path, files, rows, tmp_path: Path
) -> None:
    snapshot = hub_repo(cache, "org/bad", files)
    (tmp_path / "secret.json").write_text('{"model_type": "secret"}')
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(tmp_path / "secret.json")
    row = rows()["hub:org/bad"]
    assert "config.json is a link that leads out" in row["problem"]
    assert (row["family"], row["bytes"]) == ("", 0)


def test_error_nobody_thought_of_is_a_row_too(cache: Path, files, rows, monkeypatch) -> None:
    hub_repo(cache, "org/odd", files)

    def fail(folder: Path) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("attncli.analyses.model_list.open_weights", fail)
    assert rows()["hub:org/odd"]["problem"] == "ZeroDivisionError: odd"


def test_weights_and_vocabularies_are_not_read(cache: Path, files, rows, monkeypatch) -> None:
    hub_repo(cache, "org/tiny", files | {"tokenizer.json": b"not even JSON"})

    def fail(*_: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(SafetensorsFile, "read", fail)
    monkeypatch.setattr(SafetensorsFile, "rows", fail)
    assert rows()["hub:org/tiny"]["readable"] is True


def test_split_gguf_is_one_row_of_the_size_of_all_parts(home: Path, rows) -> None:
    folder = home / ".lmstudio/models/org/Repo"
    folder.mkdir(parents=True)
    for part in (1, 2):
        (folder / f"m-0000{part}-of-00002.gguf").write_bytes(gguf())
    (row,) = [row for name, row in rows().items() if name.startswith("lmstudio:")]
    assert row["name"] == "lmstudio:org/Repo/m-00001-of-00002.gguf"
    assert row["bytes"] == 2 * len(gguf())


def test_table_shows_a_short_reason_on_one_line(
    home: Path, cache: Path, files, attn, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    change_config(model_type="mamba")(files)
    hub_repo(cache, "org/mamba", files)
    hub_repo(cache, "org/\x1b[31mred", files)
    lines = attn("models").out.splitlines()
    (line,) = [line for line in lines if "hub:org/mamba" in line]
    assert line.split("  ")[-1].strip() == "model_type 'mamba' is not supported"
    assert "2 × 3" in line
    assert not any("\x1b" in line for line in lines)


def test_csv_has_one_row_a_model(cache: Path, files, attn) -> None:
    hub_repo(cache, "org/tiny", files)
    head, *lines = attn("models", "list", "-f", "csv").out.splitlines()
    assert head == "text,name,source,path,family,layers,heads,bytes,format,readable,problem"
    (line,) = [line for line in lines if ",hub:org/tiny," in line]
    assert ",BERT,2,3," in line
    assert line.endswith(",safetensors F32,true,")


def test_broken_ollama_and_gguf_files_are_rows(home: Path, rows) -> None:
    store = home / ".ollama/models"
    ollama_model(store, b"GGUF", "registry.ollama.ai", "library", "cut", "latest")
    ollama_model(store, gguf(), "registry.ollama.ai", "library", "gone", "latest").unlink()
    ollama_model(store, b"PK\3\4", "registry.ollama.ai", "library", "zip", "latest")
    found = rows()
    assert "GGUF" in found["ollama:cut:latest"]["problem"]
    assert "pull it again" in found["ollama:gone:latest"]["problem"]
    assert "not a GGUF file" in found["ollama:zip:latest"]["problem"]


def test_large_vocabulary_does_not_slow_the_list(cache: Path, files, rows) -> None:
    words = [f"w{i}" for i in range(50_000)]
    files["tokenizer.json"] = word_tokenizer(["[UNK]", *words]).to_str().encode()
    hub_repo(cache, "org/wide", files)
    assert rows()["hub:org/wide"]["readable"] is True
