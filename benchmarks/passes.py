"""Forward passes in one process, where weights are loaded already.

Each job is a worker: `python -m benchmarks.passes JOB RUNS MODELS both` (or attn, or reference) in
a python that has torch and transformers. Both engines run in turn on the same ids with the same
number of threads, after their results were checked to be equal; peak memory comes from two more
processes that each run one engine alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.job import Finding, Job, Settings
from benchmarks.measure import measure

PAUSE = 0.2
"""Seconds between runs: threads of the other engine that wait for work stop spinning."""
TOP = 16
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass."""

    model: str
    """Folder or GGUF file under the models."""
    n_tokens: int
    top_only: bool = False
    """Keep the strongest keys of every head and query instead of all weights."""
    reference: bool = True
    """transformers can do it too."""


PASSES = {
    "forward-minilm": Pass("minilm", 512),
    "forward-mpnet": Pass("mpnet", 512),
    "forward-smollm2": Pass("smollm2.gguf", 512),
    "top-2048": Pass("smollm2.gguf", 2048, top_only=True),
    "top-8192": Pass("smollm2.gguf", 8192, top_only=True, reference=False),
}


def ours(job: Pass, models: Path) -> Callable[[], Any]:
    """Return what runs attn once and gives its weights, or its top keys and their weights."""
    import numpy as np

    from attncli.analyses.largest import largest
    from attncli.analyses.reduction import States
    from attncli.model.forward import Job as Text
    from attncli.model.load import load
    from attncli.model.observe import AttentionBlock, Observer

    model = load(str(models / job.model))
    model.params.keep = True
    stack, ids = model.spec.stack, token_ids(job)

    class Weights(Observer):
        """Keeps all weights."""

        side_by_side = True
        attention_layers = frozenset(range(stack.n_layers))

        def __init__(self) -> None:
            shape = (stack.n_heads, len(ids), len(ids))
            self.weights = [np.zeros(shape, np.float32) for _ in range(stack.n_layers)]

        def on_attention(self, block: AttentionBlock) -> None:
            self.weights[block.layer][:, block.queries, block.keys] = block.weights

    class Top(Observer):
        """Keeps the strongest keys of every head and query."""

        side_by_side = True
        attention_layers = frozenset(range(stack.n_layers))

        def __init__(self) -> None:
            shape = (stack.n_layers, stack.n_heads, len(ids), TOP)
            self.weights = np.zeros(shape, np.float32)
            self.keys = np.zeros(shape, np.int32)

        def on_attention(self, block: AttentionBlock) -> None:
            keys = largest(block.weights, TOP)
            k = keys.shape[-1]
            weights = np.take_along_axis(block.weights, keys, axis=-1)
            self.weights[block.layer, :, block.queries, :k] = weights
            self.keys[block.layer, :, block.queries, :k] = keys + block.keys.start

    def run() -> Any:
        kept = Top() if job.top_only else Weights()
        observers = [kept] if job.top_only else [kept, States(stack.n_layers)]
        model.run([Text(ids, [0] * len(ids), observers)])
        return kept.weights

    return run


def theirs(job: Pass, models: Path) -> Callable[[], Any]:
    """Return what runs transformers once and gives the same."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    path = models / job.model
    settings: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float32}
    if path.suffix == ".gguf":
        model = AutoModel.from_pretrained(path.parent, gguf_file=path.name, **settings).eval()
    else:
        model = AutoModel.from_pretrained(path, **settings).eval()
    ids = torch.tensor([token_ids(job)])

    def run() -> Any:
        with torch.no_grad():
            seen = model(ids, output_attentions=True, output_hidden_states=True)
            if job.top_only:
                return [torch.topk(layer[0], TOP).values.numpy() for layer in seen.attentions]
        return [layer[0].numpy() for layer in seen.attentions]

    return run


def token_ids(job: Pass) -> list[int]:
    """Return the ids of a text that no model was trained on."""
    import numpy as np

    return np.random.default_rng(0).integers(1000, 20_000, job.n_tokens).tolist()


def check(mine: Any, other: Any) -> None:
    """Refuse to time two programs that do not compute the same.

    Raises:
        RuntimeError: they differ.
    """
    import numpy as np

    for a, b in zip(mine, other, strict=True):
        # of the strongest keys the order is not the same
        same = (a, b) if a.shape[-1] != TOP else (np.sort(a), np.sort(b))
        worst = float(np.abs(same[0] - same[1]).max())
        if worst > TOLERANCE:
            raise RuntimeError(f"results differ by {worst}")


def worker(name: str, runs: int, models: Path, only: str) -> dict[str, Any]:
    """Run in turn, or one engine alone, and return the seconds of each."""
    job = PASSES[name]
    engines: dict[str, Callable[[], Any]] = {}
    if only != "reference":
        engines["attn"] = ours(job, models)
    if only != "attn" and job.reference:
        engines["reference"] = theirs(job, models)
    if len(engines) == 2:
        check(*(run() for run in engines.values()))
    seconds: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(runs):
        for engine, run in engines.items():
            time.sleep(PAUSE)
            began = time.perf_counter()
            run()
            seconds[engine].append(time.perf_counter() - began)
    return seconds


def _run(name: str, settings: Settings) -> Finding:
    job = next(job for job in JOBS if job.name == name)
    command = [settings.reference, "-m", "benchmarks.passes", name]
    both = json.loads(measure([*command, str(settings.runs), settings.models, "both"]).output)
    alone = [measure([*command, "1", settings.models, engine]).mebibytes for engine in sorted(both)]
    return Finding(
        name,
        job.what,
        job.budget,
        both["attn"],
        alone[:1],
        both.get("reference", []),
        alone[1:],
    )


def _job(name: str, what: str, budget: str, *, long: bool = False) -> Job:
    return Job(name, what, budget, lambda settings: _run(name, settings), long)


JOBS = [
    _job("forward-minilm", "all weights, 512 tokens, MiniLM", "≤ 1.0 ×"),
    _job("forward-mpnet", "all weights, 512 tokens, MPNet", "≤ 1.0 ×"),
    _job("forward-smollm2", "all weights, 512 tokens, SmolLM2", "≤ 1.0 ×"),
    _job(
        "top-2048", "top keys of 270 heads, 2,048 tokens, SmolLM2", "≤ 0.4 ×, ≤ 0.7 GB", long=True
    ),
    _job("top-8192", "top keys of 270 heads, 8,192 tokens, SmolLM2", "≤ 1.5 GB", long=True),
]

if __name__ == "__main__":
    print(json.dumps(worker(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
