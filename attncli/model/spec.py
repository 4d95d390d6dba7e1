"""What the arithmetic of a transformer needs to know, and nothing about products.

A family file turns a configuration into these dataclasses; `forward.py` reads only them.
Differences between families that are a norm's place are no field at all: each block has
named norm slots, and a slot whose tensor is absent is the identity. The same holds for gates,
biases, query/key norms and learned sinks: they are there when their tensor is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NORM_SLOTS = (
    "attn_in",
    "attn_out",
    "attn_residual",
    "cross_in",
    "cross_residual",
    "ffn_in",
    "ffn_out",
    "ffn_residual",
    "conv_residual",
)
"""Places for a norm in a block: before a sub-layer, after it, after its residual sum."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How a model reads texts longer than it was first trained on."""

    kind: Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
    factor: float = 1.0
    original_positions: int = 0
    """Length of the texts in the first training; all kinds but linear."""
    attention_factor: float = 1.0
    """Factor on rotated queries and keys; yarn and longrope."""
    low_factor: float = 1.0
    """llama3: pairs with fewer turns than this over the original length are divided."""
    high_factor: float = 4.0
    """llama3: pairs with more turns stay as they are."""
    beta_fast: float = 32.0
    """yarn: turns over the original length from which a pair stays as it is."""
    beta_slow: float = 1.0
    """yarn: turns under which a pair is divided by the factor."""
    truncate: bool = True
    """yarn: round the bounds of the ramp to whole pairs."""
    short_factors: tuple[float, ...] = ()
    """longrope: divisor of each pair for texts up to the original length."""
    long_factors: tuple[float, ...] = ()
    """longrope: divisor of each pair for longer texts."""


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary positions of a layer."""

    base: float
    """The wavelength of pair i is 2π · base^(2i / dim) positions."""
    dim: int
    """Dimensions of a head that turn; the others stay."""
    scaling: RopeScaling | None = None
    adjacent: bool = False
    """Pairs are neighbours (2i, 2i + 1), as in GPT-J, instead of (i, i + dim / 2)."""


@dataclass(frozen=True, slots=True)
class AlibiSpec:
    """Linear position bias: slope of the head · position of the key. Source: Press et al. 2022."""

    slopes: tuple[float, ...]
    """One a head."""
    from_end: bool = False
    """Count positions back from the last token (MPT) instead of from the first."""
    factor: float = 1.0
    """Factor on the bias, where it is added before q·k is scaled (Falcon)."""
    bfloat16: bool = False
    """Slopes, positions and their products are rounded to 8 significant bits (Falcon)."""


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """Learned bias by distance bucket, the table `position_bias.weight` [bucket, head].

    All layers share the stack's table, except those that have one of their own (UMT5).

    Source: Raffel et al. 2020, section 2.1.
    """

    n_buckets: int
    max_distance: int
    """Tokens; all farther distances share the last bucket."""


@dataclass(frozen=True, slots=True)
class DisentangledSpec:
    """Scores from content to position and from position to content. Source: He et al. 2021."""

    n_positions: int
    """Distances told apart to each side; farther ones share the outermost row of the table."""
    n_buckets: int
    """Log buckets to each side, those of the second version; 0: every distance is its own."""
    content_to_position: bool
    """The query asks for the position of the key."""
    position_to_content: bool
    """The position of the query asks for the key."""

    @property
    def span(self) -> int:
        """Half the rows of the table of relative positions."""
        return self.n_buckets or self.n_positions


@dataclass(frozen=True, slots=True)
class ExpertsSpec:
    """Mixture of experts: a router picks some of many feed-forward parts for each token."""

    n_experts: int
    n_chosen: int
    """Experts a token goes to."""
    renormalise: bool
    """The chosen experts' shares are scaled to sum to 1 (Mixtral); else they stay as they are."""


@dataclass(frozen=True, slots=True)
class ClampedGate:
    """How gpt-oss joins gate and up: (clip(up, ±limit) + 1) · g · sigmoid(alpha · g).

    Here g is the gate, not above the limit.
    """

    alpha: float
    limit: float


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What may differ from layer to layer."""

    window: int | None = None
    """Keys within reach: query - key < window (causal) or |query - key| <= window; None: all."""
    rope: RopeSpec | None = None
    """Rotary positions; None: none in this layer."""
    scale: float | None = None
    """Factor on q·k where it differs from the stack's."""


