# Part of _core.pyx: states of a session that are bound in one call.


cdef class Together:
    """States of a session that lie in one buffer and are bound in one call: of each the array and
    the handle are made when somebody asks for them.

    Attributes:
        times: how often they were bound.
        alone: tensors that have an array since then.
    """

    cdef readonly Py_ssize_t times
    cdef readonly list alone
    cdef vector[uint32_t] _places
    cdef object _name
    cdef object _group  # weakly what they were bound to last; the runner keeps it

    def __init__(self, name, tensors, places):
        """
        Args:
            name: of the first state, for messages.
            tensors: the states, none of which is bound by this yet.
            places: their indices in the runner, then those of what is written.
        """
        self._name, self._places, self.alone = name, places, list(tensors)

    def group(self):
        """What they were bound to last, while one of them is; else None."""
        return None if self._group is None else self._group()

    def bind(self, memory, Buffer buffer not None, Parts parts not None):
        """Bind all to their parts of a buffer, in the runner and the context of a session's memory,
        which tensors do not keep. None, and nothing is bound: the session is closed, or the buffer
        is no memory that can be shared.

        Raises:
            BindError: the buffer is too small, or read-only.
            MemError: the backend refuses it.
        """
        cdef PartHandles group
        cdef Runner runner = memory._runner
        context = memory._context
        if runner._state == _CLOSED or buffer._heap == "wrapped":
            return None
        if buffer._nbytes < parts.nbytes or buffer.readonly:
            what = "read-only" if buffer.readonly else f"of {buffer._nbytes} bytes"
            raise errors.BindError(
                self._name, f"needs {parts.nbytes} bytes to write to, the buffer is {what}")
        buffer._alive()
        with context._registering.lock:
            group = _registered_parts(context, buffer, parts, memory._counters)
        with memory.guard.lock:
            before = runner._bind_parts(self._places, group)
            alone = self.alone
            self.alone = []
            self._group = weakref.ref(group)
            self.times += 1
            for tensor in alone:
                tensor._forget()
        del before  # without the lock
        return group
