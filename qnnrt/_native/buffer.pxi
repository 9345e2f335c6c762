# Part of _core.pyx: buffers.

cdef object _numpy = None


cdef object _numpy_module():
    """numpy, which is imported with the first array that is asked for."""
    global _numpy
    if _numpy is None:
        import numpy
        _numpy = numpy
    return _numpy


cdef object _view_of(array):
    """A memoryview of the array's own memory."""
    try:
        found = memoryview(array)
    except TypeError:
        if not hasattr(array, "__dlpack__"):
            raise TypeError(
                f"expected an array, other memory with the buffer protocol, or a tensor with "
                f"DLPack, not {type(array).__name__}: give numpy.asarray of it"
            ) from None
        found = _view_of_tensor(array)
    if "O" in re.sub(":[^:]*:", "", found.format or ""):
        raise ValueError("the memory holds Python objects: give an array of numbers")
    return found


cdef object _view_of_tensor(tensor):
    numpy = _numpy_module()
    try:
        try:
            return memoryview(numpy.from_dlpack(tensor))
        except (BufferError, RuntimeError) as error:
            try:
                return memoryview(numpy.from_dlpack(Bits(tensor)))
            except (BufferError, RuntimeError):
                raise error from None
    except (BufferError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"cannot use the memory of a {type(tensor).__name__}: {error}"
        ) from error


