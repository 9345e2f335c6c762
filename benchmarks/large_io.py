"""Large tensors through an op that only memory bandwidth limits: relu and add of 1, 8 and 64 MiB.

    python benchmarks/large_io.py [--smoke] [--json FILE]

Every runtime over bound memory, on one thread and on two. The bounds: memcpy of as many bytes into
warm memory, and numpy's own op with its output given. GB/s count each tensor once: what is read and
what is written.
"""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _harness import Benchmark, Case, same
from _runtimes import Missing, elementwise, in_litert, in_onnxruntime, in_openvino, in_qnnrt

MIB = 1 << 20


def add_memcpy(
    case: Case, source: np.ndarray, target: np.ndarray, threads: int, pool: ThreadPoolExecutor
) -> None:
    """memcpy of the input into the output, the two halves at once on two threads."""
    address, out, half = source.ctypes.data, target.ctypes.data, source.nbytes // 2
    move = ctypes.memmove
    if threads == 1:
        case.add("memcpy", lambda: move(out, address, 2 * half))
        return

    def both() -> None:
        other = pool.submit(move, out + half, address + half, half)
        move(out, address, half)
        other.result()

    case.add("memcpy in halves", both)


def main() -> None:
    bench = Benchmark("large_io", __doc__, rounds=41, sample_ms=5)
    random = np.random.default_rng(0)
    sizes = [1, 8] if bench.smoke else [1, 8, 64]
    with ThreadPoolExecutor(1) as pool:
        for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
            for op in ("Relu", "Add"):
                for mebibytes in sizes:
                    measure(bench, op, mebibytes, threads, random, pool)
    bench.finish()


def measure(
    bench: Benchmark,
    op: str,
    mebibytes: int,
    threads: int,
    random: np.random.Generator,
    pool: ThreadPoolExecutor,
) -> None:
    shape = (1, mebibytes * MIB // 4)
    names = {"Relu": ["a"], "Add": ["a", "b"]}[op]
    feeds = {name: random.standard_normal(shape, dtype=np.float32) for name in names}
    arrays = list(feeds.values())  # numpy's and memcpy's own; the runtimes take copies
    expected = np.maximum(arrays[0], 0) if op == "Relu" else arrays[0] + arrays[1]
    model = elementwise(op, shape)
    moved = (len(names) + 1) * mebibytes * MIB
    label = f"{op.lower()}, {mebibytes} MiB a tensor, {threads} thread{'s' * (threads > 1)}"
    case = bench.case(label, unit="ms", moved=moved)
    ready = [
        in_qnnrt(model, feeds, threads),
        *in_onnxruntime(model, feeds, threads),
        in_openvino(model, feeds, threads),
        in_litert(op, shape, feeds, threads),
    ]
    for way in ready:
        if isinstance(way, Missing):
            case.missing(way.name, way.reason)
            continue
        way.call()
        same(way.name, way.result(), expected)
        case.add(way.name, way.call)
    out, zero = np.empty_like(expected), np.zeros(1, np.float32)
    if op == "Relu":
        case.add("numpy", lambda: np.maximum(arrays[0], zero, out=out))
        add_memcpy(case, arrays[0], out, threads, pool)
    else:
        case.add("numpy", lambda: np.add(arrays[0], arrays[1], out=out))
    case.measure()
    for way in ready:
        if not isinstance(way, Missing):
            way.close()


if __name__ == "__main__":
    main()
