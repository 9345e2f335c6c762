# Part of _core.pyx: the gpu backend's side of the function table. Graphs are command lists of
# OpenCL kernels that qnnrt.gpu has built, given to the runtime as what executes them; running one
# is the loop in gpu_run.pxi, which holds no interpreter lock.


cdef class GpuLibrary(Library):
    """The gpu backend: the part of the runtime that checks, keeps and queues graphs, and everything
    that does not compute; `qnnrt.gpu.library` overrides what the device does.

    Args:
        path: any of the runtime's own libraries.
    """

    def __cinit__(self, path):
        self._choose_provider("qnnrt_gpu_get_providers")

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
    return {"handles": _gpu_live, "lists": _gpu_lists}


cdef uint32_t _gpu_lists = 0


cdef int _gpu_functions(_OpenCl* cl, dict functions) except -1:
    cl.enqueue = <_ClEnqueueKernel>_pointer(functions["clEnqueueNDRangeKernel"])
    cl.write = <_ClTransfer>_pointer(functions["clEnqueueWriteBuffer"])
    cl.read = <_ClTransfer>_pointer(functions["clEnqueueReadBuffer"])
    cl.set_arg = <_ClSetArg>_pointer(functions["clSetKernelArg"])
    cl.finish = <_ClOne>_pointer(functions["clFinish"])
    cl.flush = <_ClOne>_pointer(functions["clFlush"])
    cl.release = <_ClOne>_pointer(functions["clReleaseMemObject"])
    cl.release_event = <_ClOne>_pointer(functions["clReleaseEvent"])
    cl.release_queue = <_ClOne>_pointer(functions["clReleaseCommandQueue"])
    cl.create = <_ClCreateBuffer>_pointer(functions["clCreateBuffer"])
    cl.create_queue = <_ClCreateQueue>_pointer(functions["clCreateCommandQueue"])
    cl.barrier = <_ClBarrier>_pointer(functions["clEnqueueBarrierWithWaitList"])
    cl.times = <_ClTimes>_pointer(functions["clGetEventProfilingInfo"])
    return 0


