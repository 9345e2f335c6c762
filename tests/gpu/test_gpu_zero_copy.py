"""Zero copies on the gpu backend, counted at the driver and not by qnnrt: no command moves bytes
where memory is in place, and where it is not, exactly the bytes of inputs and outputs."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from qnnrt.gpu import imports
from qnnrt.gpu.device import choose
from support.building import Builder
from support.gpu.driver import Spy, loaded, under_oclgrind
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import F32, add_model, relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are
RUNS = 7


@pytest.fixture(scope="module")
def _spy_library(builder: Builder) -> Any:
    return loaded(builder, "cl_spy")


@pytest.fixture
def spy(_spy_library: Any) -> Iterator[Spy]:
    with Spy(_spy_library).on(choose().raw.platform) as found:
        yield found


def of(session: qnnrt.Session, nbytes: int = 128) -> Any:
    return cl.Buffer(session.backend.cl_context, cl.mem_flags.READ_WRITE, nbytes)


def counts(session: qnnrt.Session) -> dict[str, int]:
    return session.backend.library.gpu_counts(session.graph.handle)


def shares_memory(session: qnnrt.Session) -> None:
    if not session.backend.library.device.shared:
        pytest.skip("the device has memory of its own")


def test_the_clients_own_buffers(spy: Spy) -> None:
    with qnnrt.Session(add_model(), "gpu") as s:
        for t in (*s.inputs.values(), *s.outputs.values()):
            t.bind(of(s))
        s.run()  # caches, and what the driver does once
        spy.reset()
        for _ in range(RUNS):
            s.run()
        assert spy.rows() == {"ndrange": (RUNS, 0)}
        assert s.stats.copied_bytes == 0
        s.backend.close()


def test_memory_that_the_device_shares(spy: Spy) -> None:
    with qnnrt.Session(add_model(), "gpu", strict=True) as s:
        shares_memory(s)
        s.inputs["a"].array[...] = 2
        s.inputs["b"].array[...] = -5
        spy.reset()
        for _ in range(RUNS):
            s.run()
        assert spy.rows() == {"ndrange": (RUNS, 0)}
        assert (s.outputs["w"].array == -3).all()
        for t in (*s.inputs.values(), *s.outputs.values()):
            assert isinstance(t.handle, gpu.OpenCLHandle)
            assert t.handle.via == "CL_MEM_USE_HOST_PTR"
            array, _ = cl.enqueue_map_buffer(
                s.backend.cl_queue, t.handle.cl_buffer, cl.map_flags.READ, 0, t.shape, t.dtype
            )
            assert array.ctypes.data == t.buffer.address
            array.base.release(s.backend.cl_queue)
        s.backend.cl_queue.finish()
        s.backend.close()


def test_raw_memory_moves_its_bytes_and_no_more(spy: Spy) -> None:
    with qnnrt.Session(add_model(), "gpu", io="raw") as s:
        s.run()
        spy.reset()
        s.reset_stats()
        for _ in range(RUNS):
            s.run()
        moved = 2 * 128 * RUNS  # a and b; z and w
        expected = {"write": (2 * RUNS, moved), "read": (2 * RUNS, moved), "ndrange": (RUNS, 0)}
        assert spy.rows() == expected
        assert s.stats.copied_bytes == 2 * moved
        assert (counts(s)["writes"], counts(s)["reads"]) == (2 * RUNS, 2 * RUNS)
        s.backend.close()


def test_arrays_fed_to_tensors_on_the_device(spy: Spy) -> None:
    with qnnrt.Session(relu_model(), "gpu") as s:
        s.inputs["x"].bind(of(s))
        s.outputs["y"].bind(of(s))
        x = np.linspace(-1, 1, 16, dtype=F32).reshape(1, 16)
        s.run()
        s.reset_stats()
        spy.reset()
        np.testing.assert_array_equal(s.run({"x": x})["y"], np.maximum(x, 0))
        assert spy.rows() == {"write": (1, 64), "read": (1, 64), "ndrange": (1, 0)}
        found = {(c.tensor, c.direction, c.nbytes) for c in s.stats.copies}
        assert found == {("x", "in", 64), ("y", "out", 64)}
        s.backend.close()


def test_strict_sessions_feed_nothing_to_the_device() -> None:
    x = np.zeros((1, 16), F32)
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        s.inputs["x"].bind(of(s))
        s.outputs["y"].bind(of(s))
        with pytest.raises(qnnrt.CopyError, match=r"the device's, .*outputs\['y'\]\.handle\.map"):
            s.run({})
        with pytest.raises(qnnrt.CopyError, match=r"write into inputs\['x'\]\.handle\.map"):
            s.run({"x": x})
        s.backend.close()
    with pytest.raises(qnnrt.CopyError, match="the accelerator sees OpenCL buffers alone"):
        qnnrt.Session(relu_model(), "gpu", io="raw", strict=True)


def test_memory_that_changes_owners(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that shares memory, but needs to be told: unmapped for the kernels, mapped for the
    host. No byte moves."""
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(add_model(), "gpu", strict=True) as s:
        shares_memory(s)
        for value in (1, -4):
            s.inputs["a"].array[...] = value
            s.inputs["b"].array[...] = 2
            spy.reset()
            s.run()
            # Four tensors, 128 bytes each.
            assert spy.rows() == {"map": (4, 512), "unmap": (4, 0), "ndrange": (1, 0)}
            assert (s.outputs["w"].array == value + 2).all()
            assert (s.outputs["z"].array == max(value + 2, 0)).all()
        assert (counts(s)["given"], counts(s)["taken_back"]) == (8, 8)
        spy.reset()
        handle = s.outputs["z"].handle
        assert isinstance(handle, gpu.OpenCLHandle)
        with handle.map(write=False) as array:  # it is mapped already
            assert array.ctypes.data == s.outputs["z"].buffer.address
            assert not array.flags.writeable
        s.outputs["w"].bind(s.inputs["a"].handle)  # one memory is given once, for both of them
        assert spy.rows() == {"unmap": (1, 0)}  # what w was bound to is registered no longer
        spy.reset()
        s.run()
        assert spy.rows() == {"map": (3, 384), "unmap": (3, 0), "ndrange": (1, 0)}
        assert s.stats.copied_bytes == 0
        spy.reset()
        s.context.deregister(handle)  # bound no longer, but registered
        assert spy.rows() == {"unmap": (1, 0)}
        s.backend.close()


