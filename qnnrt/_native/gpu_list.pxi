# Part of _core.pyx: command lists of the gpu backend as the run loop sees them, and what an
# execution is given. No interpreter lock is held.

ctypedef int32_t (*_ClEnqueueKernel)(void*, void*, uint32_t, const size_t*, const size_t*,
                                     const size_t*, uint32_t, void**, void**) noexcept nogil
ctypedef int32_t (*_ClTransfer)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, void**,
                                void**) noexcept nogil
ctypedef int32_t (*_ClSetArg)(void*, uint32_t, size_t, const void*) noexcept nogil
ctypedef int32_t (*_ClOne)(void*) noexcept nogil
ctypedef void* (*_ClCreateBuffer)(void*, uint64_t, size_t, void*, int32_t*) noexcept nogil
ctypedef void* (*_ClCreateQueue)(void*, void*, uint64_t, int32_t*) noexcept nogil
ctypedef int32_t (*_ClBarrier)(void*, uint32_t, void**, void**) noexcept nogil
ctypedef int32_t (*_ClTimes)(void*, uint32_t, size_t, void*, size_t*) noexcept nogil

cdef enum:
    _CL_QUEUE_PROFILING_ENABLE = 2
    _CL_QUEUED = 0x1280  # CL_PROFILING_COMMAND_*
    _CL_START = 0x1282
    _CL_END = 0x1283

cdef uint64_t _GPU_ABORTED = 6031  # the runtime knows whether that, or timed out

cdef struct _OpenCl:
    _ClEnqueueKernel enqueue
    _ClTransfer write
    _ClTransfer read
    _ClSetArg set_arg
    _ClOne finish
    _ClOne flush
    _ClOne release
    _ClOne release_event
    _ClOne release_queue
    _ClCreateBuffer create
    _ClCreateQueue create_queue
    _ClBarrier barrier
    _ClTimes times

cdef struct _GpuStep:
    void* kernel  # NULL: a step of Python's
    void* call
    void** mems   # its memories
    uint32_t n_mems
    uint32_t dims
    bint has_local
    size_t total[3]
    size_t group[3]
    const char* node
    const char* name

cdef struct _GpuPatch:  # an argument that an input or output goes into
    void* kernel        # NULL: of the step of Python's
    uint32_t index
    uint32_t step

cdef struct _GpuIo:
    uint32_t id
    uint32_t data_type
    uint32_t rank
    uint32_t* dims
    uint32_t shape
    uint64_t nbytes
    uint64_t copied
    bint output
    uint32_t refused  # flags of buffers that its kernels cannot use
    bint staged    # by the last execution
    void* now      # the cl_mem that the arguments are set to
    void* staging  # for RAW memory; made when it is first needed
    uint32_t n_patches
    _GpuPatch* patches
    const char* name

cdef struct _GpuPlace:  # where an input or output lies in one execution
    bint given
    bint on_device      # has been given to the device
    void* mem           # NULL: RAW
    uint64_t handle
    void* data

cdef struct _GpuBinding:  # what one execution was given
    _GpuBinding* next     # of those that are not in use
    _GpuPlace* places

cdef struct _GpuList:
    _OpenCl cl
    void* context
    void* device
    void* queue
    void* base        # where memory changes owners; `queue` as a rule
    void* timed       # a queue with timestamps; made when first needed
    bint chained      # `queue` keeps no order: each command waits for the one before
    bint timestamps   # `queue` has them
    bint own_queue
    bint nodes
    uint32_t flush_every
    mutex* lock       # one execution at a time
    mutex* free_lock
    _GpuBinding* free
    uint64_t graph
    uint64_t owner    # the QNN context, whose handles it takes
    uint32_t n_steps
    uint32_t n_io
    uint32_t n_in
    _GpuStep* steps
    _GpuIo* io
    void** events     # room for one of each command
    uint32_t first_step  # among them
    uint64_t executes, kernels, writes, reads, written_bytes, read_bytes, reserved_bytes
    uint64_t given, taken_back  # commands by which memory changed owners

cdef struct _GpuFlow:  # the commands of one execution
    void* queue
    bint chained
    bint timed
    void* last         # the event that the next command waits for
    void* barrier      # the event before the first command
    uint32_t n         # commands so far
    uint32_t first_step
    uint32_t first_read


cdef _GpuBinding* _gpu_new_binding(_GpuList* run) noexcept nogil:
    """One of those that are free, or a new one; NULL without memory."""
    cdef _GpuBinding* b
    run.free_lock.lock()
    b = run.free
    if b != NULL:
        run.free = b.next
    run.free_lock.unlock()
    if b == NULL:
        b = <_GpuBinding*>calloc(1, sizeof(_GpuBinding))
        if b != NULL:
            b.places = <_GpuPlace*>calloc(run.n_io + 1, sizeof(_GpuPlace))
            if b.places == NULL:
                free(b)
                return NULL
    return b


