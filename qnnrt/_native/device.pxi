# Part of _core.pyx: devices as they describe themselves, and performance votes.

cdef dict _on_chip(const QnnHtpDevice_DeviceInfoExtension_t* extension):
    if extension == NULL or extension.devType != QNN_HTP_DEVICE_TYPE_ON_CHIP:
        return {}
    return {
        "soc_model": extension.onChipDevice.socModel,
        "arch": <uint32_t>extension.onChipDevice.arch,
        "vtcm_mb": extension.onChipDevice.vtcmSize,
        "signed_pd": extension.onChipDevice.signedPdSupport != 0,
        "dlbc": extension.onChipDevice.dlbcSupport != 0,
    }


cdef list _hardware(const QnnDevice_PlatformInfo_t* info, bint htp):
    cdef const QnnDevice_HardwareDeviceInfoV1_t* d
    cdef uint32_t i, j
    devices = []
    if info == NULL or info.version != QNN_DEVICE_PLATFORM_INFO_VERSION_1:
        return devices
    for i in range(info.v1.numHwDevices):
        d = &info.v1.hwDevices[i].v1
        device = {
            "device_id": d.deviceId,
            "device_type": d.deviceType,
            "cores": [{"core_id": d.cores[j].v1.coreId, "core_type": d.cores[j].v1.coreType}
                      for j in range(d.numCores)],
        }
        if htp:  # what the extension is, only a backend of this kind says
            device.update(_on_chip(
                <const QnnHtpDevice_DeviceInfoExtension_t*>d.deviceInfoExtension))
        devices.append(device)
    return devices


def platform_info(Library library not None, log=0) -> list:
    """The platform's devices as dicts; see ``Backend.platform_info``."""
    cdef Qnn_LogHandle_t h = _pointer(log)
    cdef const QnnDevice_PlatformInfo_t* info = NULL
    cdef uint64_t code
    library._need(<void*>library._fn.deviceGetPlatformInfo, "device_getPlatformInfo")
    with nogil:
        code = library._fn.deviceGetPlatformInfo(h, &info)
    library._check(code, "device", "deviceGetPlatformInfo")
    try:
        return _hardware(info, library.backend_id == QNN_BACKEND_ID_HTP)
    finally:
        if library._fn.deviceFreePlatformInfo != NULL:
            library._fn.deviceFreePlatformInfo(h, info)


def device_info(Library library not None, device) -> list:
    """The devices of one device handle, likewise."""
    cdef Qnn_DeviceHandle_t h = _pointer(device)
    cdef const QnnDevice_PlatformInfo_t* info = NULL
    cdef uint64_t code
    library._need(<void*>library._fn.deviceGetInfo, "device_getInfo")
    with nogil:
        code = library._fn.deviceGetInfo(h, &info)
    library._check(code, "device", "deviceGetInfo")
    return _hardware(info, library.backend_id == QNN_BACKEND_ID_HTP)


cdef QnnHtpDevice_PerfInfrastructure_t _perf(Library library) except *:
    cdef QnnDevice_Infrastructure_t infrastructure = NULL
    cdef const QnnHtpDevice_Infrastructure_t* htp
    cdef uint64_t code
    library._need(<void*>library._fn.deviceGetInfrastructure, "device_getInfrastructure")
    if library.backend_id != QNN_BACKEND_ID_HTP:
        raise errors.make_error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                                "device", "deviceGetInfrastructure", "",
                                "only the htp backend has performance votes")
    with nogil:
        code = library._fn.deviceGetInfrastructure(&infrastructure)
    library._check(code, "device", "deviceGetInfrastructure")
    htp = <const QnnHtpDevice_Infrastructure_t*>infrastructure
    if htp == NULL or htp.infraType != QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF:
        raise errors.make_error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                                "device", "deviceGetInfrastructure", "",
                                "the backend offers no performance infrastructure")
    return htp.perfInfra


def power_config_create(Library library not None, uint32_t device=0, uint32_t core=0) -> int:
    """A power config id of a device's core."""
    cdef QnnHtpDevice_PerfInfrastructure_t perf = _perf(library)
    cdef uint32_t power_id = 0
    cdef uint64_t code
    with nogil:
        code = perf.createPowerConfigId(device, core, &power_id)
    library._check(code, "perf_infrastructure", "createPowerConfigId")
    return power_id


def power_config_destroy(Library library not None, uint32_t power_id) -> None:
    """Take a vote back."""
    cdef QnnHtpDevice_PerfInfrastructure_t perf = _perf(library)
    cdef uint64_t code
    with nogil:
        code = perf.destroyPowerConfigId(power_id)
    library._check(code, "perf_infrastructure", "destroyPowerConfigId")


def power_config_set(Library library not None, uint32_t power_id, configs) -> None:
    """``configs``: (option, the words of its struct) of QnnHtpPerfInfrastructure_PowerConfig_t."""
    cdef QnnHtpDevice_PerfInfrastructure_t perf = _perf(library)
    cdef size_t words = sizeof(QnnHtpPerfInfrastructure_PowerConfig_t) // sizeof(uint32_t)
    cdef size_t n = len(configs)
    cdef uint32_t* structs = <uint32_t*>PyMem_Calloc(n + 1, words * sizeof(uint32_t))
    cdef const QnnHtpPerfInfrastructure_PowerConfig_t** pointers
    cdef uint64_t code
    pointers = <const QnnHtpPerfInfrastructure_PowerConfig_t**>PyMem_Calloc(n + 1, sizeof(void*))
    try:
        if structs == NULL or pointers == NULL:
            raise MemoryError
        for i, (option, values) in enumerate(configs):
            if len(values) >= words:
                raise ValueError(f"a power config has at most {words - 1} words")
            for j, word in enumerate((option, *values)):
                structs[<size_t>i * words + <size_t>j] = word
            pointers[<size_t>i] = <QnnHtpPerfInfrastructure_PowerConfig_t*>(
                structs + <size_t>i * words)
        with nogil:
            code = perf.setPowerConfig(power_id, pointers)
        library._check(code, "perf_infrastructure", "setPowerConfig")
    finally:
        PyMem_Free(pointers)
        PyMem_Free(structs)


def htp_describe(Library library not None, device=0):
    """The devices and votes of qnnrt's own htp backend as JSON, or None."""
    cdef Qnn_DeviceHandle_t h = _pointer(device)
    cdef const char* (*describe)(Qnn_DeviceHandle_t) noexcept nogil
    describe = <const char* (*)(Qnn_DeviceHandle_t) noexcept nogil>(
        library._symbol("qnnrt_htp_describe"))
    if describe == NULL or library.backend_id != QNN_BACKEND_ID_HTP:
        return None
    cdef const char* text = describe(h)
    return None if text == NULL else _text(text)


def config_table() -> str:
    """Every config option that qnnrt's runtime knows, and what it does with it, as JSON."""
    return _text(qnnrt_config_table_json())
