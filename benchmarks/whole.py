"""Whole processes: from the command line to the printed answer."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.job import Finding, Job, Settings
from benchmarks.measure import Run, measure

SENTENCE = "The student did not answer the question because it was too difficult"
LAYER, HEAD, QUERY, KEY = 3, 1, 9, 7

TORCH = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
folder, file, sentence = sys.argv[1:4]
more = {"gguf_file": file} if file else {}
tokenizer = AutoTokenizer.from_pretrained(folder, **more)
model = AutoModel.from_pretrained(
    folder, attn_implementation="eager", dtype=torch.float32, **more
).eval()
with torch.no_grad():
    seen = model(
        **tokenizer(sentence, return_tensors="pt"),
        output_attentions=True,
        output_hidden_states=True,
    )
layer, head, query, key = map(int, sys.argv[4:])
print(seen.attentions[layer][0, head, query, key].item())
"""
READER = """
import sys, numpy as np
from gguf import GGUFReader, dequantize
for tensor in GGUFReader(sys.argv[1]).tensors:
    dequantize(tensor.data, tensor.tensor_type)
"""


def _in_turn(
    settings: Settings, ours: Callable[[], Run], theirs: Callable[[], Run] | None
) -> tuple[list[Run], list[Run]]:
    """Run both once to warm the file cache, then in turn."""
    ours()
    found: tuple[list[Run], list[Run]] = [], []
    for _ in range(settings.runs):
        found[0].append(ours())
        if theirs is not None:
            found[1].append(theirs())
    return found


def _finding(job: Job, runs: tuple[list[Run], list[Run]]) -> Finding:
    ours, theirs = runs
    return Finding(
        job.name,
        job.what,
        job.budget,
        [run.seconds for run in ours],
        [run.mebibytes for run in ours],
        [run.seconds for run in theirs],
        [run.mebibytes for run in theirs],
    )


def _check(settings: Settings, model: list[str], reference: list[str], at: tuple[int, ...]) -> None:
    """Refuse to time two programs that do not compute the same."""
    layer, head, query, key = at
    command = [settings.attn, "inspect", SENTENCE, *model, "--json", "-H", f"{layer}.{head}"]
    ours = json.loads(measure(command).output)["weights"][query][key]
    theirs = float(measure(reference).output.split()[-1])
    if abs(ours - theirs) > 1e-4:
        raise RuntimeError(f"results differ: {ours} and {theirs}")


def cold_start(settings: Settings) -> Finding:
    """Inspect a sentence with the bundled model, against the same weights in transformers."""
    python = str(Path(settings.attn).parent / "python")
    code = "from attncli.model.locate import BUNDLED; print(BUNDLED / 'minilm')"
    bundled = measure([python, "-c", code]).output.strip()
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "minilm"
        pack = [settings.attn, "models", "pack", bundled, "-o", original, "--dtype", "f32"]
        subprocess.run(list(map(str, pack)), check=True, capture_output=True)
        at = (LAYER, HEAD, QUERY, KEY)
        reference = [settings.reference, "-c", TORCH, str(original), "", SENTENCE, *map(str, at)]
        _check(settings, [], reference, at)
        inspect = [settings.attn, "inspect", SENTENCE]
        runs = _in_turn(settings, lambda: measure(inspect), lambda: measure(reference))
    return _finding(COLD_START, runs)


def help_page(settings: Settings) -> Finding:
    """Print the help."""
    runs = _in_turn(settings, lambda: measure([settings.attn, "--help"]), None)
    return _finding(HELP, runs)


def smollm2(settings: Settings) -> Finding:
    """Inspect a sentence with a quantised Llama, against transformers reading the same file."""
    path, at = settings.models / "smollm2.gguf", (22, 2, 8, 6)
    model = ["-m", str(path)]
    reference = [settings.reference, "-c", TORCH, str(path.parent), path.name, SENTENCE]
    reference += list(map(str, at))
    _check(settings, model, reference, at)
    inspect = [settings.attn, "inspect", SENTENCE, *model]
    return _finding(
        SMOLLM2, _in_turn(settings, lambda: measure(inspect), lambda: measure(reference))
    )


def gemma3(settings: Settings) -> Finding:
    """Inspect a sentence with a vocabulary of 262,144, against the gguf package reading alone."""
    path = settings.models / "gemma3.gguf"
    inspect = [settings.attn, "inspect", SENTENCE, "-m", str(path)]
    reference = [settings.reference, "-c", READER, str(path)]
    return _finding(
        GEMMA3, _in_turn(settings, lambda: measure(inspect), lambda: measure(reference))
    )


COLD_START = Job(
    "cold-start",
    "`attn inspect`, 12 words, bundled model, whole process",
    "≤ 1/18 of the time, ≤ 130 MiB",
    cold_start,
)
HELP = Job("help", "`attn --help`", "≤ 0.15 s", help_page)
SMOLLM2 = Job(
    "gguf-smollm2",
    "`attn inspect`, SmolLM2 Q4_1 GGUF, whole process",
    "≤ 1/12 of the time",
    smollm2,
)
GEMMA3 = Job(
    "gguf-gemma3",
    "`attn inspect`, Gemma 3 Q4_K_M GGUF, whole process; reference: the gguf package reads it",
    "≤ 4 s",
    gemma3,
)
JOBS = [COLD_START, HELP, SMOLLM2, GEMMA3]
