# Part of _core.pyx: the op package whose functions enter Python (qnnrt.custom_ops).
#
# Backends call these on any thread, without the interpreter lock. A thread that has called in here
# waits for the lock, as every call of the binding that could block does without it.

import atexit
import threading
import traceback

cdef QnnOpPackage_Interface_t _ops_interface
cdef const Qnnrt_OpHost_t* _ops_host = NULL
cdef bint _ops_over = False  # the interpreter is going: nothing enters it any more
cdef object _ops_types = None
cdef object _ops_validator = None
cdef object _ops_creator = None
cdef object _ops_name = None
cdef tuple _ops_listed = None
cdef list _ops_kept = []  # texts and arrays that infos point at: for good
cdef QnnOpPackage_Info_t* _ops_info = NULL
cdef object _ops_thread = threading.local()
cdef object _ops_lock = object()  # of what is listed


def _end_python_ops():
    global _ops_over
    _ops_over = True


cdef object _take_op_error():
    """What Python raised in an op during the call that has just failed on this thread."""
    error = getattr(_ops_thread, "error", None)
    if error is not None:
        _ops_thread.error = None
    return error


cdef uint64_t _op_failed(error) noexcept:
    try:
        # Their locals are views of memory that is valid no longer.
        traceback.clear_frames(error.__traceback__)
        _ops_thread.error = error
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace").replace(b"\0", b" ")
        if _ops_host != NULL:
            _ops_host.setError(<char*>(<bytes>text))
    except BaseException:  # the code says it alone
        pass
    return QNN_OP_PACKAGE_ERROR_GENERAL


cdef object _described(const Qnn_Tensor_t* tensor):
    cdef const Qnn_TensorV1_t* t = &tensor.v1
    if t.type == QNN_TENSOR_TYPE_NULL:
        return None
    return tuple([t.dimensions[i] for i in range(t.rank)]), <uint32_t>t.dataType


cdef object _scalar_of(const Qnn_Scalar_t* s):
    cdef uint32_t kind = <uint32_t>s.dataType
    if kind == QNN_DATATYPE_FLOAT_32:
        return s.floatValue
    if kind == QNN_DATATYPE_FLOAT_64:
        return s.doubleValue
    if kind == QNN_DATATYPE_BOOL_8:
        return s.bool8Value != 0
    if kind == QNN_DATATYPE_STRING:
        return _text(s.stringValue)
    if kind == QNN_DATATYPE_UINT_64:
        return s.uint64Value
    if kind == QNN_DATATYPE_INT_64:
        return s.int64Value
    if kind == QNN_DATATYPE_UINT_32:
        return s.uint32Value
    if kind == QNN_DATATYPE_INT_32:
        return s.int32Value
    if kind == QNN_DATATYPE_UINT_16:
        return s.uint16Value
    if kind == QNN_DATATYPE_INT_16:
        return s.int16Value
    if kind == QNN_DATATYPE_UINT_8:
        return s.uint8Value
    if kind == QNN_DATATYPE_INT_8:
        return s.int8Value
    raise TypeError(f"scalars of QNN's type {kind:#x} do not come to Python")


cdef tuple _described_op(const Qnn_OpConfig_t* config):
    """(type, inputs, outputs, params) as qnnrt.custom_ops takes them."""
    cdef const Qnn_OpConfigV1_t* c = &config.v1
    cdef const Qnn_TensorV1_t* t
    params = {}
    for i in range(c.numOfParams):
        name = _text(c.params[i].name)
        if c.params[i].paramType == QNN_PARAMTYPE_SCALAR:
            params[name] = _scalar_of(&c.params[i].scalarParam)
        else:
            t = &c.params[i].tensorParam.v1
            shape, kind = _described(&c.params[i].tensorParam)
            data = PyBytes_FromStringAndSize(<char*>t.clientBuf.data, t.clientBuf.dataSize)
            params[name] = (shape, kind, data)
    return (
        _text(c.typeName),
        [_described(&c.inputTensors[i]) for i in range(c.numOfInputs)],
        [_described(&c.outputTensors[i]) for i in range(c.numOfOutputs)],
        params,
    )


cdef class _OpView:
    """Memory of one execution, that knows whether somebody still looks at it."""

    cdef void* _data
    cdef Py_ssize_t _nbytes
    cdef bint _read_only
    cdef Py_ssize_t _exports

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._data, self._nbytes, self._read_only, flags)
        with cython.critical_section(self):
            self._exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        with cython.critical_section(self):
            self._exports -= 1


cdef _OpView _op_view(void* data, Py_ssize_t nbytes, bint read_only):
    cdef _OpView view
    if data == NULL:
        return None
    view = _OpView.__new__(_OpView)
    view._data, view._nbytes, view._read_only = data, nbytes, read_only
    return view


cdef class _OpImpl:
    """One node: what runs it, and the bytes of its tensors."""

    cdef object _run
    cdef vector[Py_ssize_t] _inputs
    cdef vector[Py_ssize_t] _outputs

    cdef int execute(self, const Qnnrt_OpExecution_t* e) except -1:
        cdef size_t i
        cdef _OpView view
        cdef list ins = [
            _op_view(<void*>e.inputs[i], self._inputs[i], True) for i in range(self._inputs.size())
        ]
        cdef list outs = [
            _op_view(e.outputs[i], self._outputs[i], False) for i in range(self._outputs.size())
        ]
        self._run(ins, outs)
        for view in ins + outs:
            if view is not None and view._exports != 0:
                raise RuntimeError(
                    "the op's function has kept one of its arrays, which are memory of the "
                    "runtime's: keep a copy"
                )
        return 0


