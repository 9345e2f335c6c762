# Part of _core.pyx: the tensors and nodes of a model, handed to a graph in one call.

cdef class Lent:
    """Constants that a graph may read until it is finalized."""

    cdef vector[Py_buffer] _views
    cdef bint _lasts  # as they are while the context lives

    def __dealloc__(self):
        self.release_data()

    def release_data(self) -> None:
        """Let go of them."""
        cdef size_t i
        cdef vector[Py_buffer] views
        views.swap(self._views)
        for i in range(views.size()):
            PyBuffer_Release(&views[i])


cdef Py_ssize_t _LEAST_LENT = 4096  # bytes; backends copy less at once, too
cdef object _NATIVE = <uint32_t>QNN_TENSOR_TYPE_NATIVE
cdef object _STATIC = <uint32_t>QNN_TENSOR_TYPE_STATIC


cdef const char* _name(object text, str what) except NULL:
    """A C string that is there as long as `text`; without NUL, as by ``_utf8``."""
    cdef Py_ssize_t size
    cdef const char* data
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    data = PyUnicode_AsUTF8AndSize(text, &size)
    if <Py_ssize_t>strlen(data) != size:
        raise ValueError(f"{what} must not contain NUL characters: {text!r}")
    return data


cdef class _Composer:
    """The C structs of one ``graph_compose``."""

    cdef ContextCalls _library
    cdef Qnn_GraphHandle_t _graph
    cdef bint _own
    cdef dict _codes  # numpy type -> data type
    cdef dict _where  # name -> index of the tensor
    cdef vector[Qnn_Tensor_t] _tensors
    cdef vector[void*] _memory  # of sizes and encodings
    cdef vector[Qnn_Tensor_t] _operands
    cdef vector[Qnn_Param_t] _params
    cdef vector[Py_buffer] _views  # of the parameters of a node
    cdef list _keep  # likewise

    def __cinit__(self):
        self._where = {}
        self._keep = []

    def __dealloc__(self):
        cdef size_t i
        self._release_views()
        for i in range(self._memory.size()):
            PyMem_Free(self._memory[i])

    cdef void _release_views(self) noexcept:
        cdef size_t i
        for i in range(self._views.size()):
            PyBuffer_Release(&self._views[i])
        self._views.clear()

    cdef uint32_t* _shape(self, shape, name) except NULL:
        cdef Py_ssize_t i, rank = len(shape)
        cdef uint32_t* dims = <uint32_t*>PyMem_Calloc(rank + 1, sizeof(uint32_t))
        if dims == NULL:
            raise MemoryError
        self._memory.push_back(dims)
        for i in range(rank):
            n = shape[i]
            if not 0 <= n <= 0xFFFFFFFF:
                raise ValueError(f"tensor {name!r}: dimension {n} is not in 0 .. 2**32 - 1")
            dims[i] = n
        return dims

    cdef int _encode(self, Qnn_Tensor_t* t, q) except -1:
        """The encoding of a whole tensor, or along an axis."""
        cdef Qnn_QuantizeParams_t* p = &t.v1.quantizeParams
        p.encodingDefinition = QNN_DEFINITION_DEFINED
        if q.axis is None:
            p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET
            p.scaleOffsetEncoding.scale = q.scale
            p.scaleOffsetEncoding.offset = q.offset
            return 0
        scales, offsets = _pairs_of(q)
        p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET
        p.axisScaleOffsetEncoding.axis = q.axis
        p.axisScaleOffsetEncoding.numScaleOffsets = <uint32_t>(len(scales) // 4)
        p.axisScaleOffsetEncoding.scaleOffset = _pairs_in_c(scales, offsets)
        self._memory.push_back(p.axisScaleOffsetEncoding.scaleOffset)
        return 0

    cdef int _describe(self, Qnn_Tensor_t* t, name, shape, uint32_t code, uint32_t kind,
                       q) except -1:
        memset(t, 0, sizeof(Qnn_Tensor_t))
        t.version = QNN_TENSOR_VERSION_1
        t.v1.name = _name(name, "a tensor's name")
        t.v1.type = <Qnn_TensorType_t>kind
        t.v1.dataType = <Qnn_DataType_t>code
        t.v1.rank = <uint32_t>len(shape)
        t.v1.dimensions = self._shape(shape, name)
        t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED
        t.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED
        return 0 if q is None else self._encode(t, q)

    cdef int _add(self, Qnn_Tensor_t* t, name) except -1:
        self._where[name] = self._tensors.size()
        self._tensors.push_back(t[0])
        return 0

    cdef int _native(self, name, shape, uint32_t code, q) except -1:
        cdef Qnn_Tensor_t t
        cdef uint64_t status
        self._describe(&t, name, shape, code, QNN_TENSOR_TYPE_NATIVE, q)
        with nogil:
            status = self._library._fn.tensorCreateGraphTensor(self._graph, &t)
        self._library._check(status, "tensor", "tensorCreateGraphTensor", name if status else "")
        return self._add(&t, name)

    cdef bint _static(self, name, shape, uint32_t code, q, data, Lent lent) except -1:
        """Whether the constant went to the graph: its bytes lie as it takes them. Small ones, and
        all without `lent`, are copied."""
        cdef Qnn_Tensor_t t
        cdef Py_buffer view
        cdef uint64_t status
        cdef int d
        cdef bint kept = False, lasts
        cdef int64_t* strides = NULL
        PyObject_GetBuffer(data, &view, PyBUF_STRIDES)
        try:
            if not PyBuffer_IsContiguous(&view, c'C'):
                if not self._own or view.ndim != len(shape):
                    return False
                for d in range(view.ndim):
                    if view.strides[d] % view.itemsize != 0:
                        return False
                strides = <int64_t*>view.strides
            if view.len > 0xFFFFFFFF:
                return False
            self._describe(&t, name, shape, code, QNN_TENSOR_TYPE_STATIC, q)
            t.v1.clientBuf.data = view.buf
            t.v1.clientBuf.dataSize = <uint32_t>view.len
            if view.len < _LEAST_LENT:
                lent = None
            if lent is not None:
                lasts = lent._lasts
                with nogil:
                    status = (self._library._keep_static if lasts else self._library._lend_static)(
                        self._graph, &t, strides)
            elif strides != NULL:
                with nogil:
                    status = self._library._create_static(self._graph, &t, strides)
            else:
                with nogil:
                    status = self._library._fn.tensorCreateGraphTensor(self._graph, &t)
            self._library._check(status, "tensor", "tensorCreateGraphTensor",
                                 name if status else "")
            t.v1.clientBuf.data = NULL
            t.v1.clientBuf.dataSize = 0
            self._add(&t, name)
            if lent is not None:
                lent._views.push_back(view)
                kept = True
            return True
        finally:
            if not kept:
                PyBuffer_Release(&view)

    cdef int _param(self, node, key, value, parameter) except -1:
        cdef Qnn_Param_t p
        cdef Py_buffer view
        code = self._codes.get(type(value))
        if code is not None:
            memset(&p, 0, sizeof(Qnn_Param_t))
            p.name = _name(key, "a parameter's name")
            p.paramType = QNN_PARAMTYPE_SCALAR
            _set_scalar(&p.scalarParam, code, value.item())
            self._params.push_back(p)
            return 0
        code = self._codes.get(getattr(value, "dtype", None)) if self._own else None
        if code is not None and value.ndim:
            PyObject_GetBuffer(value, &view, PyBUF_STRIDES)
            self._views.push_back(view)
            if PyBuffer_IsContiguous(&view, c'C') and view.len <= 0xFFFFFFFF:
                memset(&p, 0, sizeof(Qnn_Param_t))
                p.name = _name(key, "a parameter's name")
                p.paramType = QNN_PARAMTYPE_TENSOR
                self._keep.append(label := f"{node}.{key}")
                self._describe(&p.tensorParam, label, value.shape, code, QNN_TENSOR_TYPE_STATIC,
                               None)
                p.tensorParam.v1.clientBuf.data = view.buf
                p.tensorParam.v1.clientBuf.dataSize = <uint32_t>view.len
                self._params.push_back(p)
                return 0
        for given in parameter(node, key, value):
            memset(&p, 0, sizeof(Qnn_Param_t))
            _set_param(&p, given, self._keep)
            self._params.push_back(p)
        return 0

    cdef int _operand(self, name) except -1:
        at = self._where.get(name)
        self._operands.push_back(_LEFT_OUT._t if at is None else self._tensors[<size_t>at])
        return 0

    cdef int _node(self, node, parameter) except -1:
        cdef Qnn_OpConfig_t c
        cdef uint64_t status
        cdef uint32_t inputs, outputs
        name, package, type = node.name, "qti.aisw", node.type
        if "::" in type:
            package, _, type = type.rpartition("::")
        self._operands.clear()
        self._params.clear()
        for operand in node.inputs:
            self._operand(operand)
        inputs = <uint32_t>self._operands.size()
        for operand in node.outputs:
            self._operand(operand)
        outputs = <uint32_t>self._operands.size() - inputs
        for key, value in node.params.items():
            self._param(name, key, value, parameter)
        memset(&c, 0, sizeof(Qnn_OpConfig_t))
        c.version = QNN_OPCONFIG_VERSION_1
        c.v1.name = _name(name, "an op's name")
        c.v1.packageName = _name(package, "an op package's name")
        c.v1.typeName = _name(type, "an op's type")
        c.v1.numOfParams = <uint32_t>self._params.size()
        c.v1.params = self._params.data()
        c.v1.numOfInputs = inputs
        c.v1.inputTensors = self._operands.data()
        c.v1.numOfOutputs = outputs
        c.v1.outputTensors = self._operands.data() + inputs
        with nogil:
            status = self._library._fn.graphAddNode(self._graph, c)
        self._library._check(status, "graph", "graphAddNode", f"{type} {name!r}" if status else "")
        self._release_views()
        self._keep.clear()
        return 0


cdef bint _is_plain(q, dtype) except -1:
    """Whether an encoding is none, or one of pairs of scales and offsets of all bits of a type."""
    if q is None:
        return True
    return (q.bitwidth is None and q.block is None and q.block_scales is None and not q.packed
            and getattr(dtype, "kind", "") in ("i", "u"))


def graph_compose(ContextCalls library not None, graph, tensors, nodes, apart, *, dict codes,
                  data_type, scalar, bint own, add, parameter, moves, bint lends,
                  bint lasts, bint forgets) -> tuple:
    """Tensors and nodes of a model, by ``tensorCreateGraphTensor`` and ``graphAddNode``.

    What most tensors and parameters are is described here, without an object for each; the others
    are asked for.

    Args:
        tensors: of the model, ``qnnrt.model.Tensor``.
        nodes: of the model, ``qnnrt.model.Node``; an operand that is no tensor is left out.
        apart: names of tensors that ``add(tensor)`` makes, as it does with those that have an
            unusual encoding, or data that do not lie as the graph takes them.
        codes: data types of parameters: by type for scalars, by numpy type for arrays.
        data_type: numpy type, and whether there is an encoding -> data type.
        scalar: the shape of a tensor without dimensions.
        own: the graph takes data with strides, and arrays of parameters with their node.
        parameter: ``(node, name, value)`` -> other parameters as ``Op`` takes them.
        moves: ``moves(tensor)``: whether its data are copied, and go.
        lends: whether the graph may read others until it is finalized.
        lasts: whether these stay as they are while the context lives.
        forgets: whether a constant's scales of channels go, once the graph has them.

    Returns:
        of tensors that were not asked for: name -> (id, shape, data type, tensor type, encoding);
        the ``Lent`` data, or None.
    """
    cdef _Composer c = _Composer()
    cdef Lent lent = Lent()
    cdef Tensor made
    cdef dict found = {}
    c._library, c._graph, c._own, c._codes = library, _pointer(graph), own, codes
    library._need(<void*>library._fn.tensorCreateGraphTensor, "tensor_createGraphTensor")
    library._need(<void*>library._fn.graphAddNode, "graph_addNode")
    lent._lasts = lasts
    for t in tensors:
        name, data, q = t.name, t.data, t.quantization
        if name not in apart and _is_plain(q, t.dtype):
            shape, code = t.shape or scalar, data_type(t.dtype, q is not None)
            if data is None:
                c._native(name, shape, code, q)
                found[name] = c._tensors.back().v1.id, shape, code, _NATIVE, q
                continue
            gone = moves(t)
            lend = lends and not gone and library._lend_static != NULL
            if c._static(name, shape, code, q, data, lent if lend else None):
                if gone:
                    t.data = None
                if forgets and q is not None and q.axis is not None:
                    t.quantization = q = None
                found[name] = c._tensors.back().v1.id, shape, code, _STATIC, q
                continue
        made = add(t)
        c._add(&made._t, name)
    for node in nodes:
        c._node(node, parameter)
    return found, lent if lent._views.size() else None
