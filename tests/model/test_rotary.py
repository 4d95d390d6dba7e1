"""Rotary settings of configurations: every spelling, and refusals that name what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.rotary import read_rope
from attncli.model.rope import angles, rope_frequencies
from attncli.model.spec import RopeScaling, RopeSpec

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0, 3.0],
    "long_factor": [2.0, 3.0, 4.0, 5.0],
    "original_max_position_embeddings": 16,
}


def read(layer_type: str | None = None, *, n_positions: int = 64, **values: Any) -> RopeSpec:
    """Read the settings of heads eight wide; every key must have been understood."""
    config = ConfigReader(values, "config.json")
    rope = read_rope(config, 8, layer_type, n_positions=n_positions)
    config.finish()
    return rope


def scaling(**values: Any) -> RopeScaling:
    found = read(**values).scaling
    assert found is not None
    return found


@pytest.mark.parametrize(
    "values",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 500_000}},
        # saved for programs of both kinds: the map wins over what stands beside it
        {
            "rope_theta": 1e4,
            "rope_parameters": {"type": "linear", "factor": 2.0, "rope_theta": 5e5},
        },
        # and the old map over the new one, as the reference has it
        {
            "rope_theta": 5e5,
            "rope_scaling": {"type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "default", "rope_theta": 7.0},
        },
    ],
)
def test_every_spelling_gives_the_same_positions(values: dict[str, Any]) -> None:
    assert read(**values) == RopeSpec(5e5, 8, RopeScaling("linear", 2.0))


def test_without_settings_positions_are_plain() -> None:
    plain = RopeSpec(10_000.0, 8)
    assert read() == read(rope_scaling=None, rope_parameters=None) == plain
    assert read(rope_parameters={"rope_type": "default"}) == plain


def test_kinds_of_layers_have_maps_of_their_own() -> None:
    maps = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default"},
    }
    full = read("full_attention", rope_parameters=maps, rope_theta=3e4)
    local = read("sliding_attention", rope_parameters=maps, rope_theta=3e4)
    assert full == RopeSpec(1e6, 8, RopeScaling("linear", 8.0))
    assert local == RopeSpec(3e4, 8)
    with pytest.raises(ModelProblem, match="rotary settings for sliding_attention only"):
        read("full_attention", rope_parameters={"sliding_attention": {}})
    with pytest.raises(ModelProblem, match="full_attention, sliding_attention only"):
        read(None, rope_parameters=maps)


def test_llama3_frequencies() -> None:
    # of the pairs with wavelengths 6, 63, 628, 6283 only the first turns often enough to stay
    frequencies, factor = rope_frequencies(read(rope_parameters=LLAMA3), 60)
    np.testing.assert_allclose(frequencies, [1.0, 0.0125, 0.00125, 0.000125], rtol=1e-6)
    assert factor == 1.0
    old = {**{k: v for k, v in LLAMA3.items() if k != "rope_type"}, "type": "llama3"}
    assert read(rope_scaling=old) == read(rope_parameters=LLAMA3)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 1.277259),
        ({"attention_factor": 1.0}, 1.0),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 0.7, "mscale_all_dim": 1.0}, 0.934878),
        # one of the two alone, or a zero, counts for nothing
        ({"mscale": 0.7}, 1.277259),
        ({"mscale": 0.7, "mscale_all_dim": 0}, 1.277259),
        ({"mscale": 0.7, "mscale_all_dim": 1.0, "attention_factor": 1.5}, 1.5),
        ({"factor": 1.0}, 1.0),
    ],
)
def test_yarn_factor_on_rotated_vectors(changes: dict[str, float], factor: float) -> None:
    rope = read(rope_parameters={**YARN, **changes})
    assert rope.scaling is not None
    assert rope.scaling.attention_factor == pytest.approx(factor, abs=1e-6)
    cos, _ = angles(rope, 3)
    np.testing.assert_allclose(cos[0], factor, rtol=1e-6)


def test_yarn_without_truncation_has_another_ramp() -> None:
    # the ramp ends at pair 1.414, rounded at pair 2: pair 1 is half or .71 of the way along
    values = {**YARN, "rope_theta": 100.0, "beta_fast": 3.0, "beta_slow": 0.5}
    rounded = rope_frequencies(read(rope_parameters=values), 3)[0]
    exact = rope_frequencies(read(rope_parameters={**values, "truncate": False}), 3)[0]
    assert rounded[1] / 100**-0.25 == pytest.approx(0.5 + 0.5 / 16)
    assert exact[1] / 100**-0.25 == pytest.approx(1 - 15 / 16 / 1.41394, abs=1e-5)


def test_length_of_first_training_beside_the_map_comes_first() -> None:
    inside = {**YARN, "original_max_position_embeddings": 99}
    found = scaling(rope_scaling=inside, original_max_position_embeddings=16)
    assert found.original_positions == 16
    absent = {k: v for k, v in YARN.items() if k != "original_max_position_embeddings"}
    assert scaling(rope_scaling=absent).original_positions == 64


def test_dynamic_counts_from_the_longest_text_whatever_the_map_says() -> None:
    values = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8}
    rope = read(rope_parameters=values)
    plain = rope_frequencies(RopeSpec(10_000.0, 8), 64)[0]
    np.testing.assert_array_equal(rope_frequencies(rope, 64)[0], plain)
    assert rope_frequencies(rope, 65)[0][-1] < plain[-1]


def test_longrope_changes_over_at_the_original_length() -> None:
    rope = read(rope_parameters=LONGROPE)
    plain = rope_frequencies(RopeSpec(10_000.0, 8), 1)[0]
    short, factor = rope_frequencies(rope, 16)
    np.testing.assert_allclose(short, plain / [1.0, 1.5, 2.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(rope_frequencies(rope, 17)[0], plain / [2, 3, 4, 5], rtol=1e-6)
    # 64 positions over 16: sqrt(1 + ln 4 / ln 16)
    assert factor == pytest.approx(1.5**0.5)
    assert scaling(rope_parameters={**LONGROPE, "factor": 16.0}).attention_factor == pytest.approx(
        2**0.5
    )


@pytest.mark.parametrize("kind", ["foo", "proportional", "mrope", 3])
def test_unknown_kind_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(ModelProblem, match=rf"config\.json: rope scaling .*{kind}.*not supported"):
        read(rope_parameters={"rope_type": kind, "factor": 2.0})


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"rope_type": "linear", "factor": 2.0}, "factor"),
        ({"rope_type": "dynamic", "factor": 2.0}, "factor"),
        (LLAMA3, "factor"),
        (LLAMA3, "low_freq_factor"),
        (LLAMA3, "high_freq_factor"),
        (YARN, "factor"),
        (LONGROPE, "short_factor"),
        (LONGROPE, "long_factor"),
    ],
)
def test_missing_number_is_named(parameters: dict[str, Any], key: str) -> None:
    left = {name: value for name, value in parameters.items() if name != key}
    expected = rf"rope scaling '{left['rope_type']}' needs .*{key}.*missing"
    with pytest.raises(ModelProblem, match=expected):
        read(rope_parameters=left)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({**YARN, "factor": "16"}, "factor"),
        ({**YARN, "factor": 0}, "factor"),
        ({**YARN, "factor": float("nan")}, "factor"),
        ({**YARN, "beta_fast": -1.0}, "beta_fast"),
        ({**YARN, "attention_factor": True}, "attention_factor"),
        ({**YARN, "truncate": "no"}, "truncate"),
        ({**YARN, "rope_theta": 1.0}, "rope_theta"),
        ({**YARN, "rope_theta": "big"}, "rope_theta"),
        ({**YARN, "original_max_position_embeddings": 1}, "original_max_position_embeddings"),
        ({**LLAMA3, "high_freq_factor": 1.0}, "high_freq_factor"),
        ({**LONGROPE, "short_factor": [1.0]}, "4 numbers .* short_factor"),
        ({**LONGROPE, "long_factor": [1.0, 2.0, 3.0, "4"]}, "long_factor"),
        ({"rope_type": "default", "factor": 2.0}, "factor"),
        ({"rope_type": "linear", "factor": 2.0, "warp": 1}, "warp"),
        ({"partial_rotary_factor": 0.4}, "3 of the 8 dimensions"),
    ],
)
def test_number_that_makes_no_sense_is_named(parameters: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelProblem, match=named):
        read(rope_parameters=parameters)


def test_ramp_that_the_reference_would_not_leave_unrounded_is_refused() -> None:
    maps = {"full_attention": {**YARN, "truncate": False}}
    with pytest.raises(ModelProblem, match="truncate"):
        read("full_attention", rope_parameters=maps)
