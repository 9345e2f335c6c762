# Part of _core.pyx: executions in the background, and what their futures are made of.
#
# An interrupt (a KeyboardInterrupt, or what else a signal handler raises) can come between any two
# steps of Python's, also inside of `threading.Condition`, where it leaves a lock held that the
# thread which completes the future waits for. It cannot come between two lines of a function here,
# except where that calls Python: so whatever must happen together happens in one such function,
# and no thread ever waits for a lock that Python code holds.

import _thread
from concurrent.futures import InvalidStateError
from threading import get_ident


cdef _held_lock():
    try:
        lock = _thread.allocate_lock()
    except RuntimeError:  # what CPython says without memory
        raise MemoryError from None
    lock.acquire()
    return lock


cdef class Event:
    """``threading.Event``, whole at every interrupt."""

    cdef object __weakref__
    cdef object _lock     # held until it is set; whoever waits for it takes it and gives it back
    cdef object _release  # its method, so that setting allocates nothing
    cdef atomic[uint8_t] _set  # who sees it set sees what came before it, without a lock as well

    def __cinit__(self):
        self._set.store(0)
        self._lock = _held_lock()
        self._release = self._lock.release

    cpdef bint is_set(self) noexcept:
        """Whether it is set."""
        return self._set.load() != 0

    cpdef set(self):
        """Let everyone who waits go on, and whoever comes."""
        with cython.critical_section(self):
            if not self._set.load():
                self._release()
                self._set.store(1)

    def clear(self):
        """Let those who come wait again."""
        lock = _held_lock()
        release = lock.release
        with cython.critical_section(self):
            if self._set.load():
                self._release = release
                self._lock = lock  # those who waited have the old one
                self._set.store(0)

    cpdef wait(self, timeout=None):
        """Wait until it is set, or for so many seconds; returns whether it was."""
        if self._set.load():
            return True
        with cython.critical_section(self):
            lock = self._lock
        if timeout is None:
            taken = lock.acquire()
        elif timeout > 0:
            taken = lock.acquire(True, timeout)
        else:
            taken = lock.acquire(False)
        if taken:
            lock.release()
        return taken


def start_thread(list started, function):
    """Call ``function`` on a thread; append an Event to ``started`` that is set when it has ended.

    For threads that somebody waits for: a ``threading.Thread`` that is started, an interrupt could
    leave waiting for ever.
    """
    ended = Event()

    def run():
        try:
            function()
        finally:
            ended.set()

    _thread.start_new_thread(run, ())
    started.append(ended)  # no interrupt comes between


