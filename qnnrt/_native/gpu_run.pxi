# Part of _core.pyx: one execution of a gpu graph's command list. No interpreter lock is held but by
# steps of Python's.

cdef void** _gpu_event(_GpuFlow* flow, void** event) noexcept nogil:
    return event if flow.chained or flow.timed else NULL


cdef uint32_t _gpu_waits(const _GpuFlow* flow) noexcept nogil:
    return 1 if flow.chained and flow.last != NULL else 0


cdef void** _gpu_wait_list(_GpuFlow* flow) noexcept nogil:
    return &flow.last if _gpu_waits(flow) else NULL


cdef void _gpu_after(_GpuList* run, _GpuFlow* flow, void* event) noexcept nogil:
    """A command was enqueued."""
    if flow.timed:
        run.events[flow.n] = event
    elif flow.last != NULL and flow.last != flow.barrier:
        run.cl.release_event(flow.last)
    if event != NULL:
        flow.last = event
    flow.n += 1
    if run.flush_every and flow.n % run.flush_every == 0:
        run.cl.flush(flow.queue)


cdef uint64_t _gpu_patch(_GpuList* run, _GpuIo* io, uint32_t at, void* mem) noexcept nogil:
    """Point the steps at an input's or output's memory."""
    cdef int32_t status
    cdef uint32_t i
    cdef _GpuPatch* p
    if mem == io.now:
        return 0
    io.now = NULL
    for i in range(io.n_patches):
        p = &io.patches[i]
        if p.kernel == NULL:
            run.steps[p.step].mems[p.index] = mem
            continue
        status = run.cl.set_arg(p.kernel, p.index, sizeof(void*), &mem)
        if status != 0:
            return _gpu_fail(_GPU_GENERAL, "a kernel does not take its memory", at, status)
    io.now = mem
    return 0


cdef uint64_t _gpu_stage(_GpuList* run, _GpuFlow* flow, uint32_t at, _GpuPlace* p) noexcept nogil:
    """RAW memory, in or out."""
    cdef _GpuIo* io = &run.io[at]
    cdef void* event = NULL
    cdef int32_t status = 0
    cdef _ClTransfer transfer = run.cl.read if io.output else run.cl.write
    status = transfer(flow.queue, io.staging, 0, 0, io.nbytes, p.data, _gpu_waits(flow),
                      _gpu_wait_list(flow), _gpu_event(flow, &event))
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "its memory cannot be copied", at, status)
    _gpu_after(run, flow, event)
    io.copied += io.nbytes
    run.reads += io.output
    run.writes += not io.output
    if io.output:
        run.read_bytes += io.nbytes
    else:
        run.written_bytes += io.nbytes
    return 0


cdef uint64_t _gpu_bring_in(_GpuList* run, _GpuBinding* b, _GpuFlow* flow) noexcept nogil:
    """Memory becomes the device's, and the steps' arguments; RAW inputs are on their way then."""
    cdef uint64_t code = 0
    cdef int32_t status = 0
    cdef uint32_t i
    cdef _GpuPlace* p
    for i in range(run.n_io):
        if b.places[i].handle:
            code = _gpu_give(b.places[i].handle, i, &run.given)
            if code != 0:
                return code
            b.places[i].on_device = True
    # Behind everything that was enqueued before.
    if flow.queue != run.base:
        status = run.cl.finish(run.base)
    elif flow.chained:
        status = run.cl.barrier(flow.queue, 0, NULL, &flow.barrier)
        flow.last = flow.barrier
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "the queue takes no commands", _GPU_NO_TENSOR, status)
    for i in range(run.n_io):
        p = &b.places[i]
        run.io[i].staged = p.handle == 0
        if p.handle == 0 and run.io[i].staging == NULL:
            run.io[i].staging = run.cl.create(run.context, _CL_READ_WRITE, run.io[i].nbytes, NULL,
                                              &status)
            if run.io[i].staging == NULL:
                return _gpu_fail(_GPU_MEMORY, "no staging memory on the device", i, status)
            run.reserved_bytes += run.io[i].nbytes
        code = _gpu_patch(run, &run.io[i], i, p.mem if p.handle else run.io[i].staging)
        if code == 0 and p.handle == 0 and not run.io[i].output:
            code = _gpu_stage(run, flow, i, p)
        if code != 0:
            return code
    return 0


cdef uint64_t _gpu_call(_GpuList* run, void* queue, uint32_t at) noexcept with gil:
    """A step of Python's."""
    cdef _GpuStep* s = &run.steps[at]
    cdef uint32_t i
    try:
        (<object>s.call)(<uintptr_t>queue, [<uintptr_t>s.mems[i] for i in range(s.n_mems)])
        return 0
    except BaseException as e:
        text = f"{type(e).__name__}: {e}".encode("utf-8", "replace")
        _gpu_fail(_GPU_GENERAL, "it raised ", _GPU_NO_TENSOR, 0, at)
        SetGpuDetail(&LastGpuError(), text)
        return _GPU_GENERAL


cdef uint64_t _gpu_step(_GpuList* run, _GpuFlow* flow, uint32_t at) noexcept nogil:
    cdef _GpuStep* s = &run.steps[at]
    cdef void* event = NULL
    cdef int32_t status = 0
    cdef uint64_t code
    cdef const size_t* group = NULL
    if s.has_local:
        group = s.group
    if s.kernel == NULL:
        # Nothing says what it waits for, so it waits for all, and the next step for it.
        if flow.chained:
            status = run.cl.barrier(flow.queue, 0, NULL, NULL)
        code = _gpu_call(run, flow.queue, at) if status == 0 else 0
        if code != 0:
            return code
        if status == 0 and (flow.chained or flow.timed):
            status = run.cl.barrier(flow.queue, 0, NULL, &event)
    else:
        status = run.cl.enqueue(flow.queue, s.kernel, s.dims, NULL, s.total, group,
                                _gpu_waits(flow), _gpu_wait_list(flow), _gpu_event(flow, &event))
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "it did not start", _GPU_NO_TENSOR, status, at)
    _gpu_after(run, flow, event)
    run.kernels += 1
    return 0


