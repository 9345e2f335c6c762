"""The tutorial of OpenCL buffers, step by step as in examples/gpu_opencl_buffers.py, and what each
step says when it comes at the wrong time or with the wrong thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import F32

pytestmark = pytest.mark.foreign  # OpenCL drivers are
SHAPE = (64, 128)
NBYTES = 64 * 128 * 4
VALUES = np.linspace(-1, 1, 64 * 128, dtype=F32).reshape(SHAPE)
RW = cl.mem_flags.READ_WRITE


class Steps:
    """What the program has before it registers anything: a finalized graph y = relu(x)."""

    def __init__(self) -> None:
        self.backend = qnn.Backend.open("gpu")
        self.context = self.backend.create_context()
        self.graph = self.context.create_graph("relu")
        x = self.graph.add_tensor("x", SHAPE, F32, type="app_write", mem_type="memhandle")
        y = self.graph.add_tensor("y", SHAPE, F32, type="app_read", mem_type="memhandle")
        self.graph.add_node("relu", "Relu", [x], [y])
        self.graph.finalize()

    def buffer(self, nbytes: int = NBYTES, flags: int = RW) -> Any:
        return cl.Buffer(self.backend.cl_context, flags, nbytes)

    def register(self, buffer: Any) -> gpu.OpenCLHandle:
        handle = self.context.register(buffer, SHAPE, F32, kind="opencl")
        assert isinstance(handle, gpu.OpenCLHandle)
        return handle


@pytest.fixture(scope="module")
def program() -> Iterator[Steps]:
    found = Steps()
    yield found
    found.backend.close()
    assert _core.gpu_counts()["handles"] == 0


def refused(code: int, call: Any, *args: Any, match: str = "") -> None:
    with pytest.raises(qnnrt.QnnError, match=match) as e:
        call(*args)
    assert e.value.code == code


def test_every_step_in_order(program: Steps) -> None:
    buffers = [program.buffer(), program.buffer()]  # create
    x, y = map(program.register, buffers)  # register
    with x.map(read=False) as array:  # map before execute is fine
        assert (array.shape, array.nbytes) == (SHAPE, NBYTES)
        array[...] = VALUES
    program.graph.execute([x], [y])  # execute
    with y.map(program.backend.cl_queue, write=False) as array:  # map
        np.testing.assert_array_equal(array, np.maximum(VALUES, 0))  # read
    with pytest.raises(qnnrt.ClosedError, match="mapping of this array has ended"):
        array[0]  # read after unmap
    program.context.deregister(x, y)  # deregister
    for buffer in buffers:
        buffer.release()  # free


def test_deregistering_twice_and_executing_after_it(program: Steps) -> None:
    x, y = program.register(program.buffer()), program.register(program.buffer())
    library, stale = program.backend.library, x.handle
    program.context.deregister(x)
    with pytest.raises(qnnrt.ClosedError, match="is closed"):
        program.graph.execute([x], [y])
    tensors = program.graph.inputs[0], program.graph.outputs[0]
    refused(
        6004,
        _core.graph_execute,
        library,
        program.graph.handle,
        [(tensors[0], stale)],
        [(tensors[1], y.handle)],
        match="tensor 'x': its memory handle is not registered on the gpu backend",
    )
    refused(8001, library.mem_deregister, [stale], match="not registered")
    with pytest.raises(qnnrt.ClosedError), x.map():
        pass
    # The valid one of an array goes even when another one is not; then none is.
    refused(8001, program.context.deregister, x, y, match="1 of the handles")
    refused(8001, program.context.deregister, x, y, match="2 of the handles")


def test_freeing_before_deregistering(program: Steps) -> None:
    """The handle has a reference of its own: the buffer lives until it is deregistered."""
    a, b = program.buffer(), program.buffer()
    x, y = program.register(a), program.register(b)
    a.release()
    b.release()
    x.write(VALUES)
    program.graph.execute([x], [y])
    with y.map(write=False) as array:
        np.testing.assert_array_equal(array, np.maximum(VALUES, 0))
    program.context.deregister(x, y)


def test_registering_twice(program: Steps) -> None:
    buffer = program.buffer()
    handle = program.register(buffer)
    number = f"{handle.handle:#x}"
    refused(8002, program.register, buffer, match=rf"as {number} for float32\[64, 128\]")
    with program.backend.create_context() as other:  # each context has its own
        other.register(buffer, SHAPE, F32, kind="opencl")
    program.context.deregister(handle)
    program.context.deregister(program.register(buffer))


def test_buffers_that_do_not_fit(program: Steps) -> None:
    refused(
        8000,
        program.register,
        program.buffer(NBYTES - 1),
        match=rf"needs {NBYTES} bytes, the OpenCL buffer has {NBYTES - 1}",
    )
    device = program.backend.library.device.raw
    foreign = cl.Buffer(cl.Context([device]), RW, NBYTES)
    refused(
        8000,
        program.register,
        foreign,
        match=r"another OpenCL context .*backend\.cl_context, .*options=\{'gpu'",
    )
    with pytest.raises(TypeError, match=r"a pyopencl\.Buffer or a Buffer, not a int"):
        program.register(foreign.int_ptr)
    with pytest.raises(TypeError, match="not a ndarray"):
        program.register(VALUES)  # the tutorial's own slip: host memory for the buffer


@pytest.mark.parametrize(
    ("name", "flag", "words"),
    [("x", "WRITE_ONLY", "kernels read it"), ("y", "READ_ONLY", "kernels write it")],
)
def test_buffers_that_kernels_may_not_use_so(
    program: Steps, name: str, flag: str, words: str
) -> None:
    flags = {"x": RW, "y": RW} | {name: getattr(cl.mem_flags, flag)}
    x, y = (program.register(program.buffer(flags=flags[n])) for n in "xy")
    match = f"tensor '{name}': {words}, and its OpenCL buffer is {flag}"
    refused(6004, program.graph.execute, [x], [y], match=match)
    program.context.deregister(x, y)


def test_a_map_that_is_still_there(program: Steps) -> None:
    x, y = program.register(program.buffer()), program.register(program.buffer())
    with y.map():
        refused(1005, program.graph.execute, [x], [y], match="tensor 'y': .* is mapped")
        refused(1005, program.context.deregister, y, match="leave the 'with handle.map")
    program.graph.execute([x], [y])
    program.context.deregister(x, y)


def test_raw_memory_where_a_handle_was_declared(program: Steps) -> None:
    """Staged, and counted: the tensors were prepared for handles, and it works all the same."""
    library: Any = program.backend.library
    library.graph_reset_stats(program.graph.handle)
    y = np.empty(SHAPE, F32)
    program.graph.execute([VALUES], [y])
    np.testing.assert_array_equal(y, np.maximum(VALUES, 0))
    assert library.graph_stats(program.graph.handle)["copied_bytes"] == 2 * NBYTES