def test_memory_that_changes_owners_stays_where_it_is_when_an_execution_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s:
        shares_memory(s)
        y = s.context.register(of(s, 64), (4, 4), F32, kind="opencl")
        x = s.inputs["x"].handle
        assert x is not None
        with pytest.raises(qnnrt.GraphError, match="another shape"):
            s.graph.execute([x], [y])
        assert (counts(s)["given"], counts(s)["taken_back"]) == (0, 0), "all is checked first"
        s.inputs["x"].array[...] = 3
        s.run()
        assert (s.outputs["y"].array == 3).all()
        y.close()
        s.backend.close()


def test_graphs_at_once_on_memory_that_changes_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first to use it takes it over, the last one gives it back: never twice in between."""
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s:
        shares_memory(s)
        graph = s.context.create_graph("second")
        x = graph.add_tensor("x", (1, 16), F32, type="app_write", mem_type="memhandle")
        y = graph.add_tensor("y", (1, 16), F32, type="app_read", mem_type="memhandle")
        graph.add_node("relu", "Relu", [x], [y])
        graph.finalize()
        with qnnrt.alloc(4096) as buffer:
            out = s.context.register(buffer, (1, 16), F32, kind="opencl")
            shared = s.inputs["x"].handle
            s.inputs["x"].array[...] = 5
            outputs = {s.graph: s.outputs["y"].handle, graph: out}
            failures: list[Exception] = []

            def execute(graph: qnnrt.qnn.Graph) -> None:
                try:
                    for _ in range(50):
                        graph.execute([shared], [outputs[graph]])
                except Exception as e:
                    failures.append(e)

            threads = [threading.Thread(target=execute, args=[g]) for g in outputs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            each = [s.backend.library.gpu_counts(g.handle) for g in outputs]
            assert sum(c["given"] for c in each) == sum(c["taken_back"] for c in each)
            assert 101 <= sum(c["given"] for c in each) <= 200  # outputs each time
            for handle in outputs.values():
                assert (handle.array == 5).all()
            out.close()
        s.backend.close()


def test_memory_that_is_mapped_to_be_read_is_for_inputs() -> None:
    with qnnrt.Session(relu_model(), "gpu") as s, qnnrt.alloc(4096) as writable:
        shares_memory(s)
        writable.array((1, 16), F32)[...] = 7
        fd = os.open(f"/proc/self/fd/{writable.fd}", os.O_RDONLY)
        with qnnrt.Buffer.from_fd(fd, 4096) as buffer:
            os.close(fd)
            assert buffer.readonly
            handle = s.context.register(buffer, (1, 16), F32, kind="opencl")
            y = s.outputs["y"].handle
            s.graph.execute([handle], [y])
            assert (s.outputs["y"].array == 7).all()
            with pytest.raises(qnnrt.GraphError, match=r"'y': kernels write it, .* READ_ONLY"):
                s.graph.execute([s.inputs["x"].handle], [handle])
            handle.close()
        s.backend.close()


def test_addresses_that_only_a_copy_could_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s, qnnrt.alloc(8192) as buffer:
        shares_memory(s)
        with pytest.raises(qnnrt.MemError, match="an address that is a multiple of 4096") as e:
            s.context.register(buffer, (1, 16), F32, offset=64, kind="opencl")
        assert e.value.code == 8005
        with s.context.register(buffer, (1, 16), F32, offset=4096, kind="opencl") as handle:
            with pytest.raises(qnnrt.MemError, match=r"memory at 0x.* is registered already") as e:
                s.context.register(buffer, 16, F32, offset=4096, kind="opencl")
            assert e.value.code == 8002
            assert handle.via == "CL_MEM_USE_HOST_PTR"
        s.backend.close()


def test_a_buffer_that_is_refused_is_not_left_mapped(
    spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s, qnnrt.alloc(4096) as buffer:
        shares_memory(s)
        with s.context.register(buffer, (1, 16), F32, kind="opencl"):
            spy.reset()
            with pytest.raises(qnnrt.MemError, match="registered already"):
                s.context.register(buffer, 16, F32, kind="opencl")
            assert spy.rows() == {"map": (1, 64), "unmap": (1, 0)}
        s.backend.close()


def test_memory_that_changes_owners_is_waited_for_when_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command that unmaps it must not come after the host has freed it."""
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s, qnnrt.alloc(4096) as buffer:
        shares_memory(s)
        handle = s.context.register(buffer, (1, 16), F32, kind="opencl")
        library: Any = s.backend.library
        waited: list[str] = []
        queue = SimpleNamespace(finish=lambda: waited.append("finish"))
        with monkeypatch.context() as patch:
            patch.setattr(library, "cl_queue", queue)
            handle.close()
        assert waited == ["finish"]
        s.backend.close()


