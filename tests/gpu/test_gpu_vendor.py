"""OpenCL buffers handed to another maker's libQnnGpu.so: the descriptor, byte for byte."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import qnnrt
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are
_DESCRIPTOR = struct.Struct("=I4xQQII16s")  # Qnn_MemDescriptor_t of 64-bit processes
_CUSTOM, _DMA_BUF = 2, 3


def of(nbytes: int) -> Any:
    context = cl.Context([gpu.devices()[0].raw])
    return cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes)


def registered(fake: Any) -> list[str]:
    return [line for line in fake.journal() if line.startswith(("memReg", "memDe", "descriptor"))]


def check_descriptor(
    line: str, shape: tuple[int, ...], mem_type: int, union: bytes | None = None
) -> None:
    """Each byte of it; of pointers that they are there."""
    word, descriptor, _, dims = line.split()
    assert word == "descriptor"
    raw = bytes.fromhex(descriptor)
    rank, dims_at, config, data_type, kind, tail = _DESCRIPTOR.unpack(raw)
    assert (rank, config, data_type, kind) == (len(shape), 0, 0x0232, mem_type)
    assert dims_at
    assert raw[4:8] == bytes(4)
    assert bytes.fromhex(dims) == struct.pack(f"={len(shape)}I", *shape)
    if union is not None:
        assert tail == union
    else:  # customInfo, a pointer, and nothing behind it
        assert struct.unpack("=QQ", tail)[0]
        assert struct.unpack("=QQ", tail)[1] == 0


def test_the_descriptor_of_an_opencl_buffer(fake: Any) -> None:
    fake.library.fake_gpu()
    buffer = of(64 * 128 * 4)
    with qnnrt.qnn.Backend.open(fake.path) as backend, backend.create_context() as c:
        assert backend.id == 4
        fake.journal()
        with c.register(buffer, (64, 128), np.float32, kind="opencl") as handle:
            assert handle.buffer is buffer
        # {memType OPENCL = 0, four bytes of padding, the cl_mem}
        expected = struct.pack("=IIQ", 0, 0, buffer.int_ptr).hex()
        descriptor, *others = registered(fake)
        check_descriptor(descriptor, (64, 128), _CUSTOM)
        assert others == [
            f"memRegister type=2 rank=2 dim0=64 dtype=0x0232 gpu {expected}",
            "memDeRegister 1",
        ]
        with pytest.raises(ValueError, match="cl_context is the gpu backend's"):
            backend.cl_context  # noqa: B018


def test_buffers_of_the_hosts_go_as_dma_bufs(fake: Any) -> None:
    fake.library.fake_gpu()
    with qnnrt.Session(relu_model(), fake.path) as s:
        first, said, *_ = registered(fake)
        x = s.inputs["x"].buffer
        assert x is not None
        union = struct.pack("=iIQ", x.fd, 0, x.address)  # {fd, four bytes of padding, data}
        check_descriptor(first, (1, 16), _DMA_BUF, union)
        assert said.startswith("memRegister type=3 ")
        assert s.stats.fallback is None


def test_a_session_binds_opencl_buffers(fake: Any) -> None:
    fake.library.fake_gpu()
    x, y = of(64), of(64)
    with qnnrt.Session(relu_model(), fake.path) as s:
        fake.journal()
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        lines = registered(fake)
        for buffer in (x, y):
            descriptor, said, gone = lines[:3]
            lines = lines[3:]
            check_descriptor(descriptor, (1, 16), _CUSTOM)
            assert said.endswith(struct.pack("=IIQ", 0, 0, buffer.int_ptr).hex())
            assert gone == "memDeRegister 1"  # of the session's own memory
        s.run()
        executed = [line for line in fake.journal() if line.startswith("execute")]
        handles = (s.inputs["x"].handle, s.outputs["y"].handle)
        assert len(executed) == len(handles)
        for line in executed:
            assert "mem=1" in line  # QNN_TENSORMEMTYPE_MEMHANDLE


def test_arrays_fed_to_opencl_buffers_go_through_a_queue_of_their_context(fake: Any) -> None:
    fake.library.fake_gpu()
    x, y = of(64), of(64)
    given = np.arange(16, dtype=np.float32).reshape(1, 16)
    with qnnrt.Session(relu_model(), fake.path) as s:
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        s.run({"x": given})
        got = np.empty_like(given)
        cl.enqueue_copy(cl.CommandQueue(x.context), got, x)
        np.testing.assert_array_equal(got, given)
        assert {(c.tensor, c.nbytes) for c in s.stats.copies} == {("x", 64), ("y", 64)}
        handle = s.inputs["x"].handle
        assert isinstance(handle, gpu.OpenCLHandle)
        with handle.map(write=False) as array:
            np.testing.assert_array_equal(array, given)


def test_a_library_that_takes_no_dma_bufs_is_said_to(fake: Any) -> None:
    fake.library.fake_gpu()
    fake.library.fake_register_error(8005)
    with pytest.warns(RuntimeWarning, match=r"takes no memory handles .*bound as RAW"):
        session = qnnrt.Session(relu_model(), fake.path)
    with session as s:
        assert s.io == "raw"
        assert s.stats.fallback is not None
        assert "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE" in s.stats.fallback
        with pytest.raises(qnnrt.MemError) as e:  # said as it is for OpenCL buffers, too
            s.inputs["x"].bind(of(64))
        assert e.value.code == 8005
        assert s.io == "raw"
    with pytest.raises(qnnrt.CopyError, match="takes no memory handles"):
        qnnrt.Session(relu_model(), fake.path, strict=True)


def test_host_memory_is_no_opencl_buffer_there(fake: Any) -> None:
    fake.library.fake_gpu()
    with (
        qnnrt.qnn.Backend.open(fake.path) as backend,
        backend.create_context() as c,
        qnnrt.alloc(4096) as memory,
        pytest.raises(ValueError, match=r"only a pyopencl.Buffer of its context"),
    ):
        c.register(memory, (16,), np.float32, kind="opencl")
