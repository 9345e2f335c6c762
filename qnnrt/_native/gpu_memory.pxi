# Part of _core.pyx: memory handles of the gpu backend. One table for the process; who owns the
# bytes, the host or the device, changes around executions where the device asks for it.

ctypedef void* (*_ClMap)(void*, void*, uint32_t, uint64_t, size_t, size_t, uint32_t, void*, void**,
                         int32_t*) noexcept nogil
ctypedef int32_t (*_ClUnmap)(void*, void*, void*, uint32_t, void*, void**) noexcept nogil
ctypedef int32_t (*_ClExternal)(void*, uint32_t, void**, uint32_t, void*, void**) noexcept nogil

cdef enum:
    _CL_READ_WRITE = 1
    _CL_WRITE_ONLY = 2
    _CL_READ_ONLY = 4
    _CL_MAP_READ_WRITE = 3
    _CL_NO_BUFFER_MEMORY = -4  # CL_MEM_OBJECT_ALLOCATION_FAILURE
    _CL_NO_RESOURCES = -5
    _CL_NO_HOST_MEMORY = -6
    _GPU_SLOT_BITS = 24
    _GPU_NO_TENSOR = 0xFFFFFFFF
    _GPU_STAYS = 0     # host and device see the same bytes, or the host sees none
    _GPU_MAPPED = 1    # the host's between executions: mapped, and unmapped for the kernels
    _GPU_EXTERNAL = 2  # acquired for the kernels and released behind them

cdef uint64_t _GPU_HANDLE = <uint64_t>1 << 62  # no address, so none of the runtime's own handles
cdef uint64_t _GPU_TENSOR = 6004               # QNN_GRAPH_ERROR_INVALID_TENSOR
cdef uint64_t _GPU_NOT_FINALIZED = 6023
cdef uint64_t _GPU_MEMORY = 1002               # QNN_COMMON_ERROR_MEM_ALLOC
cdef uint64_t _GPU_NOT_PERMITTED = 1005
cdef uint64_t _GPU_GENERAL = 1100

cdef struct _GpuMemory:  # what a memory handle stands for; mem is NULL in a free slot
    void* mem
    uint64_t context     # QNN's, that it was registered in
    uint64_t nbytes
    uint64_t flags
    uint32_t data_type
    uint32_t shape       # equal for equal shapes
    uint32_t generation
    uint32_t runs        # executions that use it
    uint32_t on_device   # those that it has not come back from; for memory that changes owners
    uint32_t readers     # mappings of the client's, in force
    uint32_t writers
    uint32_t owners      # _GPU_*: how it changes them
    bint lost            # the driver did not take it back: the host has it no more
    void* queue
    void* give           # clEnqueueUnmapMemObject, clEnqueueAcquireExternalMemObjectsKHR
    void* take_back      # clEnqueueMapBuffer, clEnqueueReleaseExternalMemObjectsKHR
    void* address        # where the host sees it; the object that is acquired

cdef mutex _gpu_mutex  # the tables of handles and of graphs
cdef condition_variable_any _gpu_idle  # an execution has let go of a memory
cdef vector[_GpuMemory] _gpu_memories  # a handle is a slot and its generation
cdef uint32_t _gpu_live = 0
cdef dict _gpu_shapes = {}


cdef uint64_t _gpu_fail(uint64_t code, const char* what, uint32_t tensor=_GPU_NO_TENSOR,
                        int32_t opencl=0, uint32_t step=_GPU_NO_TENSOR) noexcept nogil:
    """Note why an execution fails; its code, or that of a device without memory."""
    cdef GpuError* e = &LastGpuError()
    if opencl in (_CL_NO_BUFFER_MEMORY, _CL_NO_RESOURCES, _CL_NO_HOST_MEMORY):
        code = _GPU_MEMORY
    e.code = code
    e.what = what
    e.tensor = tensor
    e.opencl = opencl
    e.step = step
    e.memory = 0
    e.detail[0] = 0
    return code


cdef uint32_t _gpu_shape(shape) except? 0:
    """The number of a shape; a scalar's memory is registered with one dimension."""
    return _gpu_shapes.setdefault(tuple(shape) or (1,), len(_gpu_shapes) + 1)


cdef _GpuMemory* _gpu_memory(uint64_t handle) noexcept nogil:
    """The memory behind a handle, or NULL; with _gpu_mutex held."""
    cdef uint64_t slot = handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)
    if not (handle & _GPU_HANDLE) or slot >= _gpu_memories.size():
        return NULL
    if _gpu_memories[slot].mem == NULL or handle != _gpu_handle(
            slot, _gpu_memories[slot].generation):
        return NULL
    return &_gpu_memories[slot]


