"""What is given as memory and is none that can be registered: error 8005, or a TypeError."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import qnnrt
from qnnrt._native.descriptor import OPENCL_STRUCT, MemDescriptor
from qnnrt.abi import constants as abi
from qnnrt.dtypes import data_type
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are

RW = cl.mem_flags.READ_WRITE
F32 = np.dtype(np.float32)


@pytest.fixture
def session() -> Iterator[qnnrt.Session]:
    with qnnrt.Session(relu_model(), "gpu") as s:
        yield s
    s.backend.close()


@pytest.mark.parametrize("kind", ["ion", "dma_buf", "shared_buffer", "opencl"])
def test_opencl_memory_of_another_kind_is_error_8005(session: qnnrt.Session, kind: str) -> None:
    image_format = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    image = cl.create_image(session.backend.cl_context, RW, image_format, shape=(8, 8))
    wrong = [image] if kind == "opencl" else [image, cl.Buffer(session.backend.cl_context, RW, 64)]
    for register in (session.context.register, session.context.get_or_register):
        for memory in wrong:
            with pytest.raises(
                qnnrt.MemError, match=f"kind '{kind}' takes .*, not a pyopencl"
            ) as e:
                register(memory, (1, 16), F32, kind=kind)
            assert e.value.code == 8005
            assert ("pyopencl.enqueue_copy" in str(e.value)) == (kind == "opencl")
        with pytest.raises(TypeError, match=f"kind '{kind}' needs .*, not a ndarray"):
            register(np.zeros(16, F32), (1, 16), F32, kind=kind)
    with pytest.raises(qnnrt.BindError, match="Image"):
        session.inputs["x"].bind(image)
    session.run()


def test_an_image_that_a_descriptor_names_is_error_8005(session: qnnrt.Session) -> None:
    image_format = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    image = cl.create_image(session.backend.cl_context, RW, image_format, shape=(8, 8))
    item = MemDescriptor(
        shape=(1, 16),
        data_type=data_type(F32),
        mem_type=abi.QNN_MEM_TYPE_CUSTOM,
        custom=OPENCL_STRUCT,
        size=64,
        address=image.int_ptr,
    )
    with pytest.raises(qnnrt.MemError, match="of type IMAGE2D, not a buffer: copy it") as e:
        session.context._library.mem_register(session.context.handle, [item])
    assert e.value.code == 8005


def test_a_buffer_of_opencl_is_no_memory_of_the_cpu_backend() -> None:
    buffer = cl.Buffer(cl.Context([gpu.choose().raw]), RW, 64)
    with qnnrt.Session(relu_model(), "cpu") as s:
        with pytest.raises(qnnrt.MemError, match="not a pyopencl") as e:
            s.context.register(buffer, (1, 16), F32)
        assert e.value.code == 8005
        s.run()


class OnCuda:
    """A tensor of a CUDA device, as DLPack sees it."""

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("a consumer that knows the device asks for no host memory")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_a_tensor_of_a_cuda_device_is_answered_with_what_works(session: qnnrt.Session) -> None:
    words = r"a OnCuda lies on CUDA device 1.*x\.cpu\(\).*inputs\['x'\]\.array\)\.copy_\(x\)"
    with pytest.raises(qnnrt.BindError, match=words):
        session.inputs["x"].bind(OnCuda())
    with pytest.raises(ValueError, match=words):
        session.run({"x": OnCuda()})
    session.inputs["x"].array[...] = 1
    session.run()
