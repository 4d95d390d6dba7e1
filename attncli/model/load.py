"""A name or path to a model that is ready to run: spec, lazy parameters, tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from attncli._shapes import Float
from attncli.checkpoints.arrays import ArrayStore
from attncli.checkpoints.store import TensorStore
from attncli.errors import InputProblem, ModelProblem, UsageProblem, listing
from attncli.model.checksum import Checksum
from attncli.model.config import ConfigReader
from attncli.model.embed import token_rows
from attncli.model.forward import Job, run
from attncli.model.locate import RANDOM, Place, default_name, locate
from attncli.model.locate.place import WEIGHTS
from attncli.model.params import Params
from attncli.model.quantised import refuse_quantised
from attncli.model.resolve import open_folder, read_spec, resolve
from attncli.model.spec import ModelSpec
from attncli.model.stack import ENCODER
from attncli.model.target import shift_right
from attncli.results import ModelCard, count
from attncli.selection import one_of
from attncli.tokenize import Encoded, TextTokenizer, Token

Array = np.ndarray

UNTOLD_WINDOW = 4_096
WINDOW_NOTE = (
    "a GGUF file may not say that a model has a sliding window; if this one has (4,096 tokens are "
    "usual), its attention to farther tokens is not its own"
)
Engine = Literal["numpy", "torch"]
Device = Literal["cpu", "cuda", "mps", "auto"]
Dtype = Literal["float32", "bfloat16", "float16"]
CHECKSUMS = "SHA256SUMS"


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
    _checksum: Checksum | None = field(default=None, init=False)

    @property
    def dtype(self) -> str:
        """Storage type of the first layer's query projection, such as F32 or Q8."""
        source = self.params.sources["0.attn.q.weight"]
        return self.params.store.tensors[source.tensor].dtype

    @property
    def engine(self) -> Engine:
        """What computes: attn itself, with numpy, or transformers."""
        return "numpy"

    def run(self, jobs: Sequence[Job]) -> None:
        """Run texts and show their observers what they asked for."""
        run(self.spec, self.params, jobs)

    def has_sink(self, layers: Sequence[int]) -> bool:
        """Tell whether a learned sink takes a share of each row of any of these layers."""
        return any(f"{layer}.attn.sinks" in self.params for layer in layers)

    def token_rows(self, rows: slice) -> Float[Array, "row width"]:
        """Return input embeddings of a range of token ids as the stack that reads has them.

        They are widened as the model does; position, type and norms are not in them.
        """
        prefix = "" if self.spec.encoder is None else ENCODER
        return token_rows(self.spec, self.params, prefix, rows)

    def card(self, *, decoder: bool = False) -> ModelCard:
        """Return what every output says about the model.

        Args:
            decoder: of an encoder-decoder, describe the decoder instead of the encoder.
        """
        stack = self.spec.stack if decoder else self.spec.reader
        return ModelCard(
            name=self.name,
            family=self.spec.family,
            layers=stack.n_layers,
            heads=stack.n_heads,
            kv_heads=stack.n_kv_heads,
            causal=stack.causal,
            dtype=self.dtype,
            sha256=self.sha256,
            source="bundled" if self.place.kind == "bundled" else str(self.place.path),
            random=self.random,
            engine=self.engine,
            stack=None if self.spec.encoder is None else "decoder" if decoder else "encoder",
        )

    @property
    def n_types(self) -> int:
        """Rows of the table of token types; 0: the model has none."""
        source = self.params.sources.get("embed.type")
        return 0 if source is None else self.params.store.tensors[source.tensor].shape[0]

    def encode(
        self, text: str, pair: str | None = None, *, literal_specials: bool = False
    ) -> Encoded:
        """Encode a text, or a pair of texts, and check that the model can take it.

        Args:
            text: what the user typed.
            pair: a second text for an encoder, read after the first.
            literal_specials: read control strings in the text as plain characters.

        Raises:
            InputProblem: empty text, too many tokens, or a token without a row in the embedding.
            UsageProblem: a second text for a decoder or an encoder-decoder.
            ModelProblem: nothing says how two texts are joined, or a token type has no row.
        """
        if pair is not None:
            self._refuse_pair()
        encoded = self.tokenizer.encode(text, pair, literal_specials=literal_specials)
        encoded = self._typed(encoded)
        if self.place.kind == "gguf" and len(encoded.tokens) > UNTOLD_WINDOW:
            encoded = replace(encoded, notes=(*encoded.notes, WINDOW_NOTE))
        return self._checked(encoded, "text")

    def encode_target(
        self, text: str, *, literal_specials: bool = False, whole: bool = False
    ) -> Encoded:
        """Encode a target as the decoder of an encoder-decoder reads it: start token first.

        Args:
            text: the target.
            literal_specials: read control strings in it as plain characters.
            whole: read all of the text, as what follows it is asked for; else not its last token.

        Raises:
            InputProblem: as for `encode`.
            ModelProblem: nothing says how the decoder starts, or its vocabulary is not here.
        """
        self._check_target_vocabulary()
        if not text.strip():
            raise InputProblem("The target is empty; give the text that the decoder reads.")
        encoded = self.tokenizer.encode(text, literal_specials=literal_specials)
        start, notes = self.spec.decoder_start, list(encoded.notes)
        if start == "last":
            start = encoded.ids[-1]
            notes.append(f"starts with {encoded.tokens[-1].token}, as tokenizer.json ends a text")
        start, piece = self._start_piece(start)
        if (self.place.path / "target.spm").exists():
            notes.append("cut by tokenizer.json; the model's target.spm is not read")
        encoded = shift_right(replace(encoded, notes=tuple(notes)), start, piece, whole=whole)
        return self._checked(encoded, "target")

    def empty_target(self) -> Encoded:
        """Return what the decoder of an encoder-decoder reads before the first target token.

        Raises:
            ModelProblem: nothing but a target text says how the decoder starts, or its vocabulary
                is not here.
        """
        self._check_target_vocabulary()
        if self.spec.decoder_start == "last":
            raise ModelProblem(
                f"{self.place.path}: the decoder starts with the code of the target's language, "
                "which config.json does not name; give the beginning of a target with --target."
            )
        start, piece = self._start_piece(self.spec.decoder_start)
        return Encoded("", (Token(0, start, piece, "", 0, 0, special=True, word=None),), ())

    def _check_target_vocabulary(self) -> None:
        if self.spec.target_vocab_size is not None:
            raise ModelProblem(
                f"{self.place.path}: the decoder has a vocabulary of its own, and tokenizer.json "
                "holds only the encoder's; the encoder alone can be shown (attn inspect)."
            )

    def _start_piece(self, start: int | None) -> tuple[int, str]:
        piece = None if start is None else self.tokenizer.piece(start)
        if start is None or piece is None:
            raise ModelProblem(
                f"{self.place.path}: decoder_start_token_id is {start}, expected a token of the "
                "vocabulary: how the decoder starts is not known."
            )
        return start, piece

    def _refuse_pair(self) -> None:
        """Stop where two texts are nothing that the model knows, or nobody says how it does."""
        if self.spec.encoder is not None or self.spec.stack.causal:
            kind = "a decoder" if self.spec.encoder is None else "an encoder-decoder"
            raise UsageProblem(
                f"--pair: {self.name} ({self.spec.family}) is {kind}, it reads one text; put both "
                "into one, or leave --pair out."
            )
        if not self.tokenizer.joins_pairs:
            raise ModelProblem(
                f"{self.place.path}: the tokenizer puts special tokens around a text, but does not "
                "say how two texts are joined (no pair template); leave --pair out."
            )

    def _typed(self, encoded: Encoded) -> Encoded:
        """Give each token the type that the model reads: none where it has no table of types."""
        largest = max(encoded.types)
        if largest < max(self.n_types, 1):
            return encoded
        if self.n_types:
            raise ModelProblem(
                f"{self.place.path}: the tokenizer gives token type {largest}, the model's table "
                f"has {count(self.n_types, 'row')}, for types from 0; tokenizer and weights do not "
                "belong together."
            )
        return replace(encoded, tokens=tuple(replace(token, type=0) for token in encoded.tokens))

    def _checked(self, encoded: Encoded, what: str) -> Encoded:
        limit = self.spec.n_positions
        if limit is not None and len(encoded.tokens) > limit:
            both = encoded.pair is not None
            raise InputProblem(
                f"The {'two texts have' if both else f'{what} has'} {len(encoded.tokens):,} tokens"
                f"{' together' if both else ''}, {self.name} takes at most {limit:,}: "
                f"shorten {'them' if both else 'it, or give it in pieces, one a line'}."
            )
        for token in encoded.tokens:
            if token.id >= self.spec.vocab_size:
                raise InputProblem(
                    f"{self.place.path}: token {token.token!r} has id {token.id}, the embedding "
                    f"table has {self.spec.vocab_size} rows; tokenizer.json and weights do not "
                    "belong together."
                )
        return encoded

    def sha256(self) -> str | None:
        """Return the sum of the weights file, computed when first asked for.

        None for weights that are no file, or several. The bundled model's stands beside it (a test
        checks it).

        Raises:
            ModelProblem: the file cannot be read any more.
        """
        if self.place.kind == "bundled":
            sums = (self.place.path / CHECKSUMS).read_text("ascii").splitlines()
            return next(line.split()[0] for line in sums if line.endswith(WEIGHTS))
        if self._checksum is None and self._is_one_file:
            self._checksum = Checksum(self.params.store.path)
        return self._checksum.result() if self._checksum is not None else None

    def prepare_sha256(self) -> None:
        """Begin to compute the sum in another thread, for a caller who will need it."""
        if self.place.kind != "bundled" and self._is_one_file:
            self._checksum = Checksum(self.params.store.path)
            self._checksum.start()

    @property
    def _is_one_file(self) -> bool:
        store = self.params.store
        return self.place.kind != "random" and len(store.files) == 1 and store.path.is_file()


