# Part of _core.pyx: the planner of arenas. It is libqnnrt.so's own.


def plan_arena(items, offsets, effort, milliseconds, steps) -> dict:
    """Qnnrt_PlanInfo_t by the names of its members.

    ``items`` are Qnnrt_ArenaItem_t one behind the other; ``offsets`` (uint64) are written.
    """
    cdef Qnnrt_PlanOptions_t options
    cdef Qnnrt_PlanInfo_t info
    cdef Py_buffer given
    cdef Py_buffer result
    cdef uint64_t code, count
    memset(&options, 0, sizeof(options))
    memset(&info, 0, sizeof(info))
    options.effort = effort
    options.milliseconds = milliseconds
    options.steps = steps
    PyObject_GetBuffer(items, &given, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(offsets, &result, PyBUF_WRITABLE)
        try:
            count = given.len // sizeof(Qnnrt_ArenaItem_t)
            if count * sizeof(uint64_t) != <uint64_t>result.len:
                raise ValueError("there is one offset for each item")
            with nogil:
                code = qnnrt_plan_arena(<const Qnnrt_ArenaItem_t*>given.buf, count, &options,
                                        <uint64_t*>result.buf, &info)
        finally:
            PyBuffer_Release(&result)
    finally:
        PyBuffer_Release(&given)
    if code:
        raise ValueError(_text(qnnrt_error_message()))
    return {
        "peak": info.peak, "lower_bound": info.lower_bound, "sum": info.sum, "steps": info.steps,
        "proved": info.proved != 0, "order": _text(info.order),
    }
