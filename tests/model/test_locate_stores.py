"""Ollama, LM Studio, llama.cpp and packages: what is found by which name, and what is refused."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from attncli.errors import ModelProblem
from attncli.model.checksum import sum_of
from attncli.model.locate import lmstudio, locate, ollama, packages
from attncli.model.locate.place import Place
from tests.stores import gguf, model_files, ollama_model, package

REGISTRY = ("registry.ollama.ai", "library")


@pytest.fixture
def store(home: Path) -> Path:
    """Ollama's own folder."""
    return home / ".ollama" / "models"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, the only one."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def handles(places) -> list[str]:
    return [place.handle for place in places]


@pytest.mark.parametrize(
    ("manifest", "names", "handle"),
    [
        ((*REGISTRY, "llama3.2", "1b"), ["llama3.2:1b"], "ollama:llama3.2:1b"),
        ((*REGISTRY, "qwen3", "latest"), ["qwen3", "qwen3:latest"], "ollama:qwen3:latest"),
        (
            ("registry.ollama.ai", "user", "own", "v1"),
            ["user/own:v1", "registry.ollama.ai/user/own:v1"],
            "ollama:user/own:v1",
        ),
        (
            ("hf.co", "org", "Tiny-GGUF", "Q4_K_M"),
            ["hf.co/org/Tiny-GGUF:Q4_K_M"],
            "ollama:hf.co/org/Tiny-GGUF:Q4_K_M",
        ),
    ],
)
def test_ollama_name_leads_to_the_blob_of_the_model(
    store: Path, manifest: tuple[str, ...], names: list[str], handle: str
) -> None:
    blob = ollama_model(store, gguf(), *manifest)
    for name in [*names, handle, f"ollama:{names[0]}"]:
        place = locate(name)
        assert (place.kind, place.path, place.handle) == ("gguf", blob, handle)
    assert handles(ollama.places()) == [handle]
    assert sum_of(blob) == hashlib.sha256(gguf()).hexdigest()


def test_ollama_models_moved_by_its_variable(
    tmp_path: Path, home: Path, store, monkeypatch
) -> None:
    ollama_model(store, gguf(), *REGISTRY, "here", "latest")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "moved"))
    ollama_model(tmp_path / "moved", gguf(), *REGISTRY, "there", "latest")
    assert handles(ollama.places()) == ["ollama:there:latest"]


def test_ollama_running_as_a_service_is_looked_at_too(home: Path, store: Path) -> None:
    ollama_model(store, gguf(), *REGISTRY, "both", "latest")
    ollama_model(ollama.SERVICE, gguf(), *REGISTRY, "served", "latest")
    ollama_model(ollama.SERVICE, gguf(layers=9), *REGISTRY, "both", "latest")
    assert handles(ollama.places()) == ["ollama:both:latest", "ollama:served:latest"]
    assert store in locate("both").path.parents
    assert locate("served").kind == "gguf"


def _no_blob(store: Path, blob: Path, manifest: Path) -> None:
    blob.unlink()


def _linked_blob(store: Path, blob: Path, manifest: Path) -> None:
    blob.rename(store.parents[1] / "moved")
    blob.symlink_to(store.parents[1] / "moved")


def _climbing_digest(store: Path, blob: Path, manifest: Path) -> None:
    values = json.loads(manifest.read_text())
    values["layers"][1]["digest"] = "sha256:../../../../etc/passwd"
    manifest.write_text(json.dumps(values))


def _no_layers(store: Path, blob: Path, manifest: Path) -> None:
    manifest.write_text('{"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}')


def _no_json(store: Path, blob: Path, manifest: Path) -> None:
    manifest.write_bytes(b"\xff{")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_no_blob, r"is not there, pull it again"),
        (_linked_blob, r"a link that leads out of Ollama's models"),
        (_climbing_digest, r"no SHA-256 digest"),
        (_no_layers, r"not a manifest"),
        (_no_json, r"not a manifest"),
    ],
)
def test_broken_ollama_model_is_refused_and_listed(store: Path, fault, said: str) -> None:
    blob = ollama_model(store, gguf(), *REGISTRY, "bad", "latest")
    ollama_model(store, gguf(layers=3), *REGISTRY, "good", "latest")
    fault(store, blob, store.joinpath("manifests", *REGISTRY, "bad", "latest"))
    with pytest.raises(ModelProblem, match=said):
        locate("bad")
    bad, good = ollama.places()
    assert bad.problem
    assert not good.problem


def test_files_of_the_system_among_manifests_are_no_models(store: Path) -> None:
    ollama_model(store, gguf(), *REGISTRY, "a", "latest")
    for folder in (store / "manifests", store.joinpath("manifests", *REGISTRY, "a")):
        (folder / ".DS_Store").write_bytes(b"x")
    assert handles(ollama.places()) == ["ollama:a:latest"]


def test_ollama_model_with_an_adapter_is_refused(store: Path) -> None:
    ollama_model(store, gguf(), *REGISTRY, "tuned", "latest", layers=(("adapter", b"lora"),))
    with pytest.raises(ModelProblem, match=r"LoRA adapter, which attn does not apply"):
        locate("tuned")


def test_ollama_model_stored_by_tensor_is_refused(store: Path) -> None:
    ollama_model(store, None, *REGISTRY, "mlx", "latest", layers=(("tensor", b"x"),))
    with pytest.raises(ModelProblem, match=r"stored tensor by tensor"):
        locate("mlx")


