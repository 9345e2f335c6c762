# Part of _core.pyx: the gpu backend's side of the function table. Graphs are command lists of
# OpenCL kernels that qnnrt.gpu has built; running one is the loop in _gpu_run, which holds no
# interpreter lock.

ctypedef int32_t (*_ClEnqueueKernel)(void*, void*, uint32_t, const size_t*, const size_t*,
                                     const size_t*, uint32_t, void*, void**) noexcept nogil
ctypedef int32_t (*_ClTransfer)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, void*,
                                void**) noexcept nogil
ctypedef int32_t (*_ClSetArg)(void*, uint32_t, size_t, const void*) noexcept nogil
ctypedef int32_t (*_ClOne)(void*) noexcept nogil
ctypedef void* (*_ClCreateBuffer)(void*, uint64_t, size_t, void*, int32_t*) noexcept nogil

cdef enum:
    _GPU_BACKEND_ID = 4

cdef struct _OpenCl:
    _ClEnqueueKernel enqueue
    _ClTransfer write
    _ClTransfer read
    _ClSetArg set_arg
    _ClOne finish
    _ClOne release
    _ClCreateBuffer create

cdef struct _GpuStep:
    void* kernel
    uint32_t dims
    bint has_local
    size_t total[3]
    size_t group[3]

cdef struct _GpuPatch:  # a kernel's argument that an input or output goes into
    void* kernel
    uint32_t index

cdef struct _GpuIo:
    uint32_t id
    uint32_t data_type
    uint64_t nbytes
    uint64_t copied
    uint64_t used  # the handle that the execution has taken; 0 for none
    uint32_t shape
    bint output
    void* now      # the cl_mem that the arguments are set to
    void* staging  # for RAW memory; made when it is first needed
    uint32_t n_patches
    _GpuPatch* patches

cdef struct _GpuList:
    _OpenCl cl
    void* context
    void* queue
    mutex* lock      # one execution at a time
    uint32_t users   # executions that have found it; _gpu_mutex
    uint32_t n_steps
    uint32_t n_io
    _GpuStep* steps
    _GpuIo* io
    uint64_t executes, kernels, writes, reads, written_bytes, read_bytes, reserved_bytes
    uint64_t given, taken_back  # commands by which memory changed owners

cdef unordered_map[uint64_t, _GpuList*] _gpu_lists  # by graph handle; _gpu_mutex


cdef uint64_t _gpu_bind(_GpuList* run, _GpuIo* io, uint32_t at,
                        const Qnn_Tensor_t* t) noexcept nogil:
    """Point the kernels at an input's or output's memory; RAW inputs are on their way then."""
    cdef int32_t status = 0
    cdef uint64_t code
    cdef void* mem
    cdef uint32_t i
    if t.v1.memType == QNN_TENSORMEMTYPE_MEMHANDLE:
        code = _gpu_use(<uint64_t><uintptr_t>t.v1.memHandle, at, io.nbytes, io.data_type, io.shape,
                        io.output, &mem, &run.given)
        if code != 0:
            return code
        io.used = <uint64_t><uintptr_t>t.v1.memHandle
    else:
        if t.v1.clientBuf.data == NULL or t.v1.clientBuf.dataSize != io.nbytes:
            return _gpu_fail(_GPU_TENSOR, "its RAW memory is missing or of another size", at)
        if io.staging == NULL:
            io.staging = run.cl.create(run.context, _CL_READ_WRITE, io.nbytes, NULL, &status)
            if io.staging == NULL:
                return _gpu_fail(_GPU_MEMORY, "no staging memory on the device", at, status)
            run.reserved_bytes += io.nbytes
        mem = io.staging
        if not io.output:
            status = run.cl.write(run.queue, mem, 0, 0, io.nbytes, t.v1.clientBuf.data, 0, NULL,
                                  NULL)
            if status != 0:
                return _gpu_fail(_GPU_GENERAL, "its memory cannot be copied", at, status)
            run.writes += 1
            run.written_bytes += io.nbytes
            io.copied += io.nbytes
    if mem == io.now:
        return 0
    for i in range(io.n_patches):
        status = run.cl.set_arg(io.patches[i].kernel, io.patches[i].index, sizeof(void*), &mem)
        if status != 0:
            return _gpu_fail(_GPU_GENERAL, "a kernel does not take its memory", at, status)
    io.now = mem
    return 0


