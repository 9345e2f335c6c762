# Part of _core.pyx: a backend library; calls on memory, profiles and signals.

cdef dict _libraries = {}  # real path -> Library; never unloaded, see Library


cdef class Library(ContextCalls):
    """A loaded backend library: the QNN function table, one method for each function.

    Handles are ints. A library stays loaded for the life of the process: backends keep threads and
    thread-local destructors of which nobody else knows the end.
    """

    @staticmethod
    def open(path) -> Library:
        """Load a backend library, or return the one already loaded from this path."""
        name = os.fspath(path)
        key = os.path.realpath(name) if os.sep in name else name
        library = _libraries.get(key)
        if library is None:
            library = _libraries.setdefault(key, Library(name))
        return library

    def adopt_graph(self, context, graph, name) -> None:
        """Learn of a graph that was created through the table, not through ``graph_create``."""

    # ---- memory

    def mem_register(self, context, descriptors) -> list:
        """Register memory, all or nothing; see ``MemDescriptor``."""
        cdef Qnn_ContextHandle_t ctx = _pointer(context)
        cdef list items = list(descriptors)
        cdef uint32_t n = <uint32_t>len(items)
        cdef uint32_t i, j
        cdef uint64_t code
        cdef Qnn_MemDescriptor_t* d = NULL
        cdef QnnMemHtp_Descriptor_t* htp = NULL
        cdef QnnLpaiMem_MemInfoCustom_t* lpai = NULL
        cdef QnnGpu_MemInfoCustom_t* gpu = NULL
        cdef Qnn_MemHandle_t* handles = NULL
        self._need(<void*>self._fn.memRegister, "mem_register")
        try:
            d = <Qnn_MemDescriptor_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemDescriptor_t))
            htp = <QnnMemHtp_Descriptor_t*>PyMem_Calloc(n + 1, sizeof(QnnMemHtp_Descriptor_t))
            handles = <Qnn_MemHandle_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemHandle_t))
            lpai = <QnnLpaiMem_MemInfoCustom_t*>PyMem_Calloc(
                n + 1, sizeof(QnnLpaiMem_MemInfoCustom_t))
            gpu = <QnnGpu_MemInfoCustom_t*>PyMem_Calloc(n + 1, sizeof(QnnGpu_MemInfoCustom_t))
            if d == NULL or htp == NULL or lpai == NULL or gpu == NULL or handles == NULL:
                raise MemoryError
            for i in range(n):
                dims, data_type, mem_type, custom, fd, size, offset, address = items[i]
                d[i].memShape.numDim = <uint32_t>len(dims)
                d[i].memShape.dimSize = <uint32_t*>PyMem_Calloc(len(dims) + 1, sizeof(uint32_t))
                if d[i].memShape.dimSize == NULL:
                    raise MemoryError
                for j in range(d[i].memShape.numDim):
                    d[i].memShape.dimSize[j] = dims[j]
                d[i].dataType = <Qnn_DataType_t><uint32_t>data_type
                d[i].memType = <Qnn_MemType_t><uint32_t>mem_type
                if mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM and custom == descriptor.OPENCL_STRUCT:
                    gpu[i].memType = QNN_GPU_MEM_OPENCL
                    gpu[i].buffer = _pointer(address)
                    d[i].customInfo = &gpu[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM and custom == descriptor.LPAI_STRUCT:
                    lpai[i].fd = fd
                    lpai[i].offset = offset
                    d[i].customInfo = &lpai[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM:
                    htp[i].type = <QnnHtpMem_Type_t><uint32_t>custom
                    htp[i].size = size
                    htp[i].sharedBufferConfig.fd = fd
                    htp[i].sharedBufferConfig.offset = offset
                    d[i].customInfo = &htp[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_DMA_BUF:
                    d[i].dmaBufInfo.fd = fd
                    d[i].dmaBufInfo.data = _pointer(address)
                else:
                    d[i].ionInfo.fd = fd
            with nogil:
                code = self._fn.memRegister(ctx, d, n, handles)
            if code != 0 or LogSink.Get().pending():
                self._check(code, "mem", "memRegister",
                            "; ".join(_descriptor_text(item) for item in items))
            return [<uintptr_t>handles[i] for i in range(n)]
        finally:
            if d != NULL:
                for i in range(n):
                    PyMem_Free(d[i].memShape.dimSize)
            PyMem_Free(d)
            PyMem_Free(htp)
            PyMem_Free(lpai)
            PyMem_Free(gpu)
            PyMem_Free(handles)

    def mem_deregister(self, handles) -> None:
        """Deregister handles; the valid ones go even when another one is not."""
        cdef list items = list(handles)
        cdef uint32_t n = <uint32_t>len(items)
        cdef uint32_t i
        cdef Qnn_MemHandle_t* array
        array = <Qnn_MemHandle_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemHandle_t))
        if array == NULL:
            raise MemoryError
        try:
            for i in range(n):
                array[i] = _pointer(items[i])
            self._deregister(array, n)
        finally:
            PyMem_Free(array)

    cdef int _deregister(self, const Qnn_MemHandle_t* handles, uint32_t n) except -1:
        cdef uint64_t code
        self._need(<void*>self._fn.memDeRegister, "mem_deRegister")
        with nogil:
            code = self._fn.memDeRegister(handles, n)
        if code != 0 or LogSink.Get().pending():
            self._check(code, "mem", "memDeRegister", f"{n} handle{'' if n == 1 else 's'}")
        return 0

    # ---- profile, signal

    def profile_create(self, backend, uint32_t level) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_ProfileHandle_t h = NULL
        cdef uint64_t code
        self._need(<void*>self._fn.profileCreate, "profile_create")
        with nogil:
            code = self._fn.profileCreate(b, level, &h)
        self._check(code, "profile", "profileCreate", f"level {level}")
        return <uintptr_t>h

    def profile_set_config(self, profile, config) -> None:
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.profileSetConfig, "profile_setConfig")
        with nogil:
            code = self._fn.profileSetConfig(h, <const QnnProfile_Config_t**>c)
        self._check(code, "profile", "profileSetConfig")

    def profile_get_events(self, profile) -> list:
        """(type, unit, value, identifier, [sub-events], timestamp) tuples.

        The timestamp is None unless the backend has extended events.
        """
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef const QnnProfile_EventId_t* ids = NULL
        cdef uint32_t n = 0
        cdef uint64_t code
        self._need(<void*>self._fn.profileGetEvents, "profile_getEvents")
        self._need(<void*>self._fn.profileGetEventData, "profile_getEventData")
        with nogil:
            code = self._fn.profileGetEvents(h, &ids, &n)
        self._check(code, "profile", "profileGetEvents")
        # Asked first: each refusal would be a line in the log.
        extended = self._fn.profileGetExtendedEventData != NULL and (
            self.property_has_capability(QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT) == 0)
        return self._events(ids, n, 8, extended)

    cdef list _events(self, const QnnProfile_EventId_t* ids, uint32_t n, int depth, bint extended):
        cdef QnnProfile_EventData_t data
        cdef QnnProfile_ExtendedEventData_t more
        cdef const QnnProfile_EventId_t* sub
        cdef uint32_t count, i
        out = []
        for i in range(n):
            memset(&data, 0, sizeof(data))
            self._check(self._fn.profileGetEventData(ids[i], &data), "profile",
                        "profileGetEventData")
            sub = NULL
            count = 0
            if depth and self._fn.profileGetSubEvents != NULL:
                if self._fn.profileGetSubEvents(ids[i], &sub, &count) != 0:
                    count = 0
            when = None
            if extended:
                memset(&more, 0, sizeof(more))
                if self._fn.profileGetExtendedEventData(ids[i], &more) == 0 and more.v1.timestamp:
                    when = more.v1.timestamp
            out.append((data.type, data.unit, data.value, _text(data.identifier),
                        self._events(sub, count, depth - 1, extended), when))
        return out

    def profile_free(self, profile) -> None:
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef uint64_t code
        self._need(<void*>self._fn.profileFree, "profile_free")
        with nogil:
            code = self._fn.profileFree(h)
        self._check(code, "profile", "profileFree")

    def signal_create(self, backend, config=None) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_SignalHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.signalCreate, "signal_create")
        with nogil:
            code = self._fn.signalCreate(b, <const QnnSignal_Config_t**>c, &h)
        self._check(code, "signal", "signalCreate")
        return <uintptr_t>h

    def signal_set_config(self, signal, config) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.signalSetConfig, "signal_setConfig")
        with nogil:
            code = self._fn.signalSetConfig(h, <const QnnSignal_Config_t**>c)
        self._check(code, "signal", "signalSetConfig")

    def signal_trigger(self, signal) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef uint64_t code
        self._need(<void*>self._fn.signalTrigger, "signal_trigger")
        with nogil:
            code = self._fn.signalTrigger(h)
        self._check(code, "signal", "signalTrigger")

    def signal_free(self, signal) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef uint64_t code
        self._need(<void*>self._fn.signalFree, "signal_free")
        with nogil:
            code = self._fn.signalFree(h)
        self._check(code, "signal", "signalFree")

    # ---- qnnrt's own extensions: None from any other library

    def graph_stats(self, graph):
        """The runtime's counters of a graph as a dict, or None."""
        cdef Qnnrt_GraphStats_t s
        cdef Qnn_GraphHandle_t g = _pointer(graph)
        cdef uint64_t code
        if self._stats == NULL:
            return None
        with nogil:  # waits for graphFinalize, which may call Python
            code = self._stats(g, &s)
        self._check(code, "graph", "qnnrt_graph_stats")
        return {
            "executes": s.executes, "copied_bytes": s.copied_bytes,
            "reserved_bytes": s.reserved_bytes, "reserved_at": s.reserved_at,
            "arena_bytes": s.arena_bytes, "arena_lower_bound": s.arena_lower_bound,
            "arena_sum": s.arena_sum, "weight_bytes": s.weight_bytes, "num_steps": s.num_steps,
            "execute_nanoseconds": s.execute_nanoseconds,
            "reserved_at_finalize_bytes": s.reserved_at_finalize_bytes,
            "reserved_at_execute_bytes": s.reserved_at_execute_bytes,
            "copied_in_bytes": s.copied_in_bytes, "copied_out_bytes": s.copied_out_bytes,
        }

    def graph_weights(self, graph):
        """(shared, private) bytes of a graph's weights, or None."""
        cdef Qnnrt_GraphWeights_t w
        cdef Qnn_GraphHandle_t g = _pointer(graph)
        cdef uint64_t code
        if self._weights == NULL:
            return None
        with nogil:  # as graph_stats
            code = self._weights(g, &w)
        self._check(code, "graph", "qnnrt_graph_weights")
        return w.shared_bytes, w.private_bytes

    def graph_copies(self, graph) -> list:
        """The copies that the runtime had to make: (tensor, "in" or "out", bytes, reason)."""
        cdef uint32_t n = 0
        cdef uint32_t i, capacity
        cdef Qnnrt_CopyRecord_t* records
        cdef Qnn_GraphHandle_t g = _pointer(graph)
        cdef uint64_t code
        if self._copies == NULL:
            return []
        with nogil:  # as graph_stats
            code = self._copies(g, NULL, 0, &n)
        self._check(code, "graph", "qnnrt_graph_copies")
        if n == 0:
            return []
        capacity = n
        records = <Qnnrt_CopyRecord_t*>PyMem_Calloc(n, sizeof(Qnnrt_CopyRecord_t))
        if records == NULL:
            raise MemoryError
        try:
            with nogil:
                code = self._copies(g, records, capacity, &n)
            self._check(code, "graph", "qnnrt_graph_copies")
            return [(_text(records[i].tensor),
                     "in" if records[i].direction == QNNRT_COPY_IN else "out",
                     records[i].bytes, _text(records[i].reason))
                    for i in range(min(n, capacity))]
        finally:
            PyMem_Free(records)

    def graph_reset_stats(self, graph) -> None:
        cdef Qnn_GraphHandle_t g = _pointer(graph)
        cdef uint64_t code
        if self._reset == NULL:
            return
        with nogil:
            code = self._reset(g)
        self._check(code, "graph", "qnnrt_graph_reset_stats")

    def graph_describe(self, graph):
        """The finalized steps as JSON, or None."""
        cdef const char* text
        cdef Qnn_GraphHandle_t g = _pointer(graph)
        if self._describe == NULL:
            return None
        with nogil:
            text = self._describe(g)
        return None if text == NULL else _text(text)


cdef str _op_text(Op op):
    return f"{_text(op._c.v1.typeName)} {_text(op._c.v1.name)!r}"


cdef str _descriptor_text(item):
    item = descriptor.MemDescriptor(*item)
    tensor = f"shape {list(item.shape)}, data type {item.data_type:#06x}"
    if item.custom == descriptor.OPENCL_STRUCT:
        return f"cl_mem {item.address:#x}, {tensor}"
    in_file = item.mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM
    return f"fd {item.fd}{f' at {item.offset} of {item.size}' if in_file else ''}, {tensor}"
