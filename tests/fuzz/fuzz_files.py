"""Mutated files of every kind that this package reads, in child processes with limits.

    python tests/fuzz/fuzz_files.py onnx|tflite|binary|config|inputs --count N --seed S --workers W
    python tests/fuzz/fuzz_files.py onnx --case S:NUMBER FILE      # write one case
    python tests/fuzz/fuzz_files.py onnx --replay FILE...          # run files again
    python tests/fuzz/fuzz_files.py onnx --keep FILE...            # into mutants.tar.xz

Exit status 1: there are findings; each is a file in build/fuzz/findings with its traceback beside.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 0)]

import corpus  # noqa: E402

from support.fuzz.campaign import Report, campaign  # noqa: E402
from support.fuzz.process import Limits  # noqa: E402
from support.fuzz.target import BUILD, Target  # noqa: E402

#: Name -> module and class.
TARGETS = {
    "onnx": ("onnx_models", "OnnxModels"),
    "tflite": ("tflite_files", "TfliteFiles"),
    "binary": ("context_binaries", "ContextBinaries"),
    "config": ("commands", "Configs"),
    "inputs": ("commands", "Inputs"),
    "traps": ("traps", "Traps"),
}


def target_of(name: str) -> Target:
    module, cls = TARGETS[name]
    made: Target = getattr(importlib.import_module(f"support.fuzz.{module}"), cls)()
    return made


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--count", type=int, default=1000, help="cases (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=1, help="child processes at a time")
    parser.add_argument("--batch", type=int, default=500, help="cases of a child (default 500)")
    parser.add_argument("--memory", type=int, default=2048, help="MiB of a child; 0: no limit")
    parser.add_argument("--cpu", type=float, default=15, help="seconds of a case")
    parser.add_argument("--wall", type=float, default=120, help="seconds on the clock of a case")
    parser.add_argument(
        "--minimise", type=float, help="seconds for a kind of finding (default 60, 0 with --replay)"
    )
    parser.add_argument("--findings", type=Path, default=BUILD / "findings")
    parser.add_argument(
        "--strict", action="store_true", help="errors that no check foresaw are findings, too"
    )
    parser.add_argument(
        "--backend",
        choices=("cpu", "htp", "gpu"),
        help="runs the models of onnx and tflite (default: cpu, sometimes htp); gpu: --memory 0",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--case", nargs=2, metavar=("SEED:NUMBER", "FILE"), help="write a case")
    way.add_argument("--replay", nargs="*", type=Path, help="files; without one, those kept")
    way.add_argument("--keep", nargs="+", type=Path, help="put files among those that tests replay")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.keep:
        corpus.add(corpus.MUTANTS, options.keep)
        return 0
    target = target_of(options.target)
    target.backend = options.backend
    if options.case:
        seed, number = map(int, options.case[0].split(":"))
        Path(options.case[1]).write_bytes(target.case(seed, number))
        return 0
    numbers = range(options.first, options.first + options.count)

    def case(number: int) -> bytes:
        return target.case(options.seed, number)

    if options.replay is None:
        assert target.bases  # here, and not anew in every child
    else:
        files = [f.read_bytes() for f in options.replay] or list(kept(options.target).values())
        numbers, case = range(len(files)), files.__getitem__
    seconds = options.minimise
    if seconds is None:
        seconds = 60 if options.replay is None else 0
    limits = Limits(options.memory << 20, options.cpu, options.wall, strict=options.strict)
    report = campaign(
        target, numbers, case, limits, workers=options.workers, batch=options.batch,
        minimise_seconds=seconds,
        folder=options.findings, progress=Progress(len(numbers)),
    )  # fmt: skip
    show(report, options)
    return 1 if report.findings else 0


def kept(target: str) -> dict[str, bytes]:
    """The cases of a target that the tests replay."""
    return {k: v for k, v in corpus.members(corpus.MUTANTS).items() if k.startswith(f"{target}-")}


class Progress:
    """A line every half minute."""

    def __init__(self, count: int) -> None:
        self.count, self.next = count, time.monotonic() + 30

    def __call__(self, report: Report) -> None:
        if time.monotonic() > self.next:
            self.next = time.monotonic() + 30
            found = f", {len(report.findings)} kinds of findings" if report.findings else ""
            rate = report.cases / report.seconds
            print(f"{report.cases} of {self.count}, {rate:.0f} a second{found}", flush=True)


def show(report: Report, options: argparse.Namespace) -> None:
    for what, count in report.outcomes.most_common():
        print(f"{count:8} {what}")
    rate = report.cases / max(report.seconds, 1e-9)
    print(
        f"{report.cases} cases of {options.target}, seed {options.seed}, {options.workers} workers:"
        f" {report.seconds:.1f} s, {rate:.0f} cases a second; "
        f"{len(report.findings)} kinds of findings"
    )
    for finding in report.findings.values():
        alone = "" if finding.alone else " (not when it runs alone)"
        print(f"{finding.kind}{alone}, {finding.times} times, first case {finding.number}:")
        print(f"    {finding.file}")


if __name__ == "__main__":
    sys.exit(main())
