"""What a second thread brings: alone, on a loaded machine, beside another session, in tiny nodes.

    python benchmarks/threads.py [--models all|NAME...] [--precision float32|int8...]
                                 [--without RUNTIME...] [--check] [--folder FOLDER] [--smoke]
                                 [--json FILE]

Each network on one thread and on two, in qnnrt and where they are installed in ONNX Runtime and
OpenVINO (in float32, or the quantized file). "loaded": one other process keeps one core busy.
"after pauses": each run follows 30 ms in which the caller slept, as between a camera's images.
"two sessions": in two threads of this process, all on inputs of their own; the time is that of one
run of each. Last, chains of 1 to 1,000 nodes of 16 floats: the time of a node there, its kernel
included. Ratios are to qnnrt on one thread in the same rounds.

Two claims are judged for every network: that qnnrt is on two threads no slower than on one, and
that a loaded machine takes it no longer than 2.2 times its idle time. With --check, status 1 says
that one of them does not hold. All networks: --models all --precision float32 int8
--without onnxruntime "openvino in f32" --check.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _harness import Benchmark, at_once, optional
from _networks import LIGHT, Job, names
from _peers import RUNTIMES, Unavailable
from _trial import prepared
from models import OURS, folder_of, threads_text
from onnx import TensorProto, helper

import qnnrt
from qnnrt.importers import onnx as importer

DEFAULT = ("squeezenet", "shufflenet", "efficientnet_b0", "mobilenet_v3", "tcn", "lstm")
COMPARED = ("onnxruntime", "openvino in f32")
THREADS = (1, 2)
LENGTHS = (1, 10, 100, 1000)
PAUSE_S = 0.03
#: Of one element each; none of them is merged with the next.
CHAIN = ("Neg", "Sqrt", "Floor", "Abs")
#: What two threads may take of the time on one, with what medians of such rounds differ by in two
#: runs of one program; and what a loaded machine may take of an idle one's time.
MOST_OF_ONE_THREAD, MOST_OF_IDLE = 1.03, 2.2


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=("all", *names()), metavar="NAME")
    parser.add_argument(
        "--precision", nargs="+", choices=("float32", "int8", "a16w8"), default=["float32"]
    )
    parser.add_argument("--without", nargs="+", default=[], choices=COMPARED, metavar="RUNTIME")
    parser.add_argument("--check", action="store_true", help="status 1 where a claim fails")
    parser.add_argument("--folder", type=Path, help="keeps the networks' files")


@contextmanager
def busy_core() -> Iterator[None]:
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@contextmanager
def idle() -> Iterator[None]:
    yield


def after_pauses(call: Callable[[], object]) -> Callable[[int], float]:
    """Seconds for a run that nothing came before for a while; the mean of n."""

    def sample(n: int) -> float:
        taken = 0.0
        for _ in range(n):
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            call()
            taken += time.perf_counter() - start
        return taken / n

    return sample


def side_by_side(job: Job, threads: int) -> Callable[[int], float]:
    """Seconds for a run of each of two sessions that run at once; the mean of n."""
    both = [RUNTIMES["qnnrt"](job, threads) for _ in range(2)]
    return at_once(*(way.call for way in both))


def label_of(job: Job) -> str:
    return job.name if job.precision == "float32" else f"{job.name} {job.precision}"


def network(bench: Benchmark, job: Job) -> dict[str, dict[str, Any]]:
    """Measures it; by way and then by "idle" and "loaded" the rows of what was measured."""
    found: dict[str, dict[str, Any]] = {}
    for where, around in (("idle", idle), ("loaded", busy_core), ("after pauses", idle)):
        case = bench.case(f"{label_of(job)}, {where}", unit="ms")
        ways = []
        for runtime in (OURS, *(r for r in COMPARED if r not in bench.options.without)):
            for threads in THREADS:
                name = f"{runtime}, {threads_text(threads)}"
                try:
                    ways.append(RUNTIMES[runtime](job, threads))
                    if where == "after pauses":
                        case.sampled(name, after_pauses(ways[-1].call))
                    else:
                        case.add(name, ways[-1].call)
                except Unavailable as reason:
                    case.missing(name, str(reason))
        with around():
            case.measure()
        for way in ways:
            way.close()
        for row in case.rows():
            if "seconds" in row:
                found.setdefault(row["name"], {})[where] = row
    case = bench.case(f"{label_of(job)}, two sessions", unit="ms")
    for threads in THREADS:
        case.sampled(f"{threads_text(threads)} each", side_by_side(job, threads))
    case.measure()
    return found


def loaded_over_idle(rows: dict[str, Any]) -> float:
    return float(rows["loaded"]["seconds"]["median"] / rows["idle"]["seconds"]["median"])


def claims(name: str, found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What is promised of a network, and what was seen."""
    two = found[f"{OURS}, {threads_text(2)}"]["idle"]["ratio"]
    judged = [("two threads over one", two, MOST_OF_ONE_THREAD)]
    for threads in THREADS:
        ratio = loaded_over_idle(found[f"{OURS}, {threads_text(threads)}"])
        judged.append((f"loaded over idle, {threads_text(threads)}", ratio, MOST_OF_IDLE))
    return [
        {"network": name, "claim": claim, "ratio": ratio, "limit": limit, "holds": ratio <= limit}
        for claim, ratio, limit in judged
    ]


