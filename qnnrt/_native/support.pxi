# Part of _core.pyx: fork check, log lines, strings, configs.

cdef int _LEVELS[6]
_LEVELS[:] = [50, 40, 30, 20, 10, 10]  # QNN_LOG_LEVEL_* -> logging: VERBOSE and DEBUG are DEBUG


cdef int _check_process(uint32_t generation, str what) except -1:
    if generation != Generation():
        raise errors.ForkError(
            f"{what} belongs to the parent of this forked process (this is process {os.getpid()}): "
            "backends do not survive a fork. Open it again here, or start children with the "
            "'spawn' or 'forkserver' method"
        )
    return 0


cdef str _text(const char* text):
    return "" if text == NULL else (<bytes>text).decode("utf-8", "replace")


cdef bytes _utf8(object text, str what):
    """For a C string: a NUL inside would silently cut it short."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    cdef bytes data = (<str>text).encode("utf-8")
    if b"\0" in data:
        raise ValueError(f"{what} must not contain NUL characters: {text!r}")
    return data


cdef int _drain_log() except -1:
    cdef LogLine line
    cdef uint64_t dropped
    try:
        while LogSink.Get().Take(&line):
            level = _LEVELS[line.level if line.level <= 5 else 5]
            _logger.log(level, "%s", _text(line.text).rstrip("\n"))
        dropped = LogSink.Get().TakeDropped()
        if dropped:
            _logger.warning("%d log lines of the backend were dropped", dropped)
    except KeyboardInterrupt:
        PyErr_SetInterrupt()  # later: the caller has a handle that somebody must get first
    return 0


def drain_log() -> None:
    """Hand the log lines that backends have written since to the ``qnnrt`` logger."""
    _drain_log()


def fork_generation() -> int:
    """How many forks lie between the process that loaded this module and this one."""
    return Generation()


def live_counts() -> dict:
    """What libqnnrt.so holds now: buffers, maps, fds, mem_handles, contexts, graphs, ..."""
    cdef Qnnrt_LiveCounts_t c
    memset(&c, 0, sizeof(c))
    qnnrt_live_counts(&c)
    return {
        "buffers": c.buffers, "maps": c.maps, "fds": c.fds, "mem_handles": c.mem_handles,
        "contexts": c.contexts, "graphs": c.graphs, "backends": c.backends,
        "profiles": c.profiles, "logs": c.logs, "devices": c.devices, "signals": c.signals,
        "lpai_allocators": c.lpai_allocators,
    }


def htp_domain() -> dict:
    """What the ``htp`` backend of this process has mapped, in bytes.

    Returns:
        ``budget``, ``used`` and ``peak``; and ``holders``, the largest first: (what, who, bytes),
        for example ``("staging of graph", "g", 4096)``. What and who are cut off where they are
        longer than 31 and 95 bytes.
    """
    cdef Qnnrt_DomainInfo_t info
    cdef Qnnrt_DomainHolder_t* held = NULL
    cdef uint32_t n = 0
    cdef uint32_t i, capacity
    if qnnrt_htp_domain_info(&info) != 0 or qnnrt_htp_domain_holders(NULL, 0, &n) != 0:
        raise MemoryError
    capacity = n
    if n != 0:
        held = <Qnnrt_DomainHolder_t*>PyMem_Calloc(n, sizeof(Qnnrt_DomainHolder_t))
        if held == NULL:
            raise MemoryError
    try:
        if n != 0 and qnnrt_htp_domain_holders(held, capacity, &n) != 0:
            raise MemoryError
        return {
            "budget": info.budget_bytes, "used": info.used_bytes, "peak": info.peak_bytes,
            "holders": [
                (held[i].what.decode("utf-8", "replace"), held[i].who.decode("utf-8", "replace"),
                 held[i].bytes)
                for i in range(min(n, capacity))
            ],
        }
    finally:
        PyMem_Free(held)


def weights_info() -> dict:
    """Constants and packed weights that graphs of this process have once: ``entries`` and
    ``bytes`` now; ``found`` and ``found_bytes``: what graphs did not have to make, so far."""
    cdef Qnnrt_WeightsInfo_t info
    if qnnrt_weights_info(&info) != 0:
        raise MemoryError
    return {"entries": info.entries, "bytes": info.bytes, "found": info.found,
            "found_bytes": info.found_bytes}


def htp_set_domain_budget(nbytes: int) -> None:
    """Set what the ``htp`` backend of this process may map, in bytes above 0.

    A budget below what is used takes nothing away; nothing more is mapped until enough is given
    back.
    """
    if not 0 < nbytes < 1 << 64:
        raise ValueError(f"expected a number of bytes above 0, got {nbytes}")
    qnnrt_htp_domain_set_budget(nbytes)


def debug_allocations() -> int:
    """Heap allocations made by libqnnrt.so since it was loaded."""
    return qnnrt_debug_allocations()


def debug_fail_allocation(int64_t n) -> None:
    """Make libqnnrt.so's n-th allocation from now fail; -1 switches that off."""
    qnnrt_debug_fail_allocation(n)


