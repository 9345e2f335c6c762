"""A context binary's graph with another number of threads than it was prepared for."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.cli._network import mobilenet_v2
from qnnrt.model import Model, Node, Tensor
from qnnrt.qnn.options import own_graph_config
from support.binaries import crc32c, dense, prepared, save
from support.lpai_models import keyword, quantized_conv
from support.toy import F32, conv_model, tensors

COUNTS = (1, 2, 4, 8)
#: oneDNN's blocks of mobilenet_v2's weights are others for each of the counts.
CASES = [
    *((m, b, "auto") for m in (conv_model, dense, keyword) for b in ("cpu", "htp")),
    (lambda: mobilenet_v2(64, 16), "htp", "auto"),
    (lambda: mobilenet_v2(64, 16), "cpu", "portable"),
    (keyword, "lpai", "auto"),
    (quantized_conv, "lpai", "auto"),
]


def feeds(s: qnnrt.Session) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {n: (40 * random.random(t.shape)).astype(t.dtype) for n, t in s.inputs.items()}


def threads_of(graph: qnn.Graph) -> int:
    count: int = json.loads(graph.describe() or "")["threads"]
    return count


@pytest.mark.parametrize(("model", "backend", "kernels"), CASES)
def test_a_graph_for_other_threads_is_as_one_prepared_for_them(
    tmp_path: Path, model: Callable[[], Model], backend: str, kernels: str
) -> None:
    """The same bytes come out, and the same binary is written, as by a session on the model."""
    expected, binaries = {}, {}
    for n in COUNTS:
        with qnnrt.Session(model(), backend, threads=n, options={"kernels": kernels}) as s:
            expected[n] = {k: v.tobytes() for k, v in s.run(feeds(s)).items()}
            s.save_binary(tmp_path / f"{n}.bin")
            binaries[n] = (tmp_path / f"{n}.bin").read_bytes()
    for before in COUNTS:
        for now in (None, *COUNTS):
            with qnnrt.Session(tmp_path / f"{before}.bin", backend, threads=now) as s:
                count = now or before
                assert threads_of(s.graph) == count
                assert {k: v.tobytes() for k, v in s.run(feeds(s)).items()} == expected[count]
                assert bytes(s.context.binary()) == binaries[count]


def test_weights_that_cannot_be_moved_are_named(tmp_path: Path) -> None:
    path = save(
        mobilenet_v2(64, 16), tmp_path / "x.bin", threads=1, options={"keep_constants": False}
    )
    data = bytearray(path.read_bytes())
    data[:] = data.replace(b"oneDNN type 3 [160,", b"oneDNN type 3 [161,")
    if data == path.read_bytes():
        pytest.skip("prepared without oneDNN: no layout depends on threads")
    metadata = struct.unpack_from("<Q", data, 32)[0]
    struct.pack_into("<I", data, 92, crc32c(bytes(data[256 : 256 + metadata])))
    struct.pack_into("<I", data, 252, crc32c(bytes(data[:252])))
    path.write_bytes(data)
    with pytest.raises(
        qnnrt.ContextError, match=r"1008.*'Conv2d_\d+'.*packed for 1 threads.*161.*leave out"
    ) as e:
        qnnrt.Session(path, "htp", threads=2)
    assert e.value.code == 1008


@pytest.mark.parametrize("backend", ["cpu", "htp", "lpai"])
def test_numbers_of_threads_that_there_are_not_are_refused(tmp_path: Path, backend: str) -> None:
    path = save(keyword(), tmp_path / "x.bin", backend, threads=2)
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"threads must be at least 1, not {count}"):
            qnnrt.Session(path, backend, threads=count)
    with pytest.raises(qnnrt.GraphError, match="from 1 to 1024, got 1025"):
        qnnrt.Session(path, backend, threads=1025)
    with pytest.raises(ValueError, match="threads"):
        qnnrt.Session(path, backend, threads=2**40)
    with qnnrt.Session(path, backend, threads=1024) as s:
        assert threads_of(s.graph) == 1024
        s.run(feeds(s))


def test_threads_are_chosen_before_a_graph_is_ready() -> None:
    data = prepared(mobilenet_v2(64, 16), threads=4)
    with qnn.Backend.open("htp") as backend:

        def option(**given: object) -> list[bytes]:
            return own_graph_config(backend.library, **given)  # type: ignore[arg-type]

        with qnn.Context.from_binary(backend, data) as context:
            graph = context.graph("mobilenet_v2")
            with pytest.raises(qnnrt.GraphError, match="with DEFER_GRAPH_INIT before") as e:
                graph.set_config(custom=option(threads=2))
            assert e.value.code == 6024
            assert threads_of(graph) == 4
        with qnn.Context.from_binary(backend, data, defer_graph_init=True) as context:
            graph = context.graph("mobilenet_v2")
            with pytest.raises(qnnrt.GraphError, match="weights are packed for them") as e:
                graph.set_config(custom=option(kernels="portable"))
            assert e.value.code == 6024
            graph.set_config(custom=option(threads=2))
            context.finalize()
            assert threads_of(graph) == 2


def test_spill_fill_memory_is_asked_for_as_the_threads_need_it() -> None:
    """Kernels have scratch memory for each thread; a buffer of the size told is enough."""
    shape = (64, 64, 64)
    model = Model(
        "products",  # of a batch: every thread packs its own
        tensors(Tensor("a", shape, F32), Tensor("b", shape, F32), Tensor("y", shape, F32)),
        [Node("n", "MatMul", ["a", "b"], ["y"])],
        ["a", "b"],
        ["y"],
    )
    sizes: dict[int, int] = {}
    with qnn.Backend.open("htp") as backend:
        for before in (1, 64):
            data = prepared(model, threads=before, options={"kernels": "portable"})
            for now in (1, 64):
                with qnn.Context.from_binary(backend, data, defer_graph_init=True) as context:
                    graph = context.graph("products")
                    graph.set_config(custom=own_graph_config(backend.library, threads=now))
                    size = context.get_property("spill_fill_buffer_size")
                    assert size
                    assert sizes.setdefault(now, size) == size
                    with qnnrt.alloc(size) as room:
                        context.register(room, kind="spill_fill")
                        context.finalize()
                        assert context.get_property("spill_fill_buffer_size") == size
                        assert threads_of(graph) == now
                        context.close()
    assert sizes[1] < sizes[64]


def test_spill_fill_memory_for_other_threads_is_told_before_weights_are_moved() -> None:
    """To tell it, every kernel is made for the new threads, out of weights packed for others."""
    sizes = {}
    with qnn.Backend.open("htp") as backend:
        for before in (1, 4):
            data = prepared(mobilenet_v2(64, 16), threads=before)
            for now in (1, 4):
                with qnn.Context.from_binary(backend, data, defer_graph_init=True) as context:
                    graph = context.graph("mobilenet_v2")
                    graph.set_config(custom=own_graph_config(backend.library, threads=now))
                    sizes[before, now] = context.get_property("spill_fill_buffer_size")
    assert sizes[1, 4] == sizes[4, 4]
    assert sizes[4, 1] == sizes[1, 1]
