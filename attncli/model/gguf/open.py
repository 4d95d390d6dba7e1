"""Open a GGUF file: spec, lazy parameters and tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.store import TensorStore
from attncli.model.config import ConfigReader
from attncli.model.gguf.checkpoint import GgufCheckpoint
from attncli.model.gguf.config import adapt_spec, find_architecture, read_config, read_sizes
from attncli.model.gguf.metadata import Metadata
from attncli.model.gguf.tokenizer import build_tokenizer
from attncli.model.params import Params
from attncli.model.spec import ModelSpec
from attncli.tokenize import TextTokenizer

Resolve = Callable[
    [ConfigReader, TensorStore, Callable[[ModelSpec], ModelSpec]], tuple[ModelSpec, Params]
]


def open_gguf(path: Path, resolve: Resolve) -> tuple[ModelSpec, Params, TextTokenizer]:
    """Read a file as the family of its architecture reads a checkpoint.

    Args:
        path: the file, or any part of one that was split.
        resolve: configuration and tensors to spec and parameters.

    Raises:
        ModelProblem: the file is not sound, its architecture or tokenizer is not supported, or
            metadata and tensors do not fit the family.
    """
    file = GgufFile(path)
    spec, params = bind_gguf(file, resolve)
    return spec, params, build_tokenizer(path, file.metadata)


def bind_gguf(file: GgufFile, resolve: Resolve) -> tuple[ModelSpec, Params]:
    """Read the spec of a file and find its parameters, as `open_gguf` does; no tokenizer is built.

    Raises:
        ModelProblem: the architecture is not supported, or metadata and tensors do not fit it.
    """
    metadata = Metadata(file)
    architecture = find_architecture(metadata)
    config = ConfigReader(read_config(metadata, architecture), file.path)
    store = GgufCheckpoint(file, architecture, read_sizes(metadata))
    return resolve(config, store, adapt_spec(file, architecture))
