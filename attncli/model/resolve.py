"""A configuration and a checkpoint to a spec and its parameters, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from attncli.checkpoints.safetensors import SafetensorsFile
from attncli.checkpoints.sharded import ShardedSafetensors
from attncli.checkpoints.store import TensorStore
from attncli.errors import ModelProblem, did_you_mean, listing
from attncli.model.config import ConfigReader
from attncli.model.families import REGISTRY, Family, find_family
from attncli.model.locate.place import INDEX, WEIGHTS
from attncli.model.params import Params, Source, bind
from attncli.model.quantised import refuse_quantised
from attncli.model.spec import HeadSpec, ModelSpec

HEAD = "lm_head.weight"
_PICKLES = ("pytorch_model.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")


def resolve(
    config: ConfigReader,
    store: TensorStore,
    adapt: Callable[[ModelSpec], ModelSpec] | None = None,
) -> tuple[ModelSpec, Params]:
    """Read the spec of a configuration and find its parameters in a store.

    Args:
        config: the configuration.
        store: the checkpoint.
        adapt: changes the spec where the values of the store ask for it.

    Raises:
        ModelProblem: unknown family, unsupported configuration, tensors that do not fit it.
    """
    family, spec = read_spec(config)
    if adapt is not None:
        spec = adapt(spec)
    sources = family.sources(spec, store.tensors.keys(), config)
    params = bind(store, _with_tied_head(sources, store, config), family.ignored)
    params.find_head = lambda: _bind_head(family, spec, params, config)
    return spec, params


def _bind_head(
    family: Family, spec: ModelSpec, params: Params, config: ConfigReader
) -> tuple[HeadSpec, Params] | None:
    """Find the parameters of the output head, or None when the checkpoint has none.

    Raises:
        ModelProblem: a part of it is missing, has another shape, or is used by nobody.
    """
    store = params.store
    found = family.head(spec, store.tensors.keys(), config)
    if found is None:
        return None
    sources = dict(found.sources)
    sources.setdefault("head.token.weight", params.sources["embed.token"])
    return found.spec, bind(store, sources, lambda name: not found.owns(name))


def _with_tied_head(
    sources: Mapping[str, Source], store: TensorStore, config: ConfigReader
) -> Mapping[str, Source]:
    """Let the output head serve as embedding where the file holds only this one of the two.

    Only when the configuration says that they are one table: another head is no embedding.
    """
    if HEAD not in store.tensors or config.look("tie_word_embeddings") is not True:
        return sources
    missing = {
        name: replace(sources[name], tensor=HEAD)
        for name in ("embed.token", "encoder.embed.token")
        if name in sources and sources[name].tensor not in store.tensors
    }
    return {**sources, **missing}


def read_spec(config: ConfigReader) -> tuple[Family, ModelSpec]:
    """Read what a configuration says: its family, and all the arithmetic needs.

    Raises:
        ModelProblem: unknown family, or a configuration attn cannot compute.
    """
    family = family_of(config)
    spec = family.read_spec(config)
    config.finish()
    return family, spec


def family_of(config: ConfigReader) -> Family:
    """Return the family module a configuration asks for.

    Raises:
        ModelProblem: a family that attn does not know; lists those it knows.
    """
    model_type = config.text("model_type")
    if model_type not in REGISTRY:
        raise ModelProblem(
            f"{config.path}: model_type {model_type!r} is not supported; supported: "
            f"{listing(REGISTRY, 60)}.{did_you_mean(model_type, REGISTRY)}"
        )
    return find_family(model_type)


def open_folder(folder: Path) -> tuple[ConfigReader, TensorStore]:
    """Open configuration and weights of a folder; nothing is said about tensors before the config.

    Raises:
        ModelProblem: one of the two cannot be read, or the weights are quantised.
    """
    config = ConfigReader.from_file(folder / "config.json")
    refuse_quantised(config)
    family_of(config)
    return config, open_weights(folder)


def open_weights(folder: Path) -> TensorStore:
    """Open the weights of a folder: one file, or several with an index.

    Raises:
        ModelProblem: there are none, a part of them, or only files that are never read.
    """
    path = folder / WEIGHTS
    if path.exists():
        return SafetensorsFile(path)
    if (folder / INDEX).exists():
        return ShardedSafetensors(folder / INDEX)
    parts = sorted(part.name for part in folder.glob("model-*-of-*.safetensors"))
    if parts:
        raise ModelProblem(
            f"{folder}: {len(parts)} files such as {parts[0]} but no {INDEX}, which says what "
            "each holds; download it into the same folder."
        )
    pickled = sorted(p.name for pattern in _PICKLES for p in folder.glob(pattern))
    if pickled:
        raise ModelProblem(
            f"{folder}: only {pickled[0]} is there, a pickle, which can run code and is never "
            "read. Save the model as safetensors: transformers' model.save_pretrained(FOLDER) does."
        )
    raise ModelProblem(f"{folder}: no {WEIGHTS} in this folder.")
