"""Where names lead: paths, the order of stores, the hub cache, links, suggestions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from attncli.errors import ModelProblem
from attncli.model.load import load
from attncli.model.locate import hub_id, locate
from attncli.model.locate.hub import hub_cache
from attncli.model.locate.place import MOST
from tests.stores import COMMIT, gguf, hub_repo, model_files, ollama_model

OTHER = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The files of a tiny checkpoint."""
    return model_files(tmp_path / "made")


@pytest.fixture
def cache(home: Path) -> Path:
    """The hub cache where it is when no variable says otherwise."""
    return home / ".cache" / "huggingface" / "hub"


def test_hub_model_is_found_through_its_ref_and_loads(cache: Path, files) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    hub_repo(cache, "org/tiny", {"config.json": b"{}"}, OTHER, ref=False)
    for name in ("org/tiny", "hub:org/tiny"):
        place = locate(name)
        assert (place.name, place.kind, place.path) == ("org/tiny", "folder", snapshot)
        assert place.handle == "hub:org/tiny"
    model = load("org/tiny")
    assert model.name == "org/tiny"
    assert model.card().record()["source"] == str(snapshot)


def test_hub_model_of_before_there_were_organisations(cache: Path, files) -> None:
    snapshot = hub_repo(cache, "gpt2", files)
    assert locate("gpt2").path == snapshot


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{t}/xdg"}, "xdg/huggingface/hub"),
        ({"HF_HOME": "{t}/hf", "XDG_CACHE_HOME": "{t}/xdg"}, "hf/hub"),
        ({"HF_HOME": "~/hf"}, "home/hf/hub"),
        ({"HF_HUB_CACHE": "$HOME/c", "HF_HOME": "{t}/hf"}, "home/c"),
        ({"HUGGINGFACE_HUB_CACHE": "{t}/old", "HF_HOME": "{t}/hf"}, "old"),
    ],
)
def test_variables_move_the_hub_cache(
    home: Path, tmp_path: Path, monkeypatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(t=tmp_path))
    assert hub_cache() == tmp_path / expected


def test_folder_of_the_hub_cache_leads_to_its_current_snapshot(cache: Path, files) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    assert locate(str(snapshot.parents[1])).path == snapshot
    assert load(str(snapshot)).name == COMMIT


def test_only_snapshot_is_taken_where_no_ref_says_which(cache: Path, files) -> None:
    snapshot = hub_repo(cache, "org/tiny", files, ref=False)
    assert locate("org/tiny").path == snapshot
    hub_repo(cache, "org/tiny", files, OTHER, ref=False)
    with pytest.raises(ModelProblem, match=r"several snapshots and no refs/main.*OFFLINE"):
        load("org/tiny")


@pytest.mark.parametrize("ref", ["../../../elsewhere", "", "a/b", "x" * 200, "\x00", ".."])
def test_ref_that_names_no_snapshot_leads_nowhere(cache: Path, files, ref: str) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    (snapshot.parents[1] / "refs" / "main").write_text(ref)
    assert locate("org/tiny").kind == "remote"
    with pytest.raises(ModelProblem, match="refs/main does not name a snapshot"):
        locate(str(snapshot.parents[1]))


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors"])
def test_hub_model_that_is_not_whole_is_left_to_a_download(cache: Path, files, lost: str) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    (snapshot / lost).resolve().unlink()
    assert locate("org/tiny").kind == "remote"
    with pytest.raises(ModelProblem, match=rf"only in part on this machine \(no {lost}"):
        load("org/tiny")


def test_sharded_hub_model_that_lacks_a_shard_is_not_whole(cache: Path, files) -> None:
    weights = files.pop("model.safetensors")
    index = b'{"weight_map": {"a": "model-1.safetensors", "b": "parts/model-2.safetensors"}}'
    files |= {"model.safetensors.index.json": index, "model-1.safetensors": weights}
    hub_repo(cache, "org/tiny", files)
    assert locate("org/tiny").kind == "remote"
    with pytest.raises(ModelProblem, match=r"1 of 2 weight files missing \(parts/model-2"):
        load("org/tiny")
    hub_repo(cache, "org/whole", files | {"parts/model-2.safetensors": weights})
    assert locate("org/whole").kind == "folder"


def test_link_out_of_the_hub_model_is_refused(cache: Path, files, tmp_path: Path) -> None:
    secret = tmp_path / "secret.safetensors"
    secret.write_bytes(files["model.safetensors"])
    snapshot = hub_repo(cache, "org/tiny", files)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(secret)
    for name in ("org/tiny", str(snapshot), str(snapshot / "config.json")):
        with pytest.raises(ModelProblem, match=r"model\.safetensors is a link that leads out"):
            locate(name)


