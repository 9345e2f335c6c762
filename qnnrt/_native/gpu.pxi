# Part of _core.pyx: the gpu backend's side of the function table. Graphs are command lists of
# OpenCL kernels that qnnrt.gpu has built, given to the runtime as what executes them (csrc/opencl).

cdef class GpuLibrary(Library):
    """The gpu backend: the part of the runtime that checks, keeps and queues graphs, and everything
    that does not compute; `qnnrt.gpu.library` overrides what the device does.

    Args:
        path: any of the runtime's own libraries.
    """

    def __cinit__(self, path):
        self._choose_provider("qnnrt_gpu_get_providers")

    def graph_lower(self, graph, bint optimize) -> str:
        """A graph that has its tensors and nodes, after the runtime's passes, as JSON."""
        cdef const char* text = NULL
        cdef uint64_t code
        cdef void* handle = _pointer(graph)
        cdef uint32_t passes = QNNRT_PASSES_FUNCTIONS if optimize else QNNRT_PASSES_CONSTANTS
        with nogil:
            code = qnnrt_graph_lower(handle, passes, &text)
        self._check(code, "graph", "graphFinalize")
        return _text(text)

    def release_constants(self, graph, list kept) -> None:
        """Of the constants of a finalized graph only those at these addresses stay."""
        cdef vector[const void*] addresses
        for address in kept:
            addresses.push_back(<const void*>_pointer(address))
        self._check(qnnrt_graph_leave(_pointer(graph), addresses.data(), addresses.size()), "graph",
                    "graphFinalize")

    def make_error(self, uint32_t code, component, call, message):
        """The exception for something that this backend refuses, in its own words."""
        return errors.make_error(code, component, call, "", message)


#: What a command list calls, in the order of Qnnrt_OpenClFunctions_t.
OPENCL_FUNCTIONS = (
    "clEnqueueNDRangeKernel", "clEnqueueWriteBuffer", "clEnqueueReadBuffer",
    "clEnqueueBarrierWithWaitList", "clSetKernelArg", "clFinish", "clFlush", "clCreateBuffer",
    "clCreateCommandQueue", "clGetEventProfilingInfo", "clReleaseMemObject", "clReleaseEvent",
    "clReleaseCommandQueue", "clCreateSubBuffer", "clGetEventInfo", "clWaitForEvents",
)
#: Those of cl_khr_command_buffer, in the order of Qnnrt_OpenClRecording_t.
RECORDING_FUNCTIONS = (
    "clCreateCommandBufferKHR", "clCommandNDRangeKernelKHR", "clFinalizeCommandBufferKHR",
    "clEnqueueCommandBufferKHR", "clReleaseCommandBufferKHR",
)


cdef uint32_t _opencl_call(void* user, void* queue, void* const* memories, uint32_t n,
                           Qnnrt_ExecutorText_t* why) noexcept with gil:
    """A step of Python's."""
    cdef uint32_t i
    try:
        (<object>user)(<uintptr_t>queue, [<uintptr_t>memories[i] for i in range(n)])
        return 0
    except BaseException as e:
        text = f"{type(e).__name__}: {e}".encode("utf-8", "replace")[:sizeof(why.text) - 1]
        memcpy(why.text, <const char*><bytes>text, len(text) + 1)
        return 1


cdef class ArenaPool:
    """Memory for the intermediates of an OpenCL context's command lists. Those that run one after
    the other work in the same.

    Args:
        functions: as those of ``CommandList``.
        context: the cl_context, which has to stay as long as the pool and the lists with it.
    """

    cdef Qnnrt_OpenClPoolHandle_t _pool

    def __cinit__(self, dict functions, context):
        cdef vector[void*] table
        for name in OPENCL_FUNCTIONS:
            table.push_back(_pointer(functions[name]))
        if qnnrt_opencl_pool_create(<Qnnrt_OpenClFunctions_t*>table.data(), _pointer(context),
                                    &self._pool):
            raise MemoryError

    def counts(self) -> dict:
        """Bytes on the device, the buffers that they are, and sets of them: as many as executions
        have run at a time."""
        cdef Qnnrt_OpenClPoolCounts_t c
        with nogil:
            qnnrt_opencl_pool_counts(self._pool, &c)
        return {"bytes": c.bytes, "buffers": c.buffers, "sets": c.sets}

    def __dealloc__(self):
        if self._pool != NULL:
            qnnrt_opencl_pool_free(self._pool)


