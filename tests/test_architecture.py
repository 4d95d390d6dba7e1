"""The shape of the package: imports go one way, families stay in their folder, files stay small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import attncli
from attncli.model.families import REGISTRY, Family, find_family

PACKAGE = Path(attncli.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

LEVELS = [
    {"cache", "errors", "words", "numbers", "_shapes"},
    {"memory"},
    {"tokenize", "inputs", "schemas", "checkpoints"},
    {"display", "results"},
    {"selection"},
    {"model", "outputs"},
    {"analyses"},
    {"api"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
"""What stands on one level knows nothing of what stands beside or above it."""
LEVEL = {unit: number for number, level in enumerate(LEVELS) for unit in level}
# llama3 is a scaling of rotary positions that many families use
FAMILY_NAMES = re.compile(
    r"bert|gpt|llama(?!3)|mistral|mixtral|qwen|gemma|\bt5|bart\b|marian|pegasus|falcon|bloom|\bopt\b"
    r"|\bmpt\b|\bphi\b|neox|pythia|stablelm|starcoder|olmo|granite|smollm|mpnet|electra|deberta",
    re.IGNORECASE,
)


def unit(module: str) -> str:
    """Return the part of the package that a module belongs to."""
    return module.split(".")[0]


def imports(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names = {f"{module}.{alias.name}" for alias in node.names}
            # "from attncli import api" names a module, "from attncli.api import load" a function
            found |= names if module == "attncli" else {module}
    return {
        name.removeprefix("attncli.")
        for name in found
        if name.startswith("attncli.") and name != "attncli.__version__"
    }


def test_every_part_of_the_package_has_its_level() -> None:
    assert {unit(path.parts[0].removesuffix(".py")) for path in MODULES} - {"__init__"} == set(
        LEVEL
    )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_go_one_way(path: Path) -> None:
    here = unit(path.parts[0].removesuffix(".py"))
    if here == "__init__":
        return
    wrong = {
        name for name in imports(path) if unit(name) != here and LEVEL[unit(name)] >= LEVEL[here]
    }
    assert wrong == set()


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "analyses"], ids=str)
def test_analyses_do_not_know_how_they_are_shown(path: Path) -> None:
    assert {name for name in imports(path) if unit(name) == "outputs"} == set()


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] == "outputs"], ids=str)
def test_outputs_see_no_model(path: Path) -> None:
    assert {unit(name) for name in imports(path)} <= {
        "outputs",
        "results",
        "display",
        "numbers",
        "errors",
    }


@pytest.mark.parametrize(
    "path",
    # GGUF names its architectures, and programs that keep models have family names in theirs
    [
        p
        for p in MODULES
        if p.parts[0] == "model" and not {"families", "gguf", "locate"} & set(p.parts)
    ],
    ids=str,
)
def test_arithmetic_names_no_family(path: Path) -> None:
    tree = ast.parse((PACKAGE / path).read_text("utf-8"))
    for node in ast.walk(tree):
        # docstrings may say which family needs something; code may not ask which family it is
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    assert FAMILY_NAMES.findall(ast.unparse(tree)) == []


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_module_is_short_finished_and_does_not_print(path: Path) -> None:
    text = (PACKAGE / path).read_text("utf-8")
    assert text.count("\n") < 400
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]


def test_every_family_module_is_registered_and_offers_what_a_family_must() -> None:
    files = {path.stem for path in (PACKAGE / "model" / "families").glob("*.py")}
    shared = {"__init__", "names", "rotary", "windows", "experts", "seq2seq", "alibi", "heads"}
    assert files - shared == set(REGISTRY.values())
    for model_type in REGISTRY:
        assert isinstance(find_family(model_type), Family)