cdef class CommandList:
    """A finalized graph of the gpu backend: kernels with their arguments set, in order.

    Args:
        functions: addresses of OpenCL functions by name, of the loader that made everything else.
        context, queue: the cl_context and cl_command_queue.
        steps: (kernel, total sizes, group sizes or None, name of the node, name of the kernel)
            each; names may be left out. A step of Python's, which enqueues something itself, is
            (callable, [cl_mem or 0, ...], None, node, name): it is called with the number of the
            queue and the list of those of the memories, where 0 stands for one of ``io``, and must
            not wait for the device.
        io: (id, QNN data type, bytes, shape, whether an output, [(kernel, argument), ...], name,
            whether kernels read this output) each, inputs first; the last two may be left out. For
            a step of Python's the kernel is the negative of its position minus 1, the argument a
            place in its list.
        keep: what must live as long: kernels, programs, buffers.
        device: the cl_device_id; without it there is no queue with timestamps for profiles.
        base: the queue that memory changes owners in, unless that is ``queue``.
        in_order, timestamps: properties of ``queue``.
        own_queue: commands of a client's neither have to come before those of an execution nor
            behind them, without having been waited for.
        nodes: profiles have timestamps, and events of nodes.
        flush_every: commands after which the device is told to begin; 0: it does so by itself.
    """

    cdef _GpuList* _l
    cdef uint32_t _generation
    cdef object _keep
    cdef list _names

    def __cinit__(self, dict functions, context, queue, list steps, list io, keep, *, device=0,
                  base=0, bint in_order=True, bint timestamps=False, bint own_queue=True,
                  bint nodes=True, uint32_t flush_every=0):
        global _gpu_lists
        self._generation = Generation()
        self._names = []
        self._l = <_GpuList*>PyMem_Calloc(1, sizeof(_GpuList))
        if self._l == NULL:
            raise MemoryError
        _gpu_lists += 1
        self._l.lock = new mutex()
        self._l.free_lock = new mutex()
        _gpu_functions(&self._l.cl, functions)
        self._l.context = _pointer(context)
        self._l.device = _pointer(device)
        self._l.queue = _pointer(queue)
        self._l.base = _pointer(base or queue)
        self._l.chained = not in_order
        self._l.timestamps = timestamps
        self._l.own_queue = own_queue
        self._l.nodes = nodes
        self._l.flush_every = flush_every
        self._l.steps = <_GpuStep*>PyMem_Calloc(len(steps) + 1, sizeof(_GpuStep))
        self._l.io = <_GpuIo*>PyMem_Calloc(len(io) + 1, sizeof(_GpuIo))
        self._l.events = <void**>PyMem_Calloc(len(steps) + len(io) + 1, sizeof(void*))
        if self._l.steps == NULL or self._l.io == NULL or self._l.events == NULL:
            raise MemoryError
        for step in steps:
            self._l.n_steps += 1  # first: what is there when this fails is freed
            self._set_step(&self._l.steps[self._l.n_steps - 1], step)
        for tensor in io:
            self._l.n_io += 1
            self._set_io(&self._l.io[self._l.n_io - 1], tensor)
        self._keep = keep, steps

    cdef const char* _name(self, tuple given, int at) except NULL:
        name = (<str>given[at] if len(given) > at else "").encode()
        self._names.append(name)
        return <const char*><bytes>name

    cdef int _set_step(self, _GpuStep* s, tuple given) except -1:
        cdef uint32_t i
        kernel, total, group = given[:3]
        s.node = self._name(given, 3)
        s.name = self._name(given, 4)
        if callable(kernel):
            s.call = <void*>kernel  # self._keep has it
            s.mems = <void**>PyMem_Calloc(len(total) + 1, sizeof(void*))
            if s.mems == NULL:
                raise MemoryError
            s.n_mems = <uint32_t>len(total)
            for i in range(s.n_mems):
                s.mems[i] = _pointer(total[i] or 0)
            return 0
        s.kernel = _pointer(kernel)
        s.dims = <uint32_t>len(total)
        s.has_local = group is not None
        for i in range(s.dims):
            s.total[i] = total[i]
            s.group[i] = group[i] if group is not None else 0
        return 0

    cdef int _set_io(self, _GpuIo* t, tuple given) except -1:
        cdef uint32_t i
        id_, data_type, nbytes, shape, output, patches = given[:6]
        t.id, t.data_type, t.nbytes, t.output = id_, data_type, nbytes, output
        t.name = self._name(given, 6)
        t.refused = _CL_READ_ONLY if output else _CL_WRITE_ONLY
        if len(given) > 7 and given[7]:
            t.refused |= _CL_WRITE_ONLY
        t.shape = _gpu_shape(shape)
        self._l.n_in += not output
        t.rank = <uint32_t>len(shape)
        t.dims = <uint32_t*>PyMem_Calloc(t.rank + 1, sizeof(uint32_t))
        t.patches = <_GpuPatch*>PyMem_Calloc(len(patches) + 1, sizeof(_GpuPatch))
        if t.dims == NULL or t.patches == NULL:
            raise MemoryError
        for i in range(t.rank):
            t.dims[i] = shape[i]
        for i in range(<uint32_t>len(patches)):
            kernel, t.patches[i].index = patches[i]
            if kernel < 0:
                t.patches[i].step = <uint32_t>(-1 - kernel)
                if self._l.steps[t.patches[i].step].n_mems <= t.patches[i].index:
                    raise IndexError(f"step {t.patches[i].step} has no such memory")
            else:
                t.patches[i].kernel = _pointer(kernel)
        t.n_patches = <uint32_t>len(patches)
        return 0

    def install(self, Library library not None, context, graph, uint64_t started) -> None:
        """Make it what executes a graph of a context from ``graphFinalize`` on. ``started``: when
        its making began, in nanoseconds of the monotonic clock."""
        cdef Qnnrt_Executor_t executor
        cdef uint64_t code
        cdef void* handle = _pointer(graph)
        cdef uint64_t (*give)(void*, const Qnnrt_Executor_t*) noexcept nogil
        give = <uint64_t (*)(void*, const Qnnrt_Executor_t*) noexcept nogil>(
            library._symbol("qnnrt_graph_set_executor"))
        self._l.graph = graph
        self._l.owner = context
        executor.self = self._l
        executor.started = started
        executor.bind = _gpu_bind
        executor.run = _gpu_run
        executor.release = _gpu_release
        with nogil:
            code = give(handle, &executor)
        library._check(code, "graph", "graphFinalize")

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
        global _gpu_lists
        cdef _GpuBinding* b
        cdef uint32_t i
        if self._l == NULL:
            return
        _gpu_lists -= 1
        # A forked child has the parent's objects, and no driver that knows them.
        cdef bint ours = self._generation == Generation()
        for i in range(self._l.n_io):
            if self._l.io[i].staging != NULL and ours:
                self._l.cl.release(self._l.io[i].staging)
            PyMem_Free(self._l.io[i].patches)
            PyMem_Free(self._l.io[i].dims)
        if self._l.timed != NULL and ours:
            self._l.cl.release_queue(self._l.timed)
        for i in range(self._l.n_steps):
            PyMem_Free(self._l.steps[i].mems)
        while self._l.free != NULL:
            b = self._l.free
            self._l.free = b.next
            free(b.places)
            free(b)
        PyMem_Free(self._l.io)
        PyMem_Free(self._l.steps)
        PyMem_Free(self._l.events)
        del self._l.lock
        del self._l.free_lock
        PyMem_Free(self._l)
