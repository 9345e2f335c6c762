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
        cdef Runner runner = memory._runner
        runner._prefetch(self._places)
        registrar = Registrar(memory._context, memory._counters)
        return self._bind(memory.guard, runner, registrar, buffer, parts)

    cdef PartHandles _bind(self, guard, Runner runner, Registrar registrar, Buffer buffer,
                           Parts parts):
        cdef bint readonly
        cdef PartHandles group
        if runner._state == _CLOSED or buffer._flags & QNNRT_BUFFER_WRAPPED:
            return None
        readonly = (buffer._flags & QNNRT_BUFFER_READ_ONLY) != 0
        if <uint64_t>buffer._nbytes < parts._nbytes or readonly:
            what = "read-only" if readonly else f"of {buffer._nbytes} bytes"
            raise errors.BindError(
                self._name, f"needs {parts.nbytes} bytes to write to, the buffer is {what}")
        buffer._alive()
        group = registrar._handles(buffer, parts)
        with guard.lock:
            before = runner._bind_parts(self._places, group)
            alone = self.alone
            self.alone = []
            self._group = PyWeakref_NewRef(group, None)
            self.times += 1
            for tensor in alone:
                tensor._forget()
        del before  # without the lock
        return group


cdef class PrefixBinder:
    """Receives texts of other processes and binds their caches to the states of a graph, in one
    call. What that touches is fetched while the kernel opens and maps the memory: behind a run that
    reads a model nothing of it is in the caches."""

    cdef object _guard, _owner, _key
    cdef dict _bound
    cdef Registrar _registrar
    cdef Runner _runner
    cdef Together _together
    cdef Parts _parts

    def __init__(self, memory, Together together not None, Parts parts not None, owner,
                 dict bound not None, key):
        """
        Args:
            memory: the session's.
            together, parts: how it binds its states in a buffer with one text.
            owner: the ``Guard`` of who receives, held meanwhile.
            bound, key: where the ``Slots`` that are bound are noted.
        """
        self._guard, self._runner = memory.guard, memory._runner
        self._registrar = Registrar(memory._context, memory._counters)
        self._together, self._parts = together, parts
        self._owner, self._bound, self._key = owner, bound, key
        qnnrt_ipc_keep_sender(1)

    def __dealloc__(self):
        qnnrt_ipc_keep_sender(0)

    def receive(self, bytes message not None):
        """The ``Prefix`` of a message, and its ``Slots``, which are bound if they are kept: not in
        a buffer of several texts or of another size.

        Raises:
            HandoffError: as ``Prefix.from_bytes``.
            MemError: the backend refuses the memory.
        """
        cdef Prefix prefix
        cdef Slots slots
        with self._owner.lock:
            self._runner._prefetch(self._together._places)
            self._parts._prefetch()
            prefix = receive_prefix(message)
            slots = self._bind(prefix)
        return prefix, slots

    cdef Slots _bind(self, Prefix prefix):
        cdef Slots slots = Slots.__new__(Slots)
        slots.buffer, slots.rows, slots.first = prefix.cache, prefix.rows, prefix.row
        slots.count = 1
        if slots.rows == 1 and <uint64_t>slots.buffer._nbytes == self._parts._nbytes:
            slots.kept = self._together._bind(
                self._guard, self._runner, self._registrar, slots.buffer, self._parts)
            if slots.kept is not None:
                self._bound[self._key] = slots
        return slots
