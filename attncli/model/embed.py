"""From token ids to state 0: token, position and type embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncli._shapes import Float
from attncli.model.ffn import affine
from attncli.model.observe import EMBEDDING
from attncli.model.params import Params
from attncli.model.spec import ModelSpec
from attncli.model.stack import Stack, norm_slot

Array = np.ndarray


def embed(
    spec: ModelSpec, stack: Stack, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]]
) -> Float[Array, "row d_model"]:
    """Return token + position + type embeddings, normalised and widened where the model does.

    Tokens are widened alone (token_proj, OPT) or all at the end (embed_proj, ELECTRA).
    """
    params, prefix = stack.params, stack.prefix

    def shown(name: str, values: Array) -> Array:
        stack.show(EMBEDDING, name, values)
        return values

    x = shown("token", params.rows(f"{prefix}embed.token", np.concatenate(ids)))
    if spec.embed_scale != 1.0:
        x = shown("scaled", x * np.float32(spec.embed_scale))
    if f"{prefix}token_proj.weight" in params:
        x = shown("token_proj", affine(x, params.linear(f"{prefix}token_proj")))
    positions = np.concatenate([_positions(i, spec.uncounted_token) for i in ids])
    if f"{prefix}embed.position" in params:
        rows = params.rows(f"{prefix}embed.position", positions + spec.position_offset)
        x = x + shown("position", rows)
    elif spec.sinusoid:
        x = x + shown("position", sinusoids(positions, x.shape[1]))
    if f"{prefix}embed.type" in params:
        x = x + shown("type", params.rows(f"{prefix}embed.type", np.concatenate(types)))
    normed = norm_slot(stack.spec, params, f"{prefix}embed_norm", x)
    if normed is not x:
        x = shown("embed_norm", normed)
    if f"{prefix}embed_proj.weight" in params:
        x = shown("embed_proj", affine(x, params.linear(f"{prefix}embed_proj")))
    return x


def token_rows(
    spec: ModelSpec, params: Params, prefix: str, rows: slice
) -> Float[Array, "row width"]:
    """Return input embeddings of a range of token ids, widened where the model does.

    Only what stands for the token itself: no position, no type, and none of the norms that follow.
    The width is that of the states, since what narrows a table is undone by the model's own
    projection (its bias included).

    Args:
        spec: the model.
        params: its parameters.
        prefix: of the stack, such as ENCODER.
        rows: token ids from, to.
    """
    x = params.rows(f"{prefix}embed.token", rows)
    if spec.embed_scale != 1.0:
        x = x * np.float32(spec.embed_scale)
    for name in (f"{prefix}token_proj", f"{prefix}embed_proj"):
        if f"{name}.weight" in params:
            x = affine(x, params.linear(name))
    return x


def _positions(ids: Sequence[int], uncounted: int | None) -> Array:
    """Return 0, 1, 2 … for the tokens that count, and -1 for those that do not."""
    counted = np.asarray(ids) != (-1 if uncounted is None else uncounted)
    return np.where(counted, np.cumsum(counted), 0) - 1


def sinusoids(positions: Array, width: int) -> Float[Array, "row width"]:
    """Return sines then cosines of position / 10000^(2i / width); an odd width has one more sine.

    Source: Vaswani et al. 2017, section 3.5, in the order of transformers' Marian and Pegasus.
    """
    rates = 10000.0 ** (-2.0 * np.arange((width + 1) // 2) / width)
    turns = positions[:, None] * rates
    both = np.concatenate([np.sin(turns), np.cos(turns[:, : width // 2])], axis=1)
    return both.astype(np.float32)
