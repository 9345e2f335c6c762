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


cdef class _SharedMemory:
    """Memory of several texts that came from another process, mapped and registered."""

    cdef Buffer buffer  # with a close of its own
    cdef dict groups    # row -> what it is bound by
    cdef int64_t rows


cdef enum:
    _MOST_MEMORIES = 4  # of several texts each that stay; those of so many senders, say
    _MOST_SETTLED = 64  # texts of one that are registered before they come


cdef class PrefixBinder:
    """Receives texts of other processes and binds their caches to the states of a graph, in one
    call. What that touches is fetched while the kernel opens and maps the memory: behind a run that
    reads a model nothing of it is in the caches.

    Memory of several texts stays mapped and registered when a text goes, for the next one in it: of
    the last few such memories, until the end of this."""

    cdef object _guard, _owner, _key, _session
    cdef dict _bound, _places
    cdef Registrar _registrar
    cdef Runner _runner
    cdef Together _together
    cdef Parts _parts
    cdef vector[uint64_t] _sizes
    cdef dict _memories  # address -> _SharedMemory, the one that was used last at the end
    cdef _SharedMemory _unsettled  # came, and of its texts one alone is registered

    def __init__(self, session, memory, Together together not None, dict places not None, sizes,
                 owner, dict bound not None, key):
        """
        Args:
            session, memory: of the graph.
            together: how it binds its states.
            places: (rows, first, count) of ``Slots`` -> ``Parts``, with those of (1, 0, 1); others
                are added.
            sizes: of a text's states, in bytes.
            owner: the ``Guard`` of who receives, held meanwhile.
            bound, key: where the ``Slots`` that are bound are noted.
        """
        self._session, self._guard, self._runner = session, memory.guard, memory._runner
        self._registrar = Registrar(memory._context, memory._counters)
        self._together, self._places, self._parts = together, places, places[1, 0, 1]
        self._owner, self._bound, self._key = owner, bound, key
        self._sizes, self._memories = sizes, {}
        qnnrt_ipc_keep_sender(1)

    def __dealloc__(self):
        qnnrt_ipc_keep_sender(0)

    def receive(self, bytes message not None, Text text not None) -> None:
        """Lets a text go on from a message. Its ``Slots`` are bound if they are kept: not in a
        buffer of another size, or of several texts that is this process's own (its caches are
        registered with other shapes, too).

        Raises:
            HandoffError: as ``Prefix.from_bytes``.
            MemError: the backend refuses the memory.
            ValueError: as ``Text._go_on``.
        """
        self._receive(message, text)

    cdef int _receive(self, bytes message, Text text) except -1:
        cdef Prefix prefix
        cdef Slots slots
        cdef list gone = []
        _prefetch_object(self._owner)
        _prefetch_object(self._registrar)
        _prefetch_object(self._together)
        _prefetch_object(self._runner)
        _prefetch_object(self._parts)
        _prefetch_object(self._guard)
        _prefetch_object(self._bound)
        _prefetch_object(_received)
        _prefetch_object(_mapped)
        _prefetch_object(_buffers)
        with self._owner.lock:
            self._registrar._prefetch()
            self._runner._prefetch(self._together._places)
            self._parts._prefetch()
            prefix = receive_prefix(message)
            slots = self._bind(prefix, gone)
        del gone  # without the lock
        text._go_on(prefix, slots)
        return 0

    cdef bint _has_bound(self, Slots slots):
        """Whether they are what the graph's states are bound to."""
        return self._bound.get(self._key) is slots

    cdef Slots _bind(self, Prefix prefix, list gone):
        cdef Buffer buffer = prefix.cache
        cdef Slots slots = prefix._slots()
        if slots.rows > 1:
            if buffer._flags & QNNRT_BUFFER_IMPORTED:
                slots.kept = self._bind_row(buffer, slots.rows, slots.first, gone)
        elif <uint64_t>buffer._nbytes == self._parts._nbytes:
            slots.kept = self._together._bind(
                self._guard, self._runner, self._registrar, buffer, self._parts)
        if slots.kept is not None:
            self._bound[self._key] = slots
        return slots

    cdef PartHandles _bind_row(self, Buffer buffer, rows, row, list gone):
        """Bind one of several texts of another process; None: these are others' caches."""
        cdef _SharedMemory memory
        cdef PartHandles group
        cdef Parts parts
        parts = self._parts_of(rows, row, buffer._nbytes)
        if parts is None:
            return None
        address = <uintptr_t>buffer._address
        memory = self._memories.get(address)
        if memory is None or memory.buffer._handle != buffer._handle:
            memory = _SharedMemory.__new__(_SharedMemory)
            memory.groups, memory.rows = {}, rows
            with cython.critical_section(_registry):
                memory.buffer = _second(buffer)
        group = self._together._bind(
            self._guard, self._runner, self._registrar, memory.buffer, parts)
        if group is not None:
            if not memory.groups:
                self._unsettled = memory
            memory.groups[row] = group
            gone.append(self._memories.pop(address, None))
            self._memories[address] = memory
            if len(self._memories) > 2 * _MOST_MEMORIES:  # nothing ran, and so `settle` did not
                gone.append(self._memories.pop(next(iter(self._memories))))
        return group

    cdef Parts _parts_of(self, rows, row, uint64_t size):
        """Of a text in a buffer of so many bytes; None: such a buffer has another size."""
        cdef Parts parts
        cdef vector[uint64_t] offsets
        cdef uint64_t nbytes
        place = rows, row, 1
        parts = self._places.get(place)
        if parts is None:
            nbytes = _place_caches(self._sizes, rows, row, offsets)
            if nbytes != size:
                return None
            parts = self._places[place] = self._parts._moved(offsets, nbytes)
        return parts if parts._nbytes == size else None

    def settle(self):
        """Register the other texts of memory that came last, for they will come, too, and give up
        memory that no text came in for long: to be called when nobody waits for a text, under the
        owner's lock. Returns what goes, which must not go under a lock."""
        cdef _SharedMemory memory = self._unsettled
        if memory is None:
            return None
        self._unsettled = None
        gone = []
        while len(self._memories) > _MOST_MEMORIES:
            gone.append(self._memories.pop(next(iter(self._memories))))
        try:
            for row in range(min(memory.rows, _MOST_SETTLED)):
                if row not in memory.groups:
                    memory.groups[row] = self._registrar._handles(
                        memory.buffer, self._parts_of(memory.rows, row, memory.buffer._nbytes))
        except errors.QnnError:
            pass  # it is said to who needs that text
        return gone