cdef uint64_t _gpu_mark(_GpuList* run, _GpuFlow* flow) noexcept nogil:
    """A command whose end is when a step of Python's begins, of which only the end is known."""
    cdef void* event = NULL
    cdef int32_t status = run.cl.barrier(flow.queue, _gpu_waits(flow), _gpu_wait_list(flow), &event)
    if status != 0:
        return _gpu_fail(_GPU_GENERAL, "the queue takes no commands", _GPU_NO_TENSOR, status)
    _gpu_after(run, flow, event)
    return 0


cdef uint64_t _gpu_enqueue(_GpuList* run, _GpuBinding* b, _GpuFlow* flow,
                           const Qnnrt_ExecutorRun_t* how) noexcept nogil:
    cdef uint64_t code = _gpu_bring_in(run, b, flow)
    cdef uint32_t i
    if code == 0 and flow.timed and flow.n == 0 and run.n_steps and run.steps[0].kernel == NULL:
        code = _gpu_mark(run, flow)
    if code != 0:
        return code
    flow.first_step = flow.n
    for i in range(run.n_steps):
        if how.interrupt != NULL and how.stopped(how.interrupt):
            return _gpu_fail(_GPU_ABORTED, "a signal has ended it")
        code = _gpu_step(run, flow, i)
        if code != 0:
            return code
    flow.first_read = flow.n
    for i in range(run.n_in, run.n_io):
        if b.places[i].handle == 0:
            code = _gpu_stage(run, flow, i, &b.places[i])
            if code != 0:
                return code
    return 0


cdef uint64_t _gpu_settle(_GpuList* run, _GpuBinding* b, _GpuFlow* flow) noexcept nogil:
    """Memory becomes its owner's again, and everything is done. After a failure as well: what was
    enqueued may still use the caller's memory."""
    cdef uint64_t code = 0
    cdef int32_t status = 0
    cdef bint back = False
    cdef uint32_t i
    if flow.queue != run.base:
        status = run.cl.finish(flow.queue)
    elif flow.chained:
        status = run.cl.barrier(flow.queue, 0, NULL, NULL)
    if status != 0:
        code = _gpu_fail(_GPU_GENERAL, "the device did not finish", _GPU_NO_TENSOR, status)
    for i in range(run.n_io):
        if not b.places[i].on_device:
            continue
        back = True
        b.places[i].on_device = False
        status = _gpu_hand_back(b.places[i].handle, &run.taken_back)
        if code == 0 and status != 0:
            code = _gpu_fail(_GPU_GENERAL, "the device does not give its memory back", i, status)
    if back or flow.queue == run.base:
        status = run.cl.finish(run.base)
        if code == 0 and status != 0:
            code = _gpu_fail(_GPU_GENERAL, "the device did not finish", _GPU_NO_TENSOR, status)
    return code


cdef bint _gpu_timestamps(_GpuList* run, _GpuFlow* flow) noexcept nogil:
    """Whether the flow's queue has them; it may be another queue from now on."""
    cdef int32_t status = 0
    if run.timestamps:
        return True
    if not run.own_queue or run.device == NULL:
        return False  # commands of the client's have to come before, or behind
    if run.timed == NULL:
        run.timed = run.cl.create_queue(run.context, run.device, _CL_QUEUE_PROFILING_ENABLE,
                                        &status)
    if run.timed == NULL:
        return False
    flow.queue = run.timed
    flow.chained = False
    return True


cdef uint64_t _gpu_run(void* self, void* binding, const Qnnrt_ExecutorRun_t* how,
                       Qnnrt_ExecutorText_t* why) noexcept nogil:
    """Enqueue everything, wait once."""
    cdef _GpuList* run = <_GpuList*>self
    cdef _GpuBinding* b = <_GpuBinding*>binding
    cdef _GpuFlow flow
    cdef uint64_t code, start, settled
    run.lock.lock()
    LastGpuError().graph = run.graph
    start = MonotonicNanoseconds() if how.profile != NULL else 0
    memset(&flow, 0, sizeof(flow))
    flow.queue = run.queue
    flow.chained = run.chained
    flow.timed = how.profile != NULL and run.nodes and _gpu_timestamps(run, &flow)
    code = _gpu_enqueue(run, b, &flow, how)
    if code != 0:
        _gpu_explain(run, why)
        _gpu_settle(run, b, &flow)  # its own errors are nothing new
    else:
        code = _gpu_settle(run, b, &flow)
        if code != 0:
            _gpu_explain(run, why)
    if code == 0 and how.profile != NULL:
        _gpu_tell(run, &flow, how, start, MonotonicNanoseconds())
    _gpu_drop_events(run, &flow)
    run.executes += code == 0
    run.lock.unlock()
    return code


cdef void _gpu_drop_events(_GpuList* run, _GpuFlow* flow) noexcept nogil:
    cdef uint32_t i
    if flow.timed:
        for i in range(flow.n):
            if run.events[i] != NULL:
                run.cl.release_event(run.events[i])
                run.events[i] = NULL
    elif flow.last != NULL and flow.last != flow.barrier:
        run.cl.release_event(flow.last)
    if flow.barrier != NULL:
        run.cl.release_event(flow.barrier)