cdef class CommandList:
    """A finalized graph of the gpu backend: kernels with their arguments set, in order.

    Args:
        functions: addresses of OpenCL functions by name, of the loader that made everything else.
        context, queue: the cl_context and cl_command_queue.
        steps: (kernel, total sizes, group sizes or None, name of the node, name of the kernel)
            each. A step of Python's, which enqueues something itself, is (callable, [cl_mem or
            0, ...], None, node, name): it is called with the number of the queue and the list of
            those of the memories, where 0 stands for one of ``io``, and must not wait for the
            device.
        io: (id, QNN data type, bytes, shape, whether an output, [(step, index), ...], name,
            whether kernels read this output, how many arguments the step that writes it first is
            done with then: an input among these may have its memory) each, inputs first. An index
            is that of a kernel's argument, or in the list of a step of Python's.
        keep: what must live as long: kernels, programs, buffers.
        device: the cl_device_id; without it there is no queue with timestamps for profiles.
        base: the queue that memory changes owners in, unless that is ``queue``.
        in_order, timestamps: properties of ``queue``.
        own_queue: commands of a client's neither have to come before those of an execution nor
            behind them, without having been waited for.
        nodes: profiles have timestamps, and events of nodes.
        flush_every: commands after which the device is told to begin; 0: it does so by itself.
        pool, arenas, places: where intermediates are: bytes of each arena that an execution takes
            from the pool, and (arena, offset, bytes, step, index) for each use.
        sleep: a wait asks the driver now and then, and leaves the processor to others meanwhile.
        recording: addresses of ``RECORDING_FUNCTIONS`` by name; None: kernels are enqueued one by
            one.
        faults: a cl_mem in which kernels note indices that have no element, a
            ``Qnnrt_OpenClFault_t`` for each of these steps; 0 without any.
    """

    cdef Qnnrt_OpenClListHandle_t _list
    cdef uint32_t _tensors
    cdef object _keep

    def __cinit__(self, dict functions, context, queue, list steps, list io, keep, *, device=0,
                  base=0, bint in_order=True, bint timestamps=False, bint own_queue=True,
                  bint nodes=True, uint32_t flush_every=0, ArenaPool pool=None, list arenas=None,
                  list places=None, bint sleep=False, dict recording=None,
                  faults=(0, ())):
        cdef vector[void*] table
        cdef vector[Qnnrt_OpenClStep_t] c_steps
        cdef vector[Qnnrt_OpenClTensor_t] c_tensors
        cdef vector[Qnnrt_OpenClPatch_t] c_patches
        cdef Qnnrt_OpenClPatch_t c_patch
        cdef vector[uint64_t] c_arenas
        cdef vector[Qnnrt_OpenClPlace_t] c_places
        cdef Qnnrt_OpenClPlace_t c_place
        cdef vector[void*] c_recording
        cdef Qnnrt_OpenClListInfo_t info
        cdef Qnnrt_ExecutorText_t why
        cdef list alive = []  # what the structs point at
        for name in OPENCL_FUNCTIONS:
            table.push_back(_pointer(functions[name]))
        for step in steps:
            c_steps.push_back(_opencl_step(step, alive))
        for i, tensor in enumerate(io):
            c_tensors.push_back(_opencl_tensor(tensor, alive))
            c_patch.tensor = i
            for c_patch.step, c_patch.index in tensor[5]:
                c_patches.push_back(c_patch)
        for nbytes in arenas or ():
            c_arenas.push_back(nbytes)
        for (c_place.arena, c_place.offset, c_place.size, c_place.step,
             c_place.index) in places or ():
            c_places.push_back(c_place)
        for name in RECORDING_FUNCTIONS if recording is not None else ():
            c_recording.push_back(_pointer(recording[name]))
        info.functions = <Qnnrt_OpenClFunctions_t*>table.data()
        info.context, info.device = _pointer(context), _pointer(device)
        info.queue, info.base = _pointer(queue), _pointer(base or queue)
        info.flags = ((0 if in_order else QNNRT_OPENCL_OUT_OF_ORDER)
                      | (QNNRT_OPENCL_TIMESTAMPS if timestamps else 0)
                      | (0 if own_queue else QNNRT_OPENCL_CLIENT_QUEUE)
                      | (QNNRT_OPENCL_PROFILE_NODES if nodes else 0)
                      | (QNNRT_OPENCL_SLEEP if sleep else 0))
        info.flush_every = flush_every
        info.steps, info.num_steps = c_steps.data(), <uint32_t>c_steps.size()
        info.tensors, info.num_tensors = c_tensors.data(), <uint32_t>c_tensors.size()
        info.patches, info.num_patches = c_patches.data(), <uint32_t>c_patches.size()
        info.faults, info.num_faults = _pointer(faults[0]), <uint32_t>len(faults[1])
        info.fault_steps = <const uint32_t*>_opencl_array("I", faults[1], alive)
        info.pool = pool._pool if pool is not None else NULL
        info.arenas, info.num_arenas = c_arenas.data(), <uint32_t>c_arenas.size()
        info.places, info.num_places = c_places.data(), <uint32_t>c_places.size()
        info.recording = NULL
        if recording is not None:
            info.recording = <Qnnrt_OpenClRecording_t*>c_recording.data()
        memset(&why, 0, sizeof(why))
        code = qnnrt_opencl_list_create(&info, &self._list, &why)
        if code:
            text = _text(why.text) or "no command list was made"
            raise errors.make_error(code, "graph", "graphFinalize", "", text)
        self._tensors = info.num_tensors
        self._keep = keep, steps, pool

    def install(self, Library library not None, context, graph, uint64_t started) -> None:
        """Make it what executes a graph of a context from ``graphFinalize`` on. ``started``: when
        its making began, in nanoseconds of the monotonic clock."""
        cdef Qnnrt_Executor_t executor
        cdef uint64_t code
        cdef void* handle = _pointer(graph)
        qnnrt_opencl_list_executor(self._list, _pointer(context), started, &executor)
        with nogil:
            code = qnnrt_graph_set_executor(handle, &executor)
        library._check(code, "graph", "graphFinalize")

    def forget(self, mem) -> None:
        """Its number may be another buffer's from now on: the next execution sets it anew."""
        cdef void* address = _pointer(mem)
        with nogil:
            qnnrt_opencl_list_forget(self._list, address)

    def counts(self) -> dict:
        """Commands enqueued and bytes moved since the last reset; bytes of staging memory."""
        cdef Qnnrt_OpenClCounts_t c
        qnnrt_opencl_list_counts(self._list, &c, NULL)
        return {"executes": c.executes, "kernels": c.kernels, "writes": c.writes, "reads": c.reads,
                "written_bytes": c.written_bytes, "read_bytes": c.read_bytes,
                "reserved_bytes": c.reserved_bytes, "given": c.given, "taken_back": c.taken_back,
                "arguments": c.arguments, "recorded": c.recorded}

    def copied(self) -> list:
        """Bytes staged for each input and output, in their order."""
        cdef Qnnrt_OpenClCounts_t c
        cdef vector[uint64_t] copied
        copied.resize(self._tensors)
        qnnrt_opencl_list_counts(self._list, &c, copied.data())
        return copied

    def reset(self) -> None:
        """Start counting anew."""
        with nogil:
            qnnrt_opencl_list_reset(self._list)

    def __dealloc__(self):
        if self._list != NULL:
            qnnrt_opencl_list_free(self._list)


