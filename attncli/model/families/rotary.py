"""Rotary settings in the spellings that configurations use.

Before transformers 5 a config has `rope_theta`, `rope_scaling` {"type" or "rope_type": ...} and
`partial_rotary_factor`; since then one map `rope_parameters` holds all of them, or one map for
each kind of layer. A config with both `rope_scaling` and `rope_parameters` means the first.
Reference: transformers/modeling_rope_utils.py (5.24).
"""

from __future__ import annotations

import json
import math
from typing import Any

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.spec import RopeScaling, RopeSpec

ORIGINAL = "original_max_position_embeddings"


def read_rope(
    config: ConfigReader,
    head_dim: int,
    layer_type: str | None = None,
    *,
    base: float = 10_000.0,
    partial: float = 1.0,
    n_positions: int | None = None,
    adjacent: bool = False,
    base_key: str = "rope_theta",
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
        base_key: the key beside the map that names the base where the map does not.

    Raises:
        ModelProblem: a scaling that attn does not know, or one with missing numbers.
    """
    values, nested = _choose(config, layer_type)
    outer = config.number(base_key, base), config.number("partial_rotary_factor", partial)
    kind = values.pop("rope_type", None) or values.pop("type", None) or "default"
    values.pop("type", None)
    settings = _Settings(config, str(kind), values, nested)
    theta = settings.number("rope_theta", outer[0])
    if theta <= 1:
        raise settings.needs("a rope_theta above 1", theta)
    dim = int(head_dim * settings.number("partial_rotary_factor", outer[1]))
    if dim < 2 or dim % 2 or dim > head_dim:
        raise ModelProblem(
            f"{config.path}: {dim} of the {head_dim} dimensions of a head would turn; expected "
            "an even number of them."
        )
    if kind not in (*_SCALINGS, "default"):
        raise settings.unknown()
    scaling = None
    if kind != "default":
        scaling = _SCALINGS[kind](settings, _Lengths(settings, n_positions), dim)
    if values:
        raise settings.unknown()
    return RopeSpec(base=theta, dim=dim, scaling=scaling, adjacent=adjacent)


def _choose(config: ConfigReader, layer_type: str | None) -> tuple[dict[str, Any], bool]:
    """Return the map of one kind of layer, and whether it stood in a map of its own."""
    scaling, parameters = config.mapping("rope_scaling"), config.mapping("rope_parameters")
    values = dict(scaling or parameters or {})
    if layer_type is not None and isinstance(values.get(layer_type), dict):
        return dict(values[layer_type]), True
    if layer_type is not None and layer_type in values:
        del values[layer_type]
    kinds = [name for name, value in values.items() if isinstance(value, dict)]
    if kinds:
        raise ModelProblem(
            f"{config.path}: rotary settings for {', '.join(sorted(kinds))} only; expected "
            f"one map for all layers{f' or one for {layer_type}' if layer_type else ''}."
        )
    return values, False


class _Settings:
    """The map of one kind of layer; what is read is taken out, so that the rest can be refused."""

    def __init__(
        self, config: ConfigReader, kind: str, values: dict[str, Any], nested: bool
    ) -> None:
        self.config, self.kind, self.values, self.nested = config, kind, values, nested

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        value: Any = self.values.pop(name, None)
        value = default if value is None else value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < 1e30:
            raise self.needs(f"the number {name} above 0", value)
        return float(value)

    def numbers(self, name: str, length: int) -> tuple[float, ...]:
        """Return a list of numbers above 0."""
        value = self.values.pop(name, None)
        fits = isinstance(value, list) and len(value) == length
        if not fits or not all(isinstance(v, int | float) and 0 < v < 1e30 for v in value):
            raise self.needs(f"{length} numbers above 0 named {name}", value)
        return tuple(float(v) for v in value)

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""
        value = self.values.pop(name, None)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.needs(f"true or false for {name}", value)
        return value

    def unknown(self) -> ModelProblem:
        """Return the refusal of a kind, or of numbers that are left over."""
        shown = json.dumps({"rope_type": self.kind, **self.values})[:120]
        return ModelProblem(
            f"{self.config.path}: rope scaling {shown} is not supported; results would be wrong, "
            "so attn stops here."
        )

    def needs(self, what: str, value: Any) -> ModelProblem:
        """Return the refusal of a map that lacks a value, or has another one than it needs."""
        found = "it is missing" if value is None else f"found {json.dumps(value)[:60]}"
        kind = "" if self.kind == "default" else f"scaling {self.kind!r} "
        return ModelProblem(f"{self.config.path}: rope {kind}needs {what}; {found}.")


class _Lengths:
    """How long texts were in the first training, and how long they may be now."""

    def __init__(self, settings: _Settings, longest: int | None) -> None:
        config, self._settings, self.longest = settings.config, settings, longest
        named = settings.values.get(ORIGINAL) is not None
        inside = settings.number(ORIGINAL) if named else None
        settings.values.pop(ORIGINAL, None)
        # beside the map it has priority over the one in the map (Phi-3)
        beside = not settings.nested and config.has(ORIGINAL)
        self._named = float(config.count(ORIGINAL)) if beside else inside

    def original(self) -> int:
        """Return the length of the texts in the first training, in tokens."""
        length = self._named or self.longest
        if length is None or length < 2:
            raise self._settings.needs(f"the number {ORIGINAL} above 1", length)
        return int(length)

    def growth(self) -> float:
        """Return how much longer texts may be now."""
        return (self.longest or self.original()) / self.original()


def _linear(settings: _Settings, lengths: _Lengths, dim: int) -> RopeScaling:
    return RopeScaling("linear", settings.number("factor"))


def _dynamic(settings: _Settings, lengths: _Lengths, dim: int) -> RopeScaling:
    # the reference counts from max_position_embeddings, whatever else is written
    longest = lengths.longest or lengths.original()
    if dim < 4:
        raise settings.needs("heads of which at least 4 dimensions turn", dim)
    return RopeScaling("dynamic", settings.number("factor"), longest)


def _llama3(settings: _Settings, lengths: _Lengths, dim: int) -> RopeScaling:
    low, high = settings.number("low_freq_factor"), settings.number("high_freq_factor")
    if high <= low:
        raise settings.needs(f"a high_freq_factor above low_freq_factor {low:g}", high)
    factor = settings.number("factor")
    return RopeScaling("llama3", factor, lengths.original(), low_factor=low, high_factor=high)


def _yarn(settings: _Settings, lengths: _Lengths, dim: int) -> RopeScaling:
    # null stands for the ratio of the lengths, but an absent factor is a mistake
    ratio = lengths.growth() if "factor" in settings.values else None
    factor = settings.number("factor", ratio)
    scales = [settings.values.get(name) for name in ("mscale", "mscale_all_dim")]
    default = _magnitude(factor)
    if all(scales):
        scale, all_scale = (settings.number(name) for name in ("mscale", "mscale_all_dim"))
        default = _magnitude(factor, scale) / _magnitude(factor, all_scale)
    for name in ("mscale", "mscale_all_dim"):
        settings.values.pop(name, None)
    truncate = settings.flag("truncate", True)
    if settings.nested and not truncate:
        # the reference looks for it beside the maps of the kinds of layers, and rounds
        raise settings.needs("truncate true in the map of a kind of layer", truncate)
    return RopeScaling(
        "yarn",
        factor,
        lengths.original(),
        attention_factor=settings.number("attention_factor", default),
        beta_fast=settings.number("beta_fast", 32.0),
        beta_slow=settings.number("beta_slow", 1.0),
        truncate=truncate,
    )


def _magnitude(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(settings: _Settings, lengths: _Lengths, dim: int) -> RopeScaling:
    original = lengths.original()
    factor = settings.number("factor", lengths.growth())
    default = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return RopeScaling(
        "longrope",
        factor,
        original,
        attention_factor=settings.number("attention_factor", default),
        short_factors=settings.numbers("short_factor", dim // 2),
        long_factors=settings.numbers("long_factor", dim // 2),
    )


_SCALINGS = {
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
"""Kinds of scaling, by the name that configurations use; "su" is what Phi-3 first called longrope.
"""