def load(
    name: str | None = None,
    *,
    engine: Engine = "numpy",
    device: Device | None = None,
    dtype: Dtype | None = None,
) -> Model:
    """Load a model.

    Args:
        name: what `-m` takes: a name that `attn models` lists, a folder or file, ORG/NAME of the
            Hugging Face hub, `random:d_model=64,…`; None for the default.
        engine: what computes: `numpy`, or `torch` for any architecture that transformers knows.
        device: where torch computes; None for the processor, `auto` for what torch finds.
        dtype: type torch computes in; None for float32.

    Raises:
        ModelProblem: it is not found or fetched, cannot be read, or attn cannot compute it exactly.
        UsageProblem: a `random:` request that is not understood, a device that is not there, or a
            device or type without the torch engine.
    """
    one_of("engine", engine, get_args(Engine))
    if engine == "torch":
        return _with_torch(name, device or "cpu", dtype or "float32")
    for option, value in (("device", device), ("dtype", dtype)):
        if value is not None:
            raise UsageProblem(f"--{option} {value}: only for --engine torch; add that.")
    place = locate(name or default_name())
    if place.kind == "remote":
        place = fetch_remote(place.name)
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
    if not (place.path / "config.json").exists():
        found = listing(path.name for path in place.path.iterdir()) or "nothing"
        raise ModelProblem(
            f"{place.path}: not a model folder; expected config.json, tokenizer.json and "
            f"{WEIGHTS}, found {found[:120]}."
        )
    return _assemble(place, *open_folder(place.path), None)


def fetch_remote(repo: str) -> Place:
    """Download a model from the hub, unless attn cannot compute what its config.json says.

    Raises:
        ModelProblem: it cannot be fetched or computed.
    """
    from attncli.model.locate.download import fetch

    def check(path: Path) -> None:
        config = ConfigReader.from_file(path)
        refuse_quantised(config)
        read_spec(config)

    return fetch(repo, check)


def _with_torch(name: str | None, device: Device, dtype: Dtype) -> Model:
    """Load what transformers runs; a model of the hub needs only be one that it knows."""
    from attncli.model import torch_load

    torch_load.require_torch()
    one_of("device", device, get_args(Device))
    one_of("dtype", dtype, get_args(Dtype))
    place = locate(name or default_name())
    if place.kind == "remote":
        from attncli.model.locate.download import fetch

        place = fetch(place.name, torch_load.check_config)
    return torch_load.load_torch(place, device, dtype)


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
