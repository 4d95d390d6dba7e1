"""What transformers makes of a model with an output head, all parameters by formula."""

from __future__ import annotations

import json
import re

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)

from tests.parity.heads import GOLDEN, GoldenHead, HeadCase, formula
from tests.parity.reference import _bias_added_once

CLASSES = (
    AutoModelForSeq2SeqLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForCausalLM,
)
VISION = re.compile(r"vision|multi_modal_projector|connector|image_newline|position_ids|inv_freq")


def build(case: HeadCase) -> PreTrainedModel:
    """Return the case's model with its head, in eager float32, every parameter by formula."""
    settings = {name: value for name, value in case.config.items() if name != "model_type"}
    config = AutoConfig.for_model(case.model_type, **settings)
    auto = next(a for a in CLASSES if type(config) in a._model_mapping)
    model = auto.from_config(
        config, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32
    ).eval()
    if case.own_table:
        table = model.get_output_embeddings()
        table.weight = torch.nn.Parameter(table.weight.detach().clone())
    state = model.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, values in tensors_of(model, case).items():
            state[name].copy_(torch.from_numpy(values))
    return model


def tensors_of(model: PreTrainedModel, case: HeadCase) -> dict[str, np.ndarray]:
    """Return what a checkpoint of it holds: of tied parameters the first name only."""
    first: dict[int, str] = {}
    state = model.state_dict()
    # as transformers writes files: of two tied tensors the one that the other is tied to
    for name in sorted(state, key=lambda name: name in model.all_tied_weights_keys):
        value = state[name]
        if not VISION.search(name) and not (case.unwritten and re.search(case.unwritten, name)):
            first.setdefault(value.data_ptr(), name)
    return {name: formula(name, tuple(state[name].shape)) for name in first.values()}


def run(case: HeadCase) -> GoldenHead:
    """Return what transformers computes."""
    model = build(case)
    ids = torch.tensor([case.ids])
    inputs = {"input_ids": ids}
    if case.source:
        inputs = {"input_ids": torch.tensor([case.source]), "decoder_input_ids": ids}
    with torch.no_grad(), _bias_added_once():
        logits = model(**inputs, use_cache=False).logits if case.source else model(**inputs).logits
    return GoldenHead(
        case.config,
        tensors_of(model, case),
        list(case.ids),
        list(case.source),
        logits[0].numpy().astype(np.float32),
    )


def freeze(case: HeadCase) -> None:
    """Write shapes, configuration, ids and expected logits."""
    result = run(case)
    GOLDEN.mkdir(exist_ok=True)
    shapes = {name: list(values.shape) for name, values in result.tensors.items()}
    np.savez_compressed(
        GOLDEN / f"{case.name}.npz",
        config=np.array(json.dumps(result.config)),
        shapes=np.array(json.dumps(shapes)),
        ids=np.array(result.ids),
        source=np.array(result.source, np.int64),
        logits=result.logits,
    )
