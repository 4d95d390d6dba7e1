"""Fetch a model from the Hugging Face hub into its cache, through huggingface_hub.

Only what attn reads is asked for: configuration, tokenizer and safetensors of the top folder; no
pickles, no code. The configuration comes first, so that a model attn cannot compute is refused
before its weights are fetched.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from attncli.errors import ModelProblem, listing
from attncli.model.locate import hub, suggestion
from attncli.model.locate.place import CONFIG, INDEX, WEIGHTS, Place

TOKENIZER = "tokenizer.json"
OPTIONAL = ("tokenizer_config.json", "special_tokens_map.json")
PUBLIC = "https://huggingface.co"
_TRUE = {"1", "ON", "YES", "TRUE"}


def fetch(repo: str, check: Callable[[Path], None]) -> Place:
    """Download a model, or what is missing of it, and return its place in the cache.

    Honours HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. A progress bar goes to
    standard error if that is a terminal.

    Args:
        repo: ORG/NAME.
        check: raises ModelProblem for a config.json that attn cannot compute.

    Raises:
        ModelProblem: offline, not found, no access, no usable files, or the download broke off.
    """
    kept = hub.find(repo)
    if is_offline() and kept is not None:
        return kept
    if is_offline():
        raise ModelProblem(
            f"{repo}: {_here(repo)}, and HF_HUB_OFFLINE forbids to download it; unset that, or "
            f"name a model that attn models lists.{suggestion(repo)}"
        )
    library = _library()

    def download(name: str) -> Path:
        # the library reads its variables when it is imported; these are of this moment
        return Path(
            library.hf_hub_download(repo, name, cache_dir=hub.hub_cache(), endpoint=endpoint())
        )

    try:
        info = library.HfApi(endpoint=endpoint()).model_info(repo)
        there = {file.rfilename for file in info.siblings or []}
        _refuse_unusable(repo, there)
        check(download(CONFIG))
        wanted = _wanted(repo, there, download)
        # one after the other: Ctrl-C then ends it at once, and what is there is kept
        for name in wanted:
            download(name)
    except ModelProblem:
        raise
    except Exception as problem:  # of the library, of its HTTP library, of the disk
        raise ModelProblem(f"{repo}: {_why(repo, problem)}") from problem
    place = hub.find(repo)
    if place is None or any(not (place.path / name).exists() for name in wanted):
        raise ModelProblem(
            f"{repo}: not all files of one version arrived, the model may have changed meanwhile; "
            "run the command again."
        )
    return place


def endpoint() -> str:
    """Return the address of the hub."""
    return (os.environ.get("HF_ENDPOINT") or PUBLIC).rstrip("/")


def is_offline() -> bool:
    """Tell whether the user forbade to use the network."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in _TRUE


def _library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library: Any = import_module("huggingface_hub")
    library.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        library.utils.disable_progress_bars()
    return library


def _refuse_unusable(repo: str, there: Collection[str]) -> None:
    """Refuse a repository that lacks what attn reads, before anything is fetched."""
    if WEIGHTS not in there and INDEX not in there:
        ggufs = sorted(name for name in there if name.endswith(".gguf"))
        pickles = sorted(name for name in there if name.endswith((".bin", ".pt", ".pth")))
        if ggufs:
            others = f"only GGUF files ({listing(ggufs, 3)}); download one and give its path"
        elif pickles:
            others = f"only pickles ({listing(pickles, 3)}), which can run code and are never read"
        else:
            others = "nothing that attn reads"
        raise ModelProblem(f"{repo}: no {WEIGHTS} on the hub, {others}.")
    for name in (CONFIG, TOKENIZER):
        if name not in there:
            raise ModelProblem(f"{repo}: no {name} on the hub, which attn needs.")


def _wanted(repo: str, there: Collection[str], download: Callable[[str], Path]) -> list[str]:
    """Return the files to fetch: of weights that are there twice, only those attn reads."""
    names = [CONFIG, TOKENIZER, *(name for name in OPTIONAL if name in there)]
    if WEIGHTS in there:
        return [*names, WEIGHTS]
    try:
        weight_map = json.loads(download(INDEX).read_bytes())["weight_map"]
        shards = sorted(set(weight_map.values()))
        plain = all(name.endswith(".safetensors") for name in shards)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise ModelProblem(f"{repo}: {INDEX} on the hub is not an index of safetensors files.")
    absent = [name for name in shards if name not in there]
    if absent:
        raise ModelProblem(f"{repo}: {listing(absent, 3)} of {INDEX} are not on the hub.")
    return [*names, INDEX, *shards]


def _here(repo: str) -> str:
    kept = hub.find(repo)
    if kept is not None:
        return f"already on this machine ({kept.path})"
    lacking = hub.state(repo)
    return (
        f"only in part on this machine ({lacking})"
        if lacking
        else "no such path or model on this machine"
    )


def _why(repo: str, problem: BaseException) -> str:
    """Say in one line what went wrong, and what to do."""
    # the library wraps what happened in "cannot find it in the cache"
    while problem.__cause__ is not None and type(problem).__name__ in (
        "LocalEntryNotFoundError",
        "IncompleteSnapshotError",
    ):
        problem = problem.__cause__
    kind = type(problem).__name__
    status = getattr(getattr(problem, "response", None), "status_code", None)
    if kind == "GatedRepoError":
        return (
            f"{_here(repo)}, and its owner must grant access: accept the terms at "
            f"{endpoint()}/{repo} and set HF_TOKEN."
        )
    if kind == "RepositoryNotFoundError":
        return (
            f"{_here(repo)}, and {endpoint()} has no such model, or it is private: check the "
            f"name, or set HF_TOKEN.{suggestion(repo)}"
        )
    if status in (401, 403):
        return f"{endpoint()} refuses access ({status}): HF_TOKEN is wrong or may not read it."
    if status is not None:
        return f"{endpoint()} answered {status}; try again later."
    number = getattr(problem, "errno", None)
    if isinstance(problem, OSError) and number and not isinstance(problem, ConnectionError):
        return f"cannot be kept in {hub.hub_cache()} ({os.strerror(number)}); set HF_HOME."
    first_line = (str(problem).strip().splitlines() or [""])[0][:120].rstrip(".")
    return (
        f"{_here(repo)}, and the download from {endpoint()} failed ({kind}: {first_line}); "
        "run the command again (files that are whole are kept), or give a folder."
    )
