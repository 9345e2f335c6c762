"""Whole networks on one thread and on two: nine of the onnx package and those of tests/models.

    python benchmarks/models.py [--precision float32|bfloat16|int8|a16w8] [--models NAME...]
                                [--threads N...] [--without RUNTIME...] [--folder FOLDER]
                                [--inexact] [--through COMMAND] [--limit-s SECONDS]
                                [--smoke] [--json FILE]

Their weights are random, seeded. Every runtime computes in the same precision, on inputs and
outputs that are bound where it can: float32; bfloat16, of the float32 file; or the file of ONNX
Runtime's quantizer (Quantize and Dequantize nodes, unsigned activations of 8 or 16 bits, signed
8-bit weights with a scale for each channel, calibrated with seeded inputs). Each first runs a
network in a process of its own, which gives its memory and its error against float64; one that
crashes or computes something else is reported as such. --folder keeps the files between runs.

--through has each network measured in a process of its own that COMMAND starts, such as `chrt -f 1`
or what stops the machine's other work for a minute; with --limit-s a network ends in time.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, optional
from _networks import PRECISIONS, QUANTIZED, Job, error_of, names
from _peers import COMPARED, RUNTIMES, Running, Unavailable
from _trial import Trial, prepared, trial

OURS = "qnnrt"
#: A float network computes something else where its error, of the largest value, is above this.
TOLERANCE = 1e-3
#: What outputs in a narrow type must have in common with the exact ones, and those of a quantized
#: network with ONNX Runtime's without any fusion (cosine): each runtime rounds at steps of its own,
#: and a step in one layer moves many in the next.
SIMILAR = 0.97
SMOKE = (("squeezenet", "int8"),)
SMOKE_TINY = (("tcn", "float32"), ("tcn", "bfloat16"), ("tcn", "a16w8"))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--precision", choices=PRECISIONS)  # float32; a smoke test does all
    parser.add_argument("--models", nargs="+", choices=names(), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--without", nargs="+", default=[], choices=RUNTIMES, metavar="RUNTIME")
    parser.add_argument("--folder", type=Path, help="keeps the networks' files")
    parser.add_argument(
        "--inexact", action="store_true", help="time what computes something else, too, in no mean"
    )
    parser.add_argument("--through", default="", metavar="COMMAND", help="starts each network")


@contextmanager
def folder_of(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def cosine(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    x, y = (np.concatenate([a.ravel() for a in all_]).astype(float) for all_ in (found, expected))
    return float(x @ y / np.sqrt((x @ x) * (y @ y))) if x.size == y.size else 0.0


def judged(job: Job, found: Trial, expected: list[np.ndarray]) -> str:
    """What is wrong with the results; "" if nothing."""
    if job.precision == "float32":
        error = error_of(found.results, expected)
        return "" if error.largest < TOLERANCE else f"computes something else: {error}"
    alike = cosine(found.results, expected)
    return "" if alike > SIMILAR else f"computes something else: cosine {alike:.2f}"


def expected_of(job: Job) -> list[np.ndarray]:
    if job.precision not in QUANTIZED:
        return job.exact()
    import onnx

    from zoo import quantizing

    return quantizing.reference(onnx.load(job.onnx), job.feeds())


def threads_text(threads: int) -> str:
    return f"{threads} thread{'s' * (threads > 1)}"


def tried(job: Job, runtimes: list[str], threads: int) -> dict[str, Trial]:
    """Each runtime's trial; its reason says, too, when it computes something else."""
    expected = expected_of(job)
    trials = {}
    for name in runtimes:
        found = trials[name] = trial(name, job, threads)
        found.inexact = "" if found.reason else judged(job, found, expected)
        wrong = found.reason or found.inexact
        assert name != OURS or not wrong or "no precision" in wrong, wrong
    return trials


