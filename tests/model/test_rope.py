"""Rotary settings: which of several places counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.rotary import read_rope
from attncli.model.spec import RopeSpec

FACTORS = {"short_factor": [1.0, 1.1], "long_factor": [1.5, 3.0]}


def read(head_dim: int = 4, n_positions: int | None = 24, **values: Any) -> RopeSpec:
    """Read the settings of a configuration to the last key."""
    config = ConfigReader(values, "config.json")
    rope = read_rope(config, head_dim, n_positions=n_positions)
    config.finish()
    return rope


def test_map_goes_before_the_same_keys_outside_of_it() -> None:
    inside = {"rope_theta": 300.0, "partial_rotary_factor": 0.5}
    assert read(rope_parameters=inside) == RopeSpec(300.0, 2)
    assert read(rope_parameters=inside, rope_theta=7.0, partial_rotary_factor=1.0) == RopeSpec(
        300.0, 2
    )
    assert read(rope_theta=7, partial_rotary_factor=0.5) == RopeSpec(7.0, 2)


def test_old_map_goes_before_the_new_one() -> None:
    linear = {"type": "linear", "factor": 2.0}
    rope = read(rope_scaling=linear, rope_parameters={"rope_type": "linear", "factor": 4.0})
    assert rope.scaling is not None
    assert rope.scaling.factor == 2.0
    assert read(rope_scaling=linear, rope_parameters=None) == rope


@pytest.mark.parametrize(
    ("outside", "inside", "factor"),
    [
        ({"original_max_position_embeddings": 6}, {}, 4.0),
        ({"original_max_position_embeddings": 6}, {"factor": 8.0}, 8.0),
        ({}, {"original_max_position_embeddings": 6}, 4.0),
        ({}, {"original_max_position_embeddings": 6, "factor": 8.0}, 8.0),
        ({"original_max_position_embeddings": 12}, {"original_max_position_embeddings": 6}, 2.0),
        ({}, {}, 1.0),
    ],
)
def test_factor_of_longrope_is_the_one_written_or_the_ratio_of_the_lengths(
    outside: dict[str, Any], inside: dict[str, Any], factor: float
) -> None:
    rope = read(rope_scaling={"rope_type": "longrope", **FACTORS, **inside}, **outside)
    assert rope.scaling is not None
    assert rope.scaling.factor == factor
    assert (rope.scaling.attention_factor > 1) == (factor > 1)


@pytest.mark.parametrize(("head_dim", "part"), [(4, 0.25), (5, 1.0), (6, 0.5)])
def test_turning_an_odd_number_of_dimensions_is_refused(head_dim: int, part: float) -> None:
    with pytest.raises(ModelProblem, match=rf"of the {head_dim} dimensions of a head"):
        read(head_dim, partial_rotary_factor=part)


def test_number_of_a_plain_map_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ModelProblem, match="mystery"):
        read(rope_parameters={"rope_type": "default", "mystery": 2.0})
