"""The gpu backend: what runs and starts cost, what memory handles save, products and networks.

    python benchmarks/gpu.py [--smoke] [--json FILE] [--sections empty io launches matmul networks
                             start memory] [--precisions fp32 tf32 fp16] [--sizes N...]
                             [--models NAME...] [--batch N] [--tuning] [--no-compile] [--minutes M]

Products and networks are compared with PyTorch on CUDA at the same precision: networks node by
node, as one CUDA graph, and by torch.compile; in both layouts; their batch normalizations are
folded for all. Products are compared with cuBLAS by PyTorch, and with CLBlast where pyclblast is
installed, and, where the device has tensor cores, with this package's kernels without them. Results
are compared first. All ways find their inputs on the device, and end when the device has ended.
With --minutes, what there is no time left for is reported as such, torch.compile first of all.
QNNRT_GPU_DEVICE chooses the OpenCL device; on a CPU the products are smaller.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import _gpu
import numpy as np
from _gpu import F32, OnDevice, cuda, one_node
from _harness import Benchmark, optional, same

import qnnrt
from qnnrt import gpu

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from zoo.networks import NAMES

SECTIONS = ("empty", "io", "launches", "matmul", "networks", "start", "memory")
#: How far results of ways may lie apart: of products, as `same` has it, and of networks, whose
#: errors add up over their layers, relative to the largest number.
TOLERANCE = {"fp32": 1e-2, "tf32": 5e-2, "fp16": 5e-2}
NETWORKS = {"fp32": 1e-3, "tf32": 2e-2, "fp16": 5e-2}
NO_CUDA = "no CUDA device, or PyTorch is not installed"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--precisions", nargs="+", choices=TOLERANCE, default=[*TOLERANCE])
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="of the products")
    parser.add_argument("--models", nargs="+", choices=NAMES, metavar="NAME")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images of a network")
    parser.add_argument("--tuning", action="store_true", help="measure kernels' variants first")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")


class Budget:
    """The time that there is."""

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else time.monotonic() + 60 * minutes

    def left(self, seconds: float = 0) -> bool:
        """Whether there are more than so many seconds."""
        return self.end is None or time.monotonic() + seconds < self.end


def empty(bench: Benchmark, backend: qnnrt.qnn.Backend) -> None:
    """A run that has next to nothing to do: one kernel of 16 work items."""
    ways = OnDevice(one_node("Relu", {"x": (16,), "y": (16,)}), backend, {"x": np.ones(16, F32)})
    case = bench.case("a run of one kernel on 16 elements")
    case.add("qnnrt, handles", ways.session.run)
    if torch := cuda("fp32"):
        x = torch.ones(16, device="cuda")

        def run() -> None:
            torch.relu(x)
            torch.cuda.synchronize()

        case.add("PyTorch CUDA", run)
    else:
        case.missing("PyTorch CUDA", NO_CUDA)
    case.measure()
    ways.close()


def io(bench: Benchmark, backend: qnnrt.qnn.Backend, sizes: list[int]) -> None:
    """What it costs that inputs and outputs are not on the device already."""
    cl: Any = importlib.import_module("pyopencl")
    library: Any = backend.library
    for nbytes in sizes:
        shape = (nbytes // 4,)
        model = one_node("Relu", {"x": shape, "y": shape})
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        handles = OnDevice(model, backend, {"x": x})
        raw = qnnrt.Session(model, backend, io="raw")
        raw.inputs["x"].array[...] = x
        raw.run()
        handles.session.run()
        same("RAW", np.array(raw.outputs["y"].array), handles.result())
        case = bench.case(f"Relu of {nbytes >> 10} KiB in and out", moved=2 * nbytes)
        case.add("handles", handles.session.run)
        case.add("RAW", raw.run)
        case.measure()
        raw.close()
        handles.close()
    for nbytes in sizes:
        x = np.random.default_rng(0).standard_normal(nbytes // 4, np.float32)
        with transfers(cl, library, x) as (buffer, pinned):
            case = bench.case(f"{nbytes >> 10} KiB from the host to the device", moved=nbytes)
            case.add("pageable", lambda: cl.enqueue_copy(library.cl_queue, buffer, x))  # noqa: B023
            case.add("mapped", lambda: cl.enqueue_copy(library.cl_queue, buffer, pinned))
            case.measure()


@contextmanager
def transfers(cl: Any, library: Any, x: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    """A buffer of the device, and the array in host memory that the driver has made and mapped."""
    flags = cl.mem_flags
    buffer = cl.Buffer(library.cl_context, flags.READ_WRITE, x.nbytes)
    host = cl.Buffer(library.cl_context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, x.nbytes)
    both = cl.map_flags.READ | cl.map_flags.WRITE
    mapped, _ = cl.enqueue_map_buffer(library.cl_queue, host, both, 0, x.shape, x.dtype)
    mapped[...] = x
    yield buffer, mapped
    mapped.base.release(library.cl_queue)
    library.cl_queue.finish()
    host.release()
    buffer.release()


def launches(bench: Benchmark, backend: qnnrt.qnn.Backend, counts: list[int]) -> None:
    """Chains of kernels that have next to nothing to do: what starting one costs."""
    each = bench.extra.setdefault("microseconds_a_kernel", {})
    x = np.linspace(-1, 1, 64, dtype=F32).reshape(4, 16)
    for count in counts:
        ours = OnDevice(_gpu.softmaxes(count, x.shape), backend, {"x": x})
        ours.session.run()
        expected = ours.result()
        case = bench.case(f"a chain of {count} Softmax of 4 x 16")
        case.add("qnnrt, handles", ours.session.run)
        if torch := cuda("fp32"):
            peer = _gpu.Chain(torch, count, x)
            same("PyTorch", peer.result(), expected)
            case.add("PyTorch CUDA", peer.run)
            graph = _gpu.Chain(torch, count, x)
            graph.record()
            case.add("PyTorch CUDA graph", graph.run)
        else:
            case.missing("PyTorch CUDA", NO_CUDA)
        case.measure()
        for row in case.rows():
            if "seconds" in row:
                took = row["seconds"]["median"] * 1e6 / count
                each.setdefault(str(count), {})[row["name"]] = round(took, 3)
        ours.close()
    print("\nmicroseconds a kernel:", *(f"{n}: {found}" for n, found in each.items()), sep="\n  ")


def matmul(
    bench: Benchmark,
    backend: qnnrt.qnn.Backend,
    sizes: list[int],
    precisions: list[str],
    budget: Budget,
) -> None:
    """Square products."""
    rates = bench.extra.setdefault("teraflops", {})
    kernels = bench.extra.setdefault("kernels", {})
    for n, precision in ((n, p) for n in sizes for p in precisions):
        case = bench.case(f"product of two matrices of {n} x {n}, {precision}")
        if not budget.left():
            case.missing("qnnrt, handles", "the time was over")
            continue
        r = np.random.default_rng(n)
        dtype = np.dtype(np.float16 if precision == "fp16" else np.float32)
        feeds = {name: r.standard_normal((n, n), np.float32).astype(dtype) for name in "ab"}
        model = one_node("MatMul", dict.fromkeys("aby", (n, n)), dtype)
        ours = OnDevice.at(precision, case, model, backend, feeds)
        kept = expected = plain = None
        if ours is not None:
            ours.session.run()
            expected = ours.result()
            kernels[f"{n} {precision}"] = ours.kernels()
            if {"tensor.tensor", "mapped.mapped"} & set(kernels[f"{n} {precision}"]):
                with without_tensor_cores(backend):
                    plain = OnDevice(model, backend, feeds, _gpu.OPTIONS[precision])
                plain.session.run()
                wide = [y.astype(np.float32) for y in (plain.result(), expected)]
                same("without tensor cores", *wide, rtol=TOLERANCE[precision])
                case.add("qnnrt, without tensor cores", plain.session.run)
            if precision == "fp32":
                kept = clblast(case, ours, feeds, expected)
        if torch := cuda(precision):
            a, b = (torch.from_numpy(feeds[name]).cuda() for name in "ab")
            y = torch.empty(n, n, device="cuda", dtype=a.dtype)

            def run(a: Any = a, b: Any = b, y: Any = y, torch: Any = torch) -> None:
                torch.mm(a, b, out=y)
                torch.cuda.synchronize()

            run()
            if expected is not None:
                rtol = 1e-3 if precision == "fp32" else TOLERANCE[precision]
                same("PyTorch", y.float().cpu().numpy(), expected.astype(np.float32), rtol=rtol)
            case.add("PyTorch CUDA", run)
        else:
            case.missing("PyTorch CUDA", NO_CUDA)
        if any(way.call is not None for way in case.ways):
            case.measure()
        for row in case.rows():
            if "seconds" in row:
                rate = 2 * n**3 / row["seconds"]["median"] / 1e12
                rates.setdefault(f"{n} {precision}", {})[row["name"]] = round(rate, 3)
        del kept
        for each in (ours, plain):
            if each is not None:
                each.close()
    print("\nteraflops:", *(f"{n}: {found}" for n, found in rates.items()), sep="\n  ")


@contextmanager
def without_tensor_cores(backend: qnnrt.qnn.Backend) -> Iterator[None]:
    """Sessions that are made meanwhile get the kernels of other devices."""
    library: Any = backend.library
    usual = library.device
    library.device = dataclasses.replace(usual, tensor_cores=False)
    yield
    library.device = usual


def clblast(case: Any, ours: OnDevice, feeds: dict[str, np.ndarray], expected: np.ndarray) -> Any:
    """The same product by CLBlast, on a queue of ours."""
    library = optional("pyclblast")
    if library is None:
        case.missing("CLBlast", "pyclblast is not installed")
        return None
    array: Any = importlib.import_module("pyopencl.array")
    a, b = (array.to_device(ours.queue, feeds[name]) for name in "ab")
    y = array.empty(ours.queue, expected.shape, np.float32)
    n = expected.shape[0]

    def run() -> None:
        library.gemm(ours.queue, n, n, n, a, b, y, a_ld=n, b_ld=n, c_ld=n)
        ours.queue.finish()

    run()
    same("CLBlast", y.get(), expected, rtol=1e-3)
    case.add("CLBlast", run)
    return a, b, y


def networks(
    bench: Benchmark,
    backend: qnnrt.qnn.Backend,
    names: list[str],
    precisions: list[str],
    budget: Budget,
) -> None:
    """Whole networks."""
    ratios: dict[str, list[float]] = {}
    for precision, name in ((p, n) for p in precisions for n in names):
        case = bench.case(f"{name}, batch {bench.options.batch}, {precision}", unit="ms")
        if not budget.left():
            case.missing("qnnrt, handles", "the time was over")
            continue
        proto, feeds = _gpu.network(name, bench.options.batch)
        ours = OnDevice.at(precision, case, _gpu.loaded(proto), backend, feeds)
        if ours is None:
            continue
        ours.session.run()
        expected = ours.result()
        if torch := cuda(precision):
            compile_too = not bench.options.no_compile
            for label, peer in _gpu.peers(torch, proto, feeds, precision, compile_too, budget.left):
                if isinstance(peer, str):
                    case.missing(label, peer)
                    continue
                apart = np.abs(peer.result().reshape(expected.shape) - expected).max()
                if not apart <= NETWORKS[precision] * np.abs(expected).max():
                    raise SystemExit(f"{name} by {label} computes something else: {apart} apart")
                case.add(label, peer.run)
        else:
            case.missing("PyTorch CUDA", NO_CUDA)
        case.measure()
        found = {row["name"]: row["ratio"] for row in case.rows()[1:] if "ratio" in row}
        for label, ratio in found.items():
            ratios.setdefault(f"{label}, {precision}", []).append(ratio)
        if found:
            ratios.setdefault(f"the best of these, {precision}", []).append(min(found.values()))
        ours.close()
    if ratios:
        bench.means(ratios)


def start(bench: Benchmark, names: list[str], budget: Budget) -> None:
    """From a process's begin to a network's first result, without and with what was kept."""
    rows = bench.extra.setdefault("first_start", [])
    print("\nfirst start: seconds from the process's begin, and of them for the session")
    for name in names:
        if not budget.left(60):
            rows.append({"network": name, "missing": "the time was over"})
            continue
        rows += _gpu.starts(name)
    for row in rows:
        print("  ", row)


def memory(bench: Benchmark, backend: qnnrt.qnn.Backend, name: str) -> None:
    """What the device has when there are one, two and ten sessions of a network."""
    rows = bench.extra.setdefault("memory_of_sessions", [])
    proto, feeds = _gpu.network(name, bench.options.batch)
    model = _gpu.loaded(proto)
    before = _gpu.device_bytes()
    library: Any = backend.library
    sessions: list[OnDevice] = []
    print(f"\nmemory of sessions of {name}, bytes")
    for count in (1, 2, 10):
        while len(sessions) < count:
            sessions.append(OnDevice(model, backend, feeds))
            sessions[-1].session.run()
        own = [library.graph_stats(s.session.graph.handle) for s in sessions]
        now = _gpu.device_bytes()
        row = {
            "network": name,
            "sessions": count,
            "arenas": library.arenas.counts()["bytes"],
            "weights": sum(stats["weight_bytes"] for stats in own),
            "device": "nvidia-smi is not there" if now is None or before is None else now - before,
        }
        rows.append(row)
        print("  ", row)
    for each in sessions:
        each.close()


def main() -> None:
    bench = Benchmark("gpu", __doc__, rounds=11, sample_ms=50, more=arguments)
    if reason := gpu.why_not():
        bench.case("everything").missing("qnnrt", reason)
        bench.finish()
        return
    given = bench.options
    budget = Budget(given.minutes)
    options = {"tuning": True} if given.tuning else None
    with qnnrt.qnn.Backend.open("gpu", gpu=options) as backend:
        device = backend.library.device
        bench.machine["opencl"] = f"{device}, {device.version}, driver {device.raw.driver_version}"
        print(bench.machine["opencl"])
        on_cpu = device.kind == "cpu"
        few = ["small"] if bench.smoke else None
        precisions = given.precisions
        if "empty" in given.sections:
            empty(bench, backend)
        if "io" in given.sections:
            io(bench, backend, [1 << n for n in ((16,) if bench.smoke else (12, 16, 20, 24, 28))])
        if "launches" in given.sections:
            launches(bench, backend, [8] if bench.smoke else [16, 64, 256])
        if "matmul" in given.sections:
            usual = [64] if bench.smoke else [512] if on_cpu else [1024, 2048, 4096, 8192]
            matmul(bench, backend, given.sizes or usual, precisions, budget)
        if "memory" in given.sections:
            memory(bench, backend, (given.models or few or ["resnet50"])[0])
        if "start" in given.sections:
            start(bench, few or ["squeezenet", "resnet50", "densenet121"], budget)
        if "networks" in given.sections:
            chosen = ["fp32"] if bench.smoke else precisions
            networks(bench, backend, given.models or few or NAMES, chosen, budget)
    bench.finish()


if __name__ == "__main__":
    main()