cdef void _gpu_release(void* self, void* binding) noexcept nogil:
    """The execution is over, or never began."""
    cdef _GpuList* run = <_GpuList*>self
    cdef _GpuBinding* b = <_GpuBinding*>binding
    cdef uint32_t i
    for i in range(run.n_io):
        if b.places[i].handle:
            _gpu_unuse(b.places[i].handle)
    memset(b.places, 0, run.n_io * sizeof(_GpuPlace))
    run.free_lock.lock()
    b.next = run.free
    run.free = b
    run.free_lock.unlock()


cdef bint _gpu_fits(const _GpuIo* io, const Qnn_Tensor_t* t) noexcept nogil:
    """Whether it has the tensor's type and, unless a client leaves them out, dimensions."""
    cdef uint32_t i
    if <uint32_t>t.v1.dataType != io.data_type:
        return False
    if t.v1.dimensions == NULL:
        return True
    if t.v1.rank != io.rank:  # a scalar may be [1]
        return (t.v1.rank == 0 or (t.v1.rank == 1 and t.v1.dimensions[0] == 1)) and (
            io.rank == 0 or (io.rank == 1 and io.dims[0] == 1))
    for i in range(io.rank):
        if t.v1.dimensions[i] != io.dims[i]:
            return False
    return True


cdef uint64_t _gpu_place(_GpuIo* io, uint64_t context, uint32_t at, const Qnn_Tensor_t* t,
                         bint strict, _GpuPlace* place) noexcept nogil:
    cdef uint64_t code
    if place.given:
        return _gpu_fail(_GPU_TENSOR, "it was given twice", at)
    if not _gpu_fits(io, t):
        return _gpu_fail(_GPU_TENSOR, "what was given has another shape or type", at)
    if t.v1.memType == QNN_TENSORMEMTYPE_MEMHANDLE:
        code = _gpu_use(<uint64_t><uintptr_t>t.v1.memHandle, context, at, io.nbytes, io.data_type,
                        io.shape, io.output, io.refused, &place.mem)
        if code != 0:
            return code
        place.handle = <uint64_t><uintptr_t>t.v1.memHandle
    else:
        # dataSize has 32 bits: of a larger tensor the client cannot say the size.
        if t.v1.clientBuf.data == NULL or (
                io.nbytes >> 32 == 0 and t.v1.clientBuf.dataSize < io.nbytes):
            return _gpu_fail(_GPU_TENSOR, "its RAW memory is missing or too small", at)
        if strict:
            return _gpu_fail(_GPU_TENSOR, "its RAW memory would be copied, which the graph's "
                             "option STRICT forbids: use a memory handle", at)
        place.data = t.v1.clientBuf.data
    place.given = True
    return 0


cdef uint64_t _gpu_match(_GpuList* run, const Qnn_Tensor_t* tensors, uint32_t n, bint output,
                         bint strict, _GpuBinding* b) noexcept nogil:
    """Find each given tensor's place: at its position as a rule, by its id in any order."""
    cdef uint32_t first = run.n_in if output else 0
    cdef uint32_t end = run.n_io if output else run.n_in
    cdef uint32_t i, k
    cdef uint64_t code
    for i in range(n):
        k = first + i
        if k >= end or run.io[k].id != tensors[i].v1.id:
            for k in range(first, end):
                if run.io[k].id == tensors[i].v1.id:
                    break
            else:
                return _gpu_fail(_GPU_TENSOR, "the graph has no such input or output")
        code = _gpu_place(&run.io[k], run.owner, k, &tensors[i], strict, &b.places[k])
        if code != 0:
            return code
    return 0


cdef uint64_t _gpu_bind(void* self, const Qnnrt_Tensors_t* given, void** binding,
                        Qnnrt_ExecutorText_t* why) noexcept nogil:
    """Check and pin what an execution is given."""
    cdef _GpuList* run = <_GpuList*>self
    cdef _GpuBinding* b = _gpu_new_binding(run)
    cdef uint64_t code = 0
    cdef uint32_t i
    LastGpuError().graph = run.graph
    if b == NULL:
        code = _gpu_fail(_GPU_MEMORY, "out of memory")
    if code == 0:
        code = _gpu_match(run, given.inputs, given.num_inputs, False, given.strict, b)
    if code == 0:
        code = _gpu_match(run, given.outputs, given.num_outputs, True, given.strict, b)
    if code == 0:
        for i in range(run.n_io):
            if not b.places[i].given:
                code = _gpu_fail(_GPU_TENSOR, "it was not given", i)
                break
    if code != 0:
        if b != NULL:
            _gpu_release(run, b)
        _gpu_explain(run, why)
        return code
    binding[0] = b
    return 0


cdef void _gpu_explain(_GpuList* run, Qnnrt_ExecutorText_t* why) noexcept nogil:
    """The reason of this thread's failure, with names."""
    cdef GpuError* e = &LastGpuError()
    cdef const char* tensor = NULL
    cdef const char* node = NULL
    cdef const char* name = NULL
    if e.tensor < run.n_io:
        tensor = run.io[e.tensor].name
    if e.step < run.n_steps:
        node = run.steps[e.step].node
        name = run.steps[e.step].name
    WriteGpuError(e[0], tensor, node, name, why.text, sizeof(why.text))
