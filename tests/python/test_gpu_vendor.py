"""OpenCL buffers handed to another maker's libQnnGpu.so: the descriptor, byte for byte."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from opencl import cl, gpu, opencl_is_up  # noqa: F401
from toy import relu_model

import qnnrt

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def test_the_descriptor_of_an_opencl_buffer(fake) -> None:
    fake.library.fake_gpu()
    context = cl.Context([gpu.devices()[0].raw])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64 * 128 * 4)
    with qnnrt.qnn.Backend.open(fake.path) as backend, backend.create_context() as c:
        assert backend.id == 4
        fake.journal()
        with c.register(buffer, (64, 128), np.float32, kind="opencl") as handle:
            assert handle.buffer is buffer
        # {memType OPENCL = 0, four bytes of padding, the cl_mem}
        expected = struct.pack("=IIQ", 0, 0, buffer.int_ptr).hex()
        assert fake.journal() == [
            f"memRegister type=2 rank=2 dim0=64 dtype=0x0232 gpu {expected}",
            "memDeRegister 1",
        ]


def test_a_session_binds_opencl_buffers(fake) -> None:
    fake.library.fake_gpu()
    context = cl.Context([gpu.devices()[0].raw])
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    with qnnrt.Session(relu_model(), fake.path) as s:
        kinds = [line for line in fake.journal() if line.startswith("memRegister")]
        assert [line.split()[1] for line in kinds] == ["type=3", "type=3"]  # host memory: dma-buf
        s.inputs["x"].bind(buffer)
        (line,) = (line for line in fake.journal() if line.startswith("memRegister"))
        assert line.endswith(struct.pack("=IIQ", 0, 0, buffer.int_ptr).hex())


def test_host_memory_is_no_opencl_buffer_there(fake) -> None:
    fake.library.fake_gpu()
    with (
        qnnrt.qnn.Backend.open(fake.path) as backend,
        backend.create_context() as c,
        qnnrt.alloc(4096) as memory,
        pytest.raises(ValueError, match=r"only a pyopencl.Buffer of its context"),
    ):
        c.register(memory, (16,), np.float32, kind="opencl")
