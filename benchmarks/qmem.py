"""The four cells of the Qmem table: prepared raw or memhandle, executed raw or memhandle.

    python benchmarks/qmem.py [--smoke] [--json FILE] [--plot FILE] [--threads N]

One relu on the htp backend, float32; the IO size is input and output together, 64 KiB to 64 MiB.
Relu does least with what it reads, so the copies weigh most: an upper bound. "RAW" memory is the
client's own, from numpy. The fifth way is for data that does not lie in shared memory to begin
with: the client copies it into the bound buffers and the result out of them. Each way's counters
are checked before the clock runs. First runs are timed on new sessions, with no memory kept from
before: that is where memory reserved at execution shows. The plot needs matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, Case, same

import qnnrt
from qnnrt import _core
from qnnrt.model import Model, Node, Tensor

KIB = 1 << 10
MIB = 1 << 20
SIZES = [n * KIB for n in (64, 128, 256, 512)] + [n * MIB for n in (1, 2, 4, 8, 16, 32, 64)]
CELLS = (("memhandle", "memhandle"), ("raw", "memhandle"), ("raw", "raw"), ("memhandle", "raw"))
BY_CLIENT = "memhandle/memhandle, client copies"


def label(prepare: str, io: str) -> str:
    return f"{prepare}/{io}"


def size_text(nbytes: int) -> str:
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"


def relu(nbytes: int) -> Model:
    """A relu whose input and output have so many bytes together."""
    shape, float32 = (1, nbytes // 8), np.dtype(np.float32)
    tensors = {name: Tensor(name, shape, float32) for name in ("x", "y")}
    return Model("relu", tensors, [Node("relu", "Relu", ["x"], ["y"])], ["x"], ["y"])


def open_session(model: Model, prepare: str, io: str, threads: int) -> qnnrt.Session:
    session = qnnrt.Session(model, "htp", io=io, prepare=prepare, threads=threads)
    if io == "raw":  # the client's own memory, not a shared buffer by address
        for t in (session.inputs["x"], session.outputs["y"]):
            t.bind(np.zeros(t.shape, t.dtype))
    return session


def check(session: qnnrt.Session, prepare: str, io: str, nbytes: int) -> None:
    """One run, counted as the table says."""
    session.reset_stats()
    session.run()
    copied = nbytes if io == "raw" else 0
    reserved = 0 if (prepare, io) == ("memhandle", "memhandle") else nbytes
    stats = session.stats
    if (stats.copied_bytes, stats.reserved_bytes) != (copied, reserved):
        raise RuntimeError(f"{label(prepare, io)}: expected {copied} copied, {reserved} reserved")


def steady(bench: Benchmark, nbytes: int, x: np.ndarray, threads: int) -> None:
    case = bench.case(f"relu, {size_text(nbytes)} of IO")
    model, expected = relu(nbytes), np.maximum(x, 0)
    sessions = []
    for prepare, io in CELLS:
        session = open_session(model, prepare, io, threads)
        session.inputs["x"].array[...] = x
        check(session, prepare, io, nbytes)
        same(label(prepare, io), session.outputs["y"].array, expected)
        case.add(label(prepare, io), session.run)
        sessions.append(session)
    last = open_session(model, "memhandle", "memhandle", threads)
    sessions.append(last)
    source, target = x.copy(), np.empty_like(x)
    bound, result, run = last.inputs["x"].array, last.outputs["y"].array, last.run

    def copying() -> None:
        np.copyto(bound, source)
        run()
        np.copyto(target, result)

    copying()
    same(BY_CLIENT, target, expected)
    case.add(BY_CLIENT, copying)
    case.measure()
    for session in sessions:
        session.close()


def add_first_run(case: Case, model: Model, prepare: str, io: str, threads: int) -> None:
    def sample(n: int) -> float:
        total = 0.0
        for _ in range(n):
            _core.pool_trim(0)
            with open_session(model, prepare, io, threads) as session:
                start = time.perf_counter()
                session.run()
                total += time.perf_counter() - start
        return total / n

    case.sampled(label(prepare, io), sample)


def plot(path: Path, report: list[dict[str, Any]], sizes: list[int], about: str) -> None:
    """Median latency of each way against the IO size, with the 10th and 90th percentile."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5))
    for name in [way["name"] for way in report[0]["ways"]]:
        ways = [next(w for w in case["ways"] if w["name"] == name) for case in report]
        micro = {k: [w["seconds"][k] * 1e6 for w in ways] for k in ("median", "p10", "p90")}
        (line,) = left.plot(sizes, micro["median"], marker="o", markersize=3, label=name)
        left.fill_between(sizes, micro["p10"], micro["p90"], alpha=0.15, color=line.get_color())
        right.plot(sizes, [w["ratio"] for w in ways], marker="o", markersize=3, label=name)
    left.set(yscale="log", ylabel="latency of a run, us (median, 10 % .. 90 %)")
    right.set(ylabel="ratio to memhandle/memhandle, same round")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="IO size: input and output, bytes")
        axes.grid(True, which="both", alpha=0.3)
        axes.set_xticks(sizes, [size_text(n) for n in sizes], rotation=45)
    left.legend(title="prepared/executed", loc="lower right", fontsize=8)
    figure.suptitle(about, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"plotted in {path}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", type=Path, help="write a plot there; needs matplotlib")
    parser.add_argument("--threads", type=int, default=1, help="kernel threads (default 1)")


def main() -> None:
    bench = Benchmark("qmem", __doc__, rounds=31, sample_ms=10, more=arguments)
    if bench.options.plot:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            sys.exit("--plot needs matplotlib: pip install '.[bench]'")
    random = np.random.default_rng(0)
    sizes = [64 * KIB, MIB] if bench.smoke else SIZES
    threads = bench.options.threads
    for nbytes in sizes:
        x = random.standard_normal((1, nbytes // 8), dtype=np.float32)
        steady(bench, nbytes, x, threads)
    steady_cases = list(bench.cases)
    for nbytes in sizes[:: max(1, len(sizes) // 3)]:
        case = bench.case(f"first run, {size_text(nbytes)} of IO")
        for prepare, io in CELLS:
            add_first_run(case, relu(nbytes), prepare, io, threads)
        case.measure()
    bench.finish()
    if bench.options.plot:
        report = [{"name": c.name, "ways": c.rows()} for c in steady_cases]
        machine = bench.machine
        about = f"relu on htp, {machine['processor']}, {threads} thread{'s' * (threads > 1)}"
        plot(bench.options.plot, report, sizes, f"{about}, qnnrt {machine['versions']['qnnrt']}")


if __name__ == "__main__":
    main()