@pytest.mark.parametrize("name", ["../x", "a/../b", "a//b", ":1b", "a/b/c/d/e", ".hidden"])
def test_name_cannot_climb_out_of_the_manifests(store: Path, name: str) -> None:
    ollama_model(store, gguf(), *REGISTRY, "a", "latest")
    assert ollama.find(name) is None


def test_lm_studio_model_by_file_and_by_repository(home: Path) -> None:
    for place in (".lmstudio/models/org/One-GGUF/one.gguf", ".lmstudio/models/org/Two/a.gguf",
                  ".lmstudio/models/org/Two/b.gguf", ".lmstudio/models/org/Two/mmproj-x.gguf",
                  ".cache/lm-studio/models/org/Old/old.gguf"):  # fmt: skip
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_bytes(gguf())
    one = home / ".lmstudio/models/org/One-GGUF/one.gguf"
    for name in ("org/One-GGUF", "org/One-GGUF/one.gguf", "one.gguf", "lmstudio:org/One-GGUF"):
        assert locate(name).path == one
    with pytest.raises(ModelProblem, match=r"lmstudio:org/Two/a\.gguf, lmstudio:org/Two/b\.gguf"):
        locate("org/Two")
    assert locate("org/Two/b.gguf").path.name == "b.gguf"
    assert handles(lmstudio.places()) == [
        "lmstudio:org/One-GGUF/one.gguf",
        "lmstudio:org/Two/a.gguf",
        "lmstudio:org/Two/b.gguf",
        "lmstudio:org/Old/old.gguf",
    ]


def test_lm_studio_folder_moved_by_its_pointer(home: Path, tmp_path: Path) -> None:
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'moved'}\n")
    file = tmp_path / "moved" / "models" / "org" / "repo" / "m.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(gguf())
    assert locate("lmstudio:org/repo").path == file


def test_lm_studio_keeps_folders_of_safetensors_too(home: Path) -> None:
    folder = home / ".lmstudio/models/org/tiny"
    model_files(folder)
    assert (locate("org/tiny").kind, locate("org/tiny").path) == ("folder", folder)


def test_lm_studio_link_out_of_its_models_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.gguf").write_bytes(gguf())
    link = home / ".lmstudio/models/org/repo/m.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere.gguf")
    with pytest.raises(ModelProblem, match="leads out of LM Studio"):
        locate("org/repo")


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        (None, "home/.cache/llama.cpp"),
        ("XDG_CACHE_HOME", "moved/llama.cpp"),
        ("LLAMA_CACHE", "moved"),
    ],
)
def test_llama_cpp_file_is_found_in_its_cache(
    home: Path, tmp_path: Path, monkeypatch, variable: str | None, folder: str
) -> None:
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "moved"))
    file = tmp_path / folder / "org_tiny_tiny-Q4_0.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(gguf())
    file.with_suffix(".gguf.json").write_text("{}")
    for name in (file.name, file.stem, f"llamacpp:{file.name}"):
        assert (locate(name).path, locate(name).handle) == (file, f"llamacpp:{file.name}")


def test_package_that_ships_one_gguf_file(home: Path, site: Path) -> None:
    package(site, "tiny-gguf", {"tiny_gguf/__init__.py": b"", "tiny_gguf/m.gguf": gguf()})
    for name in ("tiny-gguf", "package:tiny-gguf"):
        place = locate(name)
        assert place == Place(
            "tiny-gguf", "gguf", site / "tiny_gguf/m.gguf", "package:tiny-gguf", "package"
        )


def test_package_that_ships_several_models_names_each(home: Path, site: Path, tmp_path) -> None:
    files = {f"pkg/bert/{name}": data for name, data in model_files(tmp_path / "m").items()}
    package(site, "several", files | {"pkg/a,b.gguf": gguf(), "pkg/README.md": b""})
    with pytest.raises(ModelProblem, match=r"package:several/pkg/a,b\.gguf, package:several/pkg/b"):
        locate("several")
    assert locate("package:several/pkg/bert").kind == "folder"
    assert locate("package:several/pkg/a,b.gguf").kind == "gguf"
    found = [place for place in packages.places() if place.handle.startswith("package:several")]
    assert len(found) == 2


def test_package_without_a_model_is_no_model(home: Path, site: Path) -> None:
    package(site, "plain", {"plain/__init__.py": b"", "plain/config.json": b"{}"})
    package(site, "stale", {"stale/m.gguf": gguf()})
    (site / "stale" / "m.gguf").unlink()
    for name in ("plain", "stale", "package:plain", "package:no-such-package"):
        with pytest.raises(ModelProblem, match=r"no such|not there"):
            locate(name)


def test_model_that_comes_with_attn_is_listed_once(home: Path, site: Path, tmp_path: Path) -> None:
    files = model_files(tmp_path / "m").items()
    package(site, "attncli", {f"attncli/bundled/minilm/{name}": data for name, data in files})
    assert not [place for place in packages.places() if "attncli" in place.handle]


def test_packages_are_searched_only_for_a_list(home: Path, site: Path, monkeypatch) -> None:
    package(site, "tiny-gguf", {"tiny_gguf/m.gguf": gguf()})

    def fail() -> None:
        raise AssertionError("all packages looked at")

    monkeypatch.setattr(packages, "distributions", fail)
    assert locate("tiny-gguf").kind == "gguf"
    with pytest.raises(AssertionError):
        list(packages.places())
