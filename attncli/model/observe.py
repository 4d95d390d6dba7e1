"""What a run shows while it happens: attention in blocks of query rows, and the residual stream.

The forward pass keeps nothing. An observer names the layers and states it wants and keeps what
it needs of them; a matrix over all pairs of tokens exists only if an observer builds one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attncli._shapes import Float, Int

Array = np.ndarray
EMBEDDING = -1
"""Stands for a layer in front of the first, whose steps are those of the embedding."""


@dataclass(slots=True)
class HeadValues:
    """The value vectors of one layer and what the output projection makes of them.

    f_h(x_j) = (x_j W_V^h + b_V^h) W_O^h is what head h would add to a query's output if it put
    all its weight on key j. Source: Kobayashi et al. 2020, equation 3 (output bias left out).
    """

    v: Float[Array, "kv_head key head_dim"]
    o: Float[Array, "head head_dim d_model"] | None
    """Output projection by head; None when the heads' outputs are simply put side by side."""
    group: int = 1
    """Query heads that share one key/value head."""

    def of(self, head: int) -> Float[Array, "key d_model"]:
        """Return f_h(x_j) for every key j (width head_dim when there is no W_O)."""
        v = self.v[head // self.group]
        return v if self.o is None else v @ self.o[head]

    def norms(self, head: int) -> Float[Array, " key"]:
        """Return the length of f_h(x_j) for every key j."""
        vectors = self.of(head)
        return np.sqrt(np.einsum("kd,kd->k", vectors, vectors))

    def gram(self, heads: tuple[int, ...]) -> Float[Array, "key head head"]:
        """Return the inner products f_h(x_j) · f_g(x_j) of the chosen heads, for every key j."""
        n_keys = self.v.shape[1]
        if self.o is None:
            gram = np.zeros((n_keys, len(heads), len(heads)), np.float32)
            for place, head in enumerate(heads):
                gram[:, place, place] = np.square(self.norms(head))
            return gram
        gram = np.empty((n_keys, len(heads), len(heads)), np.float32)
        step = max(1, 4_000_000 // (len(heads) * self.o.shape[2]))
        o = self.o[list(heads)]
        v = self.v[[head // self.group for head in heads]]
        for start in range(0, n_keys, step):
            vectors = (v[:, start : start + step] @ o).transpose(1, 0, 2)
            gram[start : start + step] = vectors @ vectors.transpose(0, 2, 1)
        return gram


@dataclass(slots=True)
class AttentionBlock:
    """Attention of some query rows of one layer. Arrays are valid during the call only."""

    layer: int
    queries: slice
    """Positions of the query rows."""
    keys: slice
    """Positions of the keys; every key outside is masked for all these queries."""
    q: Float[Array, "head query head_dim"] | None
    """Queries, scaled and rotated: q · k, capped and biased where the model does, is the score.
    None from an engine that does not compute the score itself; k and bias likewise."""
    k: Float[Array, "kv_head token head_dim"] | None
    """Keys of the whole text; `keys` says which ones the arrays below show."""
    values: HeadValues | None
    """Values of the whole text; None where the engine cannot tell them."""
    weights: Float[Array, "head query key"]
    """Softmax of the scores: fractions, rows sum to 1, masked entries exactly 0.

    Where the model has a learned sink, rows sum to less than 1.
    """
    scores: Float[Array, "head query key"] | None = None
    """Scaled scores before the softmax, masked entries -inf; only if an observer wants them
    and the engine can tell them."""
    bias: Float[Array, "head query key"] | None = None
    """What position added to scaled (and capped) q · k; None where nothing is added."""


@dataclass(frozen=True, slots=True)
class Block:
    """One whole block of one text. Arrays, and `again`, are valid during the call only."""

    layer: int
    mixed: Float[Array, "token q_width"]
    """Outputs of all heads side by side, before the output projection: Σ_j weights v_j."""
    out: Float[Array, "token d_model"]
    """Output of the block; of the last layer without the final norm."""
    again: Callable[[Int[Array, " row"], Float[Array, "row q_width"]], Float[Array, "row d_model"]]
    """Output of the block at chosen positions (one may occur often), had the heads there put out
    something else."""


class Observer:
    """Sees chosen parts of one run over one text; does nothing by itself."""

    stack: Literal["main", "encoder"] = "main"
    """The only stack or the decoder; "encoder": the encoder of an encoder-decoder."""
    kind: Literal["self", "cross"] = "self"
    """Which attention is shown: to the own text, or to the source text of the encoder."""
    attention_layers: frozenset[int] = frozenset()
    """Layers whose attention blocks are shown."""
    wants_scores: bool = False
    side_by_side: bool = False
    """True when several threads may show blocks at once: what each block leaves is apart."""
    output_layers: frozenset[int] = frozenset()
    """Layers whose attention output is shown: projected, before any norm and the residual sum."""
    states: frozenset[int] = frozenset()
    """States of the residual stream: 0 is the embedding, i is after block i - 1; the last one
    has the final norm applied where the model has one (the convention of transformers)."""

    block_layers: frozenset[int] = frozenset()
    """Layers that are shown as a whole."""
    step_layers: frozenset[int] = frozenset()
    """Layers whose steps are shown one by one; EMBEDDING for those before the first layer."""

    def on_attention(self, block: AttentionBlock) -> None:
        """Take one block; all blocks of a layer together cover every query once, in any order.

        The arrays belong to the run: who changes or keeps them makes a copy.
        """

    def on_output(self, layer: int, output: Float[Array, "token d_model"]) -> None:
        """Take the attention output of a layer, the projection's bias included."""

    def on_block(self, block: Block) -> None:
        """Take one whole block."""

    def on_step(self, layer: int, name: str, values: Float[Array, "token width"]) -> None:
        """Take one step of the arithmetic, named as the parameter or norm slot behind it.

        Steps of a model that has them, in this order. Embedding: token, scaled, token_proj,
        position, type (rows that are added up), embed_norm, embed_proj. A layer: resid_pre (the
        residual stream that enters), attn_in, attn.q, attn.k, attn.v (projected), attn.q_norm and
        attn.k_norm, attn_out (attention output), resid_mid (after attention), cross_in, cross.q …
        of cross-attention (keys and values: of the source text), cross_mid, ffn_out (feed-forward
        output), conv (output of the convolution beside the block), resid_post. Norm slots that are
        empty leave their argument as it is.
        """

    def on_state(self, index: int, state: Float[Array, "token d_model"]) -> None:
        """Take one state of the residual stream."""