def version() -> str:
    """The version of libqnnrt.so."""
    return _text(qnnrt_version())


def kernel_library() -> str:
    """The kernels in use, for example ``oneDNN 3.2.0 (qnnrt)``, or ``portable (WHY)``."""
    return _text(qnnrt_kernel_library())


def op_coverage_json() -> str:
    """The op table of libqnnrt.so as JSON."""
    return _text(qnnrt_op_coverage_json())


def op_json(str op not None) -> str | None:
    """One op of it; None: there is no such op."""
    cdef bytes name = op.encode(errors="surrogatepass")
    if b"\0" in name:
        return None
    cdef const char* text = qnnrt_op_json(name)
    return None if text == NULL else _text(text)


cdef struct _Option:
    # Every QNN config but the global one: 32-bit option, padding, 8-byte union.
    uint32_t option
    uint32_t padding
    uint64_t value


cdef class Config:
    """A QNN config list: (option, value) pairs.

    A value is an int (any scalar member), a pair of uint32 (a struct of two), a str (a C string), a
    list of str (a NULL-terminated array of C strings), or a bytes-like object an ``LpaiConfig``
    or a ``GpuConfig`` (a pointer to a struct, for CUSTOM options).
    """

    cdef _Option* _items
    cdef const void** _list
    cdef list _keep

    def __cinit__(self, options):
        cdef list pairs = list(options)
        cdef size_t n = len(pairs)
        cdef size_t i
        self._keep = []
        self._items = <_Option*>PyMem_Calloc(n + 1, sizeof(_Option))
        self._list = <const void**>PyMem_Calloc(n + 1, sizeof(void*))
        if self._items == NULL or self._list == NULL:
            raise MemoryError
        for i in range(n):
            self._items[i].option = pairs[i][0]
            self._items[i].value = self._word(pairs[i][1])
            self._list[i] = &self._items[i]

    cdef uint64_t _word(self, value) except? 0xFFFFFFFFFFFFFFFF:
        if isinstance(value, int):
            return <uint64_t><int64_t>value if value < 0 else <uint64_t>value
        if isinstance(value, tuple):
            low, high = value
            return <uint64_t>(<uint32_t>low) | (<uint64_t>(<uint32_t>high) << 32)
        if isinstance(value, str):
            data = _utf8(value, "a config string")
            self._keep.append(data)
            return <uint64_t><uintptr_t><char*>data
        if isinstance(value, LpaiConfig):
            self._keep.append(value)
            return <uint64_t><uintptr_t>&(<LpaiConfig>value)._c
        if isinstance(value, GpuConfig):
            self._keep.append(value)
            return <uint64_t><uintptr_t>&(<GpuConfig>value)._c
        if isinstance(value, list):
            texts = [_utf8(text, "a config string") for text in value]
            array = bytearray(8 * (len(texts) + 1))
            for i, data in enumerate(texts):
                array[8 * i:8 * i + 8] = (<uintptr_t><char*>(<bytes>data)).to_bytes(8, "little")
            self._keep.append(texts)
        else:
            array = bytearray(value)  # a copy: the caller's may move
        self._keep.append(array)
        return <uint64_t><uintptr_t><char*>(<bytearray>array)

    def __dealloc__(self):
        PyMem_Free(self._items)
        PyMem_Free(self._list)


cdef const void** _config(config) except? NULL:
    if config is None:
        return NULL
    return (<Config?>config)._list
