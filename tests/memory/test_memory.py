"""Buffers: made, viewed, imported, found by address, given back."""

from __future__ import annotations

import gc
import mmap
import os

import numpy as np
import pytest

import qnnrt
from qnnrt import _core


def test_alloc_is_aligned_writable_and_zero_when_fresh():
    _core.pool_trim(0)
    for alignment in (1, 64, 4096, 1 << 21):
        with qnnrt.alloc(10_000, alignment=alignment) as b:
            assert b.nbytes == len(b) == 10_000
            assert b.address % alignment == 0
            assert not any(memoryview(b))
            assert not b.readonly
            view = memoryview(b)
            view[:3] = b"abc"
            assert bytes(view[:4]) == b"abc\0"
            view.release()
        _core.pool_trim(0)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "8", None, 1 << 63])
def test_alloc_refuses_sizes_that_are_none(bad):
    with pytest.raises(ValueError, match="nbytes"):
        qnnrt.alloc(bad)


@pytest.mark.parametrize("bad", [0, -4, 3, 48])
def test_alloc_refuses_alignments_that_are_no_power_of_two(bad):
    with pytest.raises(ValueError, match="alignment"):
        qnnrt.alloc(64, alignment=bad)


def test_alloc_names_an_unknown_heap():
    with pytest.raises(qnnrt.MemError, match="attic") as e:
        qnnrt.alloc(64, heap="attic")
    assert e.value.code in (1004, 1010)


def test_running_out_of_memory_is_an_error_and_the_next_allocation_works():
    with pytest.raises(qnnrt.MemError) as e:
        qnnrt.alloc(1 << 60)
    assert e.value.code == 1002
    qnnrt.alloc(64).close()


def test_a_failing_allocation_leaves_nothing_behind():
    _core.memory_fail_nth(1)
    with pytest.raises(qnnrt.MemError) as e:
        qnnrt.alloc(4096)
    _core.memory_fail_nth(0)
    assert e.value.code == 1002
    qnnrt.alloc(4096).close()


def test_heaps_say_which_is_the_default_and_why():
    heaps = qnnrt.heaps()
    assert {h.name for h in heaps} >= {"vendor", "dma_heap", "udmabuf", "memfd"}
    assert sum(h.is_default for h in heaps) == 1
    default = next(h for h in heaps if h.is_default)
    assert default.available
    assert all(h.reason for h in heaps)
    with qnnrt.alloc(64) as b:
        assert b.heap == default.name


def test_arrays_are_views_with_the_shape_type_and_offset_asked_for():
    with qnnrt.alloc(4096) as b:
        a = b.array((3, 5), np.float32, 64)
        a[...] = np.arange(15).reshape(3, 5)
        again = b.array(15, np.float32, 64)
        assert again.tolist() == list(range(15))
        assert a.flags.c_contiguous
        assert a.flags.writeable
        assert a.ctypes.data == b.address + 64
        assert b.array((), np.int16).shape == ()
        assert b.array((0, 7), np.float64).size == 0
        del a, again


@pytest.mark.parametrize(
    ("shape", "dtype", "offset", "match"),
    [
        ((1025,), np.float32, 0, "4100 bytes"),
        ((1024,), np.float32, 4, "4100 bytes"),
        ((4,), np.float32, 2, "multiple of 4"),
        ((4,), np.float32, -4, "bytes"),
        ((-1,), np.float32, 0, "negative"),
        ((1 << 62, 1 << 62), np.uint8, 0, "bytes"),
    ],
)
def test_arrays_outside_the_buffer_are_refused(shape, dtype, offset, match):
    with qnnrt.alloc(4096) as b, pytest.raises(ValueError, match=match):
        b.array(shape, dtype, offset)


def test_alloc_array_and_buffer_of_find_each_other():
    a = qnnrt.alloc_array((7, 9), np.float16)
    b, offset = qnnrt.buffer_of(a)
    assert offset == 0
    assert b.nbytes >= a.nbytes
    inner, offset = qnnrt.buffer_of(a[2:, 3:])
    assert inner is b
    assert offset == 2 * 18 + 3 * 2
    assert qnnrt.buffer_of(memoryview(a))[0] is b
    assert qnnrt.buffer_of(b) == (b, 0)


def test_buffer_of_ordinary_memory_says_what_to_do():
    with pytest.raises(LookupError, match="alloc_array"):
        qnnrt.buffer_of(np.zeros(8))


