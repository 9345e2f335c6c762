"""The gpu backend: what runs cost, what memory handles save, products and networks.

    python benchmarks/gpu.py [--smoke] [--json FILE] [--sections io matmul networks empty]
                             [--sizes N...] [--models NAME...] [--tuning]

Products and networks are compared with PyTorch on CUDA in float32, without TF32, node by node and
as one CUDA graph, and with CLBlast where pyclblast is installed; results are compared first. All
ways find their inputs on the device, and end when the device has ended. QNNRT_GPU_DEVICE chooses
the OpenCL device; on a CPU the products are smaller.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Benchmark, optional, same

import qnnrt
from qnnrt import gpu
from qnnrt.importers import onnx as importer
from qnnrt.model import Model, Node, Tensor

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from zoo.networks import NAMES

SECTIONS = ("empty", "io", "matmul", "networks")
F32 = np.dtype(np.float32)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="of the products")
    parser.add_argument("--models", nargs="+", choices=NAMES, metavar="NAME")
    parser.add_argument("--tuning", action="store_true", help="measure kernels' variants first")


def cuda() -> Any:
    """PyTorch with a device, which computes in whole 32-bit floats; None where there is none."""
    torch = optional("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


class OnDevice:
    """A session whose inputs and outputs are OpenCL buffers, or what the backend makes them."""

    def __init__(self, model: Model, backend: qnnrt.qnn.Backend, feeds: dict[str, Any]) -> None:
        cl: Any = importlib.import_module("pyopencl")
        self.library: Any = backend.library
        with warnings.catch_warnings():  # that a device has memory of its own, which is the point
            warnings.simplefilter("ignore")
            self.session = qnnrt.Session(model, backend)
        self.queue = self.library.cl_queue
        self.buffers = {}
        if not self.library.device.shared:
            for io in (self.session.inputs, self.session.outputs):
                for name, bound in io.items():
                    size = int(np.prod(bound.shape)) * bound.dtype.itemsize
                    buffer = cl.Buffer(self.library.cl_context, cl.mem_flags.READ_WRITE, size)
                    bound.bind(buffer)
                    self.buffers[name] = buffer
        for name, array in feeds.items():
            if name in self.buffers:
                cl.enqueue_copy(self.queue, self.buffers[name], np.ascontiguousarray(array))
            else:
                self.session.inputs[name].array[...] = array
        self.copy = cl.enqueue_copy

    def result(self) -> np.ndarray:
        (name, output), *_ = self.session.outputs.items()
        if name not in self.buffers:
            return np.array(output.array)
        found = np.empty(output.shape, output.dtype)
        self.copy(self.queue, found, self.buffers[name])
        return found

    def close(self) -> None:
        self.session.close()
        for buffer in self.buffers.values():
            buffer.release()


def one_node(op: str, shapes: dict[str, tuple[int, ...]]) -> Model:
    """Of all shapes but the last, which is the output's."""
    tensors = {name: Tensor(name, shape, F32) for name, shape in shapes.items()}
    *inputs, output = shapes
    return Model(op, tensors, [Node("node", op, inputs, [output])], inputs, [output])


def empty(bench: Benchmark, backend: qnnrt.qnn.Backend) -> None:
    """A run that has next to nothing to do: one kernel of 16 work items."""
    ways = OnDevice(one_node("Relu", {"x": (16,), "y": (16,)}), backend, {"x": np.ones(16, F32)})
    case = bench.case("a run of one kernel on 16 elements")
    case.add("qnnrt, handles", ways.session.run)
    if torch := cuda():
        x = torch.ones(16, device="cuda")

        def run() -> None:
            torch.relu(x)
            torch.cuda.synchronize()

        case.add("PyTorch CUDA", run)
    else:
        case.missing("PyTorch CUDA", "no CUDA device, or PyTorch is not installed")
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