def test_snapshot_that_is_a_link_out_of_the_cache_is_refused(
    cache: Path, files, tmp_path: Path
) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    shutil.rmtree(snapshot)
    snapshot.symlink_to(tmp_path / "made")
    with pytest.raises(ModelProblem, match="its snapshot is a link that leads out"):
        locate("org/tiny")


def test_gguf_that_is_a_link_out_of_the_hub_model_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.gguf").write_bytes(gguf())
    snapshot = hub_repo(cache, "org/tiny", {"m.gguf": gguf()})
    (snapshot / "m.gguf").unlink()
    (snapshot / "m.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    with pytest.raises(ModelProblem, match=r"m\.gguf: a link that leads out of the cache"):
        locate("org/tiny")


def test_link_into_the_blobs_of_another_hub_model_is_refused(cache: Path, files) -> None:
    other = hub_repo(cache, "org/other", files)
    snapshot = hub_repo(cache, "org/tiny", files)
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to((other / "tokenizer.json").resolve())
    with pytest.raises(ModelProblem, match=r"tokenizer\.json is a link that leads out"):
        locate("org/tiny")


def test_blob_that_is_a_link_itself_is_refused(cache: Path, files, tmp_path: Path) -> None:
    snapshot = hub_repo(cache, "org/tiny", files)
    blob = (snapshot / "model.safetensors").resolve()
    blob.rename(tmp_path / "moved")
    blob.symlink_to(tmp_path / "moved")
    with pytest.raises(ModelProblem, match="leads out"):
        locate("org/tiny")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_link_out_of_a_plain_folder_is_refused(
    bert_folder: Path, tmp_path: Path, name: str
) -> None:
    (bert_folder / name).rename(tmp_path / "elsewhere")
    (bert_folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelProblem, match=f"{name} is a link that leads out of the folder"):
        load(str(bert_folder))


def test_shard_that_is_a_link_out_of_a_sub_folder_is_refused(
    bert_folder: Path, tmp_path: Path
) -> None:
    (bert_folder / "parts").mkdir()
    (bert_folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (bert_folder / "parts" / "a.safetensors").symlink_to(tmp_path / "elsewhere")
    index = '{"weight_map": {"a": "parts/a.safetensors"}}'
    (bert_folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelProblem, match=r"parts/a\.safetensors is a link that leads out"):
        locate(str(bert_folder))


def test_link_that_goes_in_circles_is_refused(bert_folder: Path) -> None:
    (bert_folder / "tokenizer.json").unlink()
    (bert_folder / "tokenizer.json").symlink_to("tokenizer.json")
    with pytest.raises(ModelProblem, match=r"tokenizer\.json"):
        load(str(bert_folder))


def test_links_inside_a_folder_and_to_the_folder_are_fine(
    bert_folder: Path, tmp_path: Path
) -> None:
    (bert_folder / "model.safetensors").rename(bert_folder / "weights.v2")
    (bert_folder / "model.safetensors").symlink_to("weights.v2")
    (tmp_path / "alias").symlink_to(bert_folder)
    assert load(str(tmp_path / "alias")).name == "tiny"


def test_order_of_stores_decides_and_prefixes_choose(
    home: Path, cache: Path, files, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ollama_model(home / ".ollama/models", gguf(), "registry.ollama.ai", "org", "tiny", "latest")
    studio = home / ".lmstudio/models/org/tiny/tiny.gguf"
    studio.parent.mkdir(parents=True)
    studio.write_bytes(gguf())
    hub_repo(cache, "org/tiny", files)
    shutil.copytree(tmp_path / "made", tmp_path / "org" / "tiny")
    assert locate("org/tiny").path == Path("org/tiny")
    shutil.rmtree(tmp_path / "org")
    for name, handle in [
        ("org/tiny", "hub:org/tiny"),
        ("ollama:org/tiny", "ollama:org/tiny:latest"),
        ("lmstudio:org/tiny", "lmstudio:org/tiny/tiny.gguf"),
        ("hub:org/tiny", "hub:org/tiny"),
    ]:
        assert locate(name).handle == handle
    shutil.rmtree(cache)
    assert locate("org/tiny").handle == "ollama:org/tiny:latest"
    shutil.rmtree(home / ".ollama")
    assert locate("org/tiny").handle == "lmstudio:org/tiny/tiny.gguf"
    shutil.rmtree(home / ".lmstudio")
    assert locate("org/tiny").kind == "remote"


def test_gguf_of_the_hub_cache_is_named_by_its_file_when_there_are_several(cache: Path) -> None:
    one = hub_repo(cache, "org/one-GGUF", {"one.Q4_0.gguf": gguf(), "mmproj-one.gguf": gguf()})
    assert locate("org/one-GGUF").path == one / "one.Q4_0.gguf"
    hub_repo(cache, "org/two-GGUF", {"a.gguf": gguf(), "b.gguf": gguf(layers=3)})
    with pytest.raises(ModelProblem, match=r"2 models.*hub:org/two-GGUF/a\.gguf, hub:org/two"):
        locate("org/two-GGUF")
    place = locate("org/two-GGUF/b.gguf")
    assert (place.kind, place.path.name) == ("gguf", "b.gguf")


@pytest.mark.parametrize("name", ["model.gguf", "sha256-0000"])
def test_gguf_file_is_known_by_its_name_or_its_first_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gguf())
    place = locate(str(tmp_path / name))
    assert (place.kind, place.path) == ("gguf", tmp_path / name)


def test_folder_of_gguf_files_counts_a_split_model_as_one(tmp_path: Path) -> None:
    for part in (2, 1):
        (tmp_path / f"m-0000{part}-of-00002.gguf").write_bytes(gguf())
    assert locate(str(tmp_path)).path.name == "m-00001-of-00002.gguf"
    (tmp_path / "other.gguf").write_bytes(gguf())
    with pytest.raises(ModelProblem, match=r"2 models go by this name.*other\.gguf"):
        locate(str(tmp_path))


def test_name_on_the_hub_is_left_to_a_download_and_nothing_else_is(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("org/model-1.5_b").kind == "remote"
    assert locate("hub:gpt2").path == Path("gpt2")
    for name in ("absent", "a/b/c", "org/", "/org/model", "./org/model", "org/..", "~/x", "a b/c"):
        with pytest.raises(ModelProblem, match="no such"):
            locate(name)


def test_slip_in_a_path_is_not_sent_to_the_hub(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelProblem, match=r"no such file or folder in models.*hub:models/tiny"):
        locate("models/tiny")


@pytest.mark.parametrize("name", ["hub:../x", "a/b/c", "", "a b", "hub:a/../b", "-x/y", "org/"])
def test_what_is_no_name_of_the_hub_is_refused(name: str) -> None:
    with pytest.raises(ModelProblem, match=r"expected ORG/NAME"):
        hub_id(name)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("minilmm", "minilm"),
        ("org/tinny", "hub:org/tiny"),
        ("tiny", "hub:org/tiny"),
        ("ollama:lama3.2:1b", "ollama:llama3.2:1b"),
        ("llama3.2", "ollama:llama3.2:1b"),
        ("hub:org/tin", "hub:org/tiny"),
    ],
)
def test_close_names_of_all_stores_are_suggested(
    home: Path, cache: Path, files, typed: str, meant: str
) -> None:
    hub_repo(cache, "org/tiny", files)
    store = home / ".ollama/models"
    ollama_model(store, gguf(), "registry.ollama.ai", "library", "llama3.2", "1b")
    with pytest.raises(ModelProblem) as caught:
        load(typed)
    assert str(caught.value).endswith(f" Did you mean {meant}?")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "hub:" + "x" * 5000, "ollama:" + "x" * 5000])
def test_name_that_no_file_can_have_is_one_line(name: str) -> None:
    with pytest.raises(ModelProblem):
        locate(name)


def test_default_model_is_found_without_a_look_at_any_store(minilm, monkeypatch) -> None:
    stores = [name for name in sys.modules if name.startswith("attncli.model.locate.")]
    for name in stores:
        if not name.endswith((".bundled", ".place")):
            monkeypatch.delitem(sys.modules, name)
    locate("minilm")
    looked = {name for name in sys.modules if name.startswith("attncli.model.locate.")}
    assert looked == {"attncli.model.locate.bundled", "attncli.model.locate.place"}
    assert "huggingface_hub.file_download" not in sys.modules


def test_crowded_folder_is_not_read_to_its_end(bert_folder: Path) -> None:
    crowd = bert_folder.parent / "crowd"
    shutil.copytree(bert_folder, crowd)
    for i in range(MOST + 50):
        (crowd / f"{i}.txt").touch()
    assert locate(str(crowd)).kind == "folder"