cdef class Buffer:
    """Memory that an accelerator, another process and numpy can share.

    Made by ``qnnrt.alloc``, ``Buffer.from_fd``, ``Buffer.from_array`` or ``qnnrt.buffer_of``. It
    supports the buffer protocol and DLPack as a flat array of bytes. Views keep it alive; ``close``
    refuses while there are any. Pickling sends the fd, not the bytes: any number of processes of
    the same user receive the same memory, while this one is alive and has the Buffer (the first of
    them also later). ``lease`` gives an end of its own to that, or hands the memory out read-only.
    """

    cdef qnnrt_buffer_t _handle
    cdef void* _address
    cdef Py_ssize_t _nbytes
    cdef uint64_t _fd_offset
    cdef uint64_t _fd_size
    cdef uint32_t _flags
    cdef uint32_t _generation
    cdef Py_ssize_t _exports
    cdef Py_ssize_t _shape[1]
    cdef Py_ssize_t _strides[1]
    cdef str _heap
    cdef dict _holders
    cdef object _source
    cdef object _reference  # in _buffers
    cdef object _lease  # of messages about it
    cdef object _peer  # the connection that it came over
    cdef bytes _key  # in _received
    cdef bytes _memory  # in _mapped
    cdef object __weakref__

    def __init__(self, *args, **kwargs):
        raise TypeError("make buffers with qnnrt.alloc(), Buffer.from_fd() or Buffer.from_array()")

    def __dealloc__(self):
        if self._handle:
            with cython.critical_section(_registry):
                known = _buffers.get(self._handle)
                if known is not None and (known is self._reference or known() is None):
                    del _buffers[self._handle]
                self._leave(self._handle)
            qnnrt_buffer_release(self._handle)

    cdef void _leave(self, qnnrt_buffer_t handle):
        """It is no longer one of several on its mapping, nor what a message is answered with. In
        the registry's lock."""
        others = _several.get(handle)
        if others is not None:
            others = [r for r in others if r is not self._reference and r() is not None]
            if len(others) > 1:
                _several[handle] = others
            else:
                del _several[handle]
        _pass_on(_received, self._key, self._reference, others)
        _pass_on(_mapped, self._memory, self._reference, others)

    @staticmethod
    def from_fd(int fd, nbytes=None, offset=0) -> Buffer:
        """Map somebody else's dma-buf, memfd or file.

        The fd is duplicated: the caller keeps and closes his own.

        Args:
            fd: an open file descriptor.
            nbytes: size in bytes; None is up to the end of the file.
            offset: where the buffer begins in the file, in bytes; need not be page-aligned.

        Raises:
            ValueError: a negative size or offset.
            MemError: 1004 the range lies beyond the file's real size; 8003 the fd is not open, or
                cannot be mapped.
        """
        cdef qnnrt_buffer_t handle = 0
        if offset < 0 or (nbytes is not None and nbytes <= 0):
            raise ValueError(f"nbytes must be positive and offset not negative, not {nbytes} and "
                             f"{offset}")
        cdef uint64_t size = 0 if nbytes is None else nbytes
        cdef uint64_t start = offset
        cdef uint64_t code
        with nogil:
            code = qnnrt_buffer_import(fd, size, start, &handle)
        if code:
            raise _memory_error(code, "Buffer.from_fd", f"fd {fd}, {nbytes} bytes at {offset}")
        return _adopt(handle)

    @staticmethod
    def from_array(array) -> Buffer:
        """Treat an existing contiguous array's memory as a buffer, without a copy.

        Such a buffer has no fd: a backend that runs in this process reaches it, an accelerator or
        another process does not. The array is kept alive.

        Args:
            array: what has the buffer protocol, or a tensor of the CPU that has DLPack.

        Raises:
            ValueError: the array is not contiguous or empty, holds Python objects, or lies where
                its memory cannot be reached.
            TypeError: it is no memory.
        """
        cdef Py_buffer view
        cdef qnnrt_buffer_t handle = 0
        cdef uint64_t code
        source = _view_of(array)
        if not source.c_contiguous or source.nbytes == 0:
            raise ValueError(
                f"the memory must be one C-contiguous block with at least one byte; shape "
                f"{source.shape} with strides {source.strides} is not: use numpy.ascontiguousarray"
            )
        PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
        try:
            code = qnnrt_buffer_wrap(view.buf, <uint64_t>view.len, view.readonly, &handle)
        finally:
            PyBuffer_Release(&view)
        if code:
            raise _memory_error(code, "Buffer.from_array", f"{source.nbytes} bytes")
        cdef Buffer buffer = _adopt(handle)
        buffer._source = source
        return buffer

    cdef int _open(self) except -1:
        if not self._handle:
            raise errors.ClosedError(f"this buffer of {self._nbytes} bytes is closed")
        return 0

    @property
    def nbytes(self) -> int:
        """Size in bytes, as asked for."""
        return self._nbytes

    def __len__(self) -> int:
        return self._nbytes

    @property
    def address(self) -> int:
        """Where it is mapped in this process."""
        self._open()
        return <uintptr_t>self._address

    @property
    def fd(self) -> int:
        """The file descriptor behind it, for use anywhere; it stays the buffer's, do not close it.

        Once asked for, the memory is never reused for another buffer.

        Raises:
            MemError: 1000, the memory has no fd (``from_array``).
        """
        self._open()
        cdef int fd = -1
        cdef uint64_t code = qnnrt_buffer_fd(self._handle, &fd)
        if code:
            raise _memory_error(code, "Buffer.fd")
        return fd

    @property
    def fd_offset(self) -> int:
        """Where the buffer begins in the file behind ``fd``, in bytes."""
        return self._fd_offset

    @property
    def fd_size(self) -> int:
        """Size of the whole file behind ``fd``: what a SHARED_BUFFER descriptor states."""
        return self._fd_size

    @property
    def heap(self) -> str:
        """The heap it came from, or "imported" or "wrapped"."""
        return self._heap

    @property
    def closed(self):
        """Whether ``close`` was called."""
        return self._handle == 0

    @property
    def readonly(self):
        """Whether it is mapped without write permission."""
        return (self._flags & QNNRT_BUFFER_READ_ONLY) != 0

    @property
    def coherent(self):
        """Whether CPU access needs no ``cpu_access`` scopes."""
        return (self._flags & QNNRT_BUFFER_COHERENT) != 0

    @property
    def is_dma_buf(self):
        """Whether the fd is a dma-buf."""
        return (self._flags & QNNRT_BUFFER_DMA_BUF) != 0

    def holds(self) -> dict:
        """Who holds it: owners, exports (views), registrations and executions in flight."""
        self._open()
        cdef qnnrt_buffer_info_t info
        cdef uint64_t code = qnnrt_buffer_info(self._handle, &info)
        if code:
            raise _memory_error(code, "Buffer.holds")
        return {"owners": info.owners, "exports": info.exports,
                "registrations": info.registrations, "executions": info.executions}

    def array(self, shape, dtype, offset=0):
        """A numpy array on this memory; it keeps the buffer open.

        Args:
            shape: an int or a tuple of ints.
            dtype: anything ``numpy.dtype`` takes.
            offset: where the array begins, in bytes; a multiple of the element's alignment.

        Raises:
            ValueError: the array would reach outside the buffer, or be misaligned.
        """
        self._open()
        numpy = _numpy_module()
        dtype = numpy.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for n in shape:
            if n < 0:
                raise ValueError(f"negative dimension in {shape}")
            count *= int(n)
        if offset < 0 or offset + count * dtype.itemsize > self._nbytes:
            raise ValueError(
                f"{dtype}{list(shape)} at offset {offset} needs {offset + count * dtype.itemsize} "
                f"bytes, the buffer has {self._nbytes}"
            )
        if (<uintptr_t>self._address + <uintptr_t>offset) % dtype.alignment:
            raise ValueError(f"offset {offset} is not a multiple of {dtype.alignment}, the "
                             f"alignment of {dtype}")
        # numpy.ndarray(buffer=...) would drop the export at once; frombuffer keeps it as the base.
        flat = numpy.frombuffer(self, dtype, count, offset)
        return flat if len(shape) == 1 else flat.reshape(shape)

    def cpu_access(self, read=True, write=True) -> CpuAccess:
        """A context manager around CPU access to memory that a device shares without coherence.

        The dma-buf sync calls where the heap needs them, nothing elsewhere.
        """
        self._open()
        if not (read or write):
            raise ValueError("cpu_access needs read, write or both")
        return CpuAccess(self, (QNNRT_ACCESS_READ if read else 0) |
                         (QNNRT_ACCESS_WRITE if write else 0))

    def lease(self, *, readonly=False) -> Lease:
        """Keep the memory for other processes until the lease is closed.

        Args:
            readonly: nobody can map the memory for writing from now on; this Buffer and its views
                stay writable. For memfd memory alone, which is sealed for good
                (F_SEAL_FUTURE_WRITE).

        Raises:
            MemError: 1000 the memory has no fd, or none that can be sealed, such as a dma-buf's;
                1005 a receiver may have it writable already.
        """
        return _new_lease(self, readonly)

    def check_alive(self) -> None:
        """Check that a foreign file still covers the buffer: touching it would be SIGBUS if not.

        Raises:
            MemError: 8003, the file has become shorter.
        """
        self._alive()

    cdef int _alive(self) except -1:
        self._open()
        if not self._flags & QNNRT_BUFFER_CAN_SHRINK:  # there is nothing to ask the kernel
            return 0
        cdef uint64_t code = qnnrt_buffer_check_alive(self._handle)
        if code:
            raise _memory_error(code, "Buffer.check_alive")
        return 0

    def _hold(self, key, holder) -> None:
        """Note a holder, for the message of ``close``: a format string and its arguments."""
        self._note(key, holder)

    cdef int _note(self, key, holder) except -1:
        with cython.critical_section(self):
            if self._holders is None:
                self._holders = {}
        self._holders[key] = holder
        return 0

    def _unhold(self, key) -> None:
        if self._holders is not None:
            self._holders.pop(key, None)

    def _is(self, Buffer other not None) -> bool:
        """Whether both are on one mapping, as when the same memory was received twice."""
        return self._handle == other._handle and self._handle != 0

    def _borrow_fd(self) -> int:
        """The fd for registering with libqnnrt.so, which does not count as handing it out."""
        return self._borrowed()

    cdef int _borrowed(self) except -1:
        self._open()
        cdef int fd = -1
        cdef uint64_t code = qnnrt_buffer_borrow_fd(self._handle, &fd)
        if code:
            raise _memory_error(code, "Buffer.fd")
        return fd

    def close(self) -> None:
        """Give the memory back now. Closing twice is harmless.

        Where the same memory was received more than once, it goes with the last of its Buffers.

        Raises:
            BufferInUseError: a view, a registration or an execution still uses it.
            ForkError: the buffer was made before a fork, by the parent.
        """
        with cython.critical_section(_registry):
            self._close()

    cdef int _close(self) except -1:
        if not self._handle:
            return 0
        _check_process(self._generation, "this buffer")
        holders = sorted(h[0].format(*h[1:]) for h in (self._holders or {}).copy().values())
        cdef Py_ssize_t others = self._exports
        if others:
            holders.append(f"{others} view{'' if others == 1 else 's'} (arrays, memoryviews or "
                           "tensors made from it)")
        if holders:
            raise errors.BufferInUseError(
                f"the buffer of {self._nbytes} bytes is in use by {'; '.join(holders)}: let go of "
                "these first", holders)
        cdef qnnrt_buffer_t handle = self._handle
        cdef bint shared = handle in _several
        cdef uint64_t code
        # Unmapping may take its time. Meanwhile it is closed for other threads, but for one that
        # comes back.
        self._handle = 0
        with nogil:
            code = qnnrt_buffer_release(handle) if shared else qnnrt_buffer_close(handle)
        if code:
            self._handle = handle
            raise errors.BufferInUseError(_text(qnnrt_last_error()))
        if _buffers.get(handle) is self._reference:
            del _buffers[handle]
        self._leave(handle)
        self._source = self._lease = self._peer = None
        return 0

    def __enter__(self) -> Buffer:
        self._open()
        return self

    def __exit__(self, *exc) -> None:
        try:
            self.close()
        except errors.BufferInUseError:
            # An exception on its way has views in its traceback: it must not be hidden by them.
            if exc[0] is None:
                raise

    def __repr__(self) -> str:
        if not self._handle:
            return f"<qnnrt.Buffer {self._nbytes} bytes, closed>"
        where = hex(<uintptr_t>self._address)
        return f"<qnnrt.Buffer {self._nbytes} bytes, {self._heap}, at {where}>"

    def __getbuffer__(self, Py_buffer* view, int flags):
        self._open()
        readonly = (self._flags & QNNRT_BUFFER_READ_ONLY) != 0
        if readonly and flags & PyBUF_WRITABLE:
            raise BufferError("the buffer is mapped read-only")
        # The view ends by the handle that it has begun with: while another thread tries to close
        # the buffer, the buffer has none.
        cdef qnnrt_buffer_t handle = self._handle
        cdef uint64_t code = qnnrt_buffer_export_begin(handle)
        # A child reads and writes its parent's buffers, but changes none of their counts.
        if code and self._generation == Generation():
            raise BufferError(_text(qnnrt_last_error()))
        view.internal = <void*><uintptr_t>(0 if code else handle)
        view.buf = self._address
        view.obj = self
        view.len = self._nbytes
        view.itemsize = 1
        view.readonly = readonly
        view.ndim = 1
        view.format = NULL
        if flags & PyBUF_FORMAT:
            view.format = b"B"
        view.shape = NULL
        if flags & PyBUF_ND:
            view.shape = self._shape
        view.strides = NULL
        if (flags & PyBUF_STRIDES) == PyBUF_STRIDES:
            view.strides = self._strides
        view.suboffsets = NULL
        with cython.critical_section(self):
            self._exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        with cython.critical_section(self):
            self._exports -= 1
        if view.internal != NULL:
            qnnrt_buffer_export_end(<qnnrt_buffer_t><uintptr_t>view.internal)

    def __dlpack_device__(self) -> tuple:
        """(1, 0): mapped into this process, it is CPU memory whatever is behind it."""
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule of the bytes: versioned when the consumer knows DLPack 1."""
        self._open()
        if stream is not None:
            raise BufferError("CPU memory has no stream: stream must be None")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"the memory is on device (1, 0), not {tuple(dl_device)}")
        if copy:
            raise BufferError("the buffer hands out its own memory: copy on the consumer's side")
        versioned = max_version is not None and tuple(max_version) >= (1, 0)
        if self.readonly and not versioned:
            raise BufferError("the buffer is read-only, which only DLPack 1 can say: ask with "
                              "max_version=(1, 0)")
        return _dlpack_capsule(self, versioned)


cdef class CpuAccess:
    """The scope that ``Buffer.cpu_access`` returns."""

    cdef Buffer _buffer
    cdef uint32_t _access

    def __init__(self, Buffer buffer, uint32_t access):
        self._buffer = buffer
        self._access = access

    def __enter__(self) -> Buffer:
        cdef uint64_t code
        self._buffer._open()
        with nogil:
            code = qnnrt_buffer_access_begin(self._buffer._handle, self._access)
        if code:
            raise _memory_error(code, "Buffer.cpu_access")
        return self._buffer

    def __exit__(self, *exc) -> None:
        cdef uint64_t code
        self._buffer._open()
        with nogil:
            code = qnnrt_buffer_access_end(self._buffer._handle, self._access)
        if code:
            raise _memory_error(code, "Buffer.cpu_access")
