"""Graphs on the gpu backend, in every way in which they can be run there. A backend is open."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np

import qnnrt
from qnnrt.gpu.device import pyopencl
from qnnrt.importers import onnx as importer

from .compare import Outputs, Way, twice
from .generate import Graph

__all__ = ["GPU_WAYS"]

#: The same backend for C clients.
LIBRARY = Path(qnnrt.__file__).parent / "lib" / "libQnnGpu.so"
#: Sessions at once, and runs of each.
THREADS, RUNS = 2, 3


def _session(graph: Graph, **gpu: Any) -> qnnrt.Session:
    return qnnrt.Session(importer.load(graph.proto), "gpu", options={"gpu": gpu} if gpu else None)


def _run(graph: Graph, **gpu: Any) -> Outputs:
    with _session(graph, **gpu) as s:
        return twice(s, graph.feeds)


def plain(graph: Graph, folder: Path) -> Outputs:
    return _run(graph)


def unfused(graph: Graph, folder: Path) -> Outputs:
    return _run(graph, node_optimizations=False, memory_optimizations=False)


def fp16(graph: Graph, folder: Path) -> Outputs:
    return _run(graph, precision="fp16")


def hybrid(graph: Graph, folder: Path) -> Outputs:
    return _run(graph, precision="hybrid")


def tf32(graph: Graph, folder: Path) -> Outputs:
    return _run(graph, precision="tf32")


def lanes(graph: Graph, folder: Path) -> Outputs:
    """The kernels for work items side by side, whatever the device is."""
    library: Any = qnnrt.qnn.Backend.shared("gpu").library
    device = library.device
    library.device = dataclasses.replace(device, kind="gpu")
    try:
        return _run(graph)
    finally:
        library.device = device


def binary(graph: Graph, folder: Path) -> Outputs:
    """By the library for C clients, then from its context binary: the same to the bit."""
    path = folder / "model.bin"
    try:
        session = qnnrt.Session(importer.load(graph.proto), LIBRARY, io="raw")
    except qnnrt.GraphError as e:
        if "not supported" in str(e):
            raise qnnrt.UnsupportedOpError([]) from e
        raise
    with session as s:
        wanted = twice(s, graph.feeds)
        s.save_binary(path)
    with qnnrt.Session(qnnrt.load(path), LIBRARY, io="raw") as s:
        found = twice(s, graph.feeds)
    assert all(found[n].tobytes() == y.tobytes() for n, y in wanted.items())
    return found


def at_once(graph: Graph, folder: Path) -> Outputs:
    """Threads with a session each, which share constants and memory of intermediates; a session
    gives the same numbers each time."""
    found: list[Outputs] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            with _session(graph) as s:
                found.extend(twice(s, graph.feeds) for _ in range(RUNS))
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    for other in found[1:]:
        assert all(other[n].tobytes() == y.tobytes() for n, y in found[0].items())
    return found[0]


def handles(graph: Graph, folder: Path) -> Outputs:
    """In OpenCL buffers; then with each output, where that is taken, in the buffer of an input of
    its shape: the same numbers."""
    cl = pyopencl()
    with _session(graph) as s:
        library: Any = s.backend.library
        every = {t.name: t for t in (*s.graph.inputs, *s.graph.outputs)}
        buffers = {
            n: cl.Buffer(library.cl_context, cl.mem_flags.READ_WRITE, size)
            for n, t in every.items()
            if (size := int(np.prod(t.shape)) * np.dtype(t.dtype).itemsize)
        }
        memory: dict[str, Any] = {
            n: s.context.register(buffers[n], t, kind="opencl")
            if n in buffers
            else np.empty(t.shape, t.dtype)
            for n, t in every.items()
        }
        inputs = [t.name for t in s.graph.inputs]
        outputs = [t.name for t in s.graph.outputs]

        def run(places: dict[str, str]) -> Outputs:
            for n in inputs:
                if n in buffers:
                    x = np.asarray(graph.feeds[n], every[n].dtype)
                    cl.enqueue_copy(library.cl_queue, buffers[n], np.ascontiguousarray(x))
            s.graph.execute(
                [memory[n] for n in inputs], [memory[places.get(n, n)] for n in outputs]
            )
            found = {n: np.empty(every[n].shape, every[n].dtype) for n in outputs}
            for n, y in found.items():
                if n in buffers:
                    cl.enqueue_copy(library.cl_queue, y, buffers[places.get(n, n)])
            return found

        wanted = run({})
        for y in outputs:
            for x in inputs:
                if y not in buffers or (every[x].shape, every[x].dtype) != (
                    every[y].shape,
                    every[y].dtype,
                ):
                    continue
                try:
                    found = run({y: x})
                except qnnrt.GraphError as e:
                    if "are one OpenCL buffer" not in str(e):
                        raise
                    continue
                for n, expected in wanted.items():
                    assert found[n].tobytes() == expected.tobytes(), f"{n} with {y} in {x}"
        return wanted


GPU_WAYS: dict[str, Way] = {
    f"gpu_{f.__name__}": f
    for f in (plain, unfused, fp16, hybrid, tf32, lanes, binary, at_once, handles)
}
