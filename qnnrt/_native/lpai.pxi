# Part of _core.pyx: what LPAI backends have of their own.
#
# All of it has one pattern: {option, pointer to the option's own struct}, hung off the CUSTOM
# config or property of a backend, a context or a graph. The outer struct is the same one under
# several names.

cdef union _LpaiStruct:
    QnnLpaiBackend_CustomConfigHwInfo_t hardware
    QnnLpaiGraph_Mem_t memory
    QnnLpaiGraph_PerfCfg_t performance
    QnnLpaiGraph_CoreAffinity_t affinity
    QnnLpaiGraph_CustomConfigPrepare_t prepare
    uint32_t word


cdef class LpaiConfig:
    """An LPAI option with its struct: what ``Config`` takes as the value of a CUSTOM option."""

    cdef QnnLpaiGraph_CustomConfig_t _c
    cdef _LpaiStruct _struct
    cdef bytes _text

    def __init__(self, *args, **kwargs):
        raise TypeError("made by its static methods")

    @staticmethod
    cdef LpaiConfig _of(uint32_t option):
        cdef LpaiConfig made = LpaiConfig.__new__(LpaiConfig)
        made._c.option = option
        made._c.config = &made._struct
        return made

    @staticmethod
    def hardware(uint32_t target, uint32_t version) -> LpaiConfig:
        """HW_INFO of backendCreate: QNN_LPAI_BACKEND_TARGET_* and _HW_VERSION_*."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_BACKEND_CUSTOM_CFG_HW_INFO)
        made._struct.hardware.lpaiTarget = <QnnLpaiBackend_Target_t>target
        made._struct.hardware.hwVersion = <QnnLpaiBackend_HwVersion_t>version
        return made

    @staticmethod
    def model_memory(uint32_t mem_type) -> LpaiConfig:
        """MODEL_BUFFER_MEM_TYPE of a context: QNN_LPAI_MEM_TYPE_*."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_CONTEXT_SET_CFG_MODEL_BUFFER_MEM_TYPE)
        made._struct.word = mem_type
        return made

    @staticmethod
    def island(uint32_t enabled) -> LpaiConfig:
        """ENABLE_ISLAND of a context: 1 or 0."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_CONTEXT_SET_CFG_ENABLE_ISLAND)
        made._struct.word = enabled
        return made

    @staticmethod
    def memory(bint persistent, uint32_t mem_type, address, uint32_t nbytes) -> LpaiConfig:
        """SCRATCH_MEM or PERSISTENT_MEM of a graph; address 0 takes it away."""
        cdef LpaiConfig made = LpaiConfig._of(
            QNN_LPAI_GRAPH_SET_CFG_PERSISTENT_MEM if persistent
            else QNN_LPAI_GRAPH_SET_CFG_SCRATCH_MEM)
        made._struct.memory.memType = <QnnLpaiMem_MemType_t>mem_type
        made._struct.memory.size = nbytes
        made._struct.memory.addr = _pointer(address)
        return made

    @staticmethod
    def performance(uint32_t fps, uint32_t ftrt_ratio, uint32_t client_type) -> LpaiConfig:
        """PERF_CFG of a graph; QNN_LPAI_GRAPH_CLIENT_PERF_TYPE_*."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_GRAPH_SET_CFG_PERF_CFG)
        made._struct.performance.fps = fps
        made._struct.performance.ftrtRatio = ftrt_ratio
        made._struct.performance.clientType = <QnnLpaiGraph_ClientPerfType_t>client_type
        return made

    @staticmethod
    def affinity(uint32_t affinity, uint32_t cores) -> LpaiConfig:
        """CORE_AFFINITY of a graph: QNN_LPAI_GRAPH_CORE_AFFINITY_* and a bit for each core."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY)
        made._struct.affinity.affinity = <QnnLpaiGraph_CoreAffinityType_t>affinity
        made._struct.affinity.coreSelection = cores
        return made

    @staticmethod
    def prepare(bint per_layer, core_selection=None) -> LpaiConfig:
        """PREPARE of a graph."""
        cdef LpaiConfig made = LpaiConfig._of(QNN_LPAI_GRAPH_SET_CFG_PREPARE)
        made._struct.prepare.enablePerLayer = per_layer
        made._struct.prepare.enableCoreSelection = NULL
        if core_selection is not None:
            made._text = _utf8(core_selection, "core_selection")
            made._struct.prepare.enableCoreSelection = <char*>made._text
        return made


cdef int _ask_lpai_backend(Library library, backend, uint32_t option, void* out) except -1:
    cdef Qnn_BackendHandle_t h = _pointer(backend)
    cdef QnnLpaiBackend_CustomProperty_t custom
    cdef QnnBackend_Property_t one
    cdef QnnBackend_Property_t* properties[2]
    cdef uint64_t code
    library._need(<void*>library._fn.backendGetProperty, "backend_getProperty")
    custom.option = option
    custom.property = out
    one.option = QNN_BACKEND_PROPERTY_OPTION_CUSTOM
    one.customProperty = &custom
    properties[0] = &one
    properties[1] = NULL
    with nogil:
        code = library._fn.backendGetProperty(h, properties)
    library._check(code, "backend", "backendGetProperty", f"LPAI property {option}")
    return 0


def lpai_alignment(Library library not None, backend) -> tuple:
    """(of start addresses, of sizes), in bytes, for every pool and IO buffer."""
    cdef QnnLpaiBackend_BufferAlignmentReq_t answer
    memset(&answer, 0, sizeof(answer))
    _ask_lpai_backend(library, backend, QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ, &answer)
    return answer.startAddrAlignment, answer.sizeAlignment


def lpai_requires_persistent_binary(Library library not None, backend) -> bool:
    """Whether contexts out of binaries must be created with PERSISTENT_BINARY."""
    cdef uint32_t answer = 0
    _ask_lpai_backend(library, backend, QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY,
                      &answer)
    return (answer & 0xFF) != 0  # a bool fills one byte of it


def lpai_core_count(Library library not None, backend) -> int:
    """How many eNPU cores there are."""
    cdef uint32_t answer = 0
    _ask_lpai_backend(library, backend, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM, &answer)
    return answer


def lpai_core_info(Library library not None, backend, uint32_t index) -> tuple:
    """(multiply-accumulate units, version) of an eNPU core."""
    cdef QnnLpaiBackend_eNPUCoreInfo_t answer
    memset(&answer, 0, sizeof(answer))
    answer.coreIndex = index
    _ask_lpai_backend(library, backend, QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_INFO, &answer)
    return answer.macCnt, answer.version


def lpai_pool_size(Library library not None, graph, bint persistent) -> int:
    """How many bytes of scratch or persistent memory a graph needs."""
    cdef Qnn_GraphHandle_t h = _pointer(graph)
    cdef uint32_t answer = 0
    cdef QnnLpaiGraph_CustomProperty_t custom
    cdef QnnGraph_Property_t one
    cdef QnnGraph_Property_t* properties[2]
    cdef uint64_t code
    library._need(<void*>library._fn.graphGetProperty, "graph_getProperty")
    custom.option = (QNN_LPAI_GRAPH_GET_PROP_PERSISTENT_MEM_SIZE if persistent
                     else QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE)
    custom.property = &answer
    one.option = QNN_GRAPH_PROPERTY_OPTION_CUSTOM
    one.customProperty = &custom
    properties[0] = &one
    properties[1] = NULL
    with nogil:
        code = library._fn.graphGetProperty(h, properties)
    library._check(code, "graph", "graphGetProperty",
                   "persistent memory size" if persistent else "scratch memory size")
    return answer


# ---- qnnrt's own extensions

def graph_reset_state(Library library not None, graph) -> None:
    """Zero a graph's state, between executions: the next one starts afresh."""
    cdef Qnn_GraphHandle_t h = _pointer(graph)
    cdef uint64_t (*reset)(Qnn_GraphHandle_t) noexcept nogil
    cdef uint64_t code
    reset = <uint64_t (*)(Qnn_GraphHandle_t) noexcept nogil>(
        library._symbol("qnnrt_graph_reset_state"))
    library._need(<void*>reset, "graph_reset_state")
    with nogil:
        code = reset(h)
    library._check(code, "graph", "qnnrt_graph_reset_state")


