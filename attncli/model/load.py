"""A name or path to a model that is ready to run: spec, lazy parameters, tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attncli.checkpoints.arrays import ArrayStore
from attncli.checkpoints.safetensors import SafetensorsFile
from attncli.checkpoints.sharded import ShardedSafetensors
from attncli.checkpoints.store import TensorStore
from attncli.errors import InputProblem, ModelProblem, did_you_mean, listing
from attncli.model.config import ConfigReader
from attncli.model.families import REGISTRY, find_family
from attncli.model.locate import RANDOM, Place, default_name, locate
from attncli.model.params import Params, bind
from attncli.model.quantised import refuse_quantised
from attncli.model.spec import ModelSpec
from attncli.results import ModelCard
from attncli.tokenize import Encoded, TextTokenizer

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CHECKSUMS = "SHA256SUMS"
_PICKLES = ("pytorch_model.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(slots=True)
class Model:
    """A model that can be run."""

    name: str
    spec: ModelSpec
    params: Params
    tokenizer: TextTokenizer
    place: Place
    random: bool
    """True when any weight was initialised rather than trained."""

    @property
    def dtype(self) -> str:
        """Storage type of the first layer's query projection, such as F32 or Q8."""
        source = self.params.sources["0.attn.q.weight"]
        return self.params.store.tensors[source.tensor].dtype

    def card(self) -> ModelCard:
        """Return what every output says about the model."""
        stack = self.spec.stack
        return ModelCard(
            name=self.name,
            family=self.spec.family,
            layers=stack.n_layers,
            heads=stack.n_heads,
            kv_heads=stack.n_kv_heads,
            causal=stack.causal,
            dtype=self.dtype,
            sha256=self._sha256(),
            source="bundled" if self.place.kind == "bundled" else str(self.place.path),
            random=self.random,
        )

    def encode(self, text: str, *, literal_specials: bool = False) -> Encoded:
        """Encode a text and check that the model can take it.

        Raises:
            InputProblem: empty text, too many tokens, or a token without a row in the embedding.
        """
        encoded = self.tokenizer.encode(text, literal_specials=literal_specials)
        limit = self.spec.n_positions
        if limit is not None and len(encoded.tokens) > limit:
            raise InputProblem(
                f"The text has {len(encoded.tokens):,} tokens, {self.name} takes at most "
                f"{limit:,}: shorten it, or give it in pieces, one a line."
            )
        for token in encoded.tokens:
            if token.id >= self.spec.vocab_size:
                raise InputProblem(
                    f"{self.place.path}: token {token.token!r} has id {token.id}, the embedding "
                    f"table has {self.spec.vocab_size} rows; tokenizer.json and weights do not "
                    "belong together."
                )
        return encoded

    def _sha256(self) -> str | None:
        """Sum of the weights file; the bundled model's stands beside it (a test checks it).

        None when there is no such file, or more than one.
        """
        if self.place.kind == "random":
            return None
        path = self.params.store.path
        if len(self.params.store.files) > 1:
            return None
        if self.place.kind == "bundled":
            sums = (self.place.path / CHECKSUMS).read_text("ascii").splitlines()
            return next(line.split()[0] for line in sums if line.endswith(path.name))
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def load(name: str | None = None) -> Model:
    """Load a model.

    Args:
        name: a bundled name, a folder, an .npz file, `random:d_model=64,…`; None for the default.

    Raises:
        ModelProblem: it cannot be read, or attn cannot compute it exactly.
        UsageProblem: a `random:` request that is not understood.
    """
    place = locate(name or default_name())
    if place.kind == "random":
        return _initialised(place)
    if place.kind == "npz":
        from attncli.model import initialise

        values, arrays, tokenizer = initialise.model_from_npz(place.path)
        return _assemble(
            place, ConfigReader(values, place.path), ArrayStore(place.path, arrays), tokenizer
        )
    if place.kind == "gguf":
        from attncli.model.gguf.open import open_gguf

        spec, params, tokenizer = open_gguf(place.path, resolve)
        return Model(place.name, spec, params, tokenizer, place, random=False)
    return _assemble(place, *open_folder(place.path), None)


def _initialised(place: Place) -> Model:
    from attncli.model import initialise

    recipe = initialise.parse_recipe(place.name.removeprefix(RANDOM[:-1]).removeprefix(":"))
    tokenizer = TextTokenizer.from_file(initialise.BUNDLED_TOKENIZER)
    config = ConfigReader(recipe.config(tokenizer.vocab_size), place.path)
    store = ArrayStore(place.path, recipe.arrays(tokenizer.vocab_size))
    return _assemble(place, config, store, tokenizer)


def _assemble(
    place: Place, config: ConfigReader, store: TensorStore, tokenizer: TextTokenizer | None
) -> Model:
    spec, params = resolve(config, store)
    random = config.flag("random", False) if config.has("random") else False
    if tokenizer is None:
        tokenizer = TextTokenizer.from_file(place.path / "tokenizer.json")
    return Model(place.name, spec, params, tokenizer, place, random)


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
    model_type = config.text("model_type")
    if model_type not in REGISTRY:
        raise ModelProblem(
            f"{config.path}: model_type {model_type!r} is not supported; supported: "
            f"{listing(REGISTRY, 60)}.{did_you_mean(model_type, REGISTRY)}"
        )
    family = find_family(model_type)
    spec = family.read_spec(config)
    config.finish()
    if adapt is not None:
        spec = adapt(spec)
    return spec, bind(store, family.sources(spec, store.tensors.keys(), config), family.ignored)


def open_folder(folder: Path) -> tuple[ConfigReader, TensorStore]:
    """Open configuration and weights of a folder; nothing is said about tensors before the config.

    Raises:
        ModelProblem: one of the two cannot be read, or the weights are quantised.
    """
    config = ConfigReader.from_file(folder / "config.json")
    refuse_quantised(config)
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