cdef class Outcome:
    """The half of a ``concurrent.futures.Future`` that an interrupt could break: its state, who
    waits for it and who is called back. It runs from the start, and cannot be cancelled."""

    cdef Event _event
    cdef Library _library
    cdef object _error             # the exception, when there is one
    cdef uint64_t _code
    cdef str _function             # of QNN's, for messages
    cdef str _said
    cdef list _callbacks
    cdef list _waiting             # as_completed's and wait's
    cdef dict _seen                # thread -> whether it was done when that thread took _condition

    def __init__(self, Library library not None):
        self._library = library
        self._event = Event()
        self._callbacks = []
        self._waiting = []
        self._seen = {}
        self._said = ""
        self._function = "graphExecuteAsync"

    def done(self):
        """Whether the execution is over."""
        return self._event.is_set()

    def running(self):
        """Whether it is not."""
        return not self._event.is_set()

    def cancelled(self):
        """False: see ``cancel``."""
        return False

    def cancel(self):
        """False: what a backend has taken is ended by a signal."""
        return False

    def result(self, timeout=None):
        """Wait, for so many seconds at most; None.

        Raises:
            TimeoutError: it is not done yet.
            QnnError: the execution failed.
        """
        if (error := self.exception(timeout)) is not None:
            try:
                raise error
            finally:
                error = None  # its traceback has this frame
        return None

    def exception(self, timeout=None):
        """Wait likewise; what the execution failed with, or None."""
        if not self._event.wait(timeout):
            raise TimeoutError()
        return self._failure()

    cdef _failure(self):
        """What it failed with, one object for all who ask; None when it has not."""
        if self._code == 0:
            return None
        with cython.critical_section(self):
            error = self._error
        if error is None:
            made = errors.make_error(self._code, "graph", self._function, "", self._said)
            with cython.critical_section(self):
                if self._error is None:
                    self._error = made
                error = self._error
        return error

    def add_done_callback(self, fn):
        """Call ``fn`` with this future when it is done, on the thread that completes it; here and
        now when it is."""
        cdef bint done
        with cython.critical_section(self):
            done = self._event.is_set()
            if not done:
                self._callbacks.append(fn)
        if done:
            self._call(fn)

    def set_running_or_notify_cancel(self):
        """For executors: not for these, as the next two."""
        raise InvalidStateError("the execution completes this future itself")

    def set_result(self, result):
        raise InvalidStateError("the execution completes this future itself")

    def set_exception(self, exception):
        raise InvalidStateError("the execution completes this future itself")

    cdef _call(self, fn):
        try:
            fn(self)
        except Exception:
            _logger.exception("exception calling callback for %r", self)

    cdef void _finish(self) noexcept:
        """It is over. On the thread that completes; no error of others' ends that."""
        if self._code != 0:
            try:  # now, while the program has memory; else when somebody asks
                if not self._said:
                    self._said = self._library.error_message(self._code)
                self._failure()
            except BaseException:
                pass
        with cython.critical_section(self):
            self._event.set()
            waiting = list(self._waiting)
        for waiter in waiting:
            try:
                self._notify(waiter)
            except BaseException:
                _report_failure()

    cdef void _call_back(self) noexcept:
        with cython.critical_section(self):
            callbacks, self._callbacks = self._callbacks, []
        for fn in callbacks:
            try:
                self._call(fn)
            except BaseException:  # while it was being logged
                _report_failure()

    # ---- for concurrent.futures.wait and as_completed, which know a future's insides
    #
    # They take `_condition` of all their futures, look at each `_state`, put themselves into
    # `_waiters` and give the conditions back. Here a condition excludes nobody, so an interrupt in
    # between leaves nobody waiting for it. Instead the thread that has taken it sees the state of
    # that moment until it gives it back, and a waiter that comes too late is told at once.

    cdef _notify(self, waiter):
        if self._code == 0:
            waiter.add_result(self)
        else:
            waiter.add_exception(self)

    @property
    def _state(self):
        return "FINISHED" if self._seen.get(get_ident(), self._event.is_set()) else "RUNNING"

    @property
    def _condition(self):
        return _Condition.__new__(_Condition, self)

    @property
    def _waiters(self):
        return _Waiters.__new__(_Waiters, self)


cdef class _Condition:
    """``Future._condition``, as far as others use it."""

    cdef Outcome _of

    def __cinit__(self, Outcome of):
        self._of = of

    def acquire(self, *_):
        self._of._seen[get_ident()] = self._of._event.is_set()
        return True

    def release(self):
        self._of._seen.pop(get_ident(), None)

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


cdef class _Waiters:
    """``Future._waiters``, likewise."""

    cdef Outcome _of

    def __cinit__(self, Outcome of):
        self._of = of

    def append(self, waiter):
        if not isinstance(waiter.event, Event):
            event = Event()
            if waiter.event.is_set():
                event.set()
            waiter.event = event  # one that an interrupt of who waits for it leaves whole
        cdef bint done
        with cython.critical_section(self._of):
            done = self._of._event.is_set()
            if not done:
                self._of._waiting.append(waiter)
        if done and not self._of._seen.get(get_ident(), True):
            self._of._notify(waiter)

    def remove(self, waiter):
        with cython.critical_section(self._of):
            self._of._waiting = [w for w in self._of._waiting if w is not waiter]


