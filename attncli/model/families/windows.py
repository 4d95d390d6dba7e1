"""Which layers see a window of keys only, in the spellings that configurations use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader

SLIDING, FULL = "sliding_attention", "full_attention"


def layer_types(
    config: ConfigReader, n_layers: int, otherwise: Callable[[int], bool]
) -> Sequence[str]:
    """Return the kind of each layer: `layer_types` where a config has it, else a family's rule.

    Args:
        config: the configuration.
        n_layers: number of layers.
        otherwise: tells whether layer i has a window when the config names no kinds.

    Raises:
        ModelProblem: a kind that is neither of the two, or a list of another length.
    """
    types = config.texts("layer_types")
    if types is None:
        return [SLIDING if otherwise(i) else FULL for i in range(n_layers)]
    if len(types) != n_layers or not set(types) <= {SLIDING, FULL}:
        raise ModelProblem(
            f"{config.path}: layer_types has {len(types)} entries ({', '.join(sorted(set(types)))})"
            f"; expected {n_layers} of {FULL} and {SLIDING}."
        )
    return types


def window_sizes(
    config: ConfigReader, types: Sequence[str], *, on: bool = True
) -> list[int | None]:
    """Return the window of each layer, in keys with the query's own; None: all keys.

    Args:
        config: names the size, sliding_window.
        types: kind of each layer.
        on: a switch such as use_sliding_window; layers that slide although it is off are refused.

    Raises:
        ModelProblem: a layer slides, but its window is switched off or has no size.
    """
    if SLIDING not in types:
        config.ignore("sliding_window")
        return [None] * len(types)
    if not on:
        raise ModelProblem(
            f"{config.path}: layer_types has {SLIDING} although use_sliding_window is false; "
            "the two contradict each other."
        )
    size = config.count("sliding_window")
    return [size if kind == SLIDING else None for kind in types]