cdef uint64_t _gpu_copy_out(_GpuList* run, _GpuIo* io, uint32_t at,
                            const Qnn_Tensor_t* t) noexcept nogil:
    cdef int32_t status
    if t.v1.memType == QNN_TENSORMEMTYPE_MEMHANDLE:
        return 0
    status = run.cl.read(run.queue, io.staging, 0, 0, io.nbytes, t.v1.clientBuf.data, 0, NULL, NULL)
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "its memory cannot be copied", at, status)
    run.reads += 1
    run.read_bytes += io.nbytes
    io.copied += io.nbytes
    return 0


cdef uint64_t _gpu_enqueue(_GpuList* run, const Qnn_Tensor_t** given) noexcept nogil:
    """Bind and enqueue everything. ``given``: the tensor for each of run.io."""
    cdef uint64_t code
    cdef int32_t status
    cdef uint32_t i
    cdef _GpuStep* s
    cdef const size_t* group
    for i in range(run.n_io):
        code = _gpu_bind(run, &run.io[i], i, given[i])
        if code != 0:
            return code
    for i in range(run.n_steps):
        s = &run.steps[i]
        group = s.group
        if not s.has_local:
            group = NULL
        status = run.cl.enqueue(run.queue, s.kernel, s.dims, NULL, s.total, group, 0, NULL, NULL)
        if status != 0:
            return _gpu_fail(_GPU_GENERAL, "a kernel did not start", _GPU_NO_TENSOR, status, i)
        run.kernels += 1
    for i in range(run.n_io):
        if run.io[i].output:
            code = _gpu_copy_out(run, &run.io[i], i, given[i])
            if code != 0:
                return code
    return 0


cdef uint64_t _gpu_run(_GpuList* run, const Qnn_Tensor_t** given) noexcept nogil:
    """Enqueue everything, wait once, let go of the memory."""
    cdef uint64_t code = _gpu_enqueue(run, given)
    cdef int32_t status
    cdef uint32_t i
    for i in range(run.n_io):
        if run.io[i].used:
            status = _gpu_hand_back(run.io[i].used, &run.taken_back)
            if code == 0 and status != 0:
                code = _gpu_fail(_GPU_GENERAL, "the device does not give its memory back", i,
                                 status)
    # After a failure as well: what was enqueued may still use the caller's memory.
    status = run.cl.finish(run.queue)
    if code == 0 and status != 0:
        code = _gpu_fail(_GPU_GENERAL, "the device did not finish", _GPU_NO_TENSOR, status)
    for i in range(run.n_io):
        if run.io[i].used:
            _gpu_unuse(run.io[i].used)
            run.io[i].used = 0
    return code


cdef uint64_t _gpu_match(_GpuList* run, const Qnn_Tensor_t* tensors, uint32_t n, bint output,
                         const Qnn_Tensor_t** given) noexcept nogil:
    """Find each given tensor's place: at its position as a rule, by its id in any order."""
    cdef uint32_t i, k
    for i in range(n):
        for k in range(run.n_io):
            if run.io[k].output == output and run.io[k].id == tensors[i].v1.id:
                given[k] = &tensors[i]
                break
        else:
            return _gpu_fail(_GPU_TENSOR, "the graph has no such input or output")
    return 0


cdef Qnn_ErrorHandle_t _gpu_execute(
        Qnn_GraphHandle_t graph, const Qnn_Tensor_t* inputs, uint32_t n, Qnn_Tensor_t* outputs,
        uint32_t m, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) noexcept nogil:
    """QnnGraph_execute of the gpu backend."""
    cdef _GpuList* run = NULL
    cdef const Qnn_Tensor_t* few[64]
    cdef const Qnn_Tensor_t** given = few
    cdef uint64_t code
    cdef uint32_t i
    LastGpuError().graph = <uint64_t><uintptr_t>graph
    _gpu_mutex.lock()
    if _gpu_lists.count(<uint64_t><uintptr_t>graph):
        run = _gpu_lists[<uint64_t><uintptr_t>graph]
        run.users += 1
    _gpu_mutex.unlock()
    if run == NULL:
        return _gpu_fail(_GPU_NOT_FINALIZED, "the graph is not finalized")
    memset(few, 0, sizeof(few))
    run.lock.lock()
    code = _gpu_match(run, inputs, n, False, given)
    if code == 0:
        code = _gpu_match(run, outputs, m, True, given)
    if code == 0:
        for i in range(run.n_io):
            if given[i] == NULL:
                code = _gpu_fail(_GPU_TENSOR, "it was not given", i)
                break
    if code == 0:
        code = _gpu_run(run, given)
        run.executes += code == 0
    run.lock.unlock()
    _gpu_mutex.lock()
    run.users -= 1
    _gpu_mutex.unlock()
    return code


