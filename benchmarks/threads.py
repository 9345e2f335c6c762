"""What a second thread brings: alone, on a loaded machine, beside another session, in tiny nodes.

    python benchmarks/threads.py [--models NAME...] [--folder FOLDER] [--smoke] [--json FILE]

Each network on one thread and on two, in qnnrt and where they are installed in ONNX Runtime and
OpenVINO (in float32). "loaded": one other process keeps one core busy. "two sessions": in two
threads of this process, all on inputs of their own; the time is that of one run of each. Last,
chains of 1 to 1,000 nodes of 16 floats: the time of a node there, its kernel included.
Ratios are to qnnrt on one thread in the same rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from _harness import Benchmark, optional
from _networks import LIGHT, Job, names
from _peers import RUNTIMES, Unavailable
from _trial import prepared
from models import folder_of
from onnx import TensorProto, helper

import qnnrt
from qnnrt.importers import onnx as importer

DEFAULT = ("squeezenet", "shufflenet", "efficientnet_b0", "mobilenet_v3", "tcn", "lstm")
COMPARED = ("qnnrt", "onnxruntime", "openvino in f32")
THREADS = (1, 2)
LENGTHS = (1, 10, 100, 1000)
#: Of one element each; none of them is merged with the next.
CHAIN = ("Neg", "Sqrt", "Floor", "Abs")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", choices=names(), metavar="NAME")
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


def side_by_side(job: Job, threads: int) -> Callable[[int], float]:
    """Seconds for a run of each of two sessions that run at once; the mean of n."""
    both = [RUNTIMES["qnnrt"](job, threads) for _ in range(2)]

    def sample(n: int) -> float:
        start = threading.Barrier(3)

        def work(call: Callable[[], object]) -> None:
            start.wait()
            for _ in range(n):
                call()

        workers = [threading.Thread(target=work, args=(way.call,)) for way in both]
        for worker in workers:
            worker.start()
        start.wait()
        begin = time.perf_counter()
        for worker in workers:
            worker.join()
        return (time.perf_counter() - begin) / n

    return sample


def network(bench: Benchmark, job: Job, seconds: dict[str, dict[str, float]]) -> None:
    for where, around in (("idle", idle), ("loaded", busy_core)):
        case = bench.case(f"{job.name}, {where}", unit="ms")
        ways = []
        for runtime in COMPARED:
            for threads in THREADS:
                name = f"{runtime}, {threads} thread{'s' * (threads > 1)}"
                try:
                    ways.append(RUNTIMES[runtime](job, threads))
                    case.add(name, ways[-1].call)
                except Unavailable as reason:
                    case.missing(name, str(reason))
        with around():
            case.measure()
        for way in ways:
            way.close()
        for row in case.rows():
            if "seconds" in row:
                seconds.setdefault(row["name"], {})[where] = row["seconds"]["median"]
    case = bench.case(f"{job.name}, two sessions", unit="ms")
    for threads in THREADS:
        case.sampled(f"{threads} thread{'s' * (threads > 1)} each", side_by_side(job, threads))
    case.measure()


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
            name = f"{length} nodes, {threads} thread{'s' * (threads > 1)}"
            case.add(name, session.run)
    case.measure()
    rows = {row["name"]: row["seconds"]["median"] for row in case.rows()}
    per_node = bench.extra.setdefault("nanoseconds_per_node", {})
    for threads in THREADS:
        kind = f"{threads} thread{'s' * (threads > 1)}"
        first, last = (rows[f"{n} nodes, {kind}"] for n in (LENGTHS[0], LENGTHS[-1]))
        per_node[kind] = 1e9 * (last - first) / (LENGTHS[-1] - LENGTHS[0])
        print(f"  a node more costs {per_node[kind]:.1f} ns on {kind}, with its kernel")


def main() -> None:
    bench = Benchmark("threads", __doc__, rounds=15, sample_ms=50, more=arguments)
    options = bench.options
    if optional("onnxruntime") is None:
        bench.case("networks").missing("onnxruntime", "not installed: it scales the weights")
    else:
        chosen = options.models or (("tcn",) if bench.smoke else DEFAULT)
        ratios: dict[str, list[float]] = {}
        for name in chosen if optional("torch") else (LIGHT[0],):
            with folder_of(options.folder) as folder:
                seconds: dict[str, dict[str, float]] = {}
                network(bench, prepared(name, "float32", folder, bench.smoke), seconds)
            for way, times in seconds.items():
                ratios.setdefault(f"loaded over idle: {way}", []).append(
                    times["loaded"] / times["idle"]
                )
        bench.means(ratios)
    tiny_nodes(bench)
    bench.finish()


if __name__ == "__main__":
    main()
