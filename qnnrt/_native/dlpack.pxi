# Part of _core.pyx: DLPack export, the two managed tensors and their capsules.

cdef struct _Managed:
    # The C struct that consumers see comes first in either form.
    DLManagedTensorVersioned versioned
    DLManagedTensor legacy
    Py_buffer view
    int64_t shape[1]
    int64_t strides[1]


cdef void _dlpack_free(_Managed* managed) noexcept nogil:
    # Consumers may let go on any thread and at any time. Once the interpreter is gone there is
    # nothing to give back to: leaking is what the specification asks for.
    if not Py_IsInitialized():
        return
    with gil:
        PyBuffer_Release(&managed.view)
        PyMem_Free(managed)


cdef void _dlpack_delete(DLManagedTensor* tensor) noexcept nogil:
    _dlpack_free(<_Managed*>tensor.manager_ctx)


cdef void _dlpack_delete_versioned(DLManagedTensorVersioned* tensor) noexcept nogil:
    _dlpack_free(<_Managed*>tensor.manager_ctx)


cdef void _dlpack_unused(PyObject* capsule) noexcept:
    # Only a capsule that nobody consumed still has its first name.
    cdef void* pointer
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        pointer = PyCapsule_GetPointer(capsule, "dltensor_versioned")
        _dlpack_delete_versioned(<DLManagedTensorVersioned*>pointer)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        pointer = PyCapsule_GetPointer(capsule, "dltensor")
        _dlpack_delete(<DLManagedTensor*>pointer)


cdef class Bits:
    """A tensor of another library of 16-bit floats that numpy does not know, as ``uint16``: the
    same memory, for ``numpy.from_dlpack``."""

    cdef object _tensor

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **how):
        cdef object capsule = self._tensor.__dlpack__(**how)
        cdef PyObject* held = <PyObject*>capsule
        cdef DLTensor* tensor
        if PyCapsule_IsValid(held, "dltensor_versioned"):
            tensor = &(<DLManagedTensorVersioned*>PyCapsule_GetPointer(
                held, "dltensor_versioned")).dl_tensor
        else:
            tensor = &(<DLManagedTensor*>PyCapsule_GetPointer(held, "dltensor")).dl_tensor
        if tensor.dtype.code != 4 or tensor.dtype.bits != 16:  # kDLBfloat
            raise BufferError("its elements are no bfloat16")
        tensor.dtype.code = 1  # kDLUInt
        return capsule


cdef object _dlpack_capsule(Buffer buffer, bint versioned):
    cdef _Managed* managed = <_Managed*>PyMem_Calloc(1, sizeof(_Managed))
    if managed == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(buffer, &managed.view, PyBUF_SIMPLE)
    except BaseException:
        PyMem_Free(managed)
        raise
    managed.shape[0] = managed.view.len
    managed.strides[0] = 1
    cdef DLTensor* tensor = &managed.versioned.dl_tensor if versioned else &managed.legacy.dl_tensor
    tensor.data = managed.view.buf
    tensor.device.device_type = 1  # kDLCPU
    tensor.device.device_id = 0
    tensor.ndim = 1
    tensor.dtype.code = 1  # kDLUInt
    tensor.dtype.bits = 8
    tensor.dtype.lanes = 1
    tensor.shape = managed.shape
    tensor.strides = managed.strides
    tensor.byte_offset = 0
    if versioned:
        managed.versioned.version.major = 1
        managed.versioned.version.minor = 0
        managed.versioned.manager_ctx = managed
        managed.versioned.deleter = _dlpack_delete_versioned
        managed.versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY if managed.view.readonly else 0
        return PyCapsule_New(&managed.versioned, "dltensor_versioned", _dlpack_unused)
    managed.legacy.manager_ctx = managed
    managed.legacy.deleter = _dlpack_delete
    return PyCapsule_New(&managed.legacy, "dltensor", _dlpack_unused)