cdef void* _opencl_array(str kind, values, list alive) except? NULL:
    """Numbers as a C array; "I" of 32 bits, "Q" of 64."""
    alive.append(array(kind, values))
    return _pointer(alive[-1].buffer_info()[0])


cdef const char* _opencl_name(str name, list alive) except NULL:
    alive.append(name.encode())
    return <const char*><bytes>alive[-1]


cdef Qnnrt_OpenClStep_t _opencl_step(tuple step, list alive) except *:
    cdef Qnnrt_OpenClStep_t s
    memset(&s, 0, sizeof(s))
    kernel, total, group, node, name = step
    s.node, s.name = _opencl_name(node, alive), _opencl_name(name, alive)
    if callable(kernel):
        s.call, s.user = _opencl_call, <void*>kernel  # the command list keeps it
        s.memories = <void* const*>_opencl_array("Q", [mem or 0 for mem in total], alive)
        s.num_memories = <uint32_t>len(total)
        return s
    s.kernel, s.dims = _pointer(kernel), <uint32_t>len(total)
    for i in range(s.dims):
        s.total[i] = total[i]
        s.group[i] = group[i] if group is not None else 0
    return s


cdef Qnnrt_OpenClTensor_t _opencl_tensor(tuple tensor, list alive) except *:
    cdef Qnnrt_OpenClTensor_t t
    t.id, t.data_type, t.nbytes, shape, output, _, name, read, before = tensor
    t.name = _opencl_name(name, alive)
    t.flags = (QNNRT_OPENCL_OUTPUT if output else 0) | (QNNRT_OPENCL_READ if read else 0) \
        | (<uint32_t>before << QNNRT_OPENCL_ARGS_BEFORE)
    t.rank = <uint32_t>len(shape)
    t.dims = <const uint32_t*>_opencl_array("I", shape, alive)
    return t