cdef uint64_t _gpu_handle(uint64_t slot, uint32_t generation) noexcept nogil:
    return _GPU_HANDLE | <uint64_t>generation << _GPU_SLOT_BITS | slot


cdef int32_t _gpu_to_device(_GpuMemory* m) noexcept nogil:
    """Before the first of the executions that use it at a time."""
    cdef int32_t status = 0
    if m.on_device == 0 and m.lost:
        m.lost = False  # the device's already
    elif m.on_device == 0 and m.owners == _GPU_MAPPED:
        status = (<_ClUnmap>m.give)(m.queue, m.mem, m.address, 0, NULL, NULL)
    elif m.on_device == 0 and m.owners == _GPU_EXTERNAL:
        status = (<_ClExternal>m.give)(m.queue, 1, &m.address, 0, NULL, NULL)
    m.on_device += status == 0
    return status


cdef int32_t _gpu_to_host(_GpuMemory* m) noexcept nogil:
    """Behind the last of them; done when the queue is."""
    cdef int32_t status = 0
    m.on_device -= 1
    if m.on_device == 0 and m.owners == _GPU_MAPPED:
        (<_ClMap>m.take_back)(m.queue, m.mem, 0, _CL_MAP_READ_WRITE, 0, m.nbytes, 0, NULL, NULL,
                              &status)
    elif m.on_device == 0 and m.owners == _GPU_EXTERNAL:
        status = (<_ClExternal>m.take_back)(m.queue, 1, &m.address, 0, NULL, NULL)
    m.lost = status != 0
    return status


cdef uint64_t _gpu_use(uint64_t handle, uint64_t context, uint32_t at, uint64_t nbytes,
                       uint32_t data_type, uint32_t shape, bint output, uint32_t refused,
                       void** mem) noexcept nogil:
    """Let an execution use the memory of a handle, until _gpu_unuse."""
    cdef _GpuMemory* m
    cdef uint64_t code = 0
    _gpu_mutex.lock()
    m = _gpu_memory(handle)
    if m == NULL:
        code = _gpu_fail(_GPU_TENSOR, "its memory handle is not registered on the gpu backend", at)
    elif m.context != context:
        code = _gpu_fail(_GPU_TENSOR, "its memory handle belongs to another context: register the "
                         "buffer with the graph's own", at)
    elif m.nbytes != nbytes or m.data_type != data_type or m.shape != shape:
        code = _gpu_fail(_GPU_TENSOR, "its memory handle is for another shape or type", at)
    elif m.flags & refused:
        code = _gpu_fail(
            _GPU_TENSOR,
            "kernels write it, and its OpenCL buffer is READ_ONLY" if m.flags & _CL_READ_ONLY else
            "kernels read it, and its OpenCL buffer is WRITE_ONLY", at)
    elif m.writers or (output and m.readers):
        code = _gpu_fail(
            _GPU_NOT_PERMITTED,
            "its OpenCL buffer is mapped: execute after the 'with handle.map()' block", at)
    else:
        m.runs += 1
        mem[0] = m.mem
    if code != 0:
        LastGpuError().memory = handle
    _gpu_mutex.unlock()
    return code


cdef uint64_t _gpu_give(uint64_t handle, uint32_t at, uint64_t* moves) noexcept nogil:
    """Before the kernels of an execution that uses it. moves: counts the commands for it."""
    cdef _GpuMemory* m
    cdef int32_t status
    _gpu_mutex.lock()
    m = &_gpu_memories[handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)]
    moves[0] += m.owners != _GPU_STAYS and m.on_device == 0
    status = _gpu_to_device(m)
    _gpu_mutex.unlock()
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "the device does not take its memory over", at, status)
    return 0


cdef int32_t _gpu_hand_back(uint64_t handle, uint64_t* moves) noexcept nogil:
    """Behind the kernels of an execution, before it is waited for."""
    cdef _GpuMemory* m = NULL
    cdef int32_t status
    _gpu_mutex.lock()
    m = &_gpu_memories[handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)]
    status = _gpu_to_host(m)
    moves[0] += m.owners != _GPU_STAYS and m.on_device == 0
    _gpu_mutex.unlock()
    return status


cdef void _gpu_unuse(uint64_t handle) noexcept nogil:
    """An execution that had it is over."""
    _gpu_mutex.lock()
    _gpu_memories[handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)].runs -= 1
    _gpu_idle.notify_all()
    _gpu_mutex.unlock()


