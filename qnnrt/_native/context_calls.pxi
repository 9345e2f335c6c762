# Part of _core.pyx: calls on contexts, graphs and tensors.

cdef class ContextCalls(Provider):
    """The functions of the table that make and use contexts and graphs."""

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
        self._check(code, "graph", "graphAddNode", _op_text(op) if code else "")

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

    def tensor_create_graph_tensor(self, graph, Tensor tensor not None, bint lend=False,
                                   bint lasts=False) -> bool:
        """Gives the tensor its id. `lend`: its data may be read until finalize; False where the
        backend has a copy all the same. `lasts`: they are as they are while the context lives."""
        cdef Qnn_GraphHandle_t h = _pointer(graph)
        cdef uint64_t code
        self._need(<void*>self._fn.tensorCreateGraphTensor, "tensor_createGraphTensor")
        lend = lend and tensor._has_data and self._lend_static != NULL
        if lend:
            with nogil:
                code = (self._keep_static if lasts else self._lend_static)(
                    h, &tensor._t, <int64_t*>tensor._data.strides if tensor._strided else NULL)
        elif tensor._strided:
            self._need(<void*>self._create_static, "graph_create_static")
            with nogil:
                code = self._create_static(h, &tensor._t, <int64_t*>tensor._data.strides)
        else:
            with nogil:
                code = self._fn.tensorCreateGraphTensor(h, &tensor._t)
        self._check(code, "tensor", "tensorCreateGraphTensor", tensor.name if code else "")
        return lend

    def tensor_create_context_tensor(self, context, Tensor tensor not None) -> None:
        """Gives the tensor its id."""
        cdef Qnn_ContextHandle_t h = _pointer(context)
        cdef uint64_t code
        self._need(<void*>self._fn.tensorCreateContextTensor, "tensor_createContextTensor")
        with nogil:
            code = self._fn.tensorCreateContextTensor(h, &tensor._t)
        self._check(code, "tensor", "tensorCreateContextTensor", tensor.name)