def graph_free(Library library not None, graph) -> None:
    """Free one graph of a context, which stays."""
    cdef Qnn_GraphHandle_t h = _pointer(graph)
    cdef uint64_t (*free_graph)(Qnn_GraphHandle_t) noexcept nogil
    cdef uint64_t code
    free_graph = <uint64_t (*)(Qnn_GraphHandle_t) noexcept nogil>(
        library._symbol("qnnrt_graph_free"))
    library._need(<void*>free_graph, "graph_free")
    with nogil:
        code = free_graph(h)
    library._check(code, "graph", "qnnrt_graph_free")


def graph_io_address(Library library not None, graph, uint32_t tensor) -> int:
    """Where an input or output lies in the scratch memory, by the tensor's id."""
    cdef Qnn_GraphHandle_t h = _pointer(graph)
    cdef void* address = NULL
    cdef uint64_t (*find)(Qnn_GraphHandle_t, uint32_t, void**) noexcept nogil
    cdef uint64_t code
    find = <uint64_t (*)(Qnn_GraphHandle_t, uint32_t, void**) noexcept nogil>(
        library._symbol("qnnrt_graph_io_address"))
    library._need(<void*>find, "graph_io_address")
    with nogil:
        code = find(h, tensor, &address)
    library._check(code, "graph", "qnnrt_graph_io_address", f"tensor {tensor}")
    return <uintptr_t>address


def lpai_describe(Library library not None, handle):
    """The settings of a backend or a graph of qnnrt's own lpai backend, as JSON, or None."""
    cdef void* h = _pointer(handle)
    cdef const char* (*describe)(void*) noexcept nogil
    describe = <const char* (*)(void*) noexcept nogil>(
        library._symbol("qnnrt_lpai_describe"))
    if describe == NULL or library.backend_id != QNN_BACKEND_ID_LPAI:
        return None
    cdef const char* text = describe(h)
    return None if text == NULL else _text(text)