def gpu_register(mem, context, uint64_t nbytes, uint64_t flags, uint32_t data_type, shape,
                 owners=None) -> int:
    """A handle for a cl_mem, of which the caller keeps a reference as long as it is registered.

    Args:
        owners: for memory that the host sees as well and that changes owners around executions:
            ("mapped" or "external", queue, the function that gives it to the device, the one that
            takes it back, the host's address or the cl_mem to be acquired). Mapped memory is
            mapped by now.
    """
    cdef Qnnrt_OpenClMemory_t m
    cdef Qnn_MemHandle_t handle = NULL
    cdef list alive = []
    memset(&m, 0, sizeof(m))
    m.mem, m.context = _pointer(mem), _pointer(context)
    m.nbytes, m.flags, m.data_type = nbytes, flags, data_type
    m.rank, m.dims = <uint32_t>len(shape), <const uint32_t*>_opencl_array("I", shape, alive)
    if owners is not None:
        kind, queue, to_device, to_host, address = owners
        m.ownership.kind = QNNRT_OPENCL_MAPPED if kind == "mapped" else QNNRT_OPENCL_EXTERNAL
        m.ownership.queue, m.ownership.address = _pointer(queue), _pointer(address)
        m.ownership.to_device, m.ownership.to_host = _pointer(to_device), _pointer(to_host)
    if qnnrt_opencl_register(&m, &handle) != 0:
        raise MemoryError
    return <uintptr_t>handle


cdef object _opencl_done(uint64_t code):
    """True; False for a handle that is none, None for what is not permitted."""
    return True if code == 0 else False if code == QNN_MEM_ERROR_INVALID_HANDLE else None


def gpu_deregister(handle, bint force=False) -> bool:
    """Wait for the executions that use it, and free it.

    Returns:
        False when it is no handle, or no longer. None while the client has it mapped, unless
        ``force``.
    """
    cdef void* h = _pointer(handle)
    cdef uint64_t code
    with nogil:
        code = qnnrt_opencl_deregister(h, force)
    return _opencl_done(code)


def gpu_map(handle, bint write) -> bool:
    """A mapping of the client's begins: waits for executions, and lets none in that it disturbs.

    Returns:
        False when it is no handle. None when there is another mapping already, and one of the two
        writes.
    """
    cdef void* h = _pointer(handle)
    cdef uint64_t code
    with nogil:
        code = qnnrt_opencl_map(h, write)
    return _opencl_done(code)


def gpu_unmap(handle, bint write) -> None:
    """It has ended."""
    qnnrt_opencl_unmap(_pointer(handle), write)


def gpu_usage(handle) -> tuple:
    """How many executions use it now, and whether the client has it mapped."""
    cdef uint32_t executions = 0
    cdef uint32_t mapped = 0
    qnnrt_opencl_usage(_pointer(handle), &executions, &mapped)
    return executions, mapped != 0


def gpu_counts() -> dict:
    """What the gpu backend of this process holds: memory handles and command lists."""
    cdef uint32_t handles = 0
    cdef uint32_t lists = 0
    qnnrt_opencl_live(&handles, &lists)
    return {"handles": handles, "lists": lists}
