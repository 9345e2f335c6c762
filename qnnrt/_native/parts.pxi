# Part of _core.pyx: several tensors in one buffer, registered and bound in one call each.


cdef class Parts:
    """Where several tensors lie in a buffer; their C descriptors are made once.

    Attributes:
        tensors: of each its shape, its QNN data type and its offset in bytes.
        nbytes: how large a buffer has to be.
    """

    cdef readonly tuple tensors
    cdef readonly object nbytes
    cdef vector[Qnn_MemDescriptor_t] _descriptors  # but for `customInfo`
    cdef vector[uint64_t] _offsets
    cdef vector[uint32_t] _dims

    def __init__(self, tensors, nbytes):
        self.tensors = tuple(tensors)
        self.nbytes = nbytes
        cdef Qnn_MemDescriptor_t d
        cdef uint32_t* dims
        for shape, _, _ in self.tensors:
            for n in shape:
                self._dims.push_back(n)
        dims = self._dims.data()
        for shape, data_type, offset in self.tensors:
            memset(&d, 0, sizeof(d))
            d.memShape.numDim = <uint32_t>len(shape)
            d.memShape.dimSize = dims
            d.dataType = <Qnn_DataType_t><uint32_t>data_type
            d.memType = QNN_MEM_TYPE_CUSTOM
            self._descriptors.push_back(d)
            self._offsets.push_back(offset)
            dims += len(shape)

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
        freed: set when they were deregistered.
    """

    cdef Library _library
    cdef vector[Qnn_MemHandle_t] _handles
    cdef readonly object context
    cdef readonly Buffer buffer
    cdef readonly Parts parts
    cdef object __weakref__

    def __init__(self, context, Library library not None, Parts parts not None,
                 Buffer buffer not None):
        """Raises ``MemError``: the backend refuses one; none is registered."""
        cdef Qnn_ContextHandle_t c = _pointer(context.handle)
        cdef size_t n = parts._offsets.size()
        cdef vector[Qnn_MemDescriptor_t] descriptors = parts._descriptors
        cdef vector[QnnMemHtp_Descriptor_t] custom
        cdef QnnMemHtp_Descriptor_t one
        cdef uint64_t code
        cdef size_t i
        cdef int fd = -1
        library._need(<void*>library._fn.memRegister, "mem_register")
        buffer._open()
        memset(&one, 0, sizeof(one))
        one.type = QNN_HTP_MEM_SHARED_BUFFER
        one.size = buffer._fd_size
        fd = buffer._borrowed() if library.has_extensions else buffer.fd
        one.sharedBufferConfig.fd = fd
        custom.resize(n, one)
        for i in range(n):
            custom[i].sharedBufferConfig.offset = buffer._fd_offset + parts._offsets[i]
            descriptors[i].customInfo = &custom[i]
        self._library, self.context, self.buffer, self.parts = library, context, buffer, parts
        self._generation = Generation()
        self.freed = Event()
        self._what = "memory handles"
        self._handles.resize(n)
        with nogil:
            code = library._fn.memRegister(c, descriptors.data(), <uint32_t>n,
                                           self._handles.data())
        if code == 0:  # in one step with the call: no interrupt comes between
            self._open = True
            self._list()
        if code != 0 or LogSink.Get().pending():
            library._check(code, "mem", "memRegister",
                           f"{n} tensors in fd {one.sharedBufferConfig.fd} of {one.size} bytes")
        buffer._hold(<uintptr_t><void*>self,
                     ("{} memory handles, the first {:#x}", n, <uintptr_t>self._handles[0]))

    cdef _give_back(self):
        self._library._deregister(self._handles.data(), <uint32_t>self._handles.size())

    cdef _end(self):
        self.buffer._unhold(<uintptr_t><void*>self)
        Held._end(self)

    def __dealloc__(self):
        self._dealloc()

    def __len__(self) -> int:
        return <Py_ssize_t>self._handles.size()

    def __getitem__(self, index) -> int:
        cdef size_t i = index
        if i >= self._handles.size():
            raise IndexError(index)
        return <uintptr_t>self._handles[i]


cdef PartHandles _registered_parts(context, Buffer buffer, Parts parts, counters):
    """The live handles of a context for exactly these parts of a buffer, or new ones, in one call,
    which are counted in both. Under the context's lock."""
    cdef PartHandles group
    cdef dict groups = context._parts
    key = <uintptr_t><void*>parts, <uintptr_t>buffer._address
    found = groups.get(key)
    if found is not None:
        group = found()
        if group is not None and group._open and group.buffer._is(buffer):
            return group
    group = PartHandles(context, context._library, parts, buffer)
    context._note_parts(key, group)
    counters.registrations += len(parts)
    return group
