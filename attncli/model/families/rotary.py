"""Rotary settings in the spellings that configurations use.

Before transformers 5 a config has `rope_theta`, `rope_scaling` {"type" or "rope_type": ...} and
`partial_rotary_factor`; since then one map `rope_parameters` holds all of them, or one map for
each kind of layer. Reference: transformers/modeling_rope_utils.py (5.24).
"""

from __future__ import annotations

import json
import math
from typing import Any

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.spec import RopeScaling, RopeSpec

_PLAIN = ("default", None)


def read_rope(
    config: ConfigReader,
    head_dim: int,
    layer_type: str | None = None,
    *,
    base: float = 10_000.0,
    partial: float = 1.0,
    n_positions: int | None = None,
    adjacent: bool = False,
) -> RopeSpec:
    """Read the rotary positions of a kind of layer.

    Args:
        config: the configuration.
        head_dim: width of a head.
        layer_type: such as "full_attention", where kinds of layers have settings of their own.
        base: used when the configuration names none.
        partial: part of a head that turns, when the configuration names none.
        n_positions: length of the texts in training (max_position_embeddings).
        adjacent: pairs are neighbours.

    Raises:
        ModelProblem: a scaling that attn does not know, or one with missing numbers.
    """
    values = _settings(config, layer_type)
    # the map goes before the same keys outside of it
    theta, part = values.pop("rope_theta", None), values.pop("partial_rotary_factor", None)
    outside = config.number("rope_theta", base), config.number("partial_rotary_factor", partial)
    theta = outside[0] if theta is None else theta
    part = outside[1] if part is None else part
    dim = int(head_dim * part)
    if dim < 2 or dim % 2:
        raise ModelProblem(
            f"{config.path}: rotary positions would turn {dim} of {head_dim} dimensions of a head, "
            "expected an even number."
        )
    kind = values.pop("rope_type", None) or values.pop("type", None)
    values.pop("type", None)
    scaling = None if kind in _PLAIN else _scaling(config, str(kind), values, n_positions)
    if kind in _PLAIN and values:
        raise _unknown(config, str(kind), values)
    return RopeSpec(base=float(theta), dim=dim, scaling=scaling, adjacent=adjacent)


def _settings(config: ConfigReader, layer_type: str | None) -> dict[str, Any]:
    """Return the map of one kind of layer, whichever way it is spelled."""
    old, new = config.mapping("rope_scaling"), config.mapping("rope_parameters")
    # the reference takes the old key where both are there
    values = dict(old or new or {})
    if layer_type is not None and isinstance(values.get(layer_type), dict):
        return dict(values[layer_type])
    return {name: value for name, value in values.items() if not isinstance(value, dict)}


def _scaling(
    config: ConfigReader, kind: str, values: dict[str, Any], n_positions: int | None
) -> RopeScaling:
    """Read the numbers of one scaling; all must be known, none may be left over."""

    def number(name: str, default: float | None = None) -> float:
        value = values.pop(name, None)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelProblem(f"{config.path}: rope scaling {kind!r} needs the number {name}.")
        return float(value)

    def numbers(name: str) -> tuple[float, ...]:
        value = values.pop(name, None)
        if not isinstance(value, list) or not all(isinstance(v, int | float) for v in value):
            raise ModelProblem(f"{config.path}: rope scaling {kind!r} needs the numbers {name}.")
        return tuple(float(v) for v in value)

    trained = int(number("original_max_position_embeddings", float(n_positions or 0)))
    if kind == "linear":
        scaling = RopeScaling("linear", number("factor"))
    elif kind == "dynamic":
        # the reference counts from max_position_embeddings, whatever else is written
        scaling = RopeScaling("dynamic", number("factor"), n_positions or trained)
    elif kind == "llama3":
        scaling = RopeScaling(
            "llama3",
            number("factor"),
            trained,
            low_factor=number("low_freq_factor"),
            high_factor=number("high_freq_factor"),
        )
    elif kind == "yarn":
        scaling = _yarn(number, values, trained, n_positions)
    elif kind in ("longrope", "su"):
        scaling = _longrope(config, number, numbers, trained, n_positions)
    else:
        raise _unknown(config, kind, values)
    if values:
        raise _unknown(config, kind, values)
    return scaling


def _yarn(
    number: Any, values: dict[str, Any], trained: int, n_positions: int | None
) -> RopeScaling:
    factor = number("factor", (n_positions or trained) / trained)
    scale, all_scale = values.pop("mscale", None), values.pop("mscale_all_dim", None)
    if scale and all_scale:
        default = _magnitude(factor, scale) / _magnitude(factor, all_scale)
    else:
        default = _magnitude(factor)
    return RopeScaling(
        "yarn",
        factor,
        trained,
        attention_factor=number("attention_factor", default),
        beta_fast=number("beta_fast", 32.0),
        beta_slow=number("beta_slow", 1.0),
        truncate=bool(values.pop("truncate", True)),
    )


def _magnitude(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(
    config: ConfigReader, number: Any, numbers: Any, trained: int, n_positions: int | None
) -> RopeScaling:
    if config.has("original_max_position_embeddings"):
        trained = config.count("original_max_position_embeddings")
    factor = number("factor", (n_positions or trained) / trained)
    default = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return RopeScaling(
        "longrope",
        factor,
        trained,
        attention_factor=number("attention_factor", default),
        short_factors=numbers("short_factor"),
        long_factors=numbers("long_factor"),
    )


def _unknown(config: ConfigReader, kind: str, values: dict[str, Any]) -> ModelProblem:
    shown = json.dumps({"rope_type": kind, **values})[:120]
    return ModelProblem(
        f"{config.path}: rope scaling {shown} is not supported; results would be wrong, "
        "so attn stops here."
    )
