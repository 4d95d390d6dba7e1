"""The reference: a tiny transformers model, all parameters random, all steps captured."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.models.falcon import modeling_falcon

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
    encoder: Reference | None = None
    cross: Reference | None = None
    """Attention of the decoder to the source; it has no states."""


def build(case: Case, seed: int = 0) -> PreTrainedModel:
    """Return the case's model in eager float32, every parameter randomised."""
    config = AutoConfig.for_model(case.model_type, **case.config)
    model = AutoModel.from_config(
        config, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32
    ).eval()
    generator = torch.Generator().manual_seed(seed)
    norms = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if "Norm" in type(module).__name__
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if case.unwritten and re.search(case.unwritten, name):
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(0.15 * noise)
            else:
                parameter.copy_(0.3 * noise + (name in norms))
    return model


def run(
    model: PreTrainedModel,
    ids: tuple[int, ...] | list[int],
    source: tuple[int, ...] | list[int] = (),
    types: tuple[int, ...] | list[int] = (),
) -> Reference:
    """Run one text and capture weights, hidden states and the scores before each softmax.

    With a source, the text is what the decoder reads.
    """
    scores: list[torch.Tensor] = []
    softmax = torch.nn.functional.softmax

    def recording(values: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if values.ndim == 4:  # routers of experts take a softmax too, of [token, expert]
            scores.append(values.detach().clone())
        return softmax(values, *args, **kwargs)

    patch = mock.patch.object(torch.nn.functional, "softmax", recording)
    inputs = {"input_ids": torch.tensor([list(source or ids)])}
    if source:
        inputs["decoder_input_ids"] = torch.tensor([list(ids)])
    if types:
        inputs["token_type_ids"] = torch.tensor([list(types)])
    last: list[torch.Tensor] = []
    head = getattr(getattr(model, "decoder", None), "project_out", None)
    if head is not None:
        # the last state of ours is what the output head gets
        head.register_forward_pre_hook(lambda _, inputs: last.append(inputs[0]))
    with patch, _bias_added_once(), torch.no_grad():
        out = model(**inputs, output_attentions=True, output_hidden_states=True, use_cache=False)
    if source:
        return _two_stacks(out, scores)
    sinks = [p.detach() for name, p in model.named_parameters() if name.endswith(".sinks")]
    for layer, sink in enumerate(sinks):
        # the reference appends the sink as a last key, then subtracts each row's largest
        with_sink = scores[layer]
        scores[layer] = with_sink[..., :-1] + (sink[:, None, None] - with_sink[..., -1:])
    if not last:
        last = [out.hidden_states[-1]]
    return Reference(
        _stack(out.attentions), _masked(scores), _stack([*out.hidden_states[:-1], *last])
    )


def _two_stacks(out: Any, scores: list[torch.Tensor]) -> Reference:
    """Sort what both stacks of an encoder-decoder showed."""
    n_encoder = len(out.encoder_attentions)
    decoder = scores[n_encoder:]  # of each layer: self-attention, then cross-attention
    return Reference(
        _stack(out.decoder_attentions),
        _masked(decoder[::2]),
        _stack(out.decoder_hidden_states),
        encoder=Reference(
            _stack(out.encoder_attentions),
            _masked(scores[:n_encoder]),
            _stack(out.encoder_hidden_states),
        ),
        cross=Reference(
            _stack(out.cross_attentions), _masked(decoder[1::2]), np.zeros((0, 0, 0), np.float32)
        ),
    )


def _bias_added_once() -> AbstractContextManager[object]:
    """Let Falcon's eager mode add ALiBi once, as its default mode (sdpa) does.

    Eager adds the bias to the scores and again with the mask; half of it twice is exactly it.
    """
    whole = modeling_falcon.build_alibi_tensor

    def half(*args: object, **kwargs: object) -> torch.Tensor:
        return whole(*args, **kwargs) / 2

    return mock.patch.object(modeling_falcon, "build_alibi_tensor", half)


def write_checkpoint(model: PreTrainedModel, folder: Path, unwritten: str = "") -> Path:
    """Write config.json and model.safetensors as transformers does, and a tokenizer.json."""
    state = model.state_dict()
    if unwritten:
        state = {name: value for name, value in state.items() if not re.search(unwritten, name)}
    model.save_pretrained(folder, state_dict=state)
    ids = {f"w{i}": i for i in range(model.config.get_text_config().vocab_size)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def parameters(model: PreTrainedModel, unwritten: str = "") -> dict[str, Array]:
    """Return all parameters by their name in a checkpoint; of tied ones the first."""
    found: dict[int, str] = {}
    for name, value in model.state_dict().items():
        if not (unwritten and re.search(unwritten, name)):
            found.setdefault(value.data_ptr(), name)
    state = model.state_dict()
    return {name: state[name].numpy().copy() for name in found.values()}


def _masked(scores: list[torch.Tensor]) -> Array:
    """Mask with -inf, as attn does, instead of the least float32."""
    shown = _stack(scores)
    shown[shown < -1e30] = -np.inf
    return shown


def _stack(tensors: list[torch.Tensor]) -> Array:
    return np.stack([tensor[0].numpy() for tensor in tensors]).astype(np.float32)
