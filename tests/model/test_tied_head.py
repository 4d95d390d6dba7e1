"""A checkpoint may hold a tied table under the name of the output head only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.parity.comparison import read_golden
from tests.toys import record

EMBEDDING = "embed_tokens.weight"


def with_head_only(tied: Any) -> tuple[ModelSpec, Params]:
    golden = read_golden("llama")
    tensors = dict(golden.tensors)
    tensors["lm_head.weight"] = tensors.pop(EMBEDDING)
    config = {**golden.config, "tie_word_embeddings": tied}
    return resolve(ConfigReader(config, "config.json"), ArrayStore(Path("file"), tensors))


def test_tied_head_is_the_embedding() -> None:
    golden = read_golden("llama")
    found = record(*with_head_only(True), golden.ids)
    np.testing.assert_array_equal(found.weights, record(*golden.model(), golden.ids).weights)


@pytest.mark.parametrize("tied", [False, None])
def test_head_that_is_not_said_to_be_tied_is_no_embedding(tied: Any) -> None:
    with pytest.raises(ModelProblem, match=r"embed_tokens\.weight"):
        with_head_only(tied)