cdef class Pending:
    """An execution in flight: what it needs, and whom to tell."""

    cdef Qnn_Tensor_t* _tensors
    cdef Completion* _completion
    cdef Execution _execution
    cdef Flight _own_flight  # of executions that belong to no Runner
    cdef Library _library
    cdef Outcome _future
    cdef object _keep
    cdef dict _among         # where the future is while it is not done, or None

    def __cinit__(self, Library library not None, Outcome future not None, uint32_t tensors):
        self._library = library
        self._future = future
        self._tensors = <Qnn_Tensor_t*>PyMem_Calloc(tensors + 1, sizeof(Qnn_Tensor_t))
        if self._tensors == NULL:
            raise MemoryError
        self._completion = new Completion(<void*>self)
        _start_completing()

    def __dealloc__(self):
        PyMem_Free(self._tensors)
        del self._completion

    cdef int _launch(self, Qnn_GraphHandle_t graph, uint32_t n, uint32_t m,
                     Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal, Flight* flight,
                     Worker* worker, FairMutex* one_at_a_time) except -1:
        """graphExecuteAsync; or graphExecute on ``worker``. ``flight`` has begun, and ends when
        this raises."""
        cdef uint64_t code = 0
        cdef int error = 0
        cdef bint begun = False
        cdef bint told = False
        cdef Execution* e = &self._execution
        try:
            if self._among is not None:
                self._among[self._future] = None
            begun = Completions.Get().Begin()
        finally:
            if not begun:
                self._forget()
                flight.Cancel()
        if not begun:
            raise RuntimeError("the interpreter is going down: no new executions")
        self._completion.flight = flight
        self._completion.called = Ticks.Now()
        if self._library.has_extensions:  # of others nobody says that a callback may ask
            self._completion.get_message = self._library._fn.errorGetVerboseMessage
            self._completion.free_message = self._library._fn.errorFreeVerboseMessage
        Py_INCREF(self)  # the completion's, until `_complete` has seen it
        if worker == NULL:
            with nogil:
                code = self._library._fn.graphExecuteAsync(
                    graph, self._tensors, n, self._tensors + n, m, profile, signal, NotifyCallback,
                    self._completion)
        else:
            self._future._function = "graphExecute"
            e.execute = self._library._fn.graphExecute
            e.graph, e.signal = graph, signal
            e.inputs, e.num_inputs = self._tensors, n
            e.outputs, e.num_outputs = self._tensors + n, m
            e.one_at_a_time, e.completion = one_at_a_time, self._completion
            with nogil:
                error = worker.Put(e)
        if code != 0 or error != 0:  # then nobody calls back
            Completions.Get().Cancel()
            flight.Cancel()
            self._forget()
            Py_DECREF(self)
        if error != 0:
            raise errors.make_error(
                QNN_COMMON_ERROR_SYSTEM, "graph", "graphExecute", "",
                f"no thread for runs in the background: {os.strerror(error)}. Nothing was started; "
                "end threads or processes, or raise their limit (ulimit -u), and run again")
        if code != 0 or LogSink.Get().pending():
            self._library._check(code, "graph", "graphExecuteAsync")
        return 0

    cdef void _forget(self) noexcept:
        if self._among is not None:
            self._among.pop(self._future, None)


cdef void _report_failure() noexcept:
    """A fault of this package's, or no memory for what others do: never a reason to end."""
    try:
        _logger.exception("completing an asynchronous execution")
    except BaseException:
        pass


cdef void _complete(Completion* completion) noexcept:
    cdef Pending pending = <Pending>completion.owner
    cdef Outcome future = pending._future
    Py_DECREF(pending)
    future._code = completion.error
    if completion.error != 0:
        try:
            future._said = _text(completion.text)
        except BaseException:
            pass  # the code says it, too
    # When the future is done nothing is held any more.
    pending._keep = None
    try:
        _drain_log()
    except BaseException:
        _report_failure()
    future._finish()
    pending._forget()
    pending = None
    future._call_back()


cdef Event _ended = None  # when the thread below is


def _complete_all() -> None:
    """The thread that completes futures, in the order in which backends have reported."""
    cdef Completion* completion
    cdef Event ended = _ended
    Completions.Get().SetTaker()
    try:
        from threading import current_thread
        current_thread().name = "qnnrt-async"
    except BaseException:
        pass
    while True:
        with nogil:
            completion = Completions.Get().Take()
        if completion == NULL:
            break
        _complete(completion)
    ended.set()


cdef int _start_completing() except -1:
    """Start it, unless this process has it."""
    global _ended
    if not Completions.Get().Claim():
        return 0
    try:
        _ended = Event()
        # Not by `threading`: what its `start` waits with, an interrupt could leave locked. And a
        # daemon: the interpreter waits for others before it calls stop_completing.
        _thread.start_new_thread(_complete_all, ())
    except BaseException as e:
        Completions.Get().GiveBack()
        if not isinstance(e, RuntimeError):
            raise
        raise errors.Error(
            f"no thread to complete futures: {e}. Nothing was started; end threads or processes, "
            "or raise their limit (ulimit -u), and run again") from None
    return 0


def stop_completing() -> None:
    """Wait until everything in flight has been reported, and let nothing more start."""
    if Completions.Get().Started():
        Completions.Get().Stop()
        _ended.wait()


def on_completing_thread() -> bool:
    """Whether this is the thread that completes futures and calls their callbacks."""
    return Completions.Get().OnTaker()