cdef uint64_t _ops_init(const Qnnrt_OpHost_t* host) noexcept nogil:
    global _ops_host
    _ops_host = host
    return 0


cdef uint64_t _ops_get_info(const QnnOpPackage_Info_t** info) noexcept nogil:
    if _ops_over:
        return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED
    with gil:
        try:
            _list_ops()
            info[0] = _ops_info
            return 0
        except BaseException as error:
            return _op_failed(error)


cdef int _list_ops() except -1:
    with cython.critical_section(_ops_lock):
        return _list_ops_alone()


cdef int _list_ops_alone() except -1:
    global _ops_info, _ops_listed
    cdef QnnOpPackage_Info_t* info
    cdef const char** names
    cdef tuple types = _ops_types()
    if types == _ops_listed:
        return 0
    texts = [_utf8(name, "an op's name") for name in types]
    info = <QnnOpPackage_Info_t*>PyMem_Calloc(1, sizeof(QnnOpPackage_Info_t))
    names = <const char**>PyMem_Calloc(len(texts) + 1, sizeof(char*))
    if info == NULL or names == NULL:
        PyMem_Free(info)
        PyMem_Free(names)
        raise MemoryError
    for i, text in enumerate(texts):
        names[<size_t>i] = <char*>(<bytes>text)
    _ops_kept.append(texts)
    info.packageName = <char*>(<bytes>_ops_name)
    info.operationNames = names
    info.numOperations = <uint32_t>len(texts)
    _ops_info = info
    _ops_listed = types
    return 0


cdef uint64_t _ops_validate(const Qnn_OpConfig_t* config) noexcept nogil:
    if _ops_over:
        return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED
    with gil:
        try:
            _ops_validator(*_described_op(config))
            return 0
        except BaseException as error:
            _op_failed(error)
            return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE


cdef uint64_t _ops_create(const Qnn_OpConfig_t* config, Qnnrt_OpImpl_t* impl) noexcept nogil:
    if _ops_over:
        return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED
    with gil:
        try:
            _make_impl(config, impl)
            return 0
        except BaseException as error:
            return _op_failed(error)


cdef int _make_impl(const Qnn_OpConfig_t* config, Qnnrt_OpImpl_t* impl) except -1:
    cdef _OpImpl op = _OpImpl.__new__(_OpImpl)
    op._run, ins, outs = _ops_creator(*_described_op(config))
    for n in ins:
        op._inputs.push_back(n)
    for n in outs:
        op._outputs.push_back(n)
    Py_INCREF(op)
    impl.state = <void*>op
    impl.execute = _ops_execute
    return 0


cdef uint64_t _ops_execute(void* state, const Qnnrt_OpExecution_t* execution) noexcept nogil:
    if _ops_over:
        return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED
    with gil:
        try:
            (<_OpImpl>state).execute(execution)
            return 0
        except BaseException as error:
            return _op_failed(error)


cdef uint64_t _ops_free(Qnnrt_OpImpl_t* impl) noexcept nogil:
    if _ops_over:
        return 0  # the process takes it along
    with gil:
        Py_DECREF(<object>impl.state)
    return 0


def set_python_ops(name: str, types, validate, create) -> None:
    """Say who answers for the op package of Python's ops; called once.

    Args:
        name: the package's.
        types: gives the tuple of op types that there are.
        validate: called with type, inputs, outputs and params; raises what a node is refused with.
            A tensor is (shape, data type) or None; a param a number, a text, or (shape, data type,
            bytes).
        create: called likewise, gives what is called with two lists of buffers (None: left out)
            for each execution, and the bytes of each input and of each output.
    """
    global _ops_types, _ops_validator, _ops_creator, _ops_name
    _ops_name = _utf8(name, "an op package's name")
    _ops_types, _ops_validator, _ops_creator = types, validate, create
    _ops_interface.interfaceVersion.major = 1
    _ops_interface.interfaceVersion.minor = 4
    _ops_interface.v1_4.init = <QnnOpPackage_InitFn_t>_ops_init
    _ops_interface.v1_4.getInfo = <QnnOpPackage_GetInfoFn_t>_ops_get_info
    _ops_interface.v1_4.validateOpConfig = <QnnOpPackage_ValidateOpConfigFn_t>_ops_validate
    _ops_interface.v1_4.createOpImpl = <QnnOpPackage_CreateOpImplFn_t>_ops_create
    _ops_interface.v1_4.freeOpImpl = <QnnOpPackage_FreeOpImplFn_t>_ops_free
    atexit.register(_end_python_ops)


def register_python_ops(Provider library not None, backend) -> None:
    """Give a backend of qnnrt's own the op package of Python's ops."""
    cdef Qnn_BackendHandle_t h = _pointer(backend)
    cdef uint64_t (*register)(Qnn_BackendHandle_t, const QnnOpPackage_Interface_t*) noexcept nogil
    cdef uint64_t code
    register = <uint64_t (*)(Qnn_BackendHandle_t, const QnnOpPackage_Interface_t*) noexcept nogil>(
        library._symbol("qnnrt_backend_register_ops"))
    if register == NULL:
        raise errors.make_error(QNN_BACKEND_ERROR_NOT_SUPPORTED, "backend",
                                "backendRegisterOpPackage", library.path,
                                "ops in Python run on qnnrt's own cpu and htp backends alone")
    with nogil:
        code = register(h, &_ops_interface)
    library._check(code, "backend", "backendRegisterOpPackage")