def test_a_driver_that_does_not_give_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The execution fails, the next one finds the memory with the device and goes on."""
    failing: list[int] = []
    size = ctypes.c_size_t
    kind = ctypes.CFUNCTYPE(size, *[size] * 9, ctypes.POINTER(ctypes.c_int32))
    real = kind(imports.address("clEnqueueMapBuffer"))

    def map_buffer(*args: Any) -> int:
        if not failing:
            return int(real(*args))
        args[9][0] = failing[0]
        return 0

    wrapped = kind(map_buffer)
    number = ctypes.cast(wrapped, ctypes.c_void_p).value or 0
    addresses = {"clEnqueueMapBuffer": number}
    address = imports.address
    monkeypatch.setattr(imports, "address", lambda name: addresses.get(name) or address(name))
    monkeypatch.setattr(imports, "coherent", lambda device: False)
    with qnnrt.Session(relu_model(), "gpu") as s:
        shares_memory(s)
        s.inputs["x"].array[...] = 3
        failing.append(-12)
        for _ in range(2):
            with pytest.raises(qnnrt.QnnError, match=r"does not give its memory back .*MAP_FAIL"):
                s.run()
        failing.clear()
        s.run()
        assert (s.outputs["y"].array == 3).all()
        s.close()
        s.backend.close()
    assert _core.gpu_counts() == {"handles": 0, "lists": 0}


def test_a_driver_that_shows_the_memory_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend, qnnrt.alloc(4096) as buffer:
        library: Any = backend.library
        if not library.device.shared:
            pytest.skip("the device has memory of its own")
        made = cl.Buffer(backend.cl_context, cl.mem_flags.READ_WRITE, 64)
        with pytest.raises(imports.ImportRefused, match="shows it to the host at 0x"):
            imports._verified(library, made, imports.HOST_POINTER, buffer.address, 64)
    assert _core.gpu_counts()["handles"] == 0


@pytest.mark.slow
def test_a_device_with_memory_of_its_own(tmp_path: Path, builder: Builder) -> None:
    program = Path(__file__).with_name("gpu_discrete.py")
    assert under_oclgrind(program, tmp_path, str(builder.folder)).split() == ["all", "done"]


@pytest.mark.slow
def test_the_example_on_a_device_with_memory_of_its_own(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "examples" / "gpu_opencl_buffers.py"
    said = under_oclgrind(program, tmp_path).splitlines()
    assert said == ["8192 elements from 0.0 to 1.0", "0 bytes copied by the run"]