def tell(bench: Benchmark, judged: list[dict[str, Any]]) -> bool:
    """Shows and reports the claims; whether all hold."""
    bench.extra["claims"] = judged
    print("\nclaims")
    for claim in dict.fromkeys(j["claim"] for j in judged):
        rows = [j for j in judged if j["claim"] == claim]
        mean = statistics.geometric_mean(j["ratio"] for j in rows)
        print(f"  {claim}: {mean:.2f} in the geometric mean of {len(rows)}", end="")
        worst = max(rows, key=lambda j: float(j["ratio"]))
        print(f", at most {worst['ratio']:.2f} ({worst['network']}); limit {worst['limit']}")
        for row in rows:
            if not row["holds"]:
                print(f"    does not hold: {row['network']} {row['ratio']:.2f}")
    return all(j["holds"] for j in judged)


def chain(length: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node(CHAIN[i % len(CHAIN)], [f"t{i}"], [f"t{i + 1}"]) for i in range(length)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16])
        for name in ("t0", f"t{length}")
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def tiny_nodes(bench: Benchmark) -> None:
    case = bench.case("a chain of tiny nodes", unit="us")
    for length in LENGTHS:
        for threads in THREADS:
            session = qnnrt.Session(importer.load(chain(length)), threads=threads)
            next(iter(session.inputs.values())).array[...] = np.arange(16)
            name = f"{length} nodes, {threads_text(threads)}"
            case.add(name, session.run)
    case.measure()
    rows = {row["name"]: row["seconds"]["median"] for row in case.rows()}
    per_node = bench.extra.setdefault("nanoseconds_per_node", {})
    for threads in THREADS:
        kind = threads_text(threads)
        first, last = (rows[f"{n} nodes, {kind}"] for n in (LENGTHS[0], LENGTHS[-1]))
        per_node[kind] = 1e9 * (last - first) / (LENGTHS[-1] - LENGTHS[0])
        print(f"  a node more costs {per_node[kind]:.1f} ns on {kind}, with its kernel")


def cases(bench: Benchmark) -> list[tuple[str, str]]:
    chosen = bench.options.models or (("tcn",) if bench.smoke else DEFAULT)
    if "all" in chosen:
        chosen = names()
    elif optional("torch") is None:
        chosen = (LIGHT[0],)
    return [(name, precision) for precision in bench.options.precision for name in chosen]


def main() -> None:
    bench = Benchmark("threads", __doc__, rounds=15, sample_ms=50, more=arguments)
    options = bench.options
    judged: list[dict[str, Any]] = []
    holds = True
    if optional("onnxruntime") is None:
        bench.case("networks").missing("onnxruntime", "not installed: it scales the weights")
    else:
        ratios: dict[str, list[float]] = {}
        for name, precision in cases(bench):
            with folder_of(options.folder) as folder:
                job = prepared(name, precision, folder, bench.smoke)
                found = network(bench, job)
            judged += claims(label_of(job), found)
            for way, rows in found.items():
                ratios.setdefault(f"loaded over idle: {way}", []).append(loaded_over_idle(rows))
        bench.means(ratios)
        holds = tell(bench, judged)
    tiny_nodes(bench)
    bench.finish()
    if options.check and not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
