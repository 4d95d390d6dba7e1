"""Every architecture with an output head, converted to GGUF, gives the logits of its checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attncli.model.gguf.table import ARCHITECTURES
from attncli.model.head import find_head
from attncli.model.load import load
from tests.gguf_converter import bytes_tokenizer, convert
from tests.ggufs import write_gguf
from tests.model.gguf.test_architectures import CASES
from tests.parity.heads import HEADS, difference, logits_of, read_golden_head
from tests.toys import record

PLAIN = [
    (architecture, case, more)
    for architecture, cases in CASES.items()
    for case, more in cases
    if architecture != "bert" and case in {head.name for head in HEADS}
]
GEMMA2, GEMMA3 = CASES["gemma2"][0][1], CASES["gemma3"][0][1]
SPECIAL = [
    ("gemma2", "gemma2-capped", {**GEMMA2, "final_logit_softcapping": 1.5}),
    ("gemma3", "gemma3-capped", {**GEMMA3, "final_logit_softcapping": 1.5}),
    ("granite", "granite-scaled", CASES["granite"][0][1]),
    (
        "t5",
        "t5-v1.1",
        {**CASES["t5"][0][1], "attention.relative_buckets_count": 8},
    ),
]


@pytest.mark.parametrize(
    ("architecture", "case", "more"), [pytest.param(*row, id=row[1]) for row in [*PLAIN, *SPECIAL]]
)
def test_same_logits_as_the_checkpoint(
    architecture: str,
    case: str,
    more: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constants = dict(ARCHITECTURES[architecture].constants)
    if architecture == "smollm3":  # the case leaves out every second layer, models every fourth
        constants["no_rope_layer_interval"] = 2
    if case == "t5-v1.1":  # models reach 128 tokens
        constants["relative_attention_max_distance"] = 11
    changed = replace(ARCHITECTURES[architecture], constants=constants)
    monkeypatch.setitem(ARCHITECTURES, architecture, changed)
    golden = read_golden_head(case)
    # the converter's table knows one of this family's names without what stands before it
    start = "transformer." if architecture == "bloom" else ""
    named = {name.removeprefix(start): values for name, values in golden.tensors.items()}
    metadata, tensors = convert(architecture, golden.config, named)
    metadata |= {f"{architecture}.{key}": value for key, value in more.items()}
    metadata |= bytes_tokenizer(tensors["token_embd.weight"].shape[0])
    model = load(str(write_gguf(tmp_path / "model.gguf", metadata, tensors)))
    head = find_head(model.params)
    assert head is not None
    states = record(model.spec, model.params, golden.ids, golden.source).resid[-1]
    assert difference(golden.logits, logits_of(head, states)) <= 1


def test_embedding_model_has_no_head(tmp_path: Path) -> None:
    from tests.parity.comparison import read_golden

    golden = read_golden("bert")
    metadata, tensors = convert("bert", golden.config, golden.tensors)
    metadata |= {f"bert.{key}": value for key, value in CASES["bert"][0][1].items()}
    metadata |= bytes_tokenizer(40)
    model = load(str(write_gguf(tmp_path / "model.gguf", metadata, tensors)))
    assert find_head(model.params) is None
