"""The reference: a tiny transformers model, all parameters random, all steps captured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoConfig, AutoModel, PreTrainedModel

from tests.parity.cases import Case

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Reference:
    """What transformers computes for one text."""

    weights: Array
    """[layer, head, query, key]."""
    scores: Array
    """What each softmax was given, [layer, head, query, key]."""
    resid: Array
    """[state, token, d_model]: the embedding, then the output of each layer."""


def build(case: Case, seed: int = 0) -> PreTrainedModel:
    """Return the case's model in eager float32, every parameter randomised."""
    config = AutoConfig.for_model(case.model_type, **case.config)
    model = AutoModel.from_config(
        config, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32
    ).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(0.15 * noise)
            else:
                is_norm = "norm" in name.lower() and name.endswith("weight")
                parameter.copy_(0.3 * noise + is_norm)
    return model


def run(model: PreTrainedModel, ids: tuple[int, ...] | list[int]) -> Reference:
    """Run one text and capture weights, hidden states and the scores before each softmax."""
    scores: list[torch.Tensor] = []
    softmax = torch.nn.functional.softmax

    def recording(values: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if values.ndim == 4:  # routers of experts take a softmax too, of [token, expert]
            scores.append(values.detach().clone())
        return softmax(values, *args, **kwargs)

    patch = mock.patch.object(torch.nn.functional, "softmax", recording)
    with patch, torch.no_grad():
        out = model(torch.tensor([list(ids)]), output_attentions=True, output_hidden_states=True)
    sinks = [p.detach() for name, p in model.named_parameters() if name.endswith(".sinks")]
    for layer, sink in enumerate(sinks):
        # the reference appends the sink as a last key, then subtracts each row's largest
        with_sink = scores[layer]
        scores[layer] = with_sink[..., :-1] + (sink[:, None, None] - with_sink[..., -1:])
    shown = _stack(scores)
    # transformers masks with the least float32; attn with -inf
    shown[shown < -1e30] = -np.inf
    return Reference(_stack(out.attentions), shown, _stack(out.hidden_states))


def write_checkpoint(model: PreTrainedModel, folder: Path) -> Path:
    """Write config.json and model.safetensors as transformers does, and a tokenizer.json."""
    model.save_pretrained(folder)
    ids = {f"w{i}": i for i in range(model.config.get_text_config().vocab_size)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def parameters(model: PreTrainedModel) -> dict[str, Array]:
    """Return all parameters by their name in a checkpoint."""
    return {name: value.numpy().copy() for name, value in model.state_dict().items()}


def _stack(tensors: list[torch.Tensor]) -> Array:
    return np.stack([tensor[0].numpy() for tensor in tensors]).astype(np.float32)
