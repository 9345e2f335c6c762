# Part of _core.pyx: memory of one kind for LPAI clients. These are libqnnrt.so's own, so a backend
# handle has to be one of its backends'.


cdef object _allocator_error(uint64_t code, str call, str detail=""):
    return errors.make_error(<uint32_t>(code & 0xFFFF), "mem", call, detail,
                             _text(qnnrt_error_message()))


def lpai_allocator_create(backend, str mem_type not None) -> int:
    """A native allocator; writes to the backend's log."""
    cdef Qnnrt_LpaiAllocatorHandle_t handle = NULL
    cdef Qnn_BackendHandle_t h = _pointer(backend)
    name = _utf8(mem_type, "mem_type")
    cdef const char* text = <char*>(<bytes>name)
    cdef uint64_t code
    with nogil:
        code = qnnrt_lpai_allocator_create(h, text, &handle)
    _drain_log()
    if code:
        raise _allocator_error(code, "Allocator", f"mem_type {mem_type!r}")
    return <uintptr_t>handle


def lpai_allocator_alloc(allocator, nbytes, owner) -> Buffer:
    """A piece of it, which keeps ``owner`` alive."""
    cdef Qnnrt_LpaiAllocatorHandle_t h = _pointer(allocator)
    cdef uint64_t size = nbytes
    cdef uint64_t piece = 0
    cdef uint64_t code
    with nogil:
        code = qnnrt_lpai_allocator_alloc(h, size, &piece)
    _drain_log()
    if code:
        raise _allocator_error(code, "Allocator.alloc", f"{nbytes} bytes")
    cdef Buffer buffer = _adopt(piece)
    buffer._source = owner
    return buffer


def lpai_allocator_info(allocator) -> dict:
    """Qnnrt_LpaiAllocatorInfo_t by the names of its members."""
    cdef Qnnrt_LpaiAllocatorHandle_t h = _pointer(allocator)
    cdef Qnnrt_LpaiAllocatorInfo_t info
    memset(&info, 0, sizeof(info))
    cdef uint64_t code = qnnrt_lpai_allocator_info(h, &info)
    if code:
        raise _allocator_error(code, "Allocator.info")
    return {
        "mem_type": info.mem_type, "fatal": info.fatal, "pieces": info.pieces,
        "max_pieces": info.max_pieces, "used_bytes": info.used_bytes,
        "pool_bytes": info.pool_bytes, "free_bytes": info.free_bytes,
    }


def lpai_allocator_destroy(allocator) -> None:
    """Take it and its pieces back."""
    cdef Qnnrt_LpaiAllocatorHandle_t h = _pointer(allocator)
    cdef uint64_t code
    with nogil:
        code = qnnrt_lpai_allocator_destroy(h)
    if code:
        raise _allocator_error(code, "Allocator.close")