def gpu_register(mem, uint64_t context, uint64_t nbytes, uint64_t flags, uint32_t data_type, shape,
                 owners=None) -> int:
    """A handle for a cl_mem, of which the caller keeps a reference as long as it is registered.

    Args:
        owners: for memory that the host sees as well and that changes owners around executions:
            ("mapped" or "external", queue, the function that gives it to the device, the one that
            takes it back, the host's address or the cl_mem to be acquired). Mapped memory is
            mapped by now.
    """
    cdef _GpuMemory entry
    cdef size_t slot = 0
    global _gpu_live
    memset(&entry, 0, sizeof(entry))
    entry.mem = _pointer(mem)
    entry.context = context
    entry.nbytes = nbytes
    entry.flags = flags
    entry.data_type = data_type
    entry.shape = _gpu_shape(shape)
    entry.generation = 1
    if owners is not None:
        entry.owners = _GPU_MAPPED if owners[0] == "mapped" else _GPU_EXTERNAL
        entry.queue = _pointer(owners[1])
        entry.give = _pointer(owners[2])
        entry.take_back = _pointer(owners[3])
        entry.address = _pointer(owners[4])
    _gpu_mutex.lock()
    while slot < _gpu_memories.size() and _gpu_memories[slot].mem != NULL:
        slot += 1
    if slot < _gpu_memories.size():
        entry.generation = _gpu_memories[slot].generation + 1
        _gpu_memories[slot] = entry
    else:
        _gpu_memories.push_back(entry)
    _gpu_live += 1
    _gpu_mutex.unlock()
    return _gpu_handle(slot, entry.generation)


def gpu_deregister(uint64_t handle, bint force=False) -> bool:
    """Wait for the executions that use it, and free it.

    Returns:
        False when it is no handle, or no longer. None while the client has it mapped, unless
        ``force``.
    """
    cdef _GpuMemory* m
    cdef size_t slot = handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)
    cdef bint found
    cdef bint mapped = False
    global _gpu_live
    with nogil:
        _gpu_mutex.lock()
        m = _gpu_memory(handle)
        found = m != NULL
        if found:
            mapped = (m.readers or m.writers) and not force
        if found and not mapped:
            m.generation += 1  # no execution finds it from here on
            while _gpu_memories[slot].runs:
                _gpu_idle.wait(_gpu_mutex)
            if _gpu_memories[slot].owners == _GPU_MAPPED:
                _gpu_to_device(&_gpu_memories[slot])
            _gpu_memories[slot].mem = NULL
            _gpu_live -= 1
        _gpu_mutex.unlock()
    return None if mapped else found


def gpu_map(uint64_t handle, bint write) -> bool:
    """A mapping of the client's begins: waits for executions, and lets none in that it disturbs.

    Returns:
        False when there is another one already, and one of the two writes. None when it is no
        handle.
    """
    cdef _GpuMemory* m
    cdef size_t slot = handle & ((<uint64_t>1 << _GPU_SLOT_BITS) - 1)
    cdef bint found, free
    with nogil:
        _gpu_mutex.lock()
        m = _gpu_memory(handle)
        found = m != NULL
        free = found and not (m.writers or (write and m.readers))
        if free:
            m.writers += write
            m.readers += not write
            while _gpu_memories[slot].runs:
                _gpu_idle.wait(_gpu_mutex)
        _gpu_mutex.unlock()
    return free if found else None


def gpu_unmap(uint64_t handle, bint write) -> None:
    """It has ended."""
    cdef _GpuMemory* m
    _gpu_mutex.lock()
    m = _gpu_memory(handle)
    if m != NULL:
        m.writers -= write
        m.readers -= not write
    _gpu_mutex.unlock()


def gpu_runs(uint64_t handle) -> int:
    """Executions that use the memory of a handle now."""
    cdef _GpuMemory* m
    cdef uint32_t runs = 0
    _gpu_mutex.lock()
    m = _gpu_memory(handle)
    if m != NULL:
        runs = m.runs
    _gpu_mutex.unlock()
    return runs


def gpu_is_mapped(uint64_t handle) -> bool:
    """Whether the client has it mapped now."""
    cdef _GpuMemory* m
    cdef bint mapped
    _gpu_mutex.lock()
    m = _gpu_memory(handle)
    mapped = m != NULL and (m.readers or m.writers)
    _gpu_mutex.unlock()
    return mapped
