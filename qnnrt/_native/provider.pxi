# Part of _core.pyx: a backend library's function table; calls on backends and devices.

cdef void* _pointer(handle) except? NULL:
    return <void*><uintptr_t>handle


cdef class Provider:
    """A loaded backend library and what it provides; ``Library`` has the calls on contexts."""

    cdef void* _dl
    cdef const QnnInterface_t* _interface
    cdef QnnInterface_ImplementationV2_32_t _fn
    cdef bint _own
    cdef uint64_t (*_stats)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*) noexcept nogil
    cdef uint64_t (*_copies)(
        Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*) noexcept nogil
    cdef uint64_t (*_reset)(Qnn_GraphHandle_t) noexcept nogil
    cdef const char* (*_describe)(Qnn_GraphHandle_t) noexcept nogil
    cdef uint64_t (*_create_static)(
        Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil
    cdef uint64_t (*_lend_static)(
        Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil
    cdef uint64_t (*_keep_static)(
        Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil
    cdef uint64_t (*_weights)(Qnn_GraphHandle_t, Qnnrt_GraphWeights_t*) noexcept nogil
    cdef readonly str path
    cdef readonly int backend_id
    cdef readonly str provider_name
    cdef readonly tuple core_version
    cdef readonly tuple backend_version
    cdef object __weakref__

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
        self._own = self._symbol("qnnrt_graph_stats") != NULL
        if self._own and self.backend_id != QNN_BACKEND_ID_SAVER:  # its graphs are a recorder's
            self._find_extensions()

    cdef void _find_extensions(self) noexcept:
        self._stats = <uint64_t (*)(Qnn_GraphHandle_t, Qnnrt_GraphStats_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_stats"))
        self._copies = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnnrt_CopyRecord_t*, uint32_t, uint32_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_copies"))
        self._reset = <uint64_t (*)(Qnn_GraphHandle_t) noexcept nogil>(
            self._symbol("qnnrt_graph_reset_stats"))
        self._describe = <const char* (*)(Qnn_GraphHandle_t) noexcept nogil>(
            self._symbol("qnnrt_graph_describe"))
        self._create_static = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_create_static"))
        self._lend_static = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_lend_static"))
        self._keep_static = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnn_Tensor_t*, const int64_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_keep_static"))
        if self._keep_static == NULL:  # a library of before it
            self._keep_static = self._lend_static
        self._weights = <uint64_t (*)(
            Qnn_GraphHandle_t, Qnnrt_GraphWeights_t*) noexcept nogil>(
            self._symbol("qnnrt_graph_weights"))

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
        """Whether this is a library of qnnrt's own: its backends have copy counters and graph
        descriptions, and take options and shapes that QNN has no names for."""
        return self._own

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
        error = errors.make_error(<uint32_t>(code & 0xFFFF), component, call, detail,
                                  self.error_message(code))
        cause = _take_op_error()
        if cause is None:
            raise error
        if not isinstance(cause, Exception):
            raise cause  # an interrupt: of this call, which a function in Python has ended
        raise error from cause

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