def matmul(bench: Benchmark, backend: qnnrt.qnn.Backend, sizes: list[int]) -> None:
    """Square products of 32-bit floats."""
    rates = bench.extra.setdefault("teraflops", {})
    for n in sizes:
        r = np.random.default_rng(n)
        feeds = {name: r.standard_normal((n, n), np.float32) for name in "ab"}
        ours = OnDevice(one_node("MatMul", dict.fromkeys("aby", (n, n))), backend, feeds)
        ours.session.run()
        expected = ours.result()
        case = bench.case(f"product of two matrices of {n} x {n}")
        case.add("qnnrt, handles", ours.session.run)
        kept = clblast(case, ours, feeds, expected)
        if torch := cuda():
            a, b = (torch.from_numpy(feeds[name]).cuda() for name in "ab")
            y = torch.empty(n, n, device="cuda")

            def run(a: Any = a, b: Any = b, y: Any = y, torch: Any = torch) -> None:
                torch.mm(a, b, out=y)
                torch.cuda.synchronize()

            run()
            same("PyTorch", y.cpu().numpy(), expected, rtol=1e-3)
            case.add("PyTorch CUDA", run)
        else:
            case.missing("PyTorch CUDA", "no CUDA device, or PyTorch is not installed")
        case.measure()
        for row in case.rows():
            if "seconds" in row:
                rate = 2 * n**3 / row["seconds"]["median"] / 1e12
                rates.setdefault(str(n), {})[row["name"]] = round(rate, 3)
        del kept
        ours.close()
    print("\nteraflops:", *(f"{n}: {found}" for n, found in rates.items()), sep="\n  ")


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


def networks(bench: Benchmark, backend: qnnrt.qnn.Backend, names: list[str]) -> None:
    """Whole networks, one image at a time."""
    from zoo import client_models

    ratios: dict[str, list[float]] = {}
    for name in names:
        if name == "small":
            proto = client_models.conv_net(seed=1)
        else:
            proto = client_models.light_model(name, seed=1)
            del proto.graph.output[1:]  # what the tests look at
        r = np.random.default_rng(2)
        feeds = {
            i.name: r.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim], F32)
            for i in proto.graph.input
        }
        case = bench.case(name, unit="ms")
        ours = OnDevice(importer.load(proto), backend, feeds)
        ours.session.run()
        expected = ours.result()
        case.add("qnnrt, handles", ours.session.run)
        if torch := cuda():
            from _torch import Network

            for label, record in (("PyTorch CUDA", False), ("PyTorch CUDA graph", True)):
                try:
                    other = Network(torch, proto, feeds)
                    other.call()
                    same(f"{name} in {label}", other.result(), expected, rtol=1e-2)
                    if record:
                        other.record()
                    case.add(label, other.run)
                except NotImplementedError as e:
                    case.missing(label, str(e))
        else:
            case.missing("PyTorch CUDA", "no CUDA device, or PyTorch is not installed")
        case.measure()
        for row in case.rows()[1:]:
            if "ratio" in row:
                ratios.setdefault(row["name"], []).append(row["ratio"])
        ours.close()
    if ratios:
        bench.means(ratios)


def main() -> None:
    bench = Benchmark("gpu", __doc__, rounds=11, sample_ms=50, more=arguments)
    if reason := gpu.why_not():
        bench.case("everything").missing("qnnrt", reason)
        bench.finish()
        return
    given = bench.options
    options = {"tuning": True} if given.tuning else None
    with qnnrt.qnn.Backend.open("gpu", gpu=options) as backend:
        device = backend.library.device
        bench.machine["opencl"] = f"{device}, {device.version}, driver {device.raw.driver_version}"
        print(bench.machine["opencl"])
        on_cpu = device.kind == "cpu"
        if "empty" in given.sections:
            empty(bench, backend)
        if "io" in given.sections:
            io(bench, backend, [1 << n for n in ((16,) if bench.smoke else (12, 16, 20, 24, 28))])
        if "matmul" in given.sections:
            usual = [64] if bench.smoke else [512] if on_cpu else [1024, 2048, 4096, 8192]
            matmul(bench, backend, given.sizes or usual)
        if "networks" in given.sections:
            networks(bench, backend, given.models or (["small"] if bench.smoke else NAMES))
    bench.finish()


if __name__ == "__main__":
    main()
