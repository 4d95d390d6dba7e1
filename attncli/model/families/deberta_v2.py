"""DeBERTa-v2 and v3. As DeBERTa, except: separate projections, log buckets of distances.

With conv_kernel_size a convolution of the first block's input is added to its output.

Reference: transformers/models/deberta_v2/modeling_deberta_v2.py (5.24). Honoured: as DeBERTa, and
position_buckets, share_att_key (positions are projected like content), norm_rel_ebd "none" or
"layer_norm", attention_head_size where it is hidden_size / num_attention_heads, conv_kernel_size
and conv_act. Refused: as DeBERTa, convolutions in groups or over an even number of tokens.
Ignored tensors: as DeBERTa.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.bert import BlockNames, find_prefix
from attncli.model.families.deberta import disentangled_sources, head, ignored, read_disentangled
from attncli.model.families.names import linear, norm, old_norm_names
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import Source
from attncli.model.spec import DisentangledSpec, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]

_BLOCK = BlockNames(
    q="attention.self.query_proj",
    k="attention.self.key_proj",
    v="attention.self.value_proj",
)


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a DeBERTa-v2 configuration into a spec."""
    config.expect("conv_groups", 1)
    config.flag("share_att_key", False)
    _norms_table(config)
    n_buckets = config.count("position_buckets", -1, least=-1)
    spec = read_disentangled(config, "DeBERTa-v2", n_buckets=max(n_buckets, 0))
    config.expect("attention_head_size", spec.stack.head_dim)
    if config.count("conv_kernel_size", 0, least=0) % 2 == 0:
        config.expect("conv_kernel_size", 0)
    activation = config.choice("conv_act", ACTIVATIONS, "tanh")
    return replace(spec, stack=replace(spec.stack, conv_activation=activation))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands; the prefix `deberta.` of whole models is allowed."""
    stack, d_model = spec.stack, spec.stack.d_model
    prefix = find_prefix(tensors, "deberta.")
    found = disentangled_sources(spec, tensors, config, _BLOCK)
    if _norms_table(config):
        found |= norm("position_norm", f"{prefix}encoder.LayerNorm", d_model)
    taps = config.count("conv_kernel_size", 0, least=0)
    if taps:
        conv = f"{prefix}encoder.conv"
        found["0.conv.weight"] = Source(
            f"{conv}.conv.weight", (d_model, d_model, taps), np.transpose
        )
        found["0.conv.bias"] = Source(f"{conv}.conv.bias", (d_model,))
        found |= norm("0.conv_residual", f"{conv}.LayerNorm", d_model)
    position = stack.position_bias
    if not isinstance(position, DisentangledSpec):
        return old_norm_names(found, tensors)
    own = "" if config.flag("share_att_key", False) else "pos_"
    for i in range(stack.n_layers):
        attention = f"{prefix}encoder.layer.{i}.attention.self"
        if position.content_to_position:
            tensor = f"{attention}.{own}key_proj"
            found |= linear(f"{i}.attn.position_k", tensor, d_model, d_model)
        if position.position_to_content:
            tensor = f"{attention}.{own}query_proj"
            found |= linear(f"{i}.attn.position_q", tensor, d_model, d_model)
    return old_norm_names(found, tensors)


def _norms_table(config: ConfigReader) -> bool:
    """Tell whether the rows of the table of relative positions are normalised."""
    value = config.text("norm_rel_ebd") if config.has("norm_rel_ebd") else "none"
    steps = {step.strip() for step in value.lower().split("|")}
    if not steps <= {"none", "layer_norm"}:
        raise ModelProblem(
            f'{config.path}: norm_rel_ebd is "{value}", expected "none" or "layer_norm".'
        )
    return "layer_norm" in steps
