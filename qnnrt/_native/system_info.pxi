# Part of _core.pyx: what a context binary says of itself, as dicts.

cdef tuple _version(Qnn_Version_t v):
    return (v.major, v.minor, v.patch)


cdef bytes _blob(const void* data, uint64_t size):
    return b"" if data == NULL else PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>size)


cdef dict _binary_info(const QnnSystemContext_BinaryInfo_t* info):
    cdef const QnnSystemContext_BinaryInfoV3_t* v3 = &info.contextBinaryInfoV3
    cdef const QnnSystemContext_BinaryInfoV2_t* v2 = &info.contextBinaryInfoV2
    cdef int version = <int>info.version
    if version == <int>QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3:
        return {
            "version": version,
            "backend_id": v3.backendId,
            "build_id": _text(v3.buildId),
            "core_api_version": _version(v3.coreApiVersion),
            "backend_api_version": _version(v3.backendApiVersion),
            "soc_version": _text(v3.socVersion),
            "soc_model": v3.socModel,
            "context_blob_version": _version(v3.contextBlobVersion),
            "context_blob_size": v3.contextBlobSize,
            "context_metadata": _blob(v3.contextMetadata, v3.contextMetadataSize),
            "devices": _devices(v3.platformInfo),
            "context_tensors": _tensors(v3.contextTensors, v3.numContextTensors),
            "graphs": [_graph_info(&v3.graphs[i]) for i in range(v3.numGraphs)],
        }
    if version in (<int>QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1,
                   <int>QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2):
        # Version 2 is version 1 with the platform added at its end.
        return {
            "version": version,
            "backend_id": v2.backendId,
            "build_id": _text(v2.buildId),
            "core_api_version": _version(v2.coreApiVersion),
            "backend_api_version": _version(v2.backendApiVersion),
            "soc_version": _text(v2.socVersion),
            "soc_model": 0,
            "context_blob_version": _version(v2.contextBlobVersion),
            "context_blob_size": v2.contextBlobSize,
            "context_metadata": _blob(v2.hwInfoBlob, v2.hwInfoBlobSize),
            "devices": _devices(v2.platformInfo) if version == 2 else [],
            "context_tensors": _tensors(v2.contextTensors, v2.numContextTensors),
            "graphs": [_graph_info(&v2.graphs[i]) for i in range(v2.numGraphs)],
        }
    raise errors.make_error(QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED,
                            "system", "systemContextGetBinaryInfo", "",
                            f"binary info version {version} is unknown: 1, 2 or 3")


cdef dict _graph_info(const QnnSystemContext_GraphInfo_t* info):
    cdef const QnnSystemContext_GraphInfoV3_t* g = &info.graphInfoV3  # 1 and 2 are its beginning
    cdef int version = <int>info.version
    if not 1 <= version <= 3:
        raise errors.make_error(QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED,
                                "system", "systemContextGetBinaryInfo", "",
                                f"graph info version {version} is unknown: 1, 2 or 3")
    return {
        "name": _text(g.graphName),
        "inputs": _tensors(g.graphInputs, g.numGraphInputs),
        "outputs": _tensors(g.graphOutputs, g.numGraphOutputs),
        "updateable": _tensors(g.updateableTensors, g.numUpdateableTensors) if version > 1 else [],
        "blob": _blob(g.graphBlobInfo, g.graphBlobInfoSize) if version > 2 else b"",
        "ops": [g.startOpIndex, g.endOpIndex] if version > 2 else [],
    }


cdef list _devices(const QnnDevice_PlatformInfo_t* info):
    cdef const QnnDevice_HardwareDeviceInfoV1_t* d
    cdef uint32_t i, j
    out = []
    if info == NULL:
        return out
    for i in range(info.v1.numHwDevices):
        d = &info.v1.hwDevices[i].v1
        cores = [] if d.cores == NULL else [
            {"core_id": d.cores[j].v1.coreId, "core_type": d.cores[j].v1.coreType}
            for j in range(d.numCores)
        ]
        out.append({"device_id": d.deviceId, "device_type": d.deviceType, "cores": cores})
    return out


