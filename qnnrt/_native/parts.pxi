# Part of _core.pyx: several tensors in one buffer, registered and bound in one call each.


cdef void _prefetch_all(const void* data, size_t nbytes) noexcept:
    cdef size_t at
    for at in range(0, nbytes, 64):
        Prefetch(<const char*>data + at, 0)


cdef void _prefetch_object(o) noexcept:
    """Has the caches fetch what is read of an object first, and what the collector has before."""
    cdef const char* at = <const char*><void*>o
    Prefetch(at - 16, 0)
    Prefetch(at + 48, 0)
    Prefetch(at + 112, 0)


cdef class Parts:
    """Where several tensors lie in a buffer; their C descriptors are made once.

    Attributes:
        tensors: of each its shape, its QNN data type and its offset in bytes.
        nbytes: how large a buffer has to be.
    """

    cdef tuple _tensors  # None: not asked for yet, those of _origin at other offsets
    cdef Parts _origin
    cdef vector[Qnn_MemDescriptor_t] _descriptors
    cdef vector[QnnMemHtp_Descriptor_t] _custom  # theirs; buffer's part of it under the mutex
    cdef mutex _mutex
    cdef vector[uint64_t] _offsets
    cdef vector[uint32_t] _dims
    cdef uint64_t _nbytes

    def __init__(self, tensors, nbytes):
        self._tensors = tuple(tensors)
        self._nbytes = nbytes
        cdef Qnn_MemDescriptor_t d
        cdef QnnMemHtp_Descriptor_t custom
        cdef uint32_t* dims
        cdef size_t i
        for shape, _, _ in self._tensors:
            for n in shape:
                self._dims.push_back(n)
        dims = self._dims.data()
        for shape, data_type, offset in self._tensors:
            memset(&d, 0, sizeof(d))
            d.memShape.numDim = <uint32_t>len(shape)
            d.memShape.dimSize = dims
            d.dataType = <Qnn_DataType_t><uint32_t>data_type
            d.memType = QNN_MEM_TYPE_CUSTOM
            self._descriptors.push_back(d)
            self._offsets.push_back(offset)
            dims += len(shape)
        memset(&custom, 0, sizeof(custom))
        custom.type = QNN_HTP_MEM_SHARED_BUFFER
        self._custom.resize(self._descriptors.size(), custom)
        for i in range(self._descriptors.size()):
            self._descriptors[i].customInfo = &self._custom[i]

    @property
    def tensors(self) -> tuple:
        cdef Py_ssize_t i
        if self._tensors is None:
            self._tensors = tuple([(shape, data_type, self._offsets[i]) for i, (shape, data_type, _)
                                   in enumerate(self._origin.tensors)])
        return self._tensors

    @property
    def nbytes(self) -> int:
        return self._nbytes

    cdef Parts _moved(self, vector[uint64_t]& offsets, uint64_t nbytes):
        """The same tensors at other offsets of a buffer of another size."""
        cdef Parts moved = Parts.__new__(Parts)
        cdef ptrdiff_t dims
        cdef size_t i
        moved._origin, moved._nbytes, moved._offsets = self, nbytes, offsets
        moved._descriptors, moved._dims = self._descriptors, self._dims
        moved._custom.resize(self._custom.size(), self._custom[0])
        for i in range(moved._descriptors.size()):
            dims = self._descriptors[i].memShape.dimSize - self._dims.data()
            moved._descriptors[i].memShape.dimSize = moved._dims.data() + dims
            moved._descriptors[i].customInfo = &moved._custom[i]
        return moved

    cdef void _prefetch(self) noexcept:
        """Has the caches fetch what registering reads, as ``Runner._prefetch``."""
        cdef size_t n = self._offsets.size()
        _prefetch_all(self._descriptors.data(), n * sizeof(Qnn_MemDescriptor_t))
        _prefetch_all(self._custom.data(), n * sizeof(QnnMemHtp_Descriptor_t))
        _prefetch_all(self._offsets.data(), n * sizeof(uint64_t))
        _prefetch_all(self._dims.data(), self._dims.size() * sizeof(uint32_t))

    def __len__(self) -> int:
        return <Py_ssize_t>self._offsets.size()

    def index(self, shape, data_type, offset) -> int:
        """Which one a tensor is. Raises ValueError: none of them."""
        return self.tensors.index((shape, data_type, offset))


