# Part of _core.pyx: handles that are freed once, whatever comes in between.

cdef class Held:
    """A handle of the C interface and what frees it: ``close`` does, once; or nobody having it any
    more. It is made and owned in one step, so that no interrupt can come between."""

    cdef readonly object handle    # an int
    cdef object _free, _what, _keep
    cdef Event _freed
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
        self._freed = freed
        self._what = "a handle"
        self._generation = Generation()
        made = make(*args)
        self.handle = made[0] if in_list else made
        self._open = True

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
        if self._open:
            self._open = False
            self._end()

    cdef _end(self):
        self._keep = None
        if self._freed is not None:
            self._freed.set()

    def close(self):
        """Free it, unless it was freed or belongs to the parent of this forked process. What the
        backend says against it goes to the log."""
        failure = None
        if not self._open or self._generation != Generation():
            return
        self._open = False  # while it is being freed, for other threads
        try:
            self._free([self.handle] if self._in_list else self.handle)
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
        if not self._open or self._generation != Generation():
            return
        self._open = False
        try:
            self._free(self.handle)
        except BaseException:
            self._open = True
            raise
        self._end()

    def __del__(self):
        self.close()
