# Part of _core.pyx: a backend library and its function table.

cdef dict _libraries = {}  # real path -> Library; never unloaded, see Library


cdef void* _pointer(handle) except? NULL:
    return <void*><uintptr_t>handle


cdef class Library:
    """A loaded backend library: the QNN function table, one method for each function.

    Handles are ints. A library stays loaded for the life of the process: backends keep threads and
    thread-local destructors of which nobody else knows the end.
    """

    cdef void* _dl
    cdef const QnnInterface_t* _interface
    cdef QnnInterface_ImplementationV2_32_t _fn
    cdef uint64_t (*_stats)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*) noexcept nogil
    cdef uint64_t (*_copies)(
        Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*) noexcept nogil
    cdef uint64_t (*_reset)(Qnn_GraphHandle_t) noexcept nogil
    cdef const char* (*_describe)(Qnn_GraphHandle_t) noexcept nogil
    cdef readonly str path
    cdef readonly int backend_id
    cdef readonly str provider_name
    cdef readonly tuple core_version
    cdef readonly tuple backend_version
    cdef object __weakref__

    @staticmethod
    def open(path) -> Library:
        """Load a backend library, or return the one already loaded from this path."""
        name = os.fspath(path)
        key = os.path.realpath(name) if os.sep in name else name
        library = _libraries.get(key)
        if library is None:
            library = Library(name)
            _libraries[key] = library
        return library

    def __cinit__(self, path):
        data = os.fsencode(path)
        cdef const char* c_path = <char*>(<bytes>data)
        with nogil:
            self._dl = dlopen(c_path, RTLD_NOW | RTLD_LOCAL)
        if self._dl == NULL:
            raise errors.BackendNotFoundError(f"cannot load the backend library: "
                                              f"{_text(dlerror())}")
        self.path = os.fspath(path)
        self._choose_provider("QnnInterface_getProviders")
        self._stats = <uint64_t (*)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_stats"))
        self._copies = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_copies"))
        self._reset = <uint64_t (*)(Qnn_GraphHandle_t) noexcept nogil>(
            self._symbol("qnnrt_graph_reset_stats"))
        self._describe = <const char* (*)(Qnn_GraphHandle_t) noexcept nogil>(
            self._symbol("qnnrt_graph_describe"))

    cdef void* _symbol(self, const char* name) noexcept:
        return dlsym(self._dl, name)

    cdef int _choose_provider(self, const char* symbol) except -1:
        cdef QnnInterface_GetProvidersFn_t get
        cdef const QnnInterface_t** providers = NULL
        cdef const QnnInterface_t* p
        cdef uint32_t n = 0
        cdef uint32_t i
        get = <QnnInterface_GetProvidersFn_t>self._symbol(symbol)
        if get == NULL:
            raise errors.BackendNotFoundError(
                f"{self.path} is no QNN backend library: it does not export {_text(symbol)}"
            )
        cdef uint64_t code
        with nogil:
            code = get(&providers, &n)
        if code:
            raise errors.make_error(<uint32_t>(code & 0xFFFF), "interface",
                                    _text(symbol), self.path)
        self.core_version = None
        # Tables only grow at their end between minor versions, so a later minor is as good.
        seen = []
        for i in range(n):
            p = providers[i]
            version = (p.apiVersion.coreApiVersion.major, p.apiVersion.coreApiVersion.minor,
                       p.apiVersion.coreApiVersion.patch)
            seen.append(".".join(map(str, version)))
            if version[0] != QNN_API_VERSION_MAJOR or version[1] < QNN_API_VERSION_MINOR:
                continue
            if self.core_version is None or version > self.core_version:
                self._interface = p
                self.core_version = version
        if self._interface == NULL:
            raise errors.BackendNotFoundError(
                f"{self.path} offers core interface {', '.join(seen) or 'none'}; needed is "
                f"{QNN_API_VERSION_MAJOR}.{QNN_API_VERSION_MINOR} or a later "
                f"{QNN_API_VERSION_MAJOR}.x"
            )
        p = self._interface
        self._fn = p.v2_32
        self.backend_id = p.backendId
        self.provider_name = _text(p.providerName)
        self.backend_version = (p.apiVersion.backendApiVersion.major,
                                p.apiVersion.backendApiVersion.minor,
                                p.apiVersion.backendApiVersion.patch)
        return 0

    @property
    def has_extensions(self):
        """Whether this is qnnrt's own runtime, with copy counters and graph descriptions."""
        return self._stats != NULL

    cdef int _need(self, const void* slot, str name) except -1:
        if slot == NULL:
            raise errors.make_error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                                    name.partition("_")[0], name, "",
                                    f"the function table of {self.path} has no such function")
        return 0

    cdef int _check(self, uint64_t code, str component, str call, str detail="") except -1:
        if LogSink.Get().pending():
            _drain_log()
        if code == 0:
            return 0
        raise errors.make_error(<uint32_t>(code & 0xFFFF), component, call, detail,
                                self.error_message(code))

    def error_message(self, uint64_t code) -> str:
        """The backend's own words for an error: the verbose message, else the short one, else ''.

        Only the thread that got the error should ask.
        """
        cdef const char* text = NULL
        if self._fn.errorGetVerboseMessage != NULL:
            if self._fn.errorGetVerboseMessage(code, &text) == 0 and text != NULL:
                message = _text(text)
                if self._fn.errorFreeVerboseMessage != NULL:
                    self._fn.errorFreeVerboseMessage(text)
                if message:
                    return message
        text = NULL
        if self._fn.errorGetMessage != NULL:
            if self._fn.errorGetMessage(code, &text) == 0:
                return _text(text)
        return ""

    # ---- properties, logs

    def property_has_capability(self, uint32_t key) -> int:
        """0 supported, 1000 not supported, 2000 unknown key."""
        self._need(<void*>self._fn.propertyHasCapability, "property_hasCapability")
        cdef uint64_t code
        with nogil:
            code = self._fn.propertyHasCapability(key)
        return <uint32_t>(code & 0xFFFF)

    def log_create(self, uint32_t level) -> int:
        """A log handle whose lines go to the ``qnnrt`` logger."""
        cdef Qnn_LogHandle_t h = NULL
        cdef uint64_t code
        self._need(<void*>self._fn.logCreate, "log_create")
        with nogil:
            code = self._fn.logCreate(LogCallback, <QnnLog_Level_t>level, &h)
        self._check(code, "log", "logCreate")
        return <uintptr_t>h

    def log_set_log_level(self, log, uint32_t level) -> None:
        cdef Qnn_LogHandle_t h = _pointer(log)
        cdef uint64_t code
        self._need(<void*>self._fn.logSetLogLevel, "log_setLogLevel")
        with nogil:
            code = self._fn.logSetLogLevel(h, <QnnLog_Level_t>level)
        self._check(code, "log", "logSetLogLevel")

    def log_free(self, log) -> None:
        cdef Qnn_LogHandle_t h = _pointer(log)
        cdef uint64_t code
        self._need(<void*>self._fn.logFree, "log_free")
        with nogil:
            code = self._fn.logFree(h)
        self._check(code, "log", "logFree")

    # ---- backend, device

    def backend_create(self, log, config=None) -> int:
        cdef Qnn_LogHandle_t log_handle = _pointer(log)
        cdef Qnn_BackendHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.backendCreate, "backend_create")
        with nogil:
            code = self._fn.backendCreate(log_handle, <const QnnBackend_Config_t**>c, &h)
        self._check(code, "backend", "backendCreate", self.path)
        return <uintptr_t>h

    def backend_set_config(self, backend, config) -> None:
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.backendSetConfig, "backend_setConfig")
        with nogil:
            code = self._fn.backendSetConfig(h, <const QnnBackend_Config_t**>c)
        self._check(code, "backend", "backendSetConfig")

    def backend_get_build_id(self) -> str:
        cdef const char* text = NULL
        self._need(<void*>self._fn.backendGetBuildId, "backend_getBuildId")
        self._check(self._fn.backendGetBuildId(&text), "backend", "backendGetBuildId")
        return _text(text)

    def backend_get_supported_operations(self, backend) -> list:
        """(package, op type) pairs."""
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        cdef const QnnBackend_OperationName_t* ops = NULL
        cdef uint32_t n = 0
        cdef uint32_t i
        cdef uint64_t code
        self._need(<void*>self._fn.backendGetSupportedOperations, "backend_getSupportedOperations")
        with nogil:
            code = self._fn.backendGetSupportedOperations(h, &n, &ops)
        self._check(code, "backend", "backendGetSupportedOperations")
        return [(_text(ops[i].packageName), _text(ops[i].name)) for i in range(n)]

    def backend_validate_op_config(self, backend, Op op not None) -> None:
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        cdef uint64_t code
        self._need(<void*>self._fn.backendValidateOpConfig, "backend_validateOpConfig")
        with nogil:
            code = self._fn.backendValidateOpConfig(h, op._c)
        self._check(code, "backend", "backendValidateOpConfig", _op_text(op))

    def backend_register_op_package(self, backend, path, provider, target=None) -> None:
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        texts = [_utf8(os.fspath(path), "path"), _utf8(provider, "provider"),
                 b"" if target is None else _utf8(target, "target")]
        cdef const char* a = <char*>(<bytes>texts[0])
        cdef const char* b = <char*>(<bytes>texts[1])
        cdef const char* c = NULL
        if target is not None:
            c = <char*>(<bytes>texts[2])
        cdef uint64_t code
        self._need(<void*>self._fn.backendRegisterOpPackage, "backend_registerOpPackage")
        with nogil:
            code = self._fn.backendRegisterOpPackage(h, a, b, c)
        self._check(code, "backend", "backendRegisterOpPackage", os.fspath(path))

    def backend_get_property(self, backend, uint32_t option, data) -> None:
        """``data``: the custom property's struct, writable; the backend fills it in."""
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        cdef Config c = Config([(option, 0)])
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.backendGetProperty, "backend_getProperty")
        PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
        c._items[0].value = <uint64_t><uintptr_t>view.buf
        with nogil:
            code = self._fn.backendGetProperty(h, <QnnBackend_Property_t**>c._list)
        PyBuffer_Release(&view)
        self._check(code, "backend", "backendGetProperty")

    def backend_free(self, backend) -> None:
        cdef Qnn_BackendHandle_t h = _pointer(backend)
        cdef uint64_t code
        self._need(<void*>self._fn.backendFree, "backend_free")
        with nogil:
            code = self._fn.backendFree(h)
        self._check(code, "backend", "backendFree")

    def device_create(self, log, config=None) -> int:
        cdef Qnn_LogHandle_t log_handle = _pointer(log)
        cdef Qnn_DeviceHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.deviceCreate, "device_create")
        with nogil:
            code = self._fn.deviceCreate(log_handle, <const QnnDevice_Config_t**>c, &h)
        self._check(code, "device", "deviceCreate")
        return <uintptr_t>h

    def device_free(self, device) -> None:
        cdef Qnn_DeviceHandle_t h = _pointer(device)
        cdef uint64_t code
        self._need(<void*>self._fn.deviceFree, "device_free")
        with nogil:
            code = self._fn.deviceFree(h)
        self._check(code, "device", "deviceFree")

    # ---- context

    def context_create(self, backend, device, config=None) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_DeviceHandle_t d = _pointer(device)
        cdef Qnn_ContextHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.contextCreate, "context_create")
        with nogil:
            code = self._fn.contextCreate(b, d, <const QnnContext_Config_t**>c, &h)
        self._check(code, "context", "contextCreate")
        return <uintptr_t>h

    def context_create_from_binary(self, backend, device, data, config=None, profile=0) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_DeviceHandle_t d = _pointer(device)
        cdef Qnn_ProfileHandle_t p = _pointer(profile)
        cdef Qnn_ContextHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.contextCreateFromBinary, "context_createFromBinary")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            code = self._fn.contextCreateFromBinary(
                b, d, <const QnnContext_Config_t**>c, view.buf, <uint64_t>view.len, &h, p)
        size = view.len
        PyBuffer_Release(&view)
        self._check(code, "context", "contextCreateFromBinary", f"{size} bytes")
        return <uintptr_t>h

    def context_validate_binary(self, backend, device, data, config=None) -> None:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_DeviceHandle_t d = _pointer(device)
        cdef const void** c = _config(config)
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.contextValidateBinary, "context_validateBinary")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            code = self._fn.contextValidateBinary(
                b, d, <const QnnContext_Config_t**>c, view.buf, <uint64_t>view.len)
        PyBuffer_Release(&view)
        self._check(code, "context", "contextValidateBinary")

    def context_set_config(self, context, config) -> None:
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.contextSetConfig, "context_setConfig")
        with nogil:
            code = self._fn.contextSetConfig(h, <const QnnContext_Config_t**>c)
        self._check(code, "context", "contextSetConfig")

    def context_get_binary_size(self, context) -> int:
        """How many bytes ``context_get_binary_into`` needs."""
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Qnn_ContextBinarySize_t size = 0
        cdef uint64_t code
        self._need(<void*>self._fn.contextGetBinarySize, "context_getBinarySize")
        with nogil:
            code = self._fn.contextGetBinarySize(h, &size)
        self._check(code, "context", "contextGetBinarySize")
        return size

    def context_get_binary(self, context) -> bytes:
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Qnn_ContextBinarySize_t size = self.context_get_binary_size(context)
        cdef Qnn_ContextBinarySize_t written = 0
        cdef uint64_t code
        self._need(<void*>self._fn.contextGetBinary, "context_getBinary")
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        cdef void* target = <char*>data
        with nogil:
            code = self._fn.contextGetBinary(h, target, size, &written)
        self._check(code, "context", "contextGetBinary", f"{size} bytes")
        return data if written == size else data[:written]

    def context_get_binary_into(self, context, data) -> int:
        """Serialize into writable memory; how many bytes of it were written."""
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Qnn_ContextBinarySize_t written = 0
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.contextGetBinary, "context_getBinary")
        PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
        with nogil:
            code = self._fn.contextGetBinary(h, view.buf, <uint64_t>view.len, &written)
        size = view.len
        PyBuffer_Release(&view)
        self._check(code, "context", "contextGetBinary", f"{size} bytes")
        return written

    def context_finalize(self, context, profile=0) -> None:
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Qnn_ProfileHandle_t p = _pointer(profile)
        cdef uint64_t code
        self._need(<void*>self._fn.contextFinalize, "context_finalize")
        with nogil:
            code = self._fn.contextFinalize(h, p)
        self._check(code, "context", "contextFinalize")

    def context_get_property(self, context, uint32_t option, data) -> None:
        """``data``: the custom property's struct, writable; the backend fills it in."""
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Config c = Config([(option, 0)])
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.contextGetProperty, "context_getProperty")
        PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
        c._items[0].value = <uint64_t><uintptr_t>view.buf
        with nogil:
            code = self._fn.contextGetProperty(h, <QnnContext_Property_t**>c._list)
        PyBuffer_Release(&view)
        self._check(code, "context", "contextGetProperty")

    def context_free(self, context, profile=0) -> None:
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef Qnn_ProfileHandle_t p = _pointer(profile)
        cdef uint64_t code
        self._need(<void*>self._fn.contextFree, "context_free")
        with nogil:
            code = self._fn.contextFree(h, p)
        self._check(code, "context", "contextFree")

    # ---- graph

    def graph_create(self, context, name, config=None) -> int:
        cdef Qnn_ContextHandle_t ctx = _pointer(context)
        cdef Qnn_GraphHandle_t h = NULL
        cdef const void** c = _config(config)
        data = _utf8(name, "a graph's name")
        cdef const char* text = <char*>(<bytes>data)
        cdef uint64_t code
        self._need(<void*>self._fn.graphCreate, "graph_create")
        with nogil:
            code = self._fn.graphCreate(ctx, text, <const QnnGraph_Config_t**>c, &h)
        self._check(code, "graph", "graphCreate", repr(name))
        return <uintptr_t>h

    def graph_retrieve(self, context, name) -> int:
        cdef Qnn_ContextHandle_t ctx = _pointer(context)
        cdef Qnn_GraphHandle_t h = NULL
        data = _utf8(name, "a graph's name")
        cdef const char* text = <char*>(<bytes>data)
        cdef uint64_t code
        self._need(<void*>self._fn.graphRetrieve, "graph_retrieve")
        with nogil:
            code = self._fn.graphRetrieve(ctx, text, &h)
        self._check(code, "graph", "graphRetrieve", repr(name))
        return <uintptr_t>h

    def graph_set_config(self, graph, config) -> None:
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.graphSetConfig, "graph_setConfig")
        with nogil:
            code = self._fn.graphSetConfig(h, <const QnnGraph_Config_t**>c)
        self._check(code, "graph", "graphSetConfig")

    def graph_add_node(self, graph, Op op not None) -> None:
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef uint64_t code
        self._need(<void*>self._fn.graphAddNode, "graph_addNode")
        with nogil:
            code = self._fn.graphAddNode(h, op._c)
        self._check(code, "graph", "graphAddNode", _op_text(op))

    def graph_finalize(self, graph, profile=0, signal=0) -> None:
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef Qnn_ProfileHandle_t p = _pointer(profile)
        cdef Qnn_SignalHandle_t s = _pointer(signal)
        cdef uint64_t code
        self._need(<void*>self._fn.graphFinalize, "graph_finalize")
        with nogil:
            code = self._fn.graphFinalize(h, p, s)
        self._check(code, "graph", "graphFinalize")

    def graph_get_property(self, graph, uint32_t option, data) -> None:
        """``data``: the custom property's struct, writable; the backend fills it in."""
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef Config c = Config([(option, 0)])
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.graphGetProperty, "graph_getProperty")
        PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
        c._items[0].value = <uint64_t><uintptr_t>view.buf
        with nogil:
            code = self._fn.graphGetProperty(h, <QnnGraph_Property_t**>c._list)
        PyBuffer_Release(&view)
        self._check(code, "graph", "graphGetProperty")

    def tensor_create_graph_tensor(self, graph, Tensor tensor not None) -> None:
        """Gives the tensor its id."""
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef uint64_t code
        self._need(<void*>self._fn.tensorCreateGraphTensor, "tensor_createGraphTensor")
        with nogil:
            code = self._fn.tensorCreateGraphTensor(h, &tensor._t)
        self._check(code, "tensor", "tensorCreateGraphTensor", tensor.name)

    def tensor_create_context_tensor(self, context, Tensor tensor not None) -> None:
        """Gives the tensor its id."""
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef uint64_t code
        self._need(<void*>self._fn.tensorCreateContextTensor, "tensor_createContextTensor")
        with nogil:
            code = self._fn.tensorCreateContextTensor(h, &tensor._t)
        self._check(code, "tensor", "tensorCreateContextTensor", tensor.name)

    # ---- memory

    def mem_register(self, context, descriptors) -> list:
        """Register memory, all or nothing.

        A descriptor is (dims, data type, memory type, fd, htp type, size, offset, address): the
        HTP type is used for CUSTOM, -1 is LPAI's struct and -2 the GPU's, whose address is that of
        the cl_mem; the address is used for DMA_BUF, too.
        """
        cdef Qnn_ContextHandle_t ctx = _pointer(context)
        cdef list items = list(descriptors)
        cdef uint32_t n = <uint32_t>len(items)
        cdef uint32_t i, j
        cdef uint64_t code
        cdef Qnn_MemDescriptor_t* d = NULL
        cdef QnnMemHtp_Descriptor_t* htp = NULL
        cdef QnnLpaiMem_MemInfoCustom_t* lpai = NULL
        cdef QnnGpu_MemInfoCustom_t* gpu = NULL
        cdef Qnn_MemHandle_t* handles = NULL
        self._need(<void*>self._fn.memRegister, "mem_register")
        try:
            d = <Qnn_MemDescriptor_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemDescriptor_t))
            htp = <QnnMemHtp_Descriptor_t*>PyMem_Calloc(n + 1, sizeof(QnnMemHtp_Descriptor_t))
            handles = <Qnn_MemHandle_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemHandle_t))
            lpai = <QnnLpaiMem_MemInfoCustom_t*>PyMem_Calloc(
                n + 1, sizeof(QnnLpaiMem_MemInfoCustom_t))
            gpu = <QnnGpu_MemInfoCustom_t*>PyMem_Calloc(n + 1, sizeof(QnnGpu_MemInfoCustom_t))
            if d == NULL or htp == NULL or lpai == NULL or gpu == NULL or handles == NULL:
                raise MemoryError
            for i in range(n):
                dims, data_type, mem_type, fd, htp_type, size, offset, address = items[i]
                d[i].memShape.numDim = <uint32_t>len(dims)
                d[i].memShape.dimSize = <uint32_t*>PyMem_Calloc(len(dims) + 1, sizeof(uint32_t))
                if d[i].memShape.dimSize == NULL:
                    raise MemoryError
                for j in range(d[i].memShape.numDim):
                    d[i].memShape.dimSize[j] = dims[j]
                d[i].dataType = <Qnn_DataType_t><uint32_t>data_type
                d[i].memType = <Qnn_MemType_t><uint32_t>mem_type
                if mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM and htp_type == -2:
                    gpu[i].memType = QNN_GPU_MEM_OPENCL
                    gpu[i].buffer = _pointer(address)
                    d[i].customInfo = &gpu[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM and htp_type < 0:
                    lpai[i].fd = fd
                    lpai[i].offset = offset
                    d[i].customInfo = &lpai[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM:
                    htp[i].type = <QnnHtpMem_Type_t><uint32_t>htp_type
                    htp[i].size = size
                    htp[i].sharedBufferConfig.fd = fd
                    htp[i].sharedBufferConfig.offset = offset
                    d[i].customInfo = &htp[i]
                elif mem_type == <uint32_t>QNN_MEM_TYPE_DMA_BUF:
                    d[i].dmaBufInfo.fd = fd
                    d[i].dmaBufInfo.data = _pointer(address)
                else:
                    d[i].ionInfo.fd = fd
            with nogil:
                code = self._fn.memRegister(ctx, d, n, handles)
            if code != 0 or LogSink.Get().pending():
                self._check(code, "mem", "memRegister",
                            "; ".join(_descriptor_text(item) for item in items))
            return [<uintptr_t>handles[i] for i in range(n)]
        finally:
            if d != NULL:
                for i in range(n):
                    PyMem_Free(d[i].memShape.dimSize)
            PyMem_Free(d)
            PyMem_Free(htp)
            PyMem_Free(lpai)
            PyMem_Free(gpu)
            PyMem_Free(handles)

    def mem_deregister(self, handles) -> None:
        """Deregister handles; the valid ones go even when another one is not."""
        cdef list items = list(handles)
        cdef uint32_t n = <uint32_t>len(items)
        cdef uint32_t i
        cdef uint64_t code
        cdef Qnn_MemHandle_t* array
        self._need(<void*>self._fn.memDeRegister, "mem_deRegister")
        array = <Qnn_MemHandle_t*>PyMem_Calloc(n + 1, sizeof(Qnn_MemHandle_t))
        if array == NULL:
            raise MemoryError
        try:
            for i in range(n):
                array[i] = _pointer(items[i])
            with nogil:
                code = self._fn.memDeRegister(array, n)
            if code != 0 or LogSink.Get().pending():
                self._check(code, "mem", "memDeRegister", f"{n} handle{'' if n == 1 else 's'}")
        finally:
            PyMem_Free(array)

    # ---- profile, signal

    def profile_create(self, backend, uint32_t level) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_ProfileHandle_t h = NULL
        cdef uint64_t code
        self._need(<void*>self._fn.profileCreate, "profile_create")
        with nogil:
            code = self._fn.profileCreate(b, level, &h)
        self._check(code, "profile", "profileCreate", f"level {level}")
        return <uintptr_t>h

    def profile_set_config(self, profile, config) -> None:
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.profileSetConfig, "profile_setConfig")
        with nogil:
            code = self._fn.profileSetConfig(h, <const QnnProfile_Config_t**>c)
        self._check(code, "profile", "profileSetConfig")

    def profile_get_events(self, profile) -> list:
        """(type, unit, value, identifier, [sub-events], timestamp) tuples.

        The timestamp is None unless the backend has extended events.
        """
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef const QnnProfile_EventId_t* ids = NULL
        cdef uint32_t n = 0
        cdef uint64_t code
        self._need(<void*>self._fn.profileGetEvents, "profile_getEvents")
        self._need(<void*>self._fn.profileGetEventData, "profile_getEventData")
        with nogil:
            code = self._fn.profileGetEvents(h, &ids, &n)
        self._check(code, "profile", "profileGetEvents")
        # Asked first: each refusal would be a line in the log.
        extended = self._fn.profileGetExtendedEventData != NULL and (
            self.property_has_capability(QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT) == 0)
        return self._events(ids, n, 8, extended)

    cdef list _events(self, const QnnProfile_EventId_t* ids, uint32_t n, int depth, bint extended):
        cdef QnnProfile_EventData_t data
        cdef QnnProfile_ExtendedEventData_t more
        cdef const QnnProfile_EventId_t* sub
        cdef uint32_t count, i
        out = []
        for i in range(n):
            memset(&data, 0, sizeof(data))
            self._check(self._fn.profileGetEventData(ids[i], &data), "profile",
                        "profileGetEventData")
            sub = NULL
            count = 0
            if depth and self._fn.profileGetSubEvents != NULL:
                if self._fn.profileGetSubEvents(ids[i], &sub, &count) != 0:
                    count = 0
            when = None
            if extended:
                memset(&more, 0, sizeof(more))
                if self._fn.profileGetExtendedEventData(ids[i], &more) == 0 and more.v1.timestamp:
                    when = more.v1.timestamp
            out.append((data.type, data.unit, data.value, _text(data.identifier),
                        self._events(sub, count, depth - 1, extended), when))
        return out

    def profile_free(self, profile) -> None:
        cdef Qnn_ProfileHandle_t h = _pointer(profile)
        cdef uint64_t code
        self._need(<void*>self._fn.profileFree, "profile_free")
        with nogil:
            code = self._fn.profileFree(h)
        self._check(code, "profile", "profileFree")

    def signal_create(self, backend, config=None) -> int:
        cdef Qnn_BackendHandle_t b = _pointer(backend)
        cdef Qnn_SignalHandle_t h = NULL
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.signalCreate, "signal_create")
        with nogil:
            code = self._fn.signalCreate(b, <const QnnSignal_Config_t**>c, &h)
        self._check(code, "signal", "signalCreate")
        return <uintptr_t>h

    def signal_set_config(self, signal, config) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef const void** c = _config(config)
        cdef uint64_t code
        self._need(<void*>self._fn.signalSetConfig, "signal_setConfig")
        with nogil:
            code = self._fn.signalSetConfig(h, <const QnnSignal_Config_t**>c)
        self._check(code, "signal", "signalSetConfig")

    def signal_trigger(self, signal) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef uint64_t code
        self._need(<void*>self._fn.signalTrigger, "signal_trigger")
        with nogil:
            code = self._fn.signalTrigger(h)
        self._check(code, "signal", "signalTrigger")

    def signal_free(self, signal) -> None:
        cdef Qnn_SignalHandle_t h = _pointer(signal)
        cdef uint64_t code
        self._need(<void*>self._fn.signalFree, "signal_free")
        with nogil:
            code = self._fn.signalFree(h)
        self._check(code, "signal", "signalFree")

    # ---- qnnrt's own extensions: None from any other library

    def graph_stats(self, graph):
        """The runtime's counters of a graph as a dict, or None."""
        cdef Qnnrt_GraphStats_t s
        if self._stats == NULL:
            return None
        self._check(self._stats(_pointer(graph), &s), "graph", "qnnrt_graph_stats")
        return {
            "executes": s.executes, "copied_bytes": s.copied_bytes,
            "reserved_bytes": s.reserved_bytes, "reserved_at": s.reserved_at,
            "arena_bytes": s.arena_bytes, "arena_lower_bound": s.arena_lower_bound,
            "arena_sum": s.arena_sum, "weight_bytes": s.weight_bytes, "num_steps": s.num_steps,
            "execute_nanoseconds": s.execute_nanoseconds,
            "reserved_at_finalize_bytes": s.reserved_at_finalize_bytes,
            "reserved_at_execute_bytes": s.reserved_at_execute_bytes,
            "copied_in_bytes": s.copied_in_bytes, "copied_out_bytes": s.copied_out_bytes,
        }

    def graph_copies(self, graph) -> list:
        """The copies that the runtime had to make: (tensor, "in" or "out", bytes, reason)."""
        cdef uint32_t n = 0
        cdef uint32_t i, capacity
        cdef Qnnrt_CopyRecord_t* records
        if self._copies == NULL:
            return []
        self._check(self._copies(_pointer(graph), NULL, 0, &n), "graph", "qnnrt_graph_copies")
        if n == 0:
            return []
        capacity = n
        records = <Qnnrt_CopyRecord_t*>PyMem_Calloc(n, sizeof(Qnnrt_CopyRecord_t))
        if records == NULL:
            raise MemoryError
        try:
            self._check(self._copies(_pointer(graph), records, capacity, &n), "graph",
                        "qnnrt_graph_copies")
            return [(_text(records[i].tensor),
                     "in" if records[i].direction == QNNRT_COPY_IN else "out",
                     records[i].bytes, _text(records[i].reason))
                    for i in range(min(n, capacity))]
        finally:
            PyMem_Free(records)

    def graph_reset_stats(self, graph) -> None:
        if self._reset != NULL:
            self._check(self._reset(_pointer(graph)), "graph", "qnnrt_graph_reset_stats")

    def graph_describe(self, graph):
        """The finalized steps as JSON, or None."""
        cdef const char* text
        if self._describe == NULL:
            return None
        text = self._describe(_pointer(graph))
        return None if text == NULL else _text(text)


cdef str _op_text(Op op):
    return f"{_text(op._c.v1.typeName)} {_text(op._c.v1.name)!r}"


cdef str _descriptor_text(item):
    dims, data_type, mem_type, fd, htp_type, size, offset, address = item
    if htp_type == -2:
        return f"cl_mem {address:#x}, shape {list(dims)}, data type {data_type:#06x}"
    where = f" at {offset} of {size}" if mem_type == <uint32_t>QNN_MEM_TYPE_CUSTOM else ""
    return f"fd {fd}{where}, shape {list(dims)}, data type {data_type:#06x}"
