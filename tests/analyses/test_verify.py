"""The identities hold on every family of the parity table, and each of them can fail."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pytest

from attncli.analyses import reference, verify
from attncli.analyses.verify import check_identities, verify_model
from attncli.model import attention
from attncli.model.load import Model
from tests.parity.cases import CASES
from tests.parity.comparison import read_golden
from tests.toys import toy

IDS = [3, 7, 1, 4, 8, 2]


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_identity_holds_on_every_family(name: str) -> None:
    golden = read_golden(name)
    checks = check_identities(*golden.model(), list(golden.source or golden.ids))
    assert [f"{c.name}: {c.worst}" for c in checks if not c.passed] == []


def shifted(scores_of):
    """Recompute scores as if the model had added 0.01 to each."""

    def wrong(self, block):
        return scores_of(self, block) + 0.01

    return wrong


def failing(**planted: object) -> set[str]:
    spec, params = toy(causal=True)
    spec = dataclasses.replace(spec, stack=dataclasses.replace(spec.stack, **planted))
    return {check.name for check in check_identities(spec, params, IDS) if not check.passed}


def test_a_sound_model_passes() -> None:
    assert failing() == set()


def test_weights_that_are_no_softmax_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention.softmax

    def wrong(scores, sinks=None):
        weights = right(scores, sinks)
        weights[..., 0] *= np.float32(1.01)
        return weights

    monkeypatch.setattr(attention, "softmax", wrong)
    assert {"softmax", "rows"} <= failing()


def test_scores_that_are_not_q_times_k_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify.Identities, "_scores", shifted(verify.Identities._scores))
    assert failing() == {"score"}


def test_a_mask_that_lets_the_future_through_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_seen(queries, keys, *, causal, window):
        return None

    monkeypatch.setattr(attention, "visible", all_seen)
    monkeypatch.setattr(attention, "_reach", lambda queries, n, *, causal, window: slice(0, n))
    assert "causality" in failing()


def test_verification_of_the_bundled_model_says_what_holds_and_what_does_not_apply(
    minilm: Model,
) -> None:
    result = verify_model(minilm)
    assert result.passed
    by_name = {check.name: check for check in result.checks}
    assert by_name["causality"].worst is None
    assert by_name["heads"].worst is not None
    assert "all identities hold" in result.headline()


def test_reference_that_cannot_be_run_is_said_and_fails_nothing(
    minilm: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", types.ModuleType("transformers"))
    monkeypatch.setattr(reference.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(reference, "_load", lambda model, folder: 1 / 0)
    checks, said = reference.compare_with_transformers(minilm, minilm.encode("a jam"))
    assert (checks, said) == ([], "not compared with transformers: division by zero")
