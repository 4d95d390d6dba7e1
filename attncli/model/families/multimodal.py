"""Models that see images and text, their text part alone: as the family of their text_config.

Reference: transformers/models/llava, llava_next, llava_onevision, gemma3, mistral3, internvl,
idefics3, smolvlm (5.24), given text only. Honoured: all keys of text_config. The language model
stands under language_model.model. in older files, under model.language_model. in newer ones, under
model.text_model. in Idefics 3 and SmolVLM. Refused: qk_layer_norms, use_resampler, other families
inside. Ignored tensors: vision tower, projector, lm_head.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from attncli.errors import ModelProblem, listing
from attncli.model.config import ConfigReader
from attncli.model.families import Family, find_family
from attncli.model.families.heads import lm_head
from attncli.model.families.llama import ignored as text_ignored
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

TEXT = {
    "gemma3": "gemma3_text",
    "idefics3": "llama",
    "internvl": "qwen2",
    "llava": "llama",
    "llava_next": "llama",
    "llava_onevision": "qwen2",
    "mistral3": "mistral",
    "smolvlm": "llama",
}
"""Whole models, and the family of their text part where text_config does not name it."""
TIED = ("gemma3", "internvl", "mistral3")
"""Whole models whose table is tied where the configuration does not say."""
FAMILIES = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
"""Text parts that are read."""
PREFIXES = (
    "language_model.model.",
    "model.language_model.",
    "model.text_model.",
    "language_model.",
    "text_model.",
)
"""What the names of the text part begin with; the last two: a model saved without its head."""
_VISION = re.compile(
    r"(model\.)?((vision_tower|vision_model|multi_modal_projector|connector)\.|image_newline$)"
)
_HEAD = re.compile(r"(language_model\.)?lm_head\.weight$")
_KEYS = (
    "boi_token_index",
    "downsample_ratio",
    "eoi_token_index",
    "ignore_index",
    "image_grid_pinpoints",
    "image_seq_length",
    "image_token_id",
    "image_token_index",
    "mm_tokens_per_image",
    "multimodal_projector_bias",
    "projector_hidden_act",
    "scale_factor",
    "spatial_merge_size",
    "use_image_newline_parameter",
    "video_token_index",
    "vision_aspect_ratio",
    "vision_config",
    "vision_feature_layer",
    "vision_feature_select_strategy",
    "vocab_size",
)
"""Keys that only change what images do."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Read the spec of the text part."""
    config.pass_over(*_KEYS)
    return _text_family(config).read_spec(config.inner("text_config"))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter of the text part stands."""
    prefix = next((p for p in PREFIXES if any(n.startswith(p) for n in tensors)), PREFIXES[0])
    inside = [name.removeprefix(prefix) for name in tensors if name.startswith(prefix)]
    found = _text_family(config).sources(spec, inside, config.inner("text_config"))
    return {name: replace(s, tensor=f"{prefix}{s.tensor}") for name, s in found.items()}


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits. The whole model's configuration says whether it is tied.

    Of Gemma 3 the whole model does not cap its logits, whatever text_config says.
    """
    names = ("lm_head", "language_model.lm_head")
    tied = config.text("model_type") in TIED
    return lm_head(spec, tensors, config, tied=tied, names=names)


def ignored(name: str) -> bool:
    """Tell whether a tensor is part of the vision side, or a head or buffer of the text part."""
    if _VISION.match(name) or _HEAD.match(name):
        return True
    return any(name.startswith(p) and text_ignored(name.removeprefix(p)) for p in PREFIXES)


def _text_family(config: ConfigReader) -> Family:
    text = config.inner("text_config")
    text.assume({"model_type": TEXT[config.text("model_type")]})
    # left over from training the whole model (Idefics 3)
    text.pass_over("perceiver_config", "pixel_shuffle_factor")
    text.expect("qk_layer_norms", False)
    text.expect("use_resampler", False)
    model_type = text.text("model_type")
    if model_type not in FAMILIES:
        raise ModelProblem(
            f"{text.path}: model_type {model_type!r} inside {config.text('model_type')!r} is not "
            f"supported; supported: {listing(FAMILIES)}."
        )
    return find_family(model_type)
