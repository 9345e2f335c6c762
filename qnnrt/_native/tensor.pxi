# Part of _core.pyx: tensor descriptions and operations as C structs with owners.

cdef tuple _pairs_of(q):
    """The scales and offsets of an encoding with more than one, in row-major order: floats and
    int32_t, as bytes."""
    if hasattr(q.scale, "astype"):
        scales = q.scale.astype("float32", copy=False).tobytes()
    else:
        scales = array("f", q.scale).tobytes()
    kind = getattr(q.offset, "dtype", None)  # its name is a text that numpy makes each time
    if kind is not None and kind.kind == "i" and kind.itemsize <= 4:
        offsets = q.offset.astype("int32", copy=False).tobytes()
    else:
        # One offset may stand for all.
        try:
            numbers = [int(o) for o in getattr(q.offset, "flat", q.offset)]
        except TypeError:
            numbers = [int(q.offset)]
        offsets = array("i", numbers).tobytes()
    if len(offsets) == 4:
        offsets *= len(scales) // 4
    if len(offsets) != len(scales):
        raise ValueError(
            f"quantization: {len(scales) // 4} scales but {len(offsets) // 4} offsets")
    return scales, offsets


cdef Qnn_ScaleOffset_t* _pairs_in_c(bytes scales, bytes offsets) except NULL:
    """The caller's, by ``PyMem_Free``."""
    cdef Py_ssize_t i, n = len(scales) // 4
    cdef const float* scale = <const float*><const char*>scales
    cdef const int32_t* offset = <const int32_t*><const char*>offsets
    cdef Qnn_ScaleOffset_t* pairs = <Qnn_ScaleOffset_t*>PyMem_Calloc(
        n + 1, sizeof(Qnn_ScaleOffset_t))
    if pairs == NULL:
        raise MemoryError
    for i in range(n):
        pairs[i].scale = scale[i]
        pairs[i].offset = offset[i]
    return pairs


