"""Whole networks on one thread and on two: nine of the onnx package and those of tests/models.

    python benchmarks/models.py [--precision float32|bfloat16|int8|a16w8] [--models NAME...]
                                [--threads N...] [--without RUNTIME...] [--folder FOLDER]
                                [--smoke] [--json FILE]

Their weights are random, seeded. Every runtime computes in the same precision, on inputs and
outputs that are bound where it can: float32; bfloat16, of the float32 file; or the file of ONNX
Runtime's quantizer (Quantize and Dequantize nodes, unsigned activations of 8 or 16 bits, signed
8-bit weights with a scale for each channel, calibrated with seeded inputs). Each first runs a
network in a process of its own, which gives its memory and its error against float64; one that
crashes or computes something else is reported as such. --folder keeps the files between runs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, Case, optional
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
    if found.reason:
        return found.reason
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
        found.reason = judged(job, found, expected)
        assert name != OURS or not found.reason or "no precision" in found.reason, found.reason
    return trials


def facts(job: Job, found: Trial) -> dict[str, Any]:
    error = error_of(found.results, job.exact())
    more: dict[str, Any] = {"max_error": error.largest, "rms_error": error.rms}
    more |= {"private_bytes": found.private, "load_seconds": found.seconds}
    return more | ({"precision": found.precision} if found.precision else {})


def measure(bench: Benchmark, job: Job, trials: dict[str, Trial], threads: int) -> Case:
    kind = "" if job.precision == "float32" else f" {job.precision}"
    case = bench.case(f"{job.name}{kind}, {threads_text(threads)}", unit="ms")
    if trials[OURS].reason:  # nothing to compare the others with
        case.missing(OURS, trials[OURS].reason)
        bench.show(case)
        return case
    ways: list[Running] = []  # they own what their calls read and write
    for name, found in trials.items():
        reason = found.reason
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
    return case


def collect(ratios: dict[str, list[float]], case: Case, threads: int) -> None:
    """The ratios of a case: of each other runtime, of the fastest one, and of their memory."""
    where = threads_text(threads)
    rows = [row for row in case.rows() if "ratio" in row]
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
    for name, precision, tiny in cases(bench):
        with folder_of(options.folder) as folder:
            job = prepared(name, precision, folder, tiny)
            compared = [OURS, *(r for r in COMPARED[precision] if r not in options.without)]
            trials = tried(job, compared, max(counts))
            for threads in counts:
                collect(ratios, measure(bench, job, trials, threads), threads)
    bench.means(ratios)
    bench.finish()


if __name__ == "__main__":
    main()