cdef class Text:
    """Base of ``qnnrt.llm.Conversation``: what a received text sets, each of which costs cache
    misses if it is looked up by its name."""

    cdef public object model
    cdef public Slots _own
    cdef public Prefix _prefix  # whose tokens these are, until somebody asks for them
    cdef public Py_ssize_t _read  # tokens that are in the cache
    cdef public object _logits  # of what follows the last one

    cpdef int _go_on(self, Prefix prefix, Slots slots=None) except -1:
        """To where another text ends, in ``slots`` if they are bound already. Raises ValueError: it
        is of a model with another cache."""
        if slots is None:
            slots = prefix._slots()
        if slots.kept is None:  # else it was bound
            self.model._check_cache(prefix, slots)
        self._own, self._prefix, self._read = slots, prefix, prefix._length()
        return 0

    @property
    def _slots(self):
        if self._own is None:
            self._own = self.model._new_slots()
        return self._own


cdef class Receiver:
    """Base of ``qnnrt.llm.Decoder``: a text is received without a frame of Python's."""

    cdef public PrefixBinder _binder
    cdef object _made  # the class of its texts

    def conversation(self, prefix=None):
        """An empty text, or one that goes on where `prefix` (of this process or another) ends, in
        the same memory. A message about one (`Prefix.to_bytes`) is received here, and its memory
        bound at once, which is the fastest way.

        Raises:
            ValueError: the prefix is of a model with another cache.
            HandoffError: the message is none, or its memory is gone.
        """
        cdef PrefixBinder binder = self._binder
        cdef Text text
        if binder is not None and self._made is not None and type(prefix) is bytes:
            text = Text.__new__(self._made)
            text.model = self
            binder._receive(<bytes>prefix, text)
            return text
        text = self._conversation(prefix)
        self._made = type(text)
        return text

    def _bind(self, Slots slots not None, Py_ssize_t tokens, Py_ssize_t rows):
        """The graph for these texts, so many tokens and rows of logits, with their caches."""
        cdef PrefixBinder binder = self._binder
        if binder is not None and tokens == 1 and rows == 1 and binder._has_bound(slots):
            return binder._session
        return self._bind_anew(slots, tokens, rows)
