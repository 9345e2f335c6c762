# Part of _core.pyx: executions on bindings of the caller's, and memory bound beforehand.

cdef int _fill(Qnn_Tensor_t* out, Tensor tensor, binding) except -1:
    """``binding``: a memory handle (int), or (address, nbytes)."""
    out[0] = tensor._t
    if isinstance(binding, tuple):
        address, nbytes = binding
        if nbytes > 0xFFFFFFFF:
            raise ValueError(f"tensor {tensor.name!r}: {nbytes} bytes are more than a RAW tensor "
                             "can carry (2**32 - 1)")
        out.v1.memType = QNN_TENSORMEMTYPE_RAW
        out.v1.clientBuf.data = _pointer(address)
        out.v1.clientBuf.dataSize = nbytes
    else:
        out.v1.clientBuf.data = NULL
        out.v1.clientBuf.dataSize = 0
        out.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE
        out.v1.memHandle = _pointer(binding)
    return 0


def graph_execute(Library library not None, graph, inputs, outputs, profile=0, signal=0) -> None:
    """graphExecute once; inputs and outputs are (Tensor, binding) pairs."""
    cdef uint32_t n = <uint32_t>len(inputs)
    cdef uint32_t m = <uint32_t>len(outputs)
    cdef Qnn_GraphHandle_t g = _pointer(graph)
    cdef Qnn_ProfileHandle_t p = _pointer(profile)
    cdef Qnn_SignalHandle_t s = _pointer(signal)
    cdef uint64_t code
    cdef Qnn_Tensor_t* tensors
    library._need(<void*>library._fn.graphExecute, "graph_execute")
    tensors = <Qnn_Tensor_t*>PyMem_Calloc(n + m + 1, sizeof(Qnn_Tensor_t))
    if tensors == NULL:
        raise MemoryError
    try:
        for i, (tensor, binding) in enumerate([*inputs, *outputs]):
            _fill(&tensors[<uint32_t>i], tensor, binding)
        with nogil:
            code = library._fn.graphExecute(g, tensors, n, tensors + n, m, p, s)
        library._check(code, "graph", "graphExecute")
    finally:
        PyMem_Free(tensors)


def graph_execute_async(Library library not None, graph, inputs, outputs, Outcome future not None,
                        profile=0, signal=0, keep=None) -> None:
    """graphExecuteAsync. ``future`` is done when it was executed, and never when this raises; it,
    tensors and ``keep`` are held until then. Waits, without the interpreter lock, while the
    backend's queue is full."""
    cdef uint32_t n = <uint32_t>len(inputs)
    cdef uint32_t m = <uint32_t>len(outputs)
    cdef Qnn_GraphHandle_t g = _pointer(graph)
    cdef Qnn_ProfileHandle_t p = _pointer(profile)
    cdef Qnn_SignalHandle_t s = _pointer(signal)
    library._need(<void*>library._fn.graphExecuteAsync, "graph_executeAsync")
    cdef Pending pending = Pending.__new__(Pending, library, future, n + m)
    for i, (tensor, binding) in enumerate([*inputs, *outputs]):
        _fill(&pending._tensors[<uint32_t>i], tensor, binding)
    pending._keep = (inputs, outputs, keep)
    pending._own_flight.Begin()
    pending._launch(g, n, m, p, s, &pending._own_flight, NULL, NULL)


cdef class Environment:
    """A tensor set bound to a graph; ``release`` undoes it. The struct must not move meanwhile."""

    cdef QnnGraph_ExecuteEnvironment_t _environment
    cdef Qnn_Tensor_t* _tensors
    cdef Library _library
    cdef Qnn_GraphHandle_t _graph
    cdef object _keep

    def __dealloc__(self):
        PyMem_Free(self._tensors)

    def addresses(self) -> list:
        """(address, bytes) of each tensor's client buffer, inputs first: what the backend filled in
        for POPULATE_CLIENT_BUFS."""
        n = self._environment.tensorSet.v1.numInputs + self._environment.tensorSet.v1.numOutputs
        return [(<uintptr_t>self._tensors[i].v1.clientBuf.data,
                 self._tensors[i].v1.clientBuf.dataSize) for i in range(n)]

    def release(self, _=0) -> None:
        """graphReleaseExecutionEnvironment."""
        cdef const QnnGraph_ExecuteEnvironment_t* one = &self._environment
        cdef uint64_t code
        self._library._need(<void*>self._library._fn.graphReleaseExecutionEnvironment,
                            "graph_releaseExecutionEnvironment")
        with nogil:
            code = self._library._fn.graphReleaseExecutionEnvironment(self._graph, &one, 1)
        self._keep = None
        self._library._check(code, "graph", "graphReleaseExecutionEnvironment")


def graph_prepare_execution_environment(Library library not None, graph, uint32_t option, inputs,
                                        outputs, keep=None) -> Environment:
    """graphPrepareExecutionEnvironment for one option; inputs and outputs as for execute. A tensor
    bound to (0, 0) is RAW without memory."""
    cdef uint32_t n = <uint32_t>len(inputs)
    cdef uint32_t m = <uint32_t>len(outputs)
    cdef Environment e = Environment.__new__(Environment)
    cdef QnnGraph_ExecuteEnvironment_t* one = &e._environment
    cdef uint64_t code
    library._need(<void*>library._fn.graphPrepareExecutionEnvironment,
                  "graph_prepareExecutionEnvironment")
    e._library = library
    e._graph = _pointer(graph)
    e._tensors = <Qnn_Tensor_t*>PyMem_Calloc(n + m + 1, sizeof(Qnn_Tensor_t))
    if e._tensors == NULL:
        raise MemoryError
    for i, (tensor, binding) in enumerate([*inputs, *outputs]):
        _fill(&e._tensors[<uint32_t>i], tensor, binding)
    e._keep = (inputs, outputs, keep)
    one.option = <QnnGraph_ExecuteEnvironmentOption_t>option
    one.tensorSet.version = QNN_TENSOR_SET_VERSION_1
    one.tensorSet.v1.numInputs = n
    one.tensorSet.v1.inputs = e._tensors
    one.tensorSet.v1.numOutputs = m
    one.tensorSet.v1.outputs = e._tensors + n
    with nogil:
        code = library._fn.graphPrepareExecutionEnvironment(e._graph, &one, 1)
    library._check(code, "graph", "graphPrepareExecutionEnvironment")
    # A backend that skips an option says so by emptying the caller's struct.
    if one.tensorSet.v1.numInputs != n or one.tensorSet.v1.numOutputs != m:
        raise errors.make_error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                                "graph", "graphPrepareExecutionEnvironment", "",
                                "the backend left the option out")
    return e