@dataclass(frozen=True, slots=True)
class StackSpec:
    """One stack of blocks."""

    layers: tuple[LayerSpec, ...]
    d_model: int
    """Width of the residual stream."""
    n_heads: int
    """Query heads of a layer."""
    n_kv_heads: int
    """Key/value heads; query head h reads key/value head h // (n_heads // n_kv_heads)."""
    head_dim: int
    """Width of one head's query, key and value."""
    scale: float
    """Factor on q·k, usually 1/sqrt(head_dim)."""
    causal: bool
    """True when a query sees only itself and what stands before it."""
    norm: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    """Added to the variance inside a norm."""
    norm_offset: float = 0.0
    """Added to the stored weight of every norm (Gemma stores weight - 1)."""
    plain_norms: tuple[str, ...] = ()
    """Norm slots that have no learned weight but do normalise (OLMo 1)."""
    activation: str = "gelu"
    d_ff: int = 0
    """Inner width of the feed-forward part; 0: the blocks have none."""
    parallel: bool = False
    """Attention and feed-forward part read the same input and are added together."""
    qkv_clip: float | None = None
    """Projected queries, keys and values are clipped to -qkv_clip...qkv_clip (OLMo 1, MPT)."""
    softcap: float | None = None
    """scores become softcap · tanh(scores / softcap) before masking."""
    position_bias: AlibiSpec | BucketSpec | DisentangledSpec | None = None
    """Added to the scaled scores."""
    residual_scale: float = 1.0
    """Factor on what a sub-layer adds to the residual stream (Granite)."""
    experts: ExpertsSpec | None = None
    """Mixture of experts instead of one feed-forward part, in the layers that have a router."""
    conv_activation: str = "tanh"
    """Of the convolution over neighbouring tokens, in the layers that have one (DeBERTa-v2)."""
    clamped_gate: ClampedGate | None = None
    """How a gate acts where it is not activation(gate) · up."""

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return len(self.layers)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model: its embedding and its stack, or two stacks."""

    family: str
    """Name shown to people, such as "BERT"."""
    stack: StackSpec
    """The only stack, or the decoder of two."""
    vocab_size: int
    """Rows of the embedding table (it may be padded beyond the vocabulary)."""
    n_positions: int | None = None
    """Tokens that fit the learned position table; None: no such limit."""
    position_offset: int = 0
    """Row of the position table that the first token uses."""
    uncounted_token: int | None = None
    """Padding token that, typed into a text, takes the row before the first and is not counted."""
    sinusoid: bool = False
    """Positions are sines and cosines that no file needs to hold (Marian, Pegasus)."""
    embed_scale: float = 1.0
    """Factor on token embeddings."""
    encoder: StackSpec | None = None
    """The stack that reads the source text, in encoder-decoders; its parameters' names begin
    with "encoder."."""
    target_vocab_size: int | None = None
    """Rows of the decoder's embedding table where its vocabulary is another one (Marian)."""
    decoder_start: int | Literal["last"] | None = None
    """Token that stands first in what a decoder reads; "last": the last token of the encoded
    target (mBART's language code); None: the configuration names none."""

    @property
    def reader(self) -> StackSpec:
        """The stack that reads the user's text: the encoder of two, or the only one."""
        return self.stack if self.encoder is None else self.encoder


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """How a state becomes logits: norm(activation(x W + b)) Eᵀ + bias, scaled, then capped.

    The first part is there when its tensors are (`head.dense`, `head.norm`), the last bias likewise
    (`head.bias`). E is `head.token`, [token, width]: a table of the head's own, or the embedding.
    """

    activation: str | None = None
    """Between the dense map and its norm (heads that fill masks); None: none."""
    eps: float = 1e-12
    """Added to the variance inside the head's norm, a layer norm."""
    scale: float = 1.0
    """Factor on the logits (T5 with a tied table, Granite)."""
    softcap: float | None = None
    """logits become softcap · tanh(logits / softcap) (Gemma 2)."""
