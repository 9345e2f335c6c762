# Part of _core.pyx: profile events of an execution on the gpu backend, out of OpenCL's timestamps.

cdef uint64_t _gpu_time(_GpuList* run, uint32_t at, uint32_t which) noexcept nogil:
    """One of _CL_* of a command, in nanoseconds of the device's clock; 0 when it has none."""
    cdef uint64_t t = 0
    if run.events[at] == NULL or run.cl.times(run.events[at], which, sizeof(t), &t, NULL) != 0:
        return 0
    return t


cdef uint64_t _gpu_span(_GpuList* run, uint32_t first, uint32_t end) noexcept nogil:
    """Nanoseconds that commands took, all of them together."""
    cdef uint64_t total = 0
    cdef uint64_t start
    cdef uint32_t i
    for i in range(first, end):
        # Of a step of Python's only the end is known.
        start = _gpu_time(run, i, _CL_START)
        if i > 0 and _gpu_is_call(run, i):
            start = _gpu_time(run, i - 1, _CL_END)
        total += max(_gpu_time(run, i, _CL_END), start) - start
    return total


cdef bint _gpu_is_call(_GpuList* run, uint32_t at) noexcept nogil:
    cdef uint32_t step = at - run.first_step
    return at >= run.first_step and step < run.n_steps and run.steps[step].kernel == NULL


cdef void _gpu_tell_copies(_GpuList* run, const Qnnrt_ExecutorRun_t* how, int32_t top, bint output,
                           uint32_t first, uint32_t end, uint64_t at) noexcept nogil:
    cdef uint64_t nbytes = 0
    cdef uint32_t i
    cdef int32_t event
    for i in range(run.n_io):
        if run.io[i].output == output and run.io[i].staged:
            nbytes += run.io[i].nbytes
    if first == end or nbytes == 0:
        return
    event = how.add_event(
        how.profile,
        QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS if output
        else QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS,
        QNN_PROFILE_EVENTUNIT_MICROSEC, _gpu_span(run, first, end) // 1000, at // 1000,
        "stage out" if output else "stage in", top)
    if event >= 0:
        how.add_event(how.profile, QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_BYTES,
                      nbytes, at // 1000, "copied out" if output else "copied in", event)


cdef void _gpu_tell_nodes(_GpuList* run, const _GpuFlow* flow, const Qnnrt_ExecutorRun_t* how,
                          int32_t top, int64_t to_host) noexcept nogil:
    """The kernels of a node stand one behind the other."""
    cdef uint32_t first = 0
    cdef uint32_t i
    cdef uint64_t began
    for i in range(1, run.n_steps + 1):
        if i < run.n_steps and strcmp(run.steps[i].node, run.steps[first].node) == 0:
            continue
        began = _gpu_time(run, flow.first_step + first, _CL_START)
        how.add_event(how.profile, QNN_PROFILE_EVENTTYPE_NODE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                      _gpu_span(run, flow.first_step + first, flow.first_step + i) // 1000,
                      <uint64_t>(<int64_t>began + to_host) // 1000, run.steps[first].node, top)
        first = i


cdef void _gpu_tell(_GpuList* run, const _GpuFlow* flow, const Qnnrt_ExecutorRun_t* how,
                    uint64_t start, uint64_t end) noexcept nogil:
    """The events of an execution that has succeeded. The host's clock and the device's meet where
    the first command was queued."""
    cdef uint64_t queued, began, ended
    cdef int64_t to_host
    cdef int32_t top
    cdef const char* name = "execute"
    if run.nodes and not flow.timed:
        name = "execute (the host's time: the queue has no CL_QUEUE_PROFILING_ENABLE)"
    top = how.add_event(how.profile, QNN_PROFILE_EVENTTYPE_EXECUTE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                        (end - start) // 1000, start // 1000, name, -1)
    if top < 0 or not flow.timed or flow.n == 0:
        return
    run.first_step = flow.first_step
    queued = _gpu_time(run, 0, _CL_QUEUED)
    began = _gpu_time(run, 0, _CL_START)
    ended = _gpu_time(run, flow.n - 1, _CL_END)
    to_host = <int64_t>start - <int64_t>queued
    how.add_event(how.profile, QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT,
                  QNN_PROFILE_EVENTUNIT_MICROSEC, (max(began, queued) - queued) // 1000,
                  start // 1000, "device queue", top)
    how.add_event(how.profile, QNN_PROFILE_EVENTTYPE_EXECUTE_DEVICE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                  (max(ended, began) - began) // 1000, <uint64_t>(<int64_t>began + to_host) // 1000,
                  "device", top)
    _gpu_tell_copies(run, how, top, False, 0, flow.first_step, start)
    if how.detailed:
        _gpu_tell_nodes(run, flow, how, top, to_host)
    if flow.first_read < flow.n:
        _gpu_tell_copies(run, how, top, True, flow.first_read, flow.n, <uint64_t>(
            <int64_t>_gpu_time(run, flow.first_read, _CL_START) + to_host))
