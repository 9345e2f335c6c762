# Part of _core.pyx: heaps, and the buffers that are alive.

# Native handle -> weak reference to its Buffer. Not a WeakValueDictionary, whose methods are
# Python's: an interrupt in one would lose the native buffer that is being adopted.
cdef dict _buffers = {}
# Native handle -> weak references to the Buffers on it, where there are several; each of them has
# an ownership of its own.
cdef dict _several = {}
# Their lock, and that of _received: a critical section, which is none where there is a GIL. Not of
# the dicts themselves, whose own would give this one up.
cdef object _registry = object()


cdef int _pass_on(dict known_by, key, reference, others) except -1:
    """A Buffer goes: what it is known by in there is another one's on its mapping, or nobody's."""
    if key is None:
        return 0
    known = known_by.get(key)
    if known is None or (known is not reference and known() is not None):
        return 0
    if others:
        known_by[key] = others[0]
    else:
        del known_by[key]
    return 0


cdef object _memory_error(uint64_t code, str call, str detail=""):
    return errors.make_error(<uint32_t>(code & 0xFFFF), "mem", call, detail,
                             _text(qnnrt_last_error()))


cdef Buffer _adopt(qnnrt_buffer_t handle):
    """The one Python owner of a native buffer; takes over one native ownership."""
    with cython.critical_section(_registry):
        return _adopt_alone(handle)


cdef Buffer _adopt_alone(qnnrt_buffer_t handle):
    cdef Buffer buffer = None
    try:
        known = _buffers.get(handle)
        if known is not None:
            buffer = known()
    except BaseException:
        qnnrt_buffer_release(handle)
        raise
    if buffer is not None:
        qnnrt_buffer_release(handle)
        return buffer
    return _adopt_new(handle)


cdef Buffer _adopt_new(qnnrt_buffer_t handle):
    """``_adopt`` of one that nobody has yet. In the registry's lock."""
    cdef Buffer buffer
    cdef qnnrt_buffer_info_t info
    cdef uint64_t code
    try:
        code = qnnrt_buffer_info(handle, &info)
        if code:
            raise _memory_error(code, "qnnrt_buffer_info")
        buffer = Buffer.__new__(Buffer)
        heap = "imported" if info.flags & QNNRT_BUFFER_IMPORTED else _text(info.heap)
    except BaseException:
        qnnrt_buffer_release(handle)
        raise
    buffer._handle = handle
    buffer._address = info.address
    buffer._nbytes = <Py_ssize_t>info.nbytes
    buffer._flags = info.flags
    buffer._fd_offset = info.fd_offset
    buffer._fd_size = info.fd_size
    buffer._heap = heap
    buffer._generation = Generation()
    buffer._shape[0] = buffer._nbytes
    buffer._strides[0] = 1
    buffer._reference = PyWeakref_NewRef(buffer, None)
    _buffers[handle] = buffer._reference
    return buffer


def alloc(nbytes, heap=None, alignment=4096) -> Buffer:
    """See ``qnnrt.alloc``."""
    cdef qnnrt_buffer_t handle = 0
    cdef const char* name = NULL
    if not isinstance(nbytes, int) or nbytes <= 0 or nbytes >> 63:
        raise ValueError(f"nbytes must be a positive integer below 2**63, not {nbytes!r}")
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"alignment must be a power of two, not {alignment!r}")
    if heap is not None:
        data = _utf8(heap, "heap")
        name = <char*>(<bytes>data)
    cdef uint64_t size = nbytes
    cdef uint64_t align = alignment
    cdef uint64_t code
    with nogil:
        code = qnnrt_buffer_alloc(name, size, align, &handle)
    if code:
        raise _memory_error(code, "alloc", f"{nbytes} bytes" + (f", heap {heap}" if heap else ""))
    return _adopt(handle)


def lookup(address):
    """The buffer that holds an address of this process, and the offset in it, or None."""
    cdef qnnrt_buffer_t handle = 0
    cdef uint64_t offset = 0
    if qnnrt_buffer_lookup(<void*><uintptr_t>address, &handle, &offset):
        return None
    return _adopt(handle), offset


def heaps() -> list:
    """One dict for each heap, best first: name, reason, available, is_default, coherent, ..."""
    cdef qnnrt_heap_info_t h
    cdef uint32_t i = 0
    out = []
    while qnnrt_heap_info(i, &h) == 0:
        out.append({
            "name": _text(h.name), "reason": _text(h.reason), "available": h.available != 0,
            "is_default": h.is_default != 0, "coherent": h.coherent != 0,
            "live_bytes": h.live_bytes, "peak_bytes": h.peak_bytes,
            "live_allocations": h.live_allocations, "allocations": h.allocations,
            "failures": h.failures,
        })
        i += 1
    return out


def heap_default_reason() -> str:
    """Why the default heap is the default."""
    return _text(qnnrt_heap_default_reason())


def pool_info() -> dict:
    """The pool of freed buffers: limit and bytes, entries, hits, misses, evictions."""
    cdef qnnrt_pool_info_t p
    memset(&p, 0, sizeof(p))
    qnnrt_pool_info(&p)
    return {"limit": p.limit, "bytes": p.bytes, "entries": p.entries, "hits": p.hits,
            "misses": p.misses, "evictions": p.evictions}


def pool_trim(uint64_t keep_bytes=0) -> int:
    """Give pooled memory back until at most ``keep_bytes`` are left; returns the bytes freed."""
    cdef uint64_t freed
    with nogil:
        freed = qnnrt_pool_trim(keep_bytes)
    return freed


def memory_counts() -> dict:
    """Live memory objects of libqnnrt.so: buffers, maps, fds, handles; and misuse counters."""
    cdef qnnrt_memory_counts_t c
    memset(&c, 0, sizeof(c))
    qnnrt_memory_counts(&c)
    return {"buffers": c.buffers, "maps": c.maps, "fds": c.fds, "handles": c.handles,
            "unknown_frees": c.unknown_frees, "late_frees": c.late_frees}


def memory_fail_nth(int64_t nth) -> None:
    """Make the nth buffer allocation from now fail; 0 turns it off. For tests."""
    qnnrt_memory_fail_nth(nth)


def address_of(obj, writable=False) -> tuple:
    """(address, nbytes, readonly) of a C-contiguous object with the buffer protocol."""
    cdef Py_buffer view
    PyObject_GetBuffer(obj, &view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    result = (<uintptr_t>view.buf, view.len, view.readonly != 0)
    PyBuffer_Release(&view)
    return result
