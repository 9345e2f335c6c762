# Part of _core.pyx: configs of GPU backends, and what qnnrt's own was given.

cdef class GpuConfig:
    """An option of QnnGpuBackend_CustomConfig_t or QnnGpuContext_CustomConfig_t with its value: an
    int, or a str for a path. What ``Config`` takes as the value of a CUSTOM option."""

    cdef QnnGpuBackend_CustomConfig_t _c  # the other struct has the same layout
    cdef bytes _text

    def __init__(self, uint32_t option, value):
        cdef uint32_t word
        memset(&self._c, 0, sizeof(self._c))
        self._c.option = <QnnGpuBackend_ConfigOption_t>option
        if isinstance(value, str):
            self._text = _utf8(value, "a path")
            self._c.performanceCacheDir = self._text
        else:
            word = value  # a byte or an enumerator, at the same offset
            memcpy(<char*>&self._c + 8, &word, sizeof(word))


def gpu_config(Library library not None, handle):
    """The configs that a backend, context or graph of qnnrt's gpu backend was given, as JSON; None
    of any other one's."""
    cdef const char* (*describe)(void*) noexcept nogil
    cdef const char* text
    describe = <const char* (*)(void*) noexcept nogil>library._symbol("qnnrt_gpu_config")
    if describe == NULL:
        return None
    text = describe(_pointer(handle))
    return None if text == NULL else _text(text)
