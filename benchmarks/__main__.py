"""python -m benchmarks [NAME ...]: attn and a reference in turn, on the same work and machine."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import passes, whole
from benchmarks.job import Finding, Settings
from benchmarks.measure import ROOT, machine, spread

JOBS = {job.name: job for job in [*whole.JOBS, *passes.JOBS]}


def main() -> None:
    """Run the chosen jobs, print a table and write a record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split(": ", 1)[1]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(JOBS)}; all; without a name the quick"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each program (5)")
    parser.add_argument(
        "--reference", default=sys.executable, help="python with torch and transformers (this one)"
    )
    parser.add_argument(
        "--attn",
        default=shutil.which("attn", path=str(Path(sys.executable).parent)),
        help="the attn to measure (the one beside this python)",
    )
    parser.add_argument("--models", type=Path, default=ROOT / ".models", help="real checkpoints")
    parser.add_argument("-o", "--output", type=Path, help="write the record there, as JSON")
    options = parser.parse_args()
    if options.attn is None:
        parser.error("attn is not installed beside this python; give --attn")
    unknown = set(options.names) - JOBS.keys() - {"all"}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if subprocess.run(
        [options.reference, "-c", "import torch, transformers"], check=False
    ).returncode:
        parser.error(f"{options.reference} has no torch and transformers; give --reference")
    chosen = [
        job
        for name, job in JOBS.items()
        if name in options.names or "all" in options.names or not (options.names or job.long)
    ]
    settings = Settings(options.runs, options.reference, options.attn, options.models.resolve())
    findings = []
    for job in chosen:
        findings.append(job.run(settings))
        sys.stderr.write(f"{row(findings[-1])}\n")
    sys.stdout.write(table(findings))
    if options.output:
        record = {"machine": machine(), "findings": [asdict(finding) for finding in findings]}
        options.output.write_text(json.dumps(record, indent=1) + "\n")


def table(findings: list[Finding]) -> str:
    """Write the findings as the table that the README shows."""
    head = "| work | attn | reference | ratio, run by run | memory | wanted |\n"
    return f"{machine()}\n\n{head}|---|---|---|---|---|---|\n" + "".join(
        f"{row(finding)}\n" for finding in findings
    )


def row(finding: Finding) -> str:
    """Write one finding as a line of the table: medians, with the range in brackets."""
    reference = f"{spread(finding.their_seconds, 2)} s" if finding.their_seconds else "–"
    ratio = f"{spread(finding.ratios, 3)} ×" if finding.ratios else "–"
    memory = f"{statistics.median(finding.mebibytes):.0f} MiB"
    if finding.their_mebibytes:
        memory += f" (reference {statistics.median(finding.their_mebibytes):.0f})"
    cells = [finding.what, f"{spread(finding.seconds, 2)} s", reference, ratio, memory]
    return f"| {' | '.join([*cells, finding.budget])} |"


if __name__ == "__main__":
    main()