def facts(job: Job, found: Trial) -> dict[str, Any]:
    """What the report says of a runtime beside its times."""
    error = error_of(found.results, job.exact())
    more: dict[str, Any] = {"max_error": error.largest, "rms_error": error.rms}
    more |= {"private_bytes": found.private, "load_seconds": found.seconds}
    more |= {"precision": found.precision} if found.precision else {}
    return more | ({"inexact": found.inexact} if found.inexact else {})


def measure(bench: Benchmark, job: Job, trials: dict[str, Trial], threads: int) -> None:
    kind = "" if job.precision == "float32" else f" {job.precision}"
    case = bench.case(f"{job.name}{kind}, {threads_text(threads)}", unit="ms")
    if trials[OURS].reason:  # nothing to compare the others with
        case.missing(OURS, trials[OURS].reason)
        bench.show(case)
        return
    ways: list[Running] = []  # they own what their calls read and write
    for name, found in trials.items():
        reason = found.reason or ("" if bench.options.inexact else found.inexact)
        if not reason:
            try:
                way = RUNTIMES[name](job, threads)
                case.add(name, way.call, **facts(job, found))
                ways.append(way)
            except Unavailable as error:
                reason = str(error)
        if reason:
            case.missing(name, reason)
    case.measure()
    for way in ways:
        way.close()


def collect(ratios: dict[str, list[float]], case: dict[str, Any]) -> None:
    """The ratios of a reported case: of each other runtime, the fastest one, and their memory."""
    where = case["name"].rpartition(", ")[2]
    rows = [row for row in case["ways"] if "ratio" in row and "inexact" not in row]
    ours, others = rows[:1], rows[1:]
    for row in others:
        ratios.setdefault(f"{row['name']}, {where}", []).append(row["ratio"])
        if ours[0]["private_bytes"] and row["private_bytes"]:
            times = row["private_bytes"] / ours[0]["private_bytes"]
            ratios.setdefault(f"private memory of {row['name']}", []).append(times)
    rivals = [row for row in others if not row["name"].startswith(OURS)]
    if rivals:
        fastest = min(row["ratio"] for row in rivals)
        ratios.setdefault(f"the fastest other, {where}", []).append(fastest)


def cases(bench: Benchmark) -> list[tuple[str, str, bool]]:
    """Name, precision, and whether the tiny one."""
    options = bench.options
    if bench.smoke and not (options.models or options.precision):
        tiny = SMOKE_TINY if optional("torch") else ()
        return [(*case, False) for case in SMOKE] + [(*case, True) for case in tiny]
    precision = options.precision or "float32"
    return [(name, precision, bench.smoke) for name in options.models or names()]


def measured_through(bench: Benchmark, names: list[str]) -> None:
    """Each network in a process that the command starts; its cases are taken from its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        for name in names:
            command = [*shlex.split(bench.options.through), sys.executable, *sys.argv]
            command += ["--models", name, "--json", str(report), "--through", ""]
            subprocess.run(command, check=True)
            bench.elsewhere += json.loads(report.read_text())["cases"]


def main() -> None:
    bench = Benchmark("models", __doc__, rounds=15, sample_ms=100, more=arguments)
    options = bench.options
    if options.precision not in (None, "float32"):
        bench.name += f"-{options.precision}"
    if optional("onnxruntime") is None:
        why = "not installed: it scales the weights, and quantizes"
        bench.case("all networks").missing("onnxruntime", why)
        bench.finish()
        return
    cores = len(os.sched_getaffinity(0))
    counts = options.threads or sorted({1, 1 if bench.smoke else min(2, cores)})
    ratios: dict[str, list[float]] = {}
    if options.through:
        measured_through(bench, options.models or list(names()))
    for name, precision, tiny in cases(bench) if not options.through else ():
        with folder_of(options.folder) as folder:
            job = prepared(name, precision, folder, tiny)
            compared = [OURS, *(r for r in COMPARED[precision] if r not in options.without)]
            trials = tried(job, compared, max(counts))
            for threads in counts:
                measure(bench, job, trials, threads)
    for case in bench.reported():
        collect(ratios, case)
    bench.means(ratios)
    bench.finish()


if __name__ == "__main__":
    main()