cdef class GpuLibrary(Library):
    """The gpu backend. Behind it stands the cpu backend, which checks and keeps graphs and gives
    everything that does not compute; `qnnrt.gpu.library` overrides what the device does."""

    def __cinit__(self, path):
        self.backend_id = _GPU_BACKEND_ID
        self.provider_name = "GPU_QTI_AISW"
        self.backend_version = (3, 15, 0)
        self._fn.graphExecute = _gpu_execute
        self._fn.graphExecuteAsync = NULL
        self._fn.graphPrepareExecutionEnvironment = NULL
        self._fn.graphReleaseExecutionEnvironment = NULL
        self._fn.contextCreateFromBinary = NULL
        self._fn.contextValidateBinary = NULL
        self._fn.contextGetBinary = NULL
        self._fn.contextGetBinarySize = NULL

    def last_error(self) -> dict:
        """Of this thread's last failed execution: "code", "text", "opencl" (that function's code),
        "graph", "tensor" (its place among inputs and outputs, or None), "step", "memory" (the
        handle that was refused, or 0). Told once, so that it is never taken for the reason of a
        later failure."""
        cdef GpuError* e = &LastGpuError()
        found = {"code": e.code, "text": _text(e.what), "opencl": e.opencl, "graph": e.graph,
                 "tensor": None if e.tensor == _GPU_NO_TENSOR else e.tensor, "step": e.step,
                 "memory": e.memory}
        e.code = 0
        return found

    def graph_lower(self, graph, bint optimize) -> str:
        """A graph that has its tensors and nodes, after the runtime's passes, as JSON."""
        cdef const char* text = NULL
        cdef uint64_t code
        cdef void* handle = _pointer(graph)
        cdef uint64_t (*lower)(void*, uint32_t, const char**) noexcept nogil
        lower = <uint64_t (*)(void*, uint32_t, const char**) noexcept nogil>(
            self._symbol("qnnrt_graph_lower"))
        with nogil:
            code = lower(handle, optimize, &text)
        self._check(code, "graph", "graphFinalize")
        return _text(text)

    def graph_leave(self, graph, list kept) -> None:
        """The graph is finalized: of its constants only those at these addresses stay."""
        cdef vector[const void*] addresses
        cdef uint64_t (*leave)(void*, const void**, uint64_t) noexcept nogil
        leave = <uint64_t (*)(void*, const void**, uint64_t) noexcept nogil>(
            self._symbol("qnnrt_graph_leave"))
        for address in kept:
            addresses.push_back(<const void*>_pointer(address))
        self._check(leave(_pointer(graph), addresses.data(), addresses.size()), "graph",
                    "graphFinalize")

    def make_error(self, uint32_t code, component, call, message):
        """The exception for something that this backend refuses, in its own words."""
        return errors.make_error(code, component, call, "", message)


def gpu_counts() -> dict:
    """What the gpu backend of this process holds: memory handles and command lists."""
    return {"handles": _gpu_live, "lists": _gpu_lists.size()}


