# Part of _core.pyx: the lowering of TFLite's operators. It is libqnnrt.so's own.


def tflite_lower(Op op, uint32_t states, uint64_t budget) -> str:
    """What an operator becomes, as JSON; see ``qnnrt_tflite_lower``."""
    cdef const char* text = NULL
    cdef uint64_t code
    with nogil:
        code = qnnrt_tflite_lower(&op._c, states, budget, &text)
    if code:
        raise MemoryError
    return _text(text)


def tflite_operators_json() -> str:
    """The operators that are lowered."""
    return _text(qnnrt_tflite_operators_json())
