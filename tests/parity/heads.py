"""Output heads that are compared with transformers: every family, tied and not, with its extras.

Parameters follow a formula of their name and place, so that a golden file holds shapes only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.arrays import ArrayStore
from attncli.model.config import ConfigReader
from attncli.model.head import Head, find_head
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.parity.cases import CASES
from tests.toys import record

Array = np.ndarray
GOLDEN = Path(__file__).parent / "golden_heads"
TOLERANCE = 1e-5
"""Times the largest |logit| where that is above 1."""


@dataclass(frozen=True, slots=True)
class HeadCase:
    """One model with a head that transformers and attn both compute."""

    name: str
    base: str
    """The case of the model without a head."""
    changes: dict[str, Any] = field(default_factory=dict, hash=False)
    """Of its configuration; those of the text part where it has one."""
    own_table: bool = False
    """Untie what the reference always ties."""

    @property
    def model_type(self) -> str:
        """Family."""
        return next(case.model_type for case in CASES if case.name == self.base)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, model_type included."""
        base = next(case for case in CASES if case.name == self.base)
        return {"model_type": base.model_type, **base.config, **self.changes}

    @property
    def ids(self) -> tuple[int, ...]:
        """What the stack with the head reads."""
        return next(case.ids for case in CASES if case.name == self.base)[:8]

    @property
    def source(self) -> tuple[int, ...]:
        """What the encoder of an encoder-decoder reads."""
        return next(case.source for case in CASES if case.name == self.base)

    @property
    def unwritten(self) -> str:
        """Pattern of tensors that are computed."""
        return next(case.unwritten for case in CASES if case.name == self.base)


BASES = (
    *("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "albert", "mpnet"),
    *("modernbert", "deberta", "deberta-v2"),
    *("gpt2", "gpt-neo", "gptj", "gpt-neox", "opt", "bloom-3-heads", "falcon-7b", "mpt", "phi"),
    *("phi3", "starcoder2", "stablelm", "llama", "mistral-window", "ministral", "mixtral"),
    *("qwen2-window-off", "qwen3", "qwen2-moe", "qwen3-moe", "smollm3", "gemma", "gemma2"),
    *("gemma3", "olmo", "olmo2", "granite", "gpt-oss"),
    *("llava", "llava-next", "llava-onevision", "mistral3", "internvl", "idefics3", "smolvlm"),
    "gemma3-multimodal",
    *("t5", "mt5", "umt5", "bart", "mbart", "marian-computed", "pegasus"),
)
"""One case a family; the key tie_word_embeddings is absent, so that the class default counts."""

TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
ALWAYS_TIED = ("t5", "mt5", "umt5")
NEW_FORM = {"legacy": False}
MODERN = {"classifier_bias": True, "decoder_bias": False, "classifier_activation": "relu"}
GEMMA3_CAPPED = {"final_logit_softcapping": 1.5}

SPECIAL = [
    HeadCase("gemma2-capped", "gemma2", {"final_logit_softcapping": 1.5}),
    HeadCase("gemma2-uncapped", "gemma2", {"final_logit_softcapping": None}),
    HeadCase("gemma3-capped", "gemma3", GEMMA3_CAPPED),
    HeadCase("granite-scaled", "granite", {"logits_scaling": 3.0}),
    HeadCase("modernbert-biases", "modernbert", MODERN),
    HeadCase("modernbert-norm-bias", "modernbert-biases-scaled", {}),
    HeadCase("deberta-new", "deberta", NEW_FORM),
    HeadCase("deberta-v2-new", "deberta-v2", NEW_FORM),
    HeadCase("deberta-v2-new-untied", "deberta-v2", {**NEW_FORM, **UNTIED}),
    HeadCase("bert-relu-head", "bert-relu"),
    HeadCase("albert-same-width", "albert-groups"),
    HeadCase("electra-same-width", "electra-same-width"),
    HeadCase("marian-own-vocabulary", "marian-untied"),
    HeadCase("opt-no-projection", "opt", {"word_embed_proj_dim": 18}),
    HeadCase("opt-post-norm", "opt-post-norm"),
    HeadCase("t5-v1.1", "t5-v1.1", own_table=True),
    HeadCase("t5-said-scaled", "t5", {**UNTIED, "scale_decoder_outputs": True}, own_table=True),
]
DEFAULTS = [HeadCase(base, base) for base in BASES]
HEADS = [*DEFAULTS, *SPECIAL]
"""What golden files hold."""
LIVE = [
    *HEADS,
    *(HeadCase(f"{base}-tied", base, TIED) for base in BASES if base not in ALWAYS_TIED),
    *(HeadCase(f"{base}-untied", base, UNTIED) for base in BASES if base not in ALWAYS_TIED),
    *(HeadCase(f"{base}-own-table", base, own_table=True) for base in ALWAYS_TIED),
]


def formula(name: str, shape: tuple[int, ...]) -> Array:
    """Return values that depend on nothing but a parameter's name and shape.

    Uniform with a deviation of .15 (matrices) or .3 (vectors), around 1 for weights of norms.
    """
    places = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(zlib.crc32(name.encode()))
    # two rounds of multiplication and folding, modulo 2^64
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
        places = places * np.uint64(factor)
        places ^= places >> np.uint64(31)
    uniform = (places >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0
    spread = 0.15 if len(shape) > 1 else 0.3
    middle = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
    return (middle + spread * 3.0**0.5 * uniform).reshape(shape).astype(np.float32)


@dataclass(slots=True)
class GoldenHead:
    """One frozen head."""

    config: dict[str, Any]
    tensors: dict[str, Array]
    ids: list[int]
    source: list[int]
    logits: Array
    """[token, vocabulary]."""

    def model(self) -> tuple[ModelSpec, Params]:
        """Resolve it the way a checkpoint is resolved."""
        store = ArrayStore(Path("golden"), self.tensors)
        return resolve(ConfigReader(dict(self.config), "golden"), store)


def read_golden_head(name: str) -> GoldenHead:
    """Read golden_heads/NAME.npz and make its parameters."""
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        shapes: Mapping[str, list[int]] = json.loads(str(arrays["shapes"]))
        tensors = {tensor: formula(tensor, tuple(shape)) for tensor, shape in shapes.items()}
        return GoldenHead(
            json.loads(str(arrays["config"])),
            tensors,
            arrays["ids"].tolist(),
            arrays["source"].tolist(),
            arrays["logits"],
        )


def logits_of(head: Head, states: Array) -> Array:
    """Return all logits, [row, token]."""
    return np.concatenate([logits for _, logits in head.chunks(states)], axis=1)


def run_head(golden: GoldenHead) -> Array:
    """Return the logits that attn computes, [token, vocabulary]."""
    spec, params = golden.model()
    head = find_head(params)
    assert head is not None
    return logits_of(head, record(spec, params, golden.ids, golden.source).resid[-1])


def difference(expected: Array, found: Array) -> float:
    """Return the largest difference in units of the tolerance."""
    assert expected.shape == found.shape
    return float(np.abs(expected - found).max() / (TOLERANCE * max(1.0, np.abs(expected).max())))
