"""The torch engine: transformers itself runs the model, in its eager mode, for the same observers.

torch_load.py makes such a model. torch and transformers are imported inside functions only, so that
nobody else needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.errors import InputProblem
from attncli.model.forward import Job
from attncli.model.load import Dtype, Engine, Model
from attncli.model.observe import AttentionBlock
from attncli.model.torch_capture import Recording, head_values, recording, to_array

Array = np.ndarray
ANY_TYPE = 1 << 30
STORED_AS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


@dataclass(slots=True)
class TorchModel(Model):
    """A model that transformers runs."""

    module: Any = None
    """The PreTrainedModel."""
    torch_dtype: Dtype = "float32"
    _sunk: set[int] = field(default_factory=set, init=False)

    @property
    def engine(self) -> Engine:
        """What computes."""
        return "torch"

    @property
    def dtype(self) -> str:
        """Type of the weights in memory, which is the type that is computed in."""
        return STORED_AS[self.torch_dtype]

    @property
    def n_types(self) -> int:
        """Rows of the table of token types; 0 where transformers takes none."""
        if "token_type_ids" not in signature(self.module.forward).parameters:
            return 0
        rows = getattr(self.module.config, "type_vocab_size", None)
        # some tell segments apart without a table (XLNet)
        return rows if isinstance(rows, int) else ANY_TYPE

    def has_sink(self, layers: Sequence[int]) -> bool:
        """Tell whether rows of these layers summed to less than 1 in a run."""
        return bool(self._sunk & set(layers))

    def token_rows(self, rows: slice) -> Float[Array, "row width"]:
        """Return input embeddings of a range of token ids, as wide as the table is."""
        return to_array(self.module.get_input_embeddings().weight[rows])

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the texts one after another; see `Model.run`.

        Raises:
            InputProblem: torch cannot take a text: too long for the model, or for the memory.
        """
        for job in jobs:
            self._run(job)

    def _run(self, job: Job) -> None:
        with recording(self.module) as record:
            try:
                out = forward(self.module, job.ids, job.types)
            except (IndexError, RuntimeError) as problem:
                raise InputProblem(
                    f"{self.name}: transformers cannot run this text of {len(job.ids):,} tokens: "
                    f"{first_line(problem)}"
                ) from problem
        for index, state in enumerate(out.hidden_states):
            for observer in job.observers:
                if index in observer.states:
                    observer.on_state(index, to_array(state[0]))
        for layer in range(len(out.attentions)):
            self._show(job, layer, out.attentions[layer], record)

    def _show(self, job: Job, layer: int, weights: Any, record: Recording) -> None:
        call = record.call_of(layer, weights)
        sinks = None if call is None else getattr(call.module, "sinks", None)
        scores = record.scores_of(weights, sinks)
        if scores is not None and self.spec.stack.causal:
            # some code masks with a number that a score could reach
            n = scores.shape[-1]
            scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        watching = [o for o in job.observers if layer in o.attention_layers]
        whole = slice(0, len(job.ids))
        shown = to_array(weights[0])
        if shown.sum(axis=-1).min() < 1 - (1e-4 if self.torch_dtype == "float32" else 2e-2):
            self._sunk.add(layer)
        values = head_values(call, self.spec.stack.n_heads) if call and watching else None
        for observer in watching:
            # an observer may change the weights it was given
            block = AttentionBlock(layer, whole, whole, None, None, values, shown.copy())
            block.scores = scores if observer.wants_scores else None
            observer.on_attention(block)
        for observer in job.observers:
            if layer in observer.output_layers and call and call.projected is not None:
                observer.on_output(layer, to_array(call.projected[0]))


def first_line(problem: Exception) -> str:
    """Return what an error of another library says, short enough for one line."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0][:200]


def forward(
    module: Any, ids: Sequence[int], types: Sequence[int] = (), *, attentions: bool = True
) -> Any:
    """Run one text and return transformers' output, with all states and attention weights.

    Token types are given only where one is not 0, which is what transformers takes without them.
    """
    import torch

    typed = {}
    if any(types):
        typed["token_type_ids"] = torch.tensor([list(types)], device=module.device)
    with torch.no_grad(), quiet():
        return module(
            input_ids=torch.tensor([list(ids)], device=module.device),
            **typed,
            output_attentions=attentions,
            output_hidden_states=True,
            use_cache=False,
            return_dict=True,
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from writing warnings and bars between the lines of a command."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
