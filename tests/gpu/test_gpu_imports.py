"""Memory that has an fd, taken by the device's extensions for it: every number that the driver is
given, on a driver that is made to have them (tests/backends/fake_icd.c)."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import imports
from qnnrt.gpu.device import choose
from support.building import Builder
from support.gpu.driver import loaded
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import F32, relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are
KHR = "cl_khr_external_memory cl_khr_external_memory_dma_buf"
ION = "cl_qcom_ext_host_ptr cl_qcom_ion_host_ptr"
DMA_BUF = "cl_qcom_ext_host_ptr cl_qcom_dmabuf_host_ptr"
X = np.linspace(-1, 1, 16, dtype=F32).reshape(1, 16)


class FakeDriver:
    """The platform, with extensions."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.platform = choose().raw.platform.int_ptr
        library.fake_install.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_int,
        ]
        library.fake_remove.argtypes = [ctypes.c_void_p]
        library.fake_journal.restype = ctypes.c_char_p
        self.installed = False

    def offers(self, extensions: str, padding: int = 0, refuse: int = 0) -> None:
        self.library.fake_install(self.platform, extensions.encode(), padding, refuse)
        self.installed = True

    def journal(self) -> list[str]:
        text = self.library.fake_journal().decode().splitlines()
        self.library.fake_forget()
        return text


@pytest.fixture(scope="module")
def _fake_library(builder: Builder) -> Any:
    return loaded(builder, "fake_icd")