cdef class CommandList:
    """A finalized graph of the gpu backend: kernels with their arguments set, in order.

    Args:
        functions: addresses of OpenCL functions by name, of the loader that made everything else.
        context, queue: the cl_context and cl_command_queue.
        steps: (kernel, total sizes, group sizes or None) each.
        io: (id, QNN data type, bytes, shape, whether an output, [(kernel, argument), ...]) each.
        keep: what must live as long: kernels, programs, buffers.
    """

    cdef _GpuList* _l
    cdef uint64_t _graph
    cdef object _keep

    def __cinit__(self, dict functions, context, queue, list steps, list io, keep):
        cdef _GpuStep* s
        cdef _GpuIo* t
        cdef uint32_t i, j
        self._l = <_GpuList*>PyMem_Calloc(1, sizeof(_GpuList))
        if self._l == NULL:
            raise MemoryError
        self._l.lock = new mutex()
        self._l.cl.enqueue = <_ClEnqueueKernel>_pointer(functions["clEnqueueNDRangeKernel"])
        self._l.cl.write = <_ClTransfer>_pointer(functions["clEnqueueWriteBuffer"])
        self._l.cl.read = <_ClTransfer>_pointer(functions["clEnqueueReadBuffer"])
        self._l.cl.set_arg = <_ClSetArg>_pointer(functions["clSetKernelArg"])
        self._l.cl.finish = <_ClOne>_pointer(functions["clFinish"])
        self._l.cl.release = <_ClOne>_pointer(functions["clReleaseMemObject"])
        self._l.cl.create = <_ClCreateBuffer>_pointer(functions["clCreateBuffer"])
        self._l.context = _pointer(context)
        self._l.queue = _pointer(queue)
        self._l.steps = <_GpuStep*>PyMem_Calloc(len(steps) + 1, sizeof(_GpuStep))
        self._l.io = <_GpuIo*>PyMem_Calloc(len(io) + 1, sizeof(_GpuIo))
        if self._l.steps == NULL or self._l.io == NULL:
            raise MemoryError
        if len(io) > 64:
            raise ValueError(f"{len(io)} inputs and outputs: the gpu backend takes 64 at most")
        for i, (kernel, total, group) in enumerate(steps):
            s = &self._l.steps[i]
            s.kernel = _pointer(kernel)
            s.dims = <uint32_t>len(total)
            s.has_local = group is not None
            for j in range(s.dims):
                s.total[j] = total[j]
                s.group[j] = group[j] if group is not None else 0
        self._l.n_steps = <uint32_t>len(steps)
        for i, (id_, data_type, nbytes, shape, output, patches) in enumerate(io):
            t = &self._l.io[i]
            t.id, t.data_type, t.nbytes, t.output = id_, data_type, nbytes, output
            t.shape = _gpu_shape(shape)
            t.patches = <_GpuPatch*>PyMem_Calloc(len(patches) + 1, sizeof(_GpuPatch))
            if t.patches == NULL:
                raise MemoryError
            self._l.n_io += 1
            for j in range(<uint32_t>len(patches)):
                t.patches[j].kernel = _pointer(patches[j][0])
                t.patches[j].index = patches[j][1]
            t.n_patches = <uint32_t>len(patches)
        self._keep = keep

    def install(self, graph) -> None:
        """From now on this is what an execution of the graph with this handle does."""
        self._graph = graph
        _gpu_mutex.lock()
        _gpu_lists[self._graph] = self._l
        _gpu_mutex.unlock()

    def close(self) -> None:
        """Wait for executions, and let no other start."""
        cdef bint busy = True
        if self._graph == 0:
            return
        _gpu_mutex.lock()
        _gpu_lists.erase(self._graph)
        _gpu_mutex.unlock()
        self._graph = 0
        with nogil:
            while busy:
                self._l.lock.lock()
                self._l.lock.unlock()
                _gpu_mutex.lock()
                busy = self._l.users != 0
                _gpu_mutex.unlock()
        self._keep = None

    def wait(self) -> None:
        """Until no execution runs."""
        with nogil:
            self._l.lock.lock()
            self._l.lock.unlock()

    def forget(self, mem) -> None:
        """Its number may be another buffer's from now on: the next execution sets it anew."""
        cdef uint32_t i
        with nogil:
            self._l.lock.lock()
        for i in range(self._l.n_io):
            if self._l.io[i].now == <void*><uintptr_t>mem:
                self._l.io[i].now = NULL
        self._l.lock.unlock()

    def counts(self) -> dict:
        """Commands enqueued and bytes moved since the last reset; bytes of staging memory."""
        return {
            "executes": self._l.executes, "kernels": self._l.kernels, "writes": self._l.writes,
            "reads": self._l.reads, "written_bytes": self._l.written_bytes,
            "read_bytes": self._l.read_bytes, "reserved_bytes": self._l.reserved_bytes,
            "given": self._l.given, "taken_back": self._l.taken_back,
        }

    def copied(self) -> list:
        """Bytes staged for each input and output, in their order."""
        return [self._l.io[i].copied for i in range(self._l.n_io)]

    def reset(self) -> None:
        """Start counting anew."""
        cdef uint32_t i
        with nogil:
            self._l.lock.lock()
        self._l.executes = self._l.kernels = self._l.writes = self._l.reads = 0
        self._l.written_bytes = self._l.read_bytes = self._l.given = self._l.taken_back = 0
        for i in range(self._l.n_io):
            self._l.io[i].copied = 0
        self._l.lock.unlock()

    def __dealloc__(self):
        cdef uint32_t i
        if self._l == NULL:
            return
        if self._graph != 0:
            _gpu_mutex.lock()
            _gpu_lists.erase(self._graph)
            _gpu_mutex.unlock()
        if self._l.io != NULL:
            for i in range(self._l.n_io):
                if self._l.io[i].staging != NULL:
                    self._l.cl.release(self._l.io[i].staging)
                PyMem_Free(self._l.io[i].patches)
        PyMem_Free(self._l.io)
        PyMem_Free(self._l.steps)
        del self._l.lock
        PyMem_Free(self._l)