cdef class Tensor:
    """A tensor of a graph or context, with everything its C description points at.

    ``id`` is 0 until the backend has given it one. Made by ``Graph.add_tensor``; the same object is
    used in ``add_node`` and ``execute``.
    """

    cdef Qnn_Tensor_t _t
    cdef bytes _name
    cdef uint32_t* _dims
    cdef Qnn_ScaleOffset_t* _pairs
    cdef float* _scales
    cdef int32_t* _offsets
    cdef uint32_t* _block
    cdef Qnn_BlockwiseExpansion_t* _expansion
    cdef object _block_scales
    cdef Py_buffer _data
    cdef bint _has_data
    cdef bint _strided
    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly object quantization

    def __cinit__(self, name, tuple shape, uint32_t data_type, uint32_t tensor_type, *, data=None,
                  quantization=None, uint32_t mem_type=0, uint32_t data_format=0, dtype=None,
                  uint32_t id=0):
        cdef Py_ssize_t i
        cdef Py_ssize_t rank = len(shape)
        self._name = _utf8(name, "a tensor's name")
        self.shape = shape
        self.dtype = dtype
        self.quantization = quantization
        self._dims = <uint32_t*>PyMem_Calloc(rank + 1, sizeof(uint32_t))
        if self._dims == NULL:
            raise MemoryError
        for i in range(rank):
            n = shape[i]
            if not 0 <= n <= 0xFFFFFFFF:
                raise ValueError(f"tensor {name!r}: dimension {n} is not in 0 .. 2**32 - 1")
            self._dims[i] = n
        self._t.version = QNN_TENSOR_VERSION_1
        self._t.v1.id = id
        self._t.v1.name = <char*>self._name
        self._t.v1.type = <Qnn_TensorType_t>tensor_type
        self._t.v1.dataFormat = data_format
        self._t.v1.dataType = <Qnn_DataType_t>data_type
        self._t.v1.rank = <uint32_t>rank
        self._t.v1.dimensions = self._dims
        self._t.v1.memType = <Qnn_TensorMemType_t>mem_type
        self._quantize(quantization)
        if data is not None:
            self._set_data(data, name)

    def __dealloc__(self):
        self.release_data()
        PyMem_Free(self._dims)
        PyMem_Free(self._pairs)
        PyMem_Free(self._scales)
        PyMem_Free(self._offsets)
        PyMem_Free(self._block)
        PyMem_Free(self._expansion)

    cdef int _set_data(self, data, name) except -1:
        PyObject_GetBuffer(data, &self._data, PyBUF_STRIDES)
        self._has_data = True
        self._strided = not PyBuffer_IsContiguous(&self._data, c'C')
        if self._data.len > 0xFFFFFFFF:
            raise ValueError(f"tensor {name!r} has {self._data.len} bytes: the C API carries at "
                             "most 2**32 - 1 in one constant")
        self._t.v1.clientBuf.data = self._data.buf
        self._t.v1.clientBuf.dataSize = <uint32_t>self._data.len
        return 0

    cdef int _quantize(self, q) except -1:
        cdef Qnn_QuantizeParams_t* p = &self._t.v1.quantizeParams
        cdef uint32_t n
        p.encodingDefinition = QNN_DEFINITION_UNDEFINED
        p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED
        if q is None:
            return 0
        p.encodingDefinition = QNN_DEFINITION_DEFINED
        if getattr(q, "block", None) is not None:
            return self._quantize_blocks(q)
        if getattr(q, "block_scales", None) is not None:
            return self._quantize_expansion(q)
        if q.axis is None and q.bitwidth is None:
            p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET
            p.scaleOffsetEncoding.scale = q.scale
            p.scaleOffsetEncoding.offset = q.offset
            return 0
        if q.axis is None:
            p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET
            p.bwScaleOffsetEncoding.bitwidth = q.bitwidth
            p.bwScaleOffsetEncoding.scale = q.scale
            p.bwScaleOffsetEncoding.offset = q.offset
            return 0
        scales, offsets = _pairs_of(q)
        n = <uint32_t>(len(scales) // 4)
        if q.bitwidth is None:
            self._set_pairs(scales, offsets)
            p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET
            p.axisScaleOffsetEncoding.axis = q.axis
            p.axisScaleOffsetEncoding.numScaleOffsets = n
            p.axisScaleOffsetEncoding.scaleOffset = self._pairs
            return 0
        self._scales = <float*>PyMem_Calloc(n + 1, sizeof(float))
        self._offsets = <int32_t*>PyMem_Calloc(n + 1, sizeof(int32_t))
        if self._scales == NULL or self._offsets == NULL:
            raise MemoryError
        memcpy(self._scales, <const char*>scales, len(scales))
        memcpy(self._offsets, <const char*>offsets, len(offsets))
        p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET
        p.bwAxisScaleOffsetEncoding.bitwidth = q.bitwidth
        p.bwAxisScaleOffsetEncoding.axis = q.axis
        p.bwAxisScaleOffsetEncoding.numElements = n
        p.bwAxisScaleOffsetEncoding.scales = self._scales
        p.bwAxisScaleOffsetEncoding.offsets = self._offsets
        return 0

    cdef int _set_pairs(self, bytes scales, bytes offsets) except -1:
        self._pairs = _pairs_in_c(scales, offsets)
        return 0

    cdef int _quantize_blocks(self, q) except -1:
        cdef Qnn_QuantizeParams_t* p = &self._t.v1.quantizeParams
        cdef Py_ssize_t d, rank = len(self.shape)
        cdef Py_ssize_t blocks = 1
        if len(q.block) != rank:
            raise ValueError(f"quantization in blocks of {tuple(q.block)}: the tensor has {rank} "
                             "dimensions")
        self._block = <uint32_t*>PyMem_Calloc(rank + 1, sizeof(uint32_t))
        if self._block == NULL:
            raise MemoryError
        for d in range(rank):
            self._block[d] = q.block[d]
            if self._block[d] == 0 or self.shape[d] % self._block[d] != 0:
                raise ValueError(f"quantization in blocks of {tuple(q.block)}: they do not divide "
                                 f"the shape {self.shape}")
            blocks *= self.shape[d] // self._block[d]
        scales, offsets = _pairs_of(q)
        # The C struct does not say how many there are: the backend goes by the shape.
        if len(scales) != 4 * blocks:
            raise ValueError(f"quantization in blocks of {tuple(q.block)}: {blocks} blocks but "
                             f"{len(scales) // 4} scales")
        self._set_pairs(scales, offsets)
        p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BLOCK
        p.blockEncoding.blockSize = self._block
        p.blockEncoding.scaleOffset = self._pairs
        return 0

    cdef int _quantize_expansion(self, q) except -1:
        cdef Qnn_QuantizeParams_t* p = &self._t.v1.quantizeParams
        scales, offsets = _pairs_of(q)
        if q.axis is None or not 0 <= q.axis < len(self.shape):
            raise ValueError(f"quantization with block scales: axis {q.axis} is none of the "
                             f"{len(self.shape)} axes")
        table = q.block_scales
        if (table.ndim != 2 or table.dtype.kind != "u" or table.dtype.itemsize > 2
                or not len(scales) // 4 == len(table) == self.shape[q.axis]):
            raise ValueError("quantization with block scales: they are a uint8 or uint16 array of "
                             f"[{self.shape[q.axis]}, blocks], with {self.shape[q.axis]} scales; "
                             f"not {table.dtype}{list(table.shape)} with {len(scales) // 4} scales")
        self._block_scales = table.tobytes()
        self._set_pairs(scales, offsets)
        self._expansion = <Qnn_BlockwiseExpansion_t*>PyMem_Calloc(
            1, sizeof(Qnn_BlockwiseExpansion_t))
        if self._expansion == NULL:
            raise MemoryError
        self._expansion.axis = q.axis
        self._expansion.scaleOffsets = self._pairs
        self._expansion.numBlocksPerAxis = table.shape[1]
        self._expansion.blockScaleBitwidth = q.block_scale_bits
        self._expansion.blockScaleStorageType = (
            QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8 if table.dtype.itemsize == 1
            else QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16)
        self._expansion.blocksScale8 = <uint8_t*><char*>(<bytes>self._block_scales)
        p.quantizationEncoding = QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION
        p.blockwiseExpansion = self._expansion
        return 0

    def release_encoding(self, bint forget=False) -> None:
        """Let go of scales and offsets: a backend of ours has its own once it has made the tensor.
        Another one may compare those of an operand. Forgotten, `quantization` is None, too."""
        if forget:
            self.quantization = None
        self._t.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED
        PyMem_Free(self._pairs)
        PyMem_Free(self._scales)
        PyMem_Free(self._offsets)
        self._pairs = NULL
        self._scales = NULL
        self._offsets = NULL

    def release_data(self) -> None:
        """Let go of a constant's bytes and scales: by finalize the backend has its own."""
        if self._has_data:
            self.release_encoding()
            self._has_data = False
            self._t.v1.clientBuf.data = NULL
            self._t.v1.clientBuf.dataSize = 0
            PyBuffer_Release(&self._data)

    @property
    def data(self):
        """What a constant's bytes were given as; None without any, or when they were released."""
        return <object>self._data.obj if self._has_data else None

    @property
    def id(self) -> int:
        """The backend's number for it; 0 when it has none yet."""
        return self._t.v1.id

    @property
    def name(self) -> str:
        """Unique in its graph."""
        return self._name.decode()

    @property
    def data_type(self) -> int:
        """One of the QNN_DATATYPE values."""
        return <uint32_t>self._t.v1.dataType

    @property
    def type(self) -> int:
        """One of the QNN_TENSOR_TYPE values."""
        return <uint32_t>self._t.v1.type

    @property
    def mem_type(self) -> int:
        """0 RAW or 1 MEMHANDLE: what was declared when it was made."""
        return <uint32_t>self._t.v1.memType

    def __repr__(self) -> str:
        dims = "x".join(map(str, self.shape)) or "scalar"
        return f"<Tensor {self.name!r} {self.dtype or hex(self.data_type)}[{dims}] id {self.id}>"


cdef int _set_scalar(Qnn_Scalar_t* s, uint32_t data_type, value) except -1:
    s.dataType = <Qnn_DataType_t>data_type
    if data_type == <uint32_t>QNN_DATATYPE_FLOAT_32:
        s.floatValue = value
    elif data_type == <uint32_t>QNN_DATATYPE_FLOAT_64:
        s.doubleValue = value
    elif data_type == <uint32_t>QNN_DATATYPE_BOOL_8:
        s.bool8Value = 1 if value else 0
    elif data_type == <uint32_t>QNN_DATATYPE_INT_32:
        s.int32Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_UINT_32:
        s.uint32Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_INT_64:
        s.int64Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_UINT_64:
        s.uint64Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_INT_16:
        s.int16Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_UINT_16:
        s.uint16Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_INT_8:
        s.int8Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_UINT_8:
        s.uint8Value = value
    elif data_type == <uint32_t>QNN_DATATYPE_STRING:
        s.stringValue = <char*>(<bytes>value)
    else:
        raise ValueError(f"no scalar parameter of data type {data_type:#x}")
    return 0


cdef int _set_param(Qnn_Param_t* p, param, list keep) except -1:
    """A parameter as ``Op`` takes it; `keep` gets what it points at."""
    data = _utf8(param[0], "a parameter's name")
    keep.append(data)
    p.name = <char*>(<bytes>data)
    if len(param) == 2:
        keep.append(param[1])
        p.paramType = QNN_PARAMTYPE_TENSOR
        p.tensorParam = (<Tensor?>param[1])._t
        return 0
    value = param[2]
    if isinstance(value, str):
        value = _utf8(value, f"parameter {param[0]!r}")
        keep.append(value)
    p.paramType = QNN_PARAMTYPE_SCALAR
    return _set_scalar(&p.scalarParam, param[1], value)


cdef class Op:
    """An operation as ``backendValidateOpConfig`` and ``graphAddNode`` take it.

    Args:
        name: unique in its graph.
        package: ``qti.aisw`` for the built-in ops.
        type: the op's name.
        params: (name, data type, scalar) triples, or (name, tensor) pairs.
        inputs, outputs: tensors in the op's order; None for an omitted one.
    """

    cdef Qnn_OpConfig_t _c
    cdef Qnn_Param_t* _params
    cdef Qnn_Tensor_t* _tensors
    cdef list _keep
    cdef readonly str name
    cdef readonly str package
    cdef readonly str type
    cdef readonly list params
    cdef readonly list inputs
    cdef readonly list outputs

    def __cinit__(self, name, package, type, params, inputs, outputs):
        cdef Py_ssize_t i, n
        self.name, self.package, self.type = name, package, type
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._keep = [_utf8(name, "an op's name"), _utf8(package, "an op package's name"),
                      _utf8(type, "an op's type"), self.inputs, self.outputs]
        self._c.version = QNN_OPCONFIG_VERSION_1
        self._c.v1.name = <char*>(<bytes>self._keep[0])
        self._c.v1.packageName = <char*>(<bytes>self._keep[1])
        self._c.v1.typeName = <char*>(<bytes>self._keep[2])
        params = self.params = list(params)
        self._params = <Qnn_Param_t*>PyMem_Calloc(len(params) + 1, sizeof(Qnn_Param_t))
        n = len(self._keep[3]) + len(self._keep[4])
        self._tensors = <Qnn_Tensor_t*>PyMem_Calloc(n + 1, sizeof(Qnn_Tensor_t))
        if self._params == NULL or self._tensors == NULL:
            raise MemoryError
        for i, param in enumerate(params):
            _set_param(&self._params[i], param, self._keep)
        self._c.v1.numOfParams = <uint32_t>len(params)
        self._c.v1.params = self._params
        for i, tensor in enumerate(self._keep[3] + self._keep[4]):
            self._tensors[i] = (<Tensor?>(_LEFT_OUT if tensor is None else tensor))._t
        self._c.v1.numOfInputs = <uint32_t>len(self._keep[3])
        self._c.v1.inputTensors = self._tensors
        self._c.v1.numOfOutputs = <uint32_t>len(self._keep[4])
        self._c.v1.outputTensors = self._tensors + self._c.v1.numOfInputs

    def __dealloc__(self):
        PyMem_Free(self._params)
        PyMem_Free(self._tensors)


# An omitted operand, as other clients send it: type NULL, one dimension of no elements.
cdef Tensor _LEFT_OUT = Tensor("", (0,), QNN_DATATYPE_FLOAT_32, QNN_TENSOR_TYPE_NULL)
