"""Small models with random parameters, and an observer that keeps everything they show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Whitespace
from tokenizers.processors import TemplateProcessing

from attncli.checkpoints.arrays import ArrayStore
from attncli.checkpoints.safetensors import write_safetensors
from attncli.model.config import ConfigReader
from attncli.model.forward import Job, run
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from attncli.tokenize import TextTokenizer

Array = np.ndarray
Tensors = dict[str, Array]

WORDS = ["[UNK]", "[CLS]", "[SEP]", "the", "dog", "sees", "a", "cat", "and", "runs"]


class Recorder(Observer):
    """Keeps whole matrices of every layer, and every state."""

    wants_scores = True

    def __init__(
        self,
        spec: ModelSpec,
        n: int,
        *,
        stack: Literal["main", "encoder"] = "main",
        n_source: int | None = None,
    ) -> None:
        """Watch a stack's self-attention, or the attention to a source of `n_source` tokens."""
        self.stack, self.kind = stack, "self" if n_source is None else "cross"
        sizes = spec.reader if stack == "encoder" else spec.stack
        self.attention_layers = frozenset(range(sizes.n_layers))
        self.states = frozenset(range(sizes.n_layers + 1) if n_source is None else ())
        self.encoder: Recorder | None = None
        self.cross: Recorder | None = None
        shape = (sizes.n_layers, sizes.n_heads, n)
        n_keys = n if n_source is None else n_source
        self.weights = np.zeros((*shape, n_keys), np.float32)
        self.scores = np.full((*shape, n_keys), -np.inf, np.float32)
        self.q = np.full((*shape, sizes.head_dim), np.nan, np.float32)
        self.k: dict[int, Array] = {}
        self.values: dict[int, HeadValues] = {}
        self.blocks = 0
        self._states: dict[int, Array] = {}

    def on_attention(self, block: AttentionBlock) -> None:
        self.blocks += 1
        self.weights[block.layer, :, block.queries, block.keys] = block.weights
        self.scores[block.layer, :, block.queries, block.keys] = block.scores
        self.q[block.layer, :, block.queries] = block.q
        self.k[block.layer] = block.k
        # the projection's memory is used again for the next layer
        o = None if block.values.o is None else block.values.o.copy()
        self.values[block.layer] = HeadValues(block.values.v, o, block.values.group)

    def on_state(self, index: int, state: Array) -> None:
        self._states[index] = state.copy()

    @property
    def resid(self) -> Array:
        """[state, token, d_model]."""
        if not self.states:
            return np.zeros((0, 0, 0), np.float32)
        return np.stack([self._states[i] for i in sorted(self._states)])


def record(
    spec: ModelSpec,
    params: Params,
    ids: Sequence[int],
    source: Sequence[int] = (),
    types: Sequence[int] = (),
) -> Recorder:
    """Run one text alone (of an encoder-decoder the target of a source) and keep everything."""
    recorder = Recorder(spec, len(ids))
    watching = [recorder]
    if source:
        recorder.encoder = Recorder(spec, len(source), stack="encoder")
        recorder.cross = Recorder(spec, len(ids), n_source=len(source))
        watching += [recorder.encoder, recorder.cross]
    run(
        spec, params, [Job(list(ids), list(types) or [0] * len(ids), watching, source=list(source))]
    )
    return recorder


def random_array(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Array:
    """Matrices N(0, .15), norm weights 1 + N(0, .3), biases N(0, .3): no parameter is neutral."""
    if len(shape) > 1:
        values = rng.normal(0, 0.15, shape)
    else:
        values = rng.normal(1 if name.endswith("LayerNorm.weight") else 0, 0.3, shape)
    return values.astype(np.float32)


def toy(
    *, d_model: int = 12, heads: int = 3, layers: int = 2, causal: bool = False, seed: int = 0
) -> tuple[ModelSpec, Params]:
    """Return a toy without positions over ten token ids, with W_O and feed-forward part."""
    rng = np.random.default_rng(seed)
    shapes = {"embedding": (10, d_model)}
    for i in range(layers):
        shapes |= {
            f"layers.{i}.{name}": (d_model, d_model) for name in ("w_q", "w_k", "w_v", "w_o")
        }
        shapes |= {f"layers.{i}.w_up": (d_model, 16), f"layers.{i}.w_down": (16, d_model)}
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    config = {
        "model_type": "attn-toy",
        "vocab_size": 10,
        "d_model": d_model,
        "n_heads": heads,
        "n_layers": layers,
        "causal": causal,
        "d_ff": 16,
    }
    return resolve(ConfigReader(config, "toy"), ArrayStore(Path("toy"), arrays))


def tiny_bert(seed: int = 0, **changes: Any) -> tuple[dict[str, Any], Tensors]:
    """Return config and tensors of a tiny BERT with every parameter random."""
    config = {
        "model_type": "bert",
        "vocab_size": len(WORDS),
        "hidden_size": 12,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "intermediate_size": 20,
        "max_position_embeddings": 9,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        **changes,
    }
    d_model, d_ff = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], d_model),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], d_model),
        "embeddings.token_type_embeddings.weight": (2, d_model),
        **_pair("embeddings.LayerNorm", d_model),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _pair(f"{layer}.attention.{part}", d_model, d_model)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", d_model)
        shapes |= _pair(f"{layer}.intermediate.dense", d_ff, d_model)
        shapes |= _pair(f"{layer}.output.dense", d_model, d_ff)
        shapes |= _pair(f"{layer}.output.LayerNorm", d_model)
    rng = np.random.default_rng(seed)
    return config, {name: random_array(rng, name, shape) for name, shape in shapes.items()}


def _pair(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def word_tokenizer(words: Sequence[str] = WORDS, unknown: str = "[UNK]") -> Tokenizer:
    """One token a word, [CLS] and [SEP] around the text where the vocabulary has them."""
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=unknown))
    tokenizer.pre_tokenizer = Whitespace()
    if "[CLS]" in ids:
        tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
        specials = [(name, ids[name]) for name in ("[CLS]", "[SEP]")]
        pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
        tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", pair, specials)
    return tokenizer


def byte_level(*merges: tuple[str, str]) -> TextTokenizer:
    """Return a GPT-2 like tokenizer: every byte, and these merges."""
    vocabulary = sorted(ByteLevel.alphabet()) + ["".join(pair) for pair in merges]
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(BPE(ids, list(merges)))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return TextTokenizer(tokenizer)


def metaspace(*pieces: str) -> TextTokenizer:
    """Return a SentencePiece like tokenizer that knows these pieces."""
    scores = [("<unk>", -20.0), *((piece, -float(len(pieces))) for piece in pieces)]
    tokenizer = Tokenizer(Unigram(scores, unk_id=0))
    tokenizer.pre_tokenizer = Metaspace()
    return TextTokenizer(tokenizer)


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Array],
    tokenizer: Tokenizer | None = None,
) -> Path:
    """Write a checkpoint folder that `load` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    (folder / "tokenizer.json").write_text((tokenizer or word_tokenizer()).to_str())
    write_safetensors(folder / "model.safetensors", tensors, {})
    return folder
