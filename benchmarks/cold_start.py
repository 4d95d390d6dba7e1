"""Whole process of `attn inspect` against python + torch + transformers on the same weights.

    python benchmarks/cold_start.py [--runs 5] [--reference PYTHON] [--attn ATTN]

The reference is a python that has torch and transformers (by default this one, if it has them).
Both read the bundled model, attn in its 8-bit form and the reference the same numbers written as
float32; both print the weight of "it" on "question" in layer 3, head 1, which must agree before
anything is timed. Runs alternate. Time is wall time, memory the peak of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SENTENCE = "The student did not answer the question because it was too difficult"
QUERY, KEY, LAYER, HEAD = 9, 7, 3, 1

REFERENCE = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
folder, sentence = sys.argv[1:3]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
with torch.no_grad():
    seen = model(
        **tokenizer(sentence, return_tensors="pt"),
        output_attentions=True,
        output_hidden_states=True,
    )
layer, head, query, key = map(int, sys.argv[3:])
print(seen.attentions[layer][0, head, query, key].item())
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process."""

    seconds: float
    mebibytes: float
    output: str


def measure(command: list[str]) -> Run:
    """Run a process to its end.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryFile() as output, open(os.devnull, "rb") as nothing:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=nothing, stdout=output, stderr=subprocess.DEVNULL, env=_environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return Run(seconds, usage.ru_maxrss / 1024, text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--reference", default=sys.executable, help="python with torch and transformers"
    )
    parser.add_argument(
        "--attn", default=shutil.which("attn", path=str(Path(sys.executable).parent))
    )
    options = parser.parse_args()
    if options.attn is None:
        sys.exit("attn is not installed beside this python; pip install . first, or give --attn")
    inspect = [options.attn, "inspect", SENTENCE]
    has_reference = not subprocess.run(
        [options.reference, "-c", "import torch, transformers"], capture_output=True, check=False
    ).returncode
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "minilm"
        bundled = subprocess.run(
            [Path(options.attn).parent / "python", "-c",
             "from attncli.model.locate import BUNDLED; print(BUNDLED / 'minilm')"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        pack = [options.attn, "models", "pack", bundled, "-o", original, "--dtype", "f32"]
        subprocess.run(pack, check=True, capture_output=True)
        place = [str(number) for number in (LAYER, HEAD, QUERY, KEY)]
        reference = [options.reference, "-c", REFERENCE, str(original), SENTENCE, *place]
        if has_reference:
            ours = json.loads(measure([*inspect, "--json", "-H", f"{LAYER}.{HEAD}"]).output)
            theirs = float(measure(reference).output.split()[-1])
            if abs(ours["weights"][QUERY][KEY] - theirs) > 1e-5:
                sys.exit(f"results differ: {ours['weights'][QUERY][KEY]} and {theirs}")
        measure(inspect)
        runs: dict[str, list[Run]] = {"attn inspect": [], "attn --help": []}
        for _ in range(options.runs):
            runs["attn inspect"].append(measure(inspect))
            runs["attn --help"].append(measure([options.attn, "--help"]))
            if has_reference:
                runs.setdefault("torch + transformers", []).append(measure(reference))
    for name, measured in runs.items():
        print(f"{name:22} {_spread([run.seconds for run in measured], 's')}"
              f"  {_spread([run.mebibytes for run in measured], 'MiB')}")  # fmt: skip
    if has_reference:
        ratios = [
            theirs.seconds / ours.seconds
            for ours, theirs in zip(runs["attn inspect"], runs["torch + transformers"], strict=True)
        ]
        print(f"{'ratio of the times':22} {_spread(ratios, '×')}")
    else:
        print(f"no ratio: {options.reference} has no torch and transformers")


def _spread(values: list[float], unit: str) -> str:
    digits = 0 if unit == "MiB" else 1 if unit == "×" else 3
    median = statistics.median(values)
    return f"{median:.{digits}f} {unit} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "ATTN_MODEL"}


if __name__ == "__main__":
    main()