def test_from_fd_maps_the_same_memory_at_any_offset():
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 10_000)
        with mmap.mmap(fd, 10_000) as m:
            m[5000:5003] = b"xyz"
            b = qnnrt.Buffer.from_fd(fd, 100, 5000)
            assert bytes(memoryview(b)[:3]) == b"xyz"
            memoryview(b)[0] = ord("!")
            assert m[5000] == ord("!")
            assert b.heap == "imported"
            assert b.fd_offset == 5000
            whole = qnnrt.Buffer.from_fd(fd)
            assert whole.nbytes == 10_000
            b.close()
            whole.close()
    finally:
        os.close(fd)


def test_from_fd_keeps_its_own_duplicate():
    fd = os.memfd_create("test")
    os.ftruncate(fd, 4096)
    b = qnnrt.Buffer.from_fd(fd)
    os.close(fd)
    assert os.fstat(b.fd).st_size == 4096
    memoryview(b)[0] = 1
    assert os.pread(b.fd, 1, 0) == b"\1"
    b.close()


def test_from_fd_checks_the_real_size():
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 4096)
        for nbytes, offset in ((4097, 0), (4096, 1), (1, 4096), (1, 1 << 62)):
            with pytest.raises(qnnrt.MemError, match="4096"):
                qnnrt.Buffer.from_fd(fd, nbytes, offset)
        for nbytes, offset in ((0, 0), (-1, 0), (16, -1)):
            with pytest.raises(ValueError, match="positive"):
                qnnrt.Buffer.from_fd(fd, nbytes, offset)
        qnnrt.Buffer.from_fd(fd, 4096).close()
    finally:
        os.close(fd)


def test_from_fd_refuses_what_is_no_memory():
    r, w = os.pipe()
    try:
        for fd in (r, -1, 9999):
            with pytest.raises(qnnrt.MemError) as e:
                qnnrt.Buffer.from_fd(fd, 64)
            assert e.value.code == 8003
    finally:
        os.close(r)
        os.close(w)


def test_a_foreign_fd_that_shrank_is_noticed():
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 8192)
        b = qnnrt.Buffer.from_fd(fd)
        b.check_alive()
        os.ftruncate(fd, 4096)
        with pytest.raises(qnnrt.MemError) as e:
            b.check_alive()
        assert e.value.code == 8003
        os.ftruncate(fd, 8192)
        b.check_alive()
        b.close()
    finally:
        os.close(fd)


def test_own_memory_cannot_be_shrunk_by_a_receiver():
    with qnnrt.alloc(8192, heap="memfd") as b, pytest.raises(PermissionError):
        os.ftruncate(b.fd, 4096)


def test_from_array_shares_existing_memory():
    a = np.arange(64, dtype=np.int32)
    b = qnnrt.Buffer.from_array(a)
    assert b.address == a.ctypes.data
    b.array(64, np.int32)[5] = -1
    assert a[5] == -1
    assert b.heap == "wrapped"
    with pytest.raises(qnnrt.MemError) as e:
        b.fd  # noqa: B018
    assert e.value.code == 1000
    b.close()


def test_from_array_refuses_gaps_and_keeps_read_only_memory_read_only():
    with pytest.raises(ValueError, match="contiguous"):
        qnnrt.Buffer.from_array(np.zeros((8, 8))[:, ::2])
    with pytest.raises(ValueError, match="at least one byte"):
        qnnrt.Buffer.from_array(np.zeros(0))
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    b = qnnrt.Buffer.from_array(frozen)
    assert b.readonly
    assert not b.array(8, np.float64).flags.writeable
    assert np.frombuffer(b, np.float64).sum() == 0  # a reader is fine
    with pytest.raises(BufferError, match="read-only"):
        _core.address_of(b, True)
    gc.collect()
    b.close()


def test_cpu_access_scopes_nest_and_need_an_access():
    with qnnrt.alloc(4096) as b:
        with b.cpu_access() as same, b.cpu_access(write=False):
            assert same is b
        with pytest.raises(ValueError, match="read, write or both"):
            b.cpu_access(read=False, write=False)


def test_freed_memory_is_reused_unless_its_fd_left_the_process():
    _core.pool_trim(0)
    before = _core.pool_info()["hits"]
    qnnrt.alloc(1 << 16).close()
    qnnrt.alloc(1 << 16).close()
    assert _core.pool_info()["hits"] == before + 1
    _core.pool_trim(0)
    b = qnnrt.alloc(1 << 16)
    assert b.fd >= 0
    b.close()
    assert _core.pool_info()["entries"] == 0


def test_buffer_flags_are_honoured():
    with qnnrt.alloc(16) as b:
        view = memoryview(b)
        assert (view.format, view.itemsize, view.ndim, view.shape) == ("B", 1, 1, (16,))
        assert view.strides == (1,)
        assert view.contiguous
        view.release()