@pytest.fixture
def driver(_fake_library: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    # This machine may have no dma-bufs: a memfd is as good for a driver that maps it.
    monkeypatch.setattr(imports, "is_dma_buf", lambda buffer: True)
    found = FakeDriver(_fake_library)
    if not choose().shared:
        pytest.skip("the fake's buffers are host memory, which the device does not share")
    yield found
    if found.installed:
        found.library.fake_remove(found.platform)


def run_in(session: qnnrt.Session) -> None:
    session.inputs["x"].array[...] = X
    session.run()
    np.testing.assert_array_equal(session.outputs["y"].array, np.maximum(X, 0))


def test_khr_dma_buf(driver: FakeDriver) -> None:
    driver.offers(f"{KHR} {ION}")  # the standard one is asked first
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        made = driver.journal()
        for t, line in zip((s.inputs["x"], s.outputs["y"]), made, strict=True):
            # READ_WRITE; {CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, fd, 0}; the whole fd
            assert line == (
                f"create flags=0x1 size={t.buffer.fd_size} pointer=0 "
                f"properties=0x2067,{t.buffer.fd},0"
            )
            assert isinstance(t.handle, gpu.OpenCLHandle)
            assert t.handle.via == "cl_khr_external_memory_dma_buf"
        run_in(s)
        assert driver.journal() == ["acquire 1", "acquire 1", "release 1", "release 1"]
        assert s.stats.copied_bytes == 0
        with s.outputs["y"].handle.map(write=False) as array:  # the host's mapping of the fd
            assert array.ctypes.data == s.outputs["y"].buffer.address
        s.backend.close()
    assert driver.journal() == []


@pytest.mark.parametrize(
    ("extensions", "allocation", "via"),
    [
        (ION, 0x40A8, "cl_qcom_ion_host_ptr"),
        (DMA_BUF, 0x411D, "cl_qcom_dmabuf_host_ptr"),
        (f"{ION} cl_qcom_dmabuf_host_ptr", 0x411D, "cl_qcom_dmabuf_host_ptr"),
    ],
)
@pytest.mark.parametrize("io_coherent", [False, True])
def test_qcom_host_pointers(
    driver: FakeDriver, extensions: str, allocation: int, via: str, io_coherent: bool
) -> None:
    driver.offers(extensions + " cl_qcom_ext_host_ptr_iocoherent" * io_coherent, padding=64)
    policy = 0x40A9 if io_coherent else 0x40A5
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        made = driver.journal()
        for t, line in zip((s.inputs["x"], s.outputs["y"]), made, strict=True):
            # {allocation_type, host_cache_policy, fd, four bytes of padding, address}
            expected = struct.pack("=IIiIQ", allocation, policy, t.buffer.fd, 0, t.buffer.address)
            # READ_WRITE | USE_HOST_PTR | EXT_HOST_PTR
            assert line == f"create flags=0x20000009 size=64 struct={expected.hex()}"
            assert isinstance(t.handle, gpu.OpenCLHandle)
            assert t.handle.via == via
        run_in(s)
        assert s.stats.copied_bytes == 0
        s.backend.close()


def test_a_tensor_inside_a_buffer_is_a_part_of_the_import(driver: FakeDriver) -> None:
    driver.offers(KHR)
    with (
        qnnrt.qnn.Backend.open("gpu") as backend,
        backend.create_context() as context,
        qnnrt.alloc(8192) as buffer,
    ):
        with context.register(buffer, (16,), F32, offset=4096, kind="opencl") as handle:
            assert driver.journal()[0].startswith(f"create flags=0x1 size={buffer.fd_size} ")
            handle.array[...] = X[0]
            assert handle.cl_buffer.size == 64
            got = np.empty(16, F32)
            cl.enqueue_copy(backend.cl_queue, got, handle.cl_buffer)
            np.testing.assert_array_equal(got, X[0])
        alignment: Any = backend.library.device.alignment
        with context.register(buffer, (16,), F32, offset=alignment // 2, kind="opencl") as handle:
            assert handle.via == "CL_MEM_USE_HOST_PTR"  # where an import cannot begin


def test_what_is_acquired_is_the_import_itself(driver: FakeDriver) -> None:
    driver.offers(KHR)
    with qnnrt.Session(relu_model(), "gpu") as s, qnnrt.alloc(8192) as buffer:
        s.inputs["x"].bind(buffer.array((1, 16), F32, 4096))
        driver.journal()
        run_in(s)
        assert driver.journal() == ["acquire 1", "acquire 1", "release 1", "release 1"]
        s.backend.close()


@pytest.mark.parametrize("extensions", [KHR, ION])
def test_what_a_driver_refuses_goes_the_next_way(driver: FakeDriver, extensions: str) -> None:
    driver.offers(extensions, refuse=-37)
    with qnnrt.Session(relu_model(), "gpu", strict=True) as s:
        assert len(driver.journal()) == 2
        assert isinstance(s.inputs["x"].handle, gpu.OpenCLHandle)
        assert s.inputs["x"].handle.via == "CL_MEM_USE_HOST_PTR"
        run_in(s)
        s.backend.close()


def test_memory_without_room_for_the_devices_padding(driver: FakeDriver) -> None:
    driver.offers(ION, padding=1 << 20)
    with qnnrt.Session(relu_model(), "gpu") as s:
        assert driver.journal() == []
        assert isinstance(s.inputs["x"].handle, gpu.OpenCLHandle)
        assert s.inputs["x"].handle.via == "CL_MEM_USE_HOST_PTR"
        s.backend.close()


def test_what_is_said_when_no_way_is_left(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.offers(f"{KHR} {ION}", refuse=-37)
    with qnnrt.qnn.Backend.open("gpu") as backend, backend.create_context() as context:
        library: Any = backend.library
        monkeypatch.setattr(imports, "coherent", lambda device: False)
        message = (
            r"in place \(cl_khr_external_memory_dma_buf: OpenCL error -37; cl_qcom_ion_host_ptr: "
            r"OpenCL error -37; CL_MEM_USE_HOST_PTR: needs an address"
        )
        with (
            qnnrt.alloc(8192) as buffer,
            pytest.raises(qnnrt.MemError, match=message) as e,
        ):
            context.register(buffer, (16,), F32, offset=library.device.alignment, kind="opencl")
        assert e.value.code == 8005


def test_memory_that_is_no_dma_buf(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "is_dma_buf", lambda buffer: False)
    driver.offers(f"{KHR} {ION}")
    with qnnrt.Session(relu_model(), "gpu") as s:
        assert driver.journal() == []
        assert isinstance(s.inputs["x"].handle, gpu.OpenCLHandle)
        assert s.inputs["x"].handle.via == "CL_MEM_USE_HOST_PTR"
        s.backend.close()