cdef list _tensors(const Qnn_Tensor_t* tensors, uint32_t n):
    return [] if tensors == NULL else [_tensor_info(&tensors[i]) for i in range(n)]


cdef dict _tensor_info(const Qnn_Tensor_t* tensor):
    cdef const Qnn_TensorV1_t* t = &tensor.v1  # version 2 begins as version 1 does
    cdef const Qnn_TensorV2_t* t2 = &tensor.v2
    cdef uint32_t rank = 0 if t.dimensions == NULL else t.rank
    cdef bint dynamic = (<int>tensor.version == <int>QNN_TENSOR_VERSION_2
                         and t2.isDynamicDimensions != NULL)
    mem_type = <uint32_t>t.memType
    return {
        "id": t.id,
        "name": _text(t.name),
        "dims": [t.dimensions[i] for i in range(rank)],
        "data_type": <uint32_t>t.dataType,
        "type": <uint32_t>t.type,
        "data_format": t.dataFormat,
        "mem_type": ("raw", "memhandle", "retrieve_raw")[mem_type] if mem_type < 3 else "undefined",
        "dynamic": [t2.isDynamicDimensions[i] != 0 for i in range(rank)] if dynamic else [],
        "quantization": _quantization_info(&t.quantizeParams),
    }


_ENCODINGS = ("scale_offset", "axis_scale_offset", "bw_scale_offset", "bw_axis_scale_offset",
              "block", "blockwise_expansion", "vector", "float_block",
              "bw_axis_scale_offset_mapped", "bw_block_mapped", "bw_blockwise_expansion_mapped",
              "bw_float_block")


cdef _quantization_info(const Qnn_QuantizeParams_t* q):
    """None, or {encoding, scale, offset, axis, bitwidth}: lists of scales and offsets with an axis.

    Of the encodings in blocks, whose lengths only the shape tells, the name alone.
    """
    cdef uint32_t encoding = <uint32_t>q.quantizationEncoding
    cdef uint32_t i
    if (<uint32_t>q.encodingDefinition != <uint32_t>QNN_DEFINITION_DEFINED
            or encoding >= <uint32_t>len(_ENCODINGS)):
        return None
    out = {"encoding": _ENCODINGS[encoding], "scale": None, "offset": None, "axis": None,
           "bitwidth": None}
    if encoding == <uint32_t>QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
        out["scale"] = q.scaleOffsetEncoding.scale
        out["offset"] = q.scaleOffsetEncoding.offset
    elif encoding == <uint32_t>QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
        out["scale"] = q.bwScaleOffsetEncoding.scale
        out["offset"] = q.bwScaleOffsetEncoding.offset
        out["bitwidth"] = q.bwScaleOffsetEncoding.bitwidth
    elif encoding == <uint32_t>QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
        pairs = [(q.axisScaleOffsetEncoding.scaleOffset[i].scale,
                  q.axisScaleOffsetEncoding.scaleOffset[i].offset)
                 for i in range(q.axisScaleOffsetEncoding.numScaleOffsets)]
        out["scale"] = [scale for scale, _ in pairs]
        out["offset"] = [offset for _, offset in pairs]
        out["axis"] = q.axisScaleOffsetEncoding.axis
    elif encoding == <uint32_t>QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET:
        n = q.bwAxisScaleOffsetEncoding.numElements
        out["scale"] = [q.bwAxisScaleOffsetEncoding.scales[i] for i in range(n)]
        out["offset"] = ([0] * n if q.bwAxisScaleOffsetEncoding.offsets == NULL
                         else [q.bwAxisScaleOffsetEncoding.offsets[i] for i in range(n)])
        out["axis"] = q.bwAxisScaleOffsetEncoding.axis
        out["bitwidth"] = q.bwAxisScaleOffsetEncoding.bitwidth
    return out
