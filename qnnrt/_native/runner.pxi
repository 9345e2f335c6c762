# Part of _core.pyx: executing a finalized graph.

cdef enum:
    _OPEN = 0
    _CLOSED = 1
    _SHORT_NANOSECONDS = 2000
    _BEFORE = 0
    _DURING = 1
    _AFTER = 2


cdef class Runner:
    """A finalized graph with its tensors bound: ``run`` is one call into the backend.

    The C tensors are prepared once; binding changes them in place. Runs of one graph queue on its
    lock, which is never waited for with the interpreter lock held.
    """

    cdef Library _library
    cdef QnnGraph_ExecuteFn_t _execute_fn
    cdef Qnn_GraphHandle_t _graph_handle
    cdef Qnn_Tensor_t* _ins
    cdef Qnn_Tensor_t* _outs
    cdef uint32_t _n_in, _n_out
    cdef list _tensors
    cdef list _bound
    cdef object _keep
    cdef uint8_t* _unbound       # tensors whose memory the backend chooses, and how many
    cdef uint32_t _n_unbound
    cdef uint64_t _executes, _ticks
    cdef uint64_t _short_ticks  # a run below this keeps the interpreter lock; 0: none does
    cdef bint _short            # the last run was
    cdef uint32_t _generation
    cdef int _state
    cdef FairMutex _mutex       # one synchronous run at a time
    cdef mutex _tensors_mutex   # what is bound, and whether it is open; taken after _mutex
    cdef Flight _flight         # asynchronous runs
    cdef Worker* _worker        # does them where the backend has no queue; made when one comes
    cdef dict _futures          # theirs, while they are not done
    cdef int _end               # how far `close` has come

    def __cinit__(self):
        self._state = _CLOSED
        self._generation = Generation()
        self._futures = {}

    def prepare(self, Library library not None, graph, inputs, outputs, keep=None) -> None:
        """Take over a finalized graph handle and its tensors; nothing is bound yet. ``keep`` is
        alive as long as the runner: whoever owns the graph."""
        self._keep = keep
        self._tensors = [*inputs, *outputs]
        self._bound = [None] * len(self._tensors)
        self._n_in = <uint32_t>len(inputs)
        self._n_out = <uint32_t>len(outputs)
        self._ins = <Qnn_Tensor_t*>PyMem_Calloc(len(self._tensors) + 1, sizeof(Qnn_Tensor_t))
        self._unbound = <uint8_t*>PyMem_Calloc(len(self._tensors) + 1, sizeof(uint8_t))
        if self._ins == NULL or self._unbound == NULL:
            raise MemoryError
        self._outs = self._ins + self._n_in
        for i, tensor in enumerate(self._tensors):
            self._ins[i] = (<Tensor?>tensor)._t
        library._need(<void*>library._fn.graphExecute, "graph_execute")
        self._library = library
        self._execute_fn = library._fn.graphExecute
        self._graph_handle = _pointer(graph)
        # A backend of others may call back into Python, or wait for a device: never with the lock.
        # The gpu backend waits for one, and a step of Python's in it for the lock.
        own = library.has_extensions and library.backend_id != QNN_BACKEND_ID_GPU
        # A run that writes a state waits for those of other graphs that write it.
        for tensor in self._tensors:
            own = own and (<Tensor?>tensor)._t.v1.type != QNN_TENSOR_TYPE_APP_READWRITE
        self._short_ticks = Ticks.In(_SHORT_NANOSECONDS) if own else 0
        self._state = _OPEN

    def __dealloc__(self):
        PyMem_Free(self._ins)
        PyMem_Free(self._unbound)
        if self._generation == Generation():  # else its thread is the parent's
            del self._worker  # it has nothing to do: runs keep the runner

    cdef int _usable(self) except -1:
        _check_process(self._generation, "this session")
        if self._state == _CLOSED:
            raise errors.ClosedError("this session is closed")
        return 0

    def bind_raw(self, uint32_t index, address, nbytes, keep) -> None:
        """Let tensor ``index`` (inputs, then outputs) use memory by address; keeps ``keep``. The
        address 0 leaves the memory to the backend, in each run."""
        self._usable()
        if nbytes > 0xFFFFFFFF:
            raise ValueError(f"{nbytes} bytes are more than a RAW tensor can carry (2**32 - 1): "
                             "use io='memhandle'")
        cdef void* data = _pointer(address)
        cdef uint32_t size = nbytes
        cdef Qnn_Tensor_t* t = &self._ins[index]
        self._bound[index]  # raises for a bad index before anything changes
        with nogil:
            self._mutex.lock()
            self._tensors_mutex.lock()
        self._refuse_closed()
        t.v1.memType = QNN_TENSORMEMTYPE_RAW
        t.v1.clientBuf.data = data
        t.v1.clientBuf.dataSize = size
        self._set_unbound(index, data == NULL)
        before = self._bound[index]
        self._bound[index] = keep
        self._tensors_mutex.unlock()
        self._mutex.unlock()

    def bind_handle(self, uint32_t index, handle, keep) -> None:
        """Let tensor ``index`` use a registered memory handle; keeps ``keep``."""
        self._usable()
        cdef void* h = _pointer(handle)
        cdef Qnn_Tensor_t* t = &self._ins[index]
        self._bound[index]
        with nogil:
            self._mutex.lock()
            self._tensors_mutex.lock()
        self._refuse_closed()
        t.v1.clientBuf.data = NULL
        t.v1.clientBuf.dataSize = 0
        t.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE
        t.v1.memHandle = h
        self._set_unbound(index, False)
        before = self._bound[index]
        self._bound[index] = keep
        self._tensors_mutex.unlock()
        self._mutex.unlock()

    cdef void _prefetch(self, vector[uint32_t]& places) noexcept:
        """Has the caches fetch what ``_bind_parts`` writes, all at once and while other things are
        done first: behind a run that reads a model all of it is in memory."""
        cdef size_t i
        if self._state == _CLOSED:
            return
        for i in range(places.size()):
            Prefetch(&self._ins[places[i]].v1.memType, 1)
            Prefetch(&self._ins[places[i]].v1.clientBuf.dataSize, 1)

    cdef list _bind_parts(self, vector[uint32_t]& places, PartHandles handles):
        """``bind_handle`` for several tensors at once; where there are more places than handles,
        they begin anew. Returns what they were bound to, which must not go under a lock."""
        self._usable()
        cdef size_t n = handles._handles.size()
        cdef uint32_t index
        cdef size_t i
        cdef Qnn_Tensor_t* t
        before = []
        former = None
        for i in range(places.size()):
            if places[i] >= self._n_in + self._n_out:
                raise IndexError(places[i])
        with nogil:
            self._mutex.lock()
            self._tensors_mutex.lock()
        self._refuse_closed()
        for i in range(places.size()):
            index = places[i]
            t = &self._ins[index]
            t.v1.clientBuf.data = NULL
            t.v1.clientBuf.dataSize = 0
            t.v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE
            t.v1.memHandle = handles._handles[i % n]
            self._set_unbound(index, False)
            bound = self._bound[index]
            if bound is not former:
                before.append(bound)
                former = bound
            self._bound[index] = handles
        self._tensors_mutex.unlock()
        self._mutex.unlock()
        return before

    cdef int _refuse_closed(self) except -1:
        """With both mutexes held, which it gives back where it raises: the session was closed since
        ``_usable`` looked."""
        if self._state == _CLOSED:
            self._tensors_mutex.unlock()
            self._mutex.unlock()
            self._usable()
        return 0

    cdef void _set_unbound(self, uint32_t index, bint unbound) noexcept:
        self._n_unbound += unbound
        self._n_unbound -= self._unbound[index]
        self._unbound[index] = unbound

    cdef void _clear_addresses(self, Qnn_Tensor_t* tensors) noexcept nogil:
        """Clear the addresses that earlier runs have written: the memory may have moved."""
        cdef uint32_t i
        if self._n_unbound == 0:
            return
        for i in range(self._n_in + self._n_out):
            if self._unbound[i]:
                tensors[i].v1.clientBuf.data = NULL
                tensors[i].v1.clientBuf.dataSize = 0

    cdef bint _execute_locked(self, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal,
                              uint64_t* code) noexcept nogil:
        """graphExecute, counted; ``_mutex`` is held. True when the session was closed meanwhile."""
        cdef uint64_t start
        if self._state == _CLOSED:
            return True
        self._clear_addresses(self._ins)
        start = Ticks.Now()
        code[0] = self._execute_fn(self._graph_handle, self._ins, self._n_in, self._outs,
                                   self._n_out, profile, signal)
        start = Ticks.Now() - start
        self._short = start < self._short_ticks
        if code[0] == 0:
            self._ticks += start
            self._executes += 1
        return False

    cdef int _execute(self, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal) except -1:
        cdef uint64_t code = 0
        cdef bint closed = False
        if self._state == _CLOSED or self._generation != Generation():
            self._usable()
        # Giving the interpreter lock away and taking it back costs as much as a tiny graph. Behind
        # asynchronous runs even that one waits.
        if self._short and self._flight.count() == 0 and self._mutex.try_lock():
            closed = self._execute_locked(profile, signal, &code)
            self._mutex.unlock()
        else:
            with nogil:
                self._mutex.lock()
                closed = self._execute_locked(profile, signal, &code)
                self._mutex.unlock()
        if closed:
            self._usable()
        if code != 0 or LogSink.Get().pending():
            self._library._check(code, "graph", "graphExecute")
        return 0

    def run(self) -> None:
        """Execute once on what is bound."""
        self._execute(NULL, NULL)

    def execute(self, profile=0, signal=0) -> None:
        """Execute once with a profile handle, a signal handle, or both."""
        self._execute(_pointer(profile), _pointer(signal))

    def run_async(self, signal, Outcome future not None, keep=None, queued=True) -> None:
        """Execute in the background on what is bound now. ``future`` is done when it was executed,
        and never when this raises; it and ``keep`` are held until then.

        ``queued``: by graphExecuteAsync, which waits, without the interpreter lock, while the
        backend's queue is full. Else by graphExecute, on a thread of this runner's.
        """
        cdef Qnn_SignalHandle_t s = _pointer(signal)
        cdef uint32_t n = self._n_in + self._n_out
        cdef uint32_t i
        cdef Pending pending
        cdef list bound
        cdef Worker* worker = NULL
        self._usable()
        if queued:
            self._library._need(<void*>self._library._fn.graphExecuteAsync, "graph_executeAsync")
        else:
            with cython.critical_section(self):
                if self._worker == NULL:
                    self._worker = new Worker()
                worker = self._worker
        # All that can fail, or lets others run, comes before the run counts as begun.
        pending = Pending.__new__(Pending, self._library, future, n)
        bound = [None] * n
        pending._keep = (self, bound, keep)
        pending._among = self._futures
        with nogil:
            self._tensors_mutex.lock()
        if self._state == _CLOSED:
            self._tensors_mutex.unlock()
            self._usable()
        # The backend may read the tensors until it is done; binding changes these here.
        memcpy(pending._tensors, self._ins, n * sizeof(Qnn_Tensor_t))
        self._clear_addresses(pending._tensors)
        for i in range(n):
            bound[i] = self._bound[i]
        self._flight.Begin()
        self._tensors_mutex.unlock()
        pending._launch(self._graph_handle, self._n_in, self._n_out, NULL, s, &self._flight,
                        worker, &self._mutex)

    @property
    def futures(self) -> list:
        """Of the runs in the background that are not done, in the order of their calls."""
        return list(self._futures.copy())

    def in_flight(self) -> int:
        """How many asynchronous runs the backend has not reported yet."""
        return self._flight.count()

    def counters(self) -> tuple:
        """(successful executions, nanoseconds spent in them) since the last reset."""
        return (self._executes + self._flight.executes(),
                Ticks.ToNanoseconds(self._ticks + self._flight.ticks()))

    def reset_counters(self) -> None:
        _check_process(self._generation, "this session")
        with nogil:
            self._mutex.lock()
        self._executes = 0
        self._ticks = 0
        self._mutex.unlock()
        self._flight.ResetCounters()

    @property
    def closed(self):
        """Whether the session was closed."""
        return self._state == _CLOSED

    def stop(self):
        """Wait for runs in flight, let no other start, drop what was bound; False in a forked
        child, which has nothing to wait for."""
        if self._generation != Generation():
            self._state = _CLOSED
            return False
        with nogil:
            self._mutex.lock()
            self._tensors_mutex.lock()
            self._state = _CLOSED
            self._tensors_mutex.unlock()
            self._mutex.unlock()
            self._flight.WaitUntilDone()
            if self._worker != NULL:
                self._worker.Stop()
        if self._bound is not None:
            for i in range(len(self._bound)):  # in place: another thread may look at the list
                self._bound[i] = None
        return True

    def close(self, finish) -> None:
        """``stop``, then ``finish()`` once: not while it is under way, not after it has returned,
        but anew after it has raised. So an interrupt in the middle of it is no harm."""
        cdef int end
        if self._generation == Generation() and not Completions.Get().OnTaker():
            for future in self.futures:  # `stop` would wait for them as well, whatever signals say
                (<Outcome>future)._event.wait()
        if not self.stop():
            return
        with cython.critical_section(self):
            end = self._end
            if end == _BEFORE:
                self._end = _DURING
        if end != _BEFORE:
            return
        try:
            finish()
        except BaseException:
            self._end = _BEFORE
            raise
        self._end = _AFTER


cdef class Runnable:
    """Base of ``qnnrt.Session``: ``run()`` is a call from C, without a frame of Python's."""

    cdef readonly Runner _runner

    def __cinit__(self, *args, **kwargs):
        self._runner = Runner()

    def run(self, feeds=None):
        """Execute once.

        Without an argument the bound memory is used as it is: nothing is copied, nothing is
        allocated, and None is returned. With a dict {input name: array} the arrays are copied into
        the bound memory first (unless they are that memory) and a dict {output name: array} is
        returned, with copies of the outputs that later runs do not overwrite. Both kinds of copy
        are counted in ``stats``; under ``strict`` an input that would have to be copied is an
        error, and the outputs returned are the bound arrays themselves.

        Thread safe: runs of one session queue.

        Raises:
            ClosedError: the session is closed.
            ForkError: the session belongs to the parent of this forked process.
            CopyError: ``strict``, and an input is not the bound memory.
            KeyError, ValueError: unknown input, or wrong shape or type; an input that is left out
                and that nobody has fed, bound or looked at yet.
            QnnError: the backend refused.
        """
        if feeds is not None:
            return self._run_feeds(feeds)
        self._runner._execute(NULL, NULL)

    def _run_feeds(self, feeds):
        raise NotImplementedError