@cython.no_gc
cdef class PartHandles(Held):
    """Memory handles of ``Parts`` in a buffer, as HTP's SHARED_BUFFER: registered in one call, and
    given up together. An int for each part.

    Attributes:
        context, buffer, parts: what they stand on; kept alive, the buffer cannot be closed.
    """

    cdef Library _library
    cdef vector[Qnn_MemHandle_t] _handles
    cdef readonly object context
    cdef readonly Buffer buffer
    cdef readonly Parts parts
    cdef bint _ended
    cdef object __weakref__

    def __init__(self, context, Library library not None, Parts parts not None,
                 Buffer buffer not None):
        """Raises ``MemError``: the backend refuses one; none is registered."""
        self._register(context, context._held, library, parts, buffer)

    cdef int _register(self, context, Held owner, Library library, Parts parts,
                       Buffer buffer) except -1:
        if not owner._open or owner._generation != Generation():
            context.handle  # raises
        cdef Qnn_ContextHandle_t c = _pointer(owner.handle)
        cdef size_t n = parts._offsets.size()
        cdef QnnMemHtp_Descriptor_t* custom
        cdef uint64_t code, offset, size
        cdef size_t i
        cdef int fd = -1
        library._need(<void*>library._fn.memRegister, "mem_register")
        buffer._open()
        fd = buffer._borrowed() if library.has_extensions else buffer.fd
        offset, size = buffer._fd_offset, buffer._fd_size
        self._library, self.context, self.buffer, self.parts = library, context, buffer, parts
        self._generation = Generation()
        self._what = "memory handles"
        self._handles.resize(n)
        with nogil:
            parts._mutex.lock()
            custom = parts._custom.data()
            for i in range(n):
                custom[i].size = size
                custom[i].sharedBufferConfig.fd = fd
                custom[i].sharedBufferConfig.offset = offset + parts._offsets[i]
            code = library._fn.memRegister(c, parts._descriptors.data(), <uint32_t>n,
                                           self._handles.data())
            parts._mutex.unlock()
        if code == 0:  # in one step with the call: no interrupt comes between
            self._open = True
            self._list()
        if code != 0 or LogSink.Get().pending():
            library._check(code, "mem", "memRegister",
                           f"{n} tensors in fd {fd} of {size} bytes")
        buffer._note(<uintptr_t><void*>self,
                     ("{} memory handles, the first {:#x}", n, <uintptr_t>self._handles[0]))

    cdef _give_back(self):
        self._library._deregister(self._handles.data(), <uint32_t>self._handles.size())

    cdef _end(self):
        self.buffer._unhold(<uintptr_t><void*>self)
        with cython.critical_section(self):
            self._ended = True
        Held._end(self)

    def released(self) -> Event:
        """Set when they were deregistered; made for who asks."""
        cdef Event event
        with cython.critical_section(self):
            event = self.freed
            if event is None:
                event = Event()
                if self._ended:
                    event.set()
                self.freed = event
        return event

    def __dealloc__(self):
        self._dealloc()

    def __len__(self) -> int:
        return <Py_ssize_t>self._handles.size()

    def __getitem__(self, index) -> int:
        cdef size_t i = index
        if i >= self._handles.size():
            raise IndexError(index)
        return <uintptr_t>self._handles[i]


cdef enum:
    _MOST_PARTS = 16  # of a context, until those that are gone are looked for first


cdef class Tally:
    """A number that Python and C count up."""

    cdef public Py_ssize_t n


cdef class Registrar:
    """What registers parts of buffers in a context, for a session: what that needs of their
    objects is looked up once, for behind a run that reads a model each look-up is cache misses."""

    cdef object _context, _registering
    cdef Held _owner
    cdef Library _library
    cdef dict _groups
    cdef Tally _of_context, _of_session
    cdef Py_ssize_t _most  # groups of the context until those that are gone are looked for

    def __init__(self, context, counters):
        self._context, self._owner, self._library = context, context._held, context._library
        self._registering, self._groups = context._registering, context._parts
        self._of_context, self._of_session = context._registered, counters.registered
        self._most = _MOST_PARTS

    cdef void _prefetch(self) noexcept:
        """Has the caches fetch what ``_handles`` reads, as ``Runner._prefetch``."""
        _prefetch_object(self._registering)
        _prefetch_object(self._groups)
        _prefetch_object(self._owner)
        _prefetch_object(self._library)
        _prefetch_object(self._context)
        _prefetch_object(self._of_context)
        _prefetch_object(self._of_session)

    cdef PartHandles _handles(self, Buffer buffer, Parts parts):
        """The live handles of the context for exactly these parts of a buffer, or new ones, in one
        call, which are counted in both."""
        cdef PartHandles group
        key = <uintptr_t><void*>parts, <uintptr_t>buffer._address
        with self._registering.lock:
            found = self._groups.get(key)
            if found is not None:
                group = found()
                if group is not None and group._open and group.buffer._handle == buffer._handle:
                    return group
            group = PartHandles.__new__(PartHandles)
            group._register(self._context, self._owner, self._library, parts, buffer)
            if len(self._groups) >= self._most:
                for gone in [k for k, r in self._groups.copy().items() if r() is None]:
                    self._groups.pop(gone, None)
                self._most = max(_MOST_PARTS, 2 * len(self._groups))
            self._groups[key] = PyWeakref_NewRef(group, None)
            self._of_context.n += <Py_ssize_t>parts._offsets.size()
            self._of_session.n += <Py_ssize_t>parts._offsets.size()
        return group
