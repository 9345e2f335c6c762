# Part of _core.pyx: model libraries, which compose graphs with a backend's function table.

from _thread import allocate_lock

_MODEL_ERRORS = {
    <int>MODEL_TENSOR_ERROR: "MODEL_TENSOR_ERROR",
    <int>MODEL_PARAMS_ERROR: "MODEL_PARAMS_ERROR",
    <int>MODEL_NODES_ERROR: "MODEL_NODES_ERROR",
    <int>MODEL_GRAPH_ERROR: "MODEL_GRAPH_ERROR",
    <int>MODEL_CONTEXT_ERROR: "MODEL_CONTEXT_ERROR",
    <int>MODEL_GENERATION_ERROR: "MODEL_GENERATION_ERROR",
    <int>MODEL_SETUP_ERROR: "MODEL_SETUP_ERROR",
    <int>MODEL_INVALID_ARGUMENT_ERROR: "MODEL_INVALID_ARGUMENT_ERROR",
    <int>MODEL_FILE_ERROR: "MODEL_FILE_ERROR",
    <int>MODEL_MEMORY_ALLOCATE_ERROR: "MODEL_MEMORY_ALLOCATE_ERROR",
}


cdef class ModelLibrary:
    """A loaded model library. Loading it runs its initialisers, composing its own code.

    It stays loaded as long as this object and the compositions made by it live.
    """

    cdef void* _dl
    cdef void* _compose
    cdef QnnModel_FreeGraphsInfoFn_t _free
    cdef readonly str path
    cdef readonly str prefix

    def __cinit__(self, path, str prefix="QnnModel"):
        # A name without a folder would be searched for where the loader looks.
        data = os.fsencode(os.path.abspath(path))
        cdef const char* c_path = <char*>(<bytes>data)
        with nogil:
            self._dl = dlopen(c_path, RTLD_NOW | RTLD_LOCAL)
        if self._dl == NULL:
            raise errors.ModelError(f"cannot load the model library: {_text(dlerror())}")
        self.path = os.fspath(path)
        self.prefix = prefix
        self._compose = self._find("composeGraphs")
        self._free = <QnnModel_FreeGraphsInfoFn_t>self._find("freeGraphsInfo")

    cdef void* _find(self, str name) except NULL:
        symbol = f"{self.prefix}_{name}"
        data = _utf8(symbol, "a model library's prefix")
        cdef void* found = dlsym(self._dl, <char*>(<bytes>data))
        if found == NULL and dlsym(self._dl, "QnnInterface_getProviders") != NULL:
            raise errors.ModelError(f"{self.path} is a backend library, not a model library: give "
                                    "it as the backend")
        if found == NULL:
            raise errors.ModelError(f"{self.path} is no model library: it does not export {symbol}")
        return found

    def __dealloc__(self):
        if self._dl != NULL:
            dlclose(self._dl)


# One library composes at a time: the functions that it is given know by this whose they are.
cdef Composition _composing = None
cdef object _one_composes = allocate_lock()


def _compose_in_child():
    """Whoever composes at a fork goes on in the parent alone."""
    global _one_composes
    _one_composes = allocate_lock()


os.register_at_fork(after_in_child=_compose_in_child)


