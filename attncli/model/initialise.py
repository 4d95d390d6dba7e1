"""Models that are made rather than loaded: random weights on request, and hand-made .npz ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.arrays import read_npz, take
from attncli.checkpoints.safetensors import write_safetensors
from attncli.errors import ModelProblem, UsageProblem
from attncli.model.locate import BUNDLED, DEFAULT
from attncli.tokenize import TextTokenizer

Array = np.ndarray

TOY = "attn-toy"
UNKNOWN = "[UNK]"
WEIGHT_NAMES = frozenset({"embedding", "w_q", "w_k", "w_v", "w_o"})
BUNDLED_TOKENIZER = BUNDLED / DEFAULT / "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to initialise a toy model."""

    d_model: int = 64
    heads: int = 4
    layers: int = 1
    seed: int = 0
    causal: bool = False
    ffn: bool = True
    """With a feed-forward part of width 4 · d_model."""
    output: bool = True
    """With an output projection W_O."""

    def config(self, vocab_size: int) -> dict[str, Any]:
        """Return the config.json of such a model."""
        if self.d_model % self.heads:
            raise UsageProblem(f"d_model {self.d_model} does not divide by {self.heads} heads.")
        return {
            "model_type": TOY,
            "random": True,
            "seed": self.seed,
            "vocab_size": vocab_size,
            "d_model": self.d_model,
            "n_heads": self.heads,
            "n_layers": self.layers,
            "causal": self.causal,
            "d_ff": 4 * self.d_model if self.ffn else 0,
        }

    def arrays(self, vocab_size: int) -> dict[str, Array]:
        """Return the weights: normal, embeddings of variance 1, matrices 1 / input width.

        So every q·k / sqrt(head_dim) has a spread near 1: weights differ, none dominates.
        """
        random = np.random.Generator(np.random.PCG64(self.seed))

        def normal(d_in: int, d_out: int) -> Array:
            values = random.standard_normal((d_in, d_out), dtype=np.float32)
            return values * np.float32(d_in**-0.5)

        width = self.d_model
        arrays = {"embedding": random.standard_normal((vocab_size, width), dtype=np.float32)}
        for i in range(self.layers):
            for name in ("w_q", "w_k", "w_v", *(["w_o"] if self.output else [])):
                arrays[f"layers.{i}.{name}"] = normal(width, width)
            if self.ffn:
                arrays[f"layers.{i}.w_up"] = normal(width, 4 * width)
                arrays[f"layers.{i}.w_down"] = normal(4 * width, width)
        return arrays


def parse_recipe(text: str) -> Recipe:
    """Read `d_model=64,heads=4,layers=1,seed=0,causal=true,ffn=false` (all optional).

    Raises:
        UsageProblem: an unknown key or a value that does not fit; says what is accepted.
    """
    values: dict[str, Any] = {}
    defaults = Recipe()
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        known = getattr(defaults, key, None) if key in Recipe.__slots__ else None
        if isinstance(known, bool) and value.lower() in ("true", "false", "1", "0", ""):
            values[key] = value.lower() in ("true", "1", "")
        elif (
            known is not None
            and not isinstance(known, bool)
            and value.isascii()
            and value.isdigit()
        ):
            values[key] = int(value)
        else:
            raise UsageProblem(
                f"random model: {part!r} not understood; expected "
                "d_model=64,heads=4,layers=1,seed=0,causal=false,ffn=true,output=true."
            )
    recipe = Recipe(**values)
    for key, most in (("d_model", 16_384), ("heads", 1_024), ("layers", 1_000)):
        if not 1 <= getattr(recipe, key) <= most:
            raise UsageProblem(
                f"random model: {key}={getattr(recipe, key)}, expected 1 to {most:,}."
            )
    recipe.config(1)
    return recipe


def word_vocabulary(text: str) -> list[str]:
    """Return the words of a text in order of first use, after the entry for unknown words."""
    from tokenizers.pre_tokenizers import Whitespace

    words = [word for word, _ in Whitespace().pre_tokenize_str(text.lower())]
    return list(dict.fromkeys([UNKNOWN, *words]))


