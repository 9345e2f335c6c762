# Part of _core.pyx: a system library, which describes context binaries and writes profile logs.

cdef dict _system_libraries = {}  # real path -> SystemLibrary; never unloaded, as Library


cdef class SystemLibrary:
    """A loaded QNN system library: this package's own, or a vendor's libQnnSystem.so.

    What a call describes is copied into plain Python values before it returns.
    """

    cdef void* _dl
    cdef const QnnSystemInterface_t* _interface
    cdef QnnSystemInterface_ImplementationV1_7_t _fn
    cdef const char* (*_message)() noexcept nogil
    cdef uint64_t (*_verify)(const void*, uint64_t) noexcept nogil
    cdef Qnn_LogHandle_t _log
    cdef readonly str path
    cdef readonly str provider_name
    cdef readonly tuple version

    @staticmethod
    def open(path=None) -> SystemLibrary:
        """Load a system library, by default this package's own, or return it if it is loaded."""
        if path is None:
            path = os.path.join(os.path.dirname(errors.__file__), "lib", "libQnnSystem.so")
        name = os.fspath(path)
        key = os.path.realpath(name) if os.sep in name else name
        library = _system_libraries.get(key)
        if library is None:
            library = SystemLibrary(name)
            _system_libraries[key] = library
        return library

    def __cinit__(self, path):
        data = os.fsencode(path)
        cdef const char* c_path = <char*>(<bytes>data)
        cdef uint64_t code
        with nogil:
            self._dl = dlopen(c_path, RTLD_NOW | RTLD_LOCAL)
        if self._dl == NULL:
            raise errors.BackendNotFoundError(
                f"cannot load the system library: {_text(dlerror())}")
        self.path = os.fspath(path)
        self._choose_provider()
        self._message = <const char* (*)() noexcept nogil>dlsym(self._dl, "qnnrt_error_message")
        self._verify = <uint64_t (*)(const void*, uint64_t) noexcept nogil>dlsym(
            self._dl, "qnnrt_binary_verify")
        # Our own library has a message for each error; other libraries only log.
        if self._message == NULL and self._fn.systemLogCreate != NULL:
            with nogil:
                code = self._fn.systemLogCreate(LogCallback, QNN_LOG_LEVEL_WARN, &self._log)
            if code != 0:
                self._log = NULL

    cdef int _choose_provider(self) except -1:
        cdef QnnSystemInterface_GetProvidersFn_t get
        cdef const QnnSystemInterface_t** providers = NULL
        cdef const QnnSystemInterface_t* p
        cdef uint32_t n = 0
        cdef uint32_t i
        cdef uint64_t code
        get = <QnnSystemInterface_GetProvidersFn_t>dlsym(
            self._dl, "QnnSystemInterface_getProviders")
        if get == NULL:
            raise errors.BackendNotFoundError(
                f"{self.path} is no QNN system library: it does not export "
                "QnnSystemInterface_getProviders"
            )
        with nogil:
            code = get(&providers, &n)
        if code:
            raise errors.make_error(<uint32_t>(code & 0xFFFF), "interface",
                                    "QnnSystemInterface_getProviders", self.path)
        seen = []
        for i in range(n):
            p = providers[i]
            version = (p.systemApiVersion.major, p.systemApiVersion.minor,
                       p.systemApiVersion.patch)
            seen.append(".".join(map(str, version)))
            # Tables only grow at their end, and what is used here stands at the start.
            if version[0] == 1 and (self.version is None or version > self.version):
                self._interface = p
                self.version = version
        if self._interface == NULL:
            raise errors.BackendNotFoundError(
                f"{self.path} offers system interface {', '.join(seen) or 'none'}; needed is 1.x")
        # A table older than 1.7 may be shorter than the struct.
        if self.version < (1, 7, 0):
            raise errors.BackendNotFoundError(
                f"{self.path} offers system interface {'.'.join(map(str, self.version))}; needed "
                "is 1.7 or a later 1.x")
        self._fn = self._interface.v1_7
        self.provider_name = _text(self._interface.providerName)
        return 0

    @property
    def has_extensions(self) -> bool:
        """Whether this is qnnrt's own, which reads qnnrt's binaries and writes qnnrt's logs."""
        return self._message != NULL

    cdef int _need(self, const void* slot, str name) except -1:
        if slot == NULL:
            raise errors.make_error(QNN_COMMON_ERROR_NOT_SUPPORTED, "system", name, "",
                                    f"the function table of {self.path} has no such function")
        return 0

    cdef int _check(self, uint64_t code, str call, str detail="") except -1:
        if LogSink.Get().pending():
            _drain_log()
        if code == 0:
            return 0
        said = _text(self._message()) if self._message != NULL else ""
        raise errors.make_error(<uint32_t>(code & 0xFFFF), "system", call, detail, said)

    # ---- context binaries

    def binary_info(self, data) -> dict:
        """What a context binary holds.

        Keys: version (of the struct it came in), backend_id, build_id, core_api_version,
        backend_api_version, soc_version, soc_model, context_blob_version, context_blob_size,
        context_metadata (bytes), devices, context_tensors and graphs, a list of {name, inputs,
        outputs, updateable, blob (bytes), ops ([first, last])}. A tensor is {id, name, dims,
        data_type, type, data_format, mem_type, dynamic, quantization}.

        Raises:
            SystemError_: 30010 when ``data`` is no binary that this library knows.
        """
        cdef QnnSystemContext_Handle_t context = NULL
        cdef const QnnSystemContext_BinaryInfo_t* info = NULL
        cdef Qnn_ContextBinarySize_t info_size = 0
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._fn.systemContextCreate, "systemContextCreate")
        self._need(<void*>self._fn.systemContextGetBinaryInfo, "systemContextGetBinaryInfo")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                code = self._fn.systemContextCreate(&context)
            self._check(code, "systemContextCreate")
            try:
                with nogil:
                    code = self._fn.systemContextGetBinaryInfo(
                        context, view.buf, <uint64_t>view.len, &info, &info_size)
                self._check(code, "systemContextGetBinaryInfo", f"{view.len} bytes")
                if info == NULL:
                    raise errors.make_error(QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED,
                                            "system", "systemContextGetBinaryInfo", "",
                                            f"{self.path} returned no description")
                return _binary_info(info)
            finally:
                if self._fn.systemContextFree != NULL:
                    self._fn.systemContextFree(context)
        finally:
            PyBuffer_Release(&view)

    def binary_verify(self, data) -> None:
        """Check every checksum of a binary of qnnrt's, of the weights too.

        Raises:
            SystemError_: 30010 when one is wrong, 1000 from a library other than qnnrt's.
        """
        cdef Py_buffer view
        cdef uint64_t code
        self._need(<void*>self._verify, "qnnrt_binary_verify")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            code = self._verify(view.buf, <uint64_t>view.len)
        PyBuffer_Release(&view)
        self._check(code, "qnnrt_binary_verify")

    def tensor_memory_footprint(self, Tensor tensor not None) -> int:
        """Bytes that the tensor's data takes."""
        cdef uint64_t size = 0
        cdef uint64_t code
        self._need(<void*>self._fn.systemTensorGetMemoryFootprint,
                   "systemTensorGetMemoryFootprint")
        with nogil:
            code = self._fn.systemTensorGetMemoryFootprint(tensor._t, &size)
        self._check(code, "systemTensorGetMemoryFootprint", tensor.name)
        return size

    # ---- profile logs

    def profile_create_target(self, path, app_name="", app_version="", backend_version="",
                              max_messages=None) -> int:
        """A file that ``profile_serialize`` writes to; its folder is made when it is not there."""
        cdef QnnSystemProfile_SerializationTarget_t target
        cdef QnnSystemProfile_SerializationTargetConfig_t configs[2]
        cdef QnnSystemProfile_SerializationTargetHandle_t h = NULL
        cdef uint32_t n = 1
        cdef uint64_t code
        self._need(<void*>self._fn.systemProfileCreateSerializationTarget,
                   "systemProfileCreateSerializationTarget")
        folder, name = os.path.split(os.fspath(path))
        keep = [os.fsencode(name), os.fsencode(folder or "."), _utf8(app_name, "app_name"),
                _utf8(app_version, "app_version"), _utf8(backend_version, "backend_version")]
        memset(&target, 0, sizeof(target))
        memset(configs, 0, sizeof(configs))
        target.type = QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE
        target.file.fileName = <char*>(<bytes>keep[0])
        target.file.fileDirectory = <char*>(<bytes>keep[1])
        configs[0].type = QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_SERIALIZATION_HEADER
        configs[0].serializationHeader.appName = <char*>(<bytes>keep[2])
        configs[0].serializationHeader.appVersion = <char*>(<bytes>keep[3])
        configs[0].serializationHeader.backendVersion = <char*>(<bytes>keep[4])
        if max_messages is not None:
            configs[1].type = QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_MAX_NUM_MESSAGES
            configs[1].maxNumMessages = max_messages
            n = 2
        with nogil:
            code = self._fn.systemProfileCreateSerializationTarget(target, configs, n, &h)
        self._check(code, "systemProfileCreateSerializationTarget", os.fspath(path))
        return <uintptr_t>h

    def profile_serialize(self, target, method, graph, start, stop, events,
                          start_mem=0, stop_mem=0, private=False) -> None:
        """Write one message: what a call of ``method`` took, with events as ``profile_get_events``
        has them. Times in microseconds, memory in bytes."""
        cdef QnnSystemProfile_SerializationTargetHandle_t h = _pointer(target)
        cdef QnnSystemProfile_ProfileData_t data
        cdef const QnnSystemProfile_ProfileData_t* pointer = &data
        cdef uint64_t code
        cdef _EventArrays arrays = _EventArrays()
        self._need(<void*>self._fn.systemProfileSerializeEventData,
                   "systemProfileSerializeEventData")
        name = None if graph is None else _utf8(graph, "a graph's name")
        memset(&data, 0, sizeof(data))
        data.version = QNN_SYSTEM_PROFILE_DATA_VERSION_1
        data.v1.header.startTime = start
        data.v1.header.stopTime = stop
        data.v1.header.startMem = start_mem
        data.v1.header.stopMem = stop_mem
        data.v1.header.methodType = <QnnSystemProfile_MethodType_t><uint32_t>method
        data.v1.header.visibility = (
            QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE if private
            else QNN_SYSTEM_PROFILE_VISIBILITY_PUBLIC)
        if name is not None:
            data.v1.header.graphName = <char*>(<bytes>name)
        data.v1.profilingEvents = arrays.fill(events)
        data.v1.numProfilingEvents = <uint32_t>len(events)
        with nogil:
            code = self._fn.systemProfileSerializeEventData(h, &pointer, 1)
        self._check(code, "systemProfileSerializeEventData")

    def profile_free_target(self, target) -> None:
        """End the log and close the file."""
        cdef QnnSystemProfile_SerializationTargetHandle_t h = _pointer(target)
        cdef uint64_t code
        self._need(<void*>self._fn.systemProfileFreeSerializationTarget,
                   "systemProfileFreeSerializationTarget")
        with nogil:
            code = self._fn.systemProfileFreeSerializationTarget(h)
        self._check(code, "systemProfileFreeSerializationTarget")