@cython.no_gc_clear
cdef class Composition:
    """The graphs that a model library composes in a context; it owns them until this object ends.

    Args:
        library: what composes.
        provider, backend, context: where.
        plan: what is asked of the graphs: ``config(name)`` gives a graph's config list or None,
            ``tensor(graph, description)`` the type and the memory type (None: as it is) of a tensor
            that is no constant. ``created(graph, name)``, ``added(graph, description)`` and
            ``node(graph, name, outputs)`` learn what the backend took.

    Raises:
        QnnError: the backend refuses something that the library then needs.
        ModelError: the library fails by itself, throws a C++ exception, or hands out nothing.
    """

    cdef ModelLibrary _library
    cdef Provider _provider
    cdef object _plan
    cdef object _failure
    cdef GraphInfo_t** _graphs
    cdef uint32_t _count
    cdef readonly list graphs  # {"handle", "name", "inputs", "outputs"}

    def __cinit__(self, ModelLibrary library, Provider provider, backend, context, plan):
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_ContextHandle_t c = _pointer(context)
        cdef QnnInterface_ImplementationV2_32_t table = provider._fn
        cdef Thrown thrown
        cdef int code
        global _composing
        self._library, self._provider, self._plan = library, provider, plan
        if table.backendValidateOpConfig != NULL:
            table.backendValidateOpConfig = <QnnBackend_ValidateOpConfigFn_t>_composed_validation
        table.graphCreate = <QnnGraph_CreateFn_t>_composed_graph
        table.graphAddNode = <QnnGraph_AddNodeFn_t>_composed_node
        table.tensorCreateGraphTensor = <QnnTensor_CreateGraphTensorFn_t>_composed_tensor
        with _one_composes:
            _composing = self
            try:
                with nogil:
                    code = ComposeGraphs(
                        library._compose, b, table, c, &self._graphs, &self._count, &thrown)
            finally:
                _composing = None
                self._plan = None
        if LogSink.Get().pending():
            _drain_log()
        if code != 0:
            self._graphs = NULL  # a failed call has promised nothing about it
        if code != 0 or self._failure is not None:
            self._fail(code, thrown)
        self.graphs = self._described()

    cdef int _fail(self, int code, Thrown& thrown) except -1:
        said = f"{self._library.path}: {self._library.prefix}_composeGraphs: "
        if thrown.any:
            said += f"it threw a C++ exception ({_text(thrown.what)})"
        else:
            said += f"{_MODEL_ERRORS.get(code, f'error {code}')} ({code})"
        failure = self._failure
        if failure is None:
            raise errors.ModelError(said)
        if not isinstance(failure, errors.QnnError):
            raise failure
        if code != 0:
            raise type(failure)(failure.code, failure.name, f"{said}: {failure.message}")
        return 0  # the library goes on without what the backend refused

    cdef list _described(self):
        cdef const GraphInfo_t* g
        cdef uint32_t i
        found = []
        for i in range(self._count if self._graphs != NULL else 0):
            g = self._graphs[i]
            if g == NULL or g.graph == NULL or g.graphName == NULL:
                raise errors.ModelError(
                    f"{self._library.path}: entry {i} of the graphs that it composed is empty")
            found.append({
                "handle": <uintptr_t>g.graph,
                "name": _text(g.graphName),
                "inputs": _tensors(g.inputTensors, g.numInputTensors),
                "outputs": _tensors(g.outputTensors, g.numOutputTensors),
            })
        if not found:
            raise errors.ModelError(f"{self._library.path} composed no graph")
        return found

    def __dealloc__(self):
        cdef Thrown thrown  # by what nobody is left to hear of
        if self._graphs != NULL:
            FreeGraphsInfo(self._library._free, &self._graphs, self._count, &thrown)

    # ---- called by the library, in the place of the backend's functions

    cdef uint64_t _graph(self, Qnn_ContextHandle_t context, const char* name,
                         const QnnGraph_Config_t** config, Qnn_GraphHandle_t* graph) except? 1:
        cdef vector[const QnnGraph_Config_t*] all
        cdef const QnnGraph_Config_t** own
        cdef uint64_t code
        cdef size_t i = 0
        while config != NULL and config[i] != NULL:
            all.push_back(config[i])
            i += 1
        ours = self._plan.config(_text(name))
        own = <const QnnGraph_Config_t**>_config(ours)
        i = 0
        while own != NULL and own[i] != NULL:
            all.push_back(own[i])
            i += 1
        all.push_back(NULL)
        with nogil:
            code = self._provider._fn.graphCreate(context, name, all.data(), graph)
        self._check(code, "graph", "graphCreate", repr(_text(name)))
        if code == 0:
            self._plan.created(<uintptr_t>graph[0], _text(name))
        return code

    cdef uint64_t _tensor(self, Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor) except? 1:
        cdef uint64_t code
        if tensor != NULL and tensor.v1.type != QNN_TENSOR_TYPE_STATIC:
            kind, mem_type = self._plan.tensor(<uintptr_t>graph, _tensor_info(tensor))
            tensor.v1.type = <Qnn_TensorType_t><uint32_t>kind
            if mem_type is not None:
                tensor.v1.memType = <Qnn_TensorMemType_t><uint32_t>mem_type
        with nogil:
            code = self._provider._fn.tensorCreateGraphTensor(graph, tensor)
        name = "" if tensor == NULL else _text(tensor.v1.name)
        self._check(code, "tensor", "tensorCreateGraphTensor", name)
        if code == 0 and tensor.v1.type != QNN_TENSOR_TYPE_STATIC:
            self._plan.added(<uintptr_t>graph, _tensor_info(tensor))
        return code

    cdef uint64_t _validation(self, Qnn_BackendHandle_t backend, Qnn_OpConfig_t op) except? 1:
        cdef uint64_t code
        with nogil:
            code = self._provider._fn.backendValidateOpConfig(backend, op)
        self._check(code, "backend", "backendValidateOpConfig", _composed_op(op))
        return code

    cdef uint64_t _node(self, Qnn_GraphHandle_t graph, Qnn_OpConfig_t op) except? 1:
        cdef uint64_t code
        with nogil:
            code = self._provider._fn.graphAddNode(graph, op)
        self._check(code, "graph", "graphAddNode", _composed_op(op))
        if code != 0:
            return code
        outputs = [_text(op.v1.outputTensors[i].v1.name) for i in range(op.v1.numOfOutputs)]
        self._plan.node(<uintptr_t>graph, _text(op.v1.name), outputs)
        return code

    cdef int _check(self, uint64_t code, str component, str call, str detail) except -1:
        if code != 0:  # the thread that got the error asks
            failure = errors.make_error(<uint32_t>(code & 0xFFFF), component, call, detail,
                                        self._provider.error_message(code))
            self._failure = self._failure or failure
        return 0


cdef str _composed_op(Qnn_OpConfig_t op):
    return f"{_text(op.v1.typeName)} {_text(op.v1.name)!r}"


cdef uint64_t _composed_validation(
        Qnn_BackendHandle_t backend, Qnn_OpConfig_t op) noexcept with gil:
    try:
        return _composing._validation(backend, op)
    except BaseException as error:
        _composing._failure = error
        return QNN_BACKEND_ERROR_INVALID_ARGUMENT


cdef uint64_t _composed_graph(
        Qnn_ContextHandle_t context, const char* name, const QnnGraph_Config_t** config,
        Qnn_GraphHandle_t* graph) noexcept with gil:
    try:
        return _composing._graph(context, name, config, graph)
    except BaseException as error:
        _composing._failure = error
        return QNN_GRAPH_ERROR_INVALID_ARGUMENT


cdef uint64_t _composed_tensor(Qnn_GraphHandle_t graph, Qnn_Tensor_t* tensor) noexcept with gil:
    try:
        return _composing._tensor(graph, tensor)
    except BaseException as error:
        _composing._failure = error
        return QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM


cdef uint64_t _composed_node(Qnn_GraphHandle_t graph, Qnn_OpConfig_t op) noexcept with gil:
    try:
        return _composing._node(graph, op)
    except BaseException as error:
        _composing._failure = error
        return QNN_GRAPH_ERROR_INVALID_OP_CONFIG