def word_tokenizer(vocabulary: Sequence[str]) -> str:
    """Return the tokenizer.json of a tokenizer with one token a word, in lower case."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    ids = {word: i for i, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=UNKNOWN))
    if all(word == UNKNOWN or word == word.lower() for word in vocabulary):
        tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    return str(tokenizer.to_str(pretty=True))


def model_from_npz(path: Path) -> tuple[dict[str, Any], dict[str, Array], TextTokenizer]:
    """Return config, weights and tokenizer of an .npz with one layer of attention.

    Arrays: embedding [word, d_model]; w_q, w_k, w_v [d_model, width]; optionally w_o
    [width, d_model]; vocabulary, strings, one a row of the embedding; optionally n_heads (1) and
    causal (false). Attention is added to the residual stream, as in every transformer.

    Raises:
        ModelProblem: arrays are missing, unknown, or do not fit each other.
    """
    from tokenizers import Tokenizer

    arrays = read_npz(path)
    weights = {
        name: array.astype(np.float32) if array.dtype.kind in "iu" else array
        for name, array in arrays.items()
        if name in WEIGHT_NAMES
    }
    for name, array in weights.items():
        if array.dtype != np.float32 or array.ndim != 2:
            raise ModelProblem(
                f"{path}: array {name} is {array.dtype} {array.shape}, expected a matrix."
            )
    embedding, w_q, _, _, vocabulary = take(
        path, arrays, ("embedding", "w_q", "w_k", "w_v", "vocabulary")
    )
    n_heads = arrays.pop("n_heads", np.asarray(1))
    arrays.pop("w_o", None)
    causal = arrays.pop("causal", np.asarray(False))
    if arrays:
        raise ModelProblem(f"{path}: arrays that attn does not know: {', '.join(sorted(arrays))}.")
    words = [str(word) for word in vocabulary.reshape(-1)]
    if vocabulary.dtype.kind != "U" or len(set(words)) != len(embedding):
        raise ModelProblem(
            f"{path}: vocabulary must be {len(embedding)} different strings, one a row of "
            "embedding; "
            f"found {len(set(words))} of type {vocabulary.dtype}."
        )
    if n_heads.size != 1 or n_heads.dtype.kind not in "iu" or not 1 <= int(n_heads) <= w_q.shape[1]:
        raise ModelProblem(f"{path}: n_heads must be one whole number from 1 to {w_q.shape[1]}.")
    config = {
        "model_type": TOY,
        "vocab_size": len(embedding),
        "d_model": embedding.shape[1],
        "width": w_q.shape[1],
        "n_heads": int(n_heads),
        "n_layers": 1,
        "causal": bool(causal.all()),
    }
    tokenizer = TextTokenizer(Tokenizer.from_str(word_tokenizer(words)))
    return config, weights, tokenizer


def initialise_folder(
    folder: Path, recipe: Recipe, vocab_from: Path | None, *, overwrite: bool = False
) -> None:
    """Write a folder with initialised weights that `-m FOLDER` loads.

    Args:
        folder: where to write.
        recipe: sizes and seed.
        vocab_from: text whose words become the vocabulary; None for the bundled tokenizer.
        overwrite: replace a model that stands there.

    Raises:
        UsageProblem: the recipe does not fit together.
        ModelProblem: the folder holds a model, or the text cannot be read.
    """
    target = folder / "model.safetensors"
    if target.exists() and not overwrite:
        raise ModelProblem(
            f"{target}: already there; choose another folder, or --force to replace it."
        )
    if vocab_from is None:
        tokenizer_json = BUNDLED_TOKENIZER.read_text("utf-8")
        vocab_size = TextTokenizer.from_file(BUNDLED_TOKENIZER).vocab_size
    else:
        vocabulary = word_vocabulary(_read_text(vocab_from))
        tokenizer_json, vocab_size = word_tokenizer(vocabulary), len(vocabulary)
    config = json.dumps(recipe.config(vocab_size), indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(target, recipe.arrays(vocab_size), {"format": "attn"})
        (folder / "tokenizer.json").write_text(tokenizer_json, "utf-8")
        (folder / "config.json").write_text(config, "utf-8")
    except OSError as problem:
        raise ModelProblem(f"{folder}: cannot be written ({problem.strerror}).") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as problem:
        raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
    except UnicodeDecodeError as problem:
        raise ModelProblem(f"{path}: byte {problem.start} is not UTF-8.") from None
