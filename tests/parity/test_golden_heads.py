"""The logits of every output head against what transformers computed; defects must show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncli.model.head import Head, find_head
from tests.parity.cases import CASES
from tests.parity.heads import (
    BASES,
    GOLDEN,
    HEADS,
    HeadCase,
    difference,
    logits_of,
    read_golden_head,
    run_head,
)
from tests.toys import record


@pytest.mark.parametrize("name", [case.name for case in HEADS])
def test_logits_equal_those_of_transformers(name: str) -> None:
    golden = read_golden_head(name)
    assert difference(golden.logits, run_head(golden)) <= 1


def test_golden_files_and_cases_belong_together() -> None:
    assert {path.stem for path in GOLDEN.glob("*.npz")} == {case.name for case in HEADS}
    assert max(path.stat().st_size for path in GOLDEN.glob("*.npz")) < 40_000


def test_every_family_has_a_head_case() -> None:
    covered = {HeadCase(base, base).model_type for base in BASES}
    assert covered == {case.model_type for case in CASES}


def _without(name: str) -> Any:
    def change(head: Head) -> Head:
        kept = {key: s for key, s in head.params.sources.items() if key != name}
        assert len(kept) < len(head.params.sources)
        return replace(head, params=replace(head.params, sources=kept))

    return change


def _spec(**changes: Any) -> Any:
    return lambda head: replace(head, spec=replace(head.spec, **changes))


DEFECTS = {
    "bias of a mask head": ("bert", _without("head.bias")),
    "bias of a decoder": ("gptj", _without("head.bias")),
    "final_logits_bias": ("bart", _without("head.bias")),
    "bias of the dense map": ("roberta", _without("head.dense.bias")),
    "norm of the head": ("electra", _without("head.norm.weight")),
    "activation of the head": ("albert", _spec(activation="gelu")),
    "eps of the head's norm": ("modernbert-norm-bias", _spec(eps=1e-5)),
    "projection to the embedding's width": ("opt-post-norm", _without("head.dense.weight")),
    "scale of a tied table": ("t5", _spec(scale=1.0)),
    "divided logits": ("granite-scaled", _spec(scale=1.0)),
    "soft cap": ("gemma2-capped", _spec(softcap=None)),
    "soft cap that a class has by default": ("gemma2", _spec(softcap=None)),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_of_a_head_is_seen(defect: str) -> None:
    name, change = DEFECTS[defect]
    golden = read_golden_head(name)
    spec, params = golden.model()
    head = find_head(params)
    assert head is not None
    states = record(spec, params, golden.ids, golden.source).resid[-1]
    try:
        found = logits_of(change(head), states)
    except ValueError:
        return  # the shapes do not even fit
    assert difference(golden.logits, found) > 5


def test_table_of_the_embedding_is_not_taken_where_the_file_has_another() -> None:
    golden = read_golden_head("llama")
    own = golden.tensors["lm_head.weight"]
    assert difference(golden.logits, run_head(golden)) <= 1
    golden.config["tie_word_embeddings"] = True
    assert difference(golden.logits, run_head(golden)) <= 1
    golden.tensors["lm_head.weight"] = np.flip(own)
    assert difference(golden.logits, run_head(golden)) > 5