cdef class _EventArrays:
    """C arrays of profile events, with everything that they point at."""

    cdef list _keep

    def __cinit__(self):
        self._keep = []

    cdef QnnSystemProfile_ProfileEventV1_t* fill(self, events) except? NULL:
        cdef Py_ssize_t n = len(events)
        cdef Py_ssize_t i
        cdef QnnSystemProfile_ProfileEventV1_t* array
        if n == 0:
            return NULL
        memory = bytearray(n * sizeof(QnnSystemProfile_ProfileEventV1_t))
        self._keep.append(memory)
        array = <QnnSystemProfile_ProfileEventV1_t*><char*>(<bytearray>memory)
        for i, (kind, unit, value, identifier, parts, when) in enumerate(events):
            data = _utf8(identifier, "an event's identifier")
            self._keep.append(data)
            # An extended event whose unit is "object" carries one, which nobody has here.
            if when is None or unit == QNN_PROFILE_EVENTUNIT_OBJECT:
                array[i].type = QNN_SYSTEM_PROFILE_EVENT_DATA
                array[i].eventData.type = kind
                array[i].eventData.unit = unit
                array[i].eventData.value = value
                array[i].eventData.identifier = <char*>(<bytes>data)
            else:
                array[i].type = QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA
                array[i].extendedEventData.version = QNN_PROFILE_DATA_VERSION_1
                array[i].extendedEventData.v1.type = kind
                array[i].extendedEventData.v1.unit = unit
                array[i].extendedEventData.v1.value.dataType = QNN_DATATYPE_UINT_64
                array[i].extendedEventData.v1.value.uint64Value = value
                array[i].extendedEventData.v1.timestamp = when
                array[i].extendedEventData.v1.identifier = <char*>(<bytes>data)
            array[i].profileSubEventData = self.fill(parts)
            array[i].numSubEvents = <uint32_t>len(parts)
        return array


# ---- C structs -> plain values
