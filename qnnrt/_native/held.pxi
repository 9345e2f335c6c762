# Part of _core.pyx: handles, fds and notes that are given up once, whatever comes in between.
#
# Not by weakref.finalize or a `__del__` of Python's: an interrupt in those is dropped, and so is
# what they were to do. Nor by that of a cdef class: Cython calls none under the limited API.

import _signal

cdef bint _interrupted = False


def _note_interrupt(number, frame):
    global _interrupted
    _interrupted = True


def whole(function, *arguments):
    """Call ``function`` and put an interrupt that comes meanwhile off until it has returned: for
    short ones that make something and note it, which an interrupt in between would leave to
    nobody. Interrupts only (SIGINT): what handlers of other signals raise is not put off."""
    global _interrupted
    before = _signal.getsignal(_signal.SIGINT)
    if not callable(before) or before is _note_interrupt:
        return function(*arguments)  # nothing of Python's runs then; or within another one
    try:
        _signal.signal(_signal.SIGINT, _note_interrupt)
    except ValueError:  # interrupts come in the main thread alone
        return function(*arguments)
    try:
        return function(*arguments)
    finally:
        _signal.signal(_signal.SIGINT, before)
        if _interrupted:
            _interrupted = False
            PyErr_SetInterrupt()


cdef struct _Link:
    _Link* older
    _Link* newer
    PyObject* held


cdef _Link* _newest_held = NULL  # of all that are not freed; the list owns none of them
cdef mutex _held_mutex  # of the list; held for a few lines of C alone


@cython.no_gc  # in a cycle that is garbage, everything that stands on it is freed before it
cdef class Held:
    """A handle of the C interface and what frees it: ``close`` does, once; or nobody having it any
    more, or the end of the program. It is made and owned in one step, so that no interrupt can come
    between."""

    cdef _Link _link  # nothing of an object's: one that is going may be next to another in the list

    cdef readonly object handle    # an int
    cdef object _free, _what, _keep
    cdef readonly Event freed
    cdef uint32_t _generation
    cdef bint _open
    cdef bint _in_list

    def __init__(self, free, make, *args, in_list=False, Event freed=None):
        """
        Args:
            free: called with the handle; with a list of it, if ``in_list``.
            make: called with ``args``; returns the handle, likewise.
            freed: set when it was freed.
        """
        self._free = free
        self._in_list = in_list
        self.freed = freed
        self._what = "a handle"
        self._generation = Generation()
        made = whole(make, *args)  # of a library in Python it is not one step by itself
        self.handle = made[0] if in_list else made
        self._open = True
        self._list()

    cdef void _list(self) noexcept:
        global _newest_held
        self._link.held = <PyObject*>self
        _held_mutex.lock()
        self._link.older = _newest_held
        if _newest_held != NULL:
            _newest_held.newer = &self._link
        _newest_held = &self._link
        _held_mutex.unlock()

    cdef void _unlist(self) noexcept:
        global _newest_held
        cdef _Link* link = &self._link
        _held_mutex.lock()
        if link.held != NULL:
            if link.newer != NULL:
                link.newer.older = link.older
            else:
                _newest_held = link.older
            if link.older != NULL:
                link.older.newer = link.newer
            link.older = link.newer = NULL
            link.held = NULL
        _held_mutex.unlock()

    def own(self, str what, keep):
        """Name it, for messages, and keep ``keep`` until it is freed."""
        self._what = what
        self._keep = keep

    @property
    def alive(self):
        """Whether it was neither freed nor let go."""
        return self._open

    def detach(self):
        """Let go: somebody else has freed it."""
        if self._take():
            self._end()

    def outlast(self):
        """Not to be freed at the end of the program, where everything goes in whatever order."""
        self._unlist()

    cdef bint _take(self) noexcept:
        """Whether it falls to this thread to free it, now that it is not open any more."""
        cdef bint was
        with cython.critical_section(self):
            was = self._open
            self._open = False
        return was

    cdef _give_back(self):
        whole(self._free, [self.handle] if self._in_list else self.handle)

    cdef _end(self):
        self._unlist()
        self._keep = None
        if self.freed is not None:
            self.freed.set()

    def close(self):
        """Free it, unless it was freed or belongs to the parent of this forked process. What the
        backend says against it goes to the log."""
        failure = None
        if self._generation != Generation() or not self._take():
            return
        try:
            self._give_back()
        except errors.QnnError as e:
            failure = str(e)  # not e: a log record would keep its frames
        except BaseException:
            self._open = True  # interrupted: the next call frees it
            raise
        self._end()
        if failure is not None:
            _logger.warning("closing %s: %s", self._what, failure)

    def close_or_raise(self):
        """As ``close``; but what the backend says against it is raised, and it stays."""
        if self._generation != Generation() or not self._take():
            return
        try:
            self._give_back()
        except BaseException:
            self._open = True
            raise
        self._end()

    def __dealloc__(self):
        self._dealloc()

    cdef _dealloc(self):
        """For `__dealloc__`, of a subclass, too: what that one has is gone in this one's. It is not
        taken apart yet, as there is no gc; what frees it may be Python's, and an interrupt would be
        dropped there."""
        cdef int i
        interrupted = False
        for i in range(9):
            try:
                self.close()
                break
            except KeyboardInterrupt:
                interrupted = True
            except Exception:
                _logger.exception("closing %s", self._what)
                break
        self._unlist()
        if interrupted:
            PyErr_SetInterrupt()


def close_held() -> None:
    """At the end of the program: free what is held, the newest first."""
    cdef Held held
    while _newest_held != NULL:
        held = <Held><object>_newest_held.held
        held._unlist()
        try:
            held.close()
        except Exception:
            _logger.exception("closing %s", held._what)


@cython.no_gc  # it would be cleared, and nothing refers back to it
cdef class Hold:
    """A note in a buffer of who uses it, for the message of its ``close``; keeps the buffer."""

    cdef Buffer _buffer

    def __init__(self, Buffer buffer not None, *holder):
        self._buffer = buffer
        buffer._hold(<uintptr_t><void*>self, holder)

    def __dealloc__(self):
        # Not the object: Python may have taken it apart already, and the buffer then as well.
        if self._buffer is not None:
            self._buffer._unhold(<uintptr_t><void*>self)


def open_at_once(name, flags):
    """An ``opener`` of files that waits for nobody. It goes straight from the kernel to the file
    object, which owns the fd: with an opener of Python's an interrupt could come between."""
    return os.open(name, flags | os.O_NONBLOCK)


cdef class Fd:
    """A file descriptor of its own: closed once, by ``close`` or when nobody has it."""

    cdef readonly int number

    def __cinit__(self, opened, *args):
        """``opened(*args)`` gives the number: a function of C's."""
        self.number = -1
        self.number = opened(*args)

    def close(self):
        cdef int number
        with cython.critical_section(self):
            number = self.number
            self.number = -1
        if number >= 0:
            close_fd(number)

    def __dealloc__(self):
        if self.number >= 0:
            close_fd(self.number)

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        self.close()
