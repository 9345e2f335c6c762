# Part of _core.pyx: buffers for other processes, and from them.

# Ticket's sender, token and lease -> weak reference to the Buffer that this process has on it.
cdef dict _received = {}
# Identity of received memory -> weak reference to the Buffer that this process has on it.
cdef dict _mapped = {}
cdef dict _peers = {}  # sender -> weak reference to its Peer
cdef uint32_t _share_generation = 0

cdef dict _HANDOFF_REASONS = {
    QNNRT_HANDOFF_ENDED: "sender", QNNRT_HANDOFF_LEASE: "lease", QNNRT_HANDOFF_TOKEN: "token",
    QNNRT_HANDOFF_USER: "user", QNNRT_HANDOFF_TICKET: "message", QNNRT_HANDOFF_FILES: "files",
    QNNRT_HANDOFF_MEMORY: "memory", QNNRT_HANDOFF_TIMEOUT: "timeout",
}


cdef object _handoff_error(uint64_t code, str call):
    text = _text(qnnrt_ipc_last_error())
    reason = _HANDOFF_REASONS.get(code)
    if reason is not None:
        return errors.HandoffError(text, reason)
    return errors.make_error(<uint32_t>(code & 0xFFFF), "mem", call, "", text)


cdef int _own_process() except -1:
    """After a fork, what was received belongs to the parent."""
    global _share_generation
    if _share_generation != Generation():
        _received.clear()
        _mapped.clear()
        _peers.clear()
        _share_generation = Generation()
    return 0


cdef bytes _key_of(const qnnrt_ticket_t* ticket):
    # sender, token and lease, which follow one another
    return (<char*>ticket.sender)[:<char*>&ticket.message - <char*>ticket.sender]


cdef bytes _memory_of(const qnnrt_ticket_t* ticket):
    cdef uint64_t[4] memory = [ticket.device, ticket.inode, ticket.fd_offset, ticket.nbytes]
    return (<char*>memory)[:sizeof(memory)]


cdef class Peer:
    """A connection to a sender; open as long as a buffer of the sender's is."""

    cdef qnnrt_peer_t* _peer
    cdef object __weakref__

    def __dealloc__(self):
        if self._peer != NULL:
            qnnrt_peer_close(self._peer)


cdef class Lease:
    """Memory of a Buffer for other processes, until it is closed.

    Made by ``Buffer.lease``. Pickled or sent through ``multiprocessing`` it arrives as a Buffer, in
    any number of processes of the same user and any number of times, whether or not the Buffer
    that it was made from is still open. Buffers that have arrived stay valid when the lease ends.
    """

    cdef qnnrt_lease_t _handle
    cdef uint32_t _generation
    cdef Py_ssize_t _nbytes
    cdef bint _readonly
    cdef object __weakref__

    def __init__(self, *args, **kwargs):
        raise TypeError("make leases with Buffer.lease()")

    def __dealloc__(self):
        if self._handle and self._generation == Generation():
            qnnrt_lease_end(self._handle)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes

    @property
    def readonly(self):
        """Whether receivers can read only."""
        return self._readonly

    @property
    def closed(self):
        """Whether it has ended."""
        return self._handle == 0

    def close(self) -> None:
        """End it: who receives its messages from now on gets an error. Twice is harmless."""
        if not self._handle:
            return
        _check_process(self._generation, "this lease")
        cdef qnnrt_lease_t handle
        with cython.critical_section(self):
            handle = self._handle
            self._handle = 0
        if handle:
            qnnrt_lease_end(handle)

    def __enter__(self) -> Lease:
        if not self._handle:
            raise errors.ClosedError("this lease has ended")
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "ended" if not self._handle else "read-only" if self._readonly else "writable"
        return f"<qnnrt.Lease {self._nbytes} bytes, {state}>"

    cdef int _ticket(self, bint in_flight, qnnrt_ticket_t* out) except -1:
        if not self._handle:
            raise errors.ClosedError("this lease has ended")
        _check_process(self._generation, "this lease")
        cdef uint64_t code = qnnrt_lease_ticket(self._handle, in_flight, out)
        if code:
            raise _handoff_error(code, "Lease")
        return 0

    def _message(self) -> bytes:
        """What a receiver needs, for ``receive``."""
        cdef qnnrt_ticket_t ticket
        self._ticket(False, &ticket)
        return (<char*>&ticket)[:sizeof(ticket)]


cdef Lease _new_lease(Buffer buffer, bint readonly):
    buffer._open()
    cdef qnnrt_lease_t handle = 0
    cdef uint64_t code
    cdef uint32_t flags = QNNRT_LEASE_READ_ONLY if readonly else 0
    cdef qnnrt_buffer_t native = buffer._handle
    with nogil:
        code = qnnrt_lease_create(native, flags, &handle)
    if code:
        raise _handoff_error(code, "Buffer.lease")
    cdef Lease lease = Lease.__new__(Lease)
    lease._handle = handle
    lease._generation = Generation()
    lease._nbytes = buffer._nbytes
    lease._readonly = readonly or buffer.readonly
    return lease


def buffer_message(Buffer buffer not None) -> bytes:
    """What a receiver of the buffer needs. The memory stays for it until it has been received."""
    cdef qnnrt_ticket_t ticket
    buffer._open()
    _own_process()
    with cython.critical_section(_registry):
        lease = buffer._lease
    if lease is None:
        made = _new_lease(buffer, False)
        with cython.critical_section(_registry):
            if buffer._lease is None and buffer._handle:
                buffer._lease = made
            lease = buffer._lease
    if lease is None:  # closed meanwhile
        lease = made
    (<Lease?>lease)._ticket(True, &ticket)
    with cython.critical_section(_registry):
        if buffer._key is None and buffer._handle:
            buffer._key = _key_of(&ticket)
            _received[buffer._key] = buffer._reference
    return (<char*>&ticket)[:sizeof(ticket)]


cdef Peer _connect(bytes sender, const qnnrt_ticket_t* ticket):
    cdef Peer peer = Peer.__new__(Peer)
    cdef uint64_t code
    while True:
        with nogil:
            code = qnnrt_peer_connect(ticket, &peer._peer)
        if code != QNNRT_HANDOFF_AGAIN:
            break
        PyErr_CheckSignals()
    if code:
        raise _handoff_error(code, "receive")
    for other in [k for k, reference in _peers.copy().items() if reference() is None]:
        _peers.pop(other, None)
    _peers[sender] = PyWeakref_NewRef(peer, None)
    return peer


cpdef Buffer receive(data):
    """The buffer of a message that ``buffer_message`` or a lease has made."""
    cdef bytes message = data if type(data) is bytes else bytes(data)
    return _receive(<char*>message, len(message))


cdef Buffer _receive(const char* message, uint64_t size):
    cdef qnnrt_ticket_t ticket
    cdef qnnrt_buffer_t handle = 0
    cdef qnnrt_peer_t* native = NULL
    cdef Peer peer = None
    cdef Buffer buffer = None
    cdef bint reused
    cdef uint64_t code
    code = qnnrt_ticket_read(message, size, &ticket)
    if code:
        raise _handoff_error(code, "receive")
    _own_process()
    key = _key_of(&ticket)
    with cython.critical_section(_registry):
        buffer = _open_one(_received, key)
        if (buffer is not None and <uint64_t>buffer._nbytes == ticket.nbytes and
                buffer._fd_offset == ticket.fd_offset):
            buffer = _second(buffer)
            peer = buffer._peer
        else:
            buffer = None
    if buffer is None:
        with nogil:
            code = qnnrt_peer_receive(NULL, &ticket, &handle)
        while code in (QNNRT_HANDOFF_CONNECT, QNNRT_HANDOFF_ENDED, QNNRT_HANDOFF_AGAIN):
            sender = (<char*>ticket.sender)[:16]
            known = _peers.get(sender)
            peer = None if known is None else known()
            reused = peer is not None
            if not reused:
                peer = _connect(sender, &ticket)
            native = peer._peer
            with nogil:
                code = qnnrt_peer_receive(native, &ticket, &handle)
            if code in (QNNRT_HANDOFF_ENDED, QNNRT_HANDOFF_AGAIN):
                _peers.pop(sender, None)  # the connection is broken
            if code == QNNRT_HANDOFF_AGAIN:
                PyErr_CheckSignals()
            elif not reused:
                break
        if code:
            raise _handoff_error(code, "receive")
        memory = _memory_of(&ticket)
        with cython.critical_section(_registry):
            buffer = _open_one(_mapped, memory)
            if buffer is not None:  # it came by another lease before, or to another thread
                qnnrt_buffer_release(handle)
                return _second(buffer)
            buffer = _adopt_new(handle)
            buffer._memory = memory
            _mapped[memory] = buffer._reference
            buffer._peer = peer
            buffer._key = key
            _received[key] = buffer._reference
        return buffer
    if ticket.message:  # the memory is here: that is all there is to say
        if peer is not None:
            native = peer._peer
        with nogil:
            code = qnnrt_peer_arrived(native, &ticket)
        if code == QNNRT_HANDOFF_CONNECT:
            _thank(&ticket)
    return buffer


cdef int _thank(const qnnrt_ticket_t* ticket) except -1:
    cdef Peer peer
    try:
        peer = _connect((<char*>ticket.sender)[:16], ticket)
    except errors.HandoffError:  # nobody keeps anything any more
        return 0
    qnnrt_peer_arrived(peer._peer, ticket)
    return 0


cdef Buffer _open_one(dict known_by, key):
    """The Buffer that is known by this, unless it is closed. In the registry's lock, as the next
    one."""
    known = known_by.get(key)
    cdef Buffer buffer = None if known is None else known()
    return buffer if buffer is not None and buffer._handle else None


cdef Buffer _second(Buffer buffer):
    """Another Buffer on the same mapping, with a close of its own."""
    cdef uint64_t code = qnnrt_buffer_retain(buffer._handle)
    if code:
        raise _memory_error(code, "receive")
    cdef Buffer other = Buffer.__new__(Buffer)
    other._handle = buffer._handle
    other._address = buffer._address
    other._nbytes = buffer._nbytes
    other._flags = buffer._flags
    other._fd_offset = buffer._fd_offset
    other._fd_size = buffer._fd_size
    other._heap = buffer._heap
    other._generation = buffer._generation
    other._shape[0] = buffer._nbytes
    other._strides[0] = 1
    other._reference = PyWeakref_NewRef(other, None)
    other._lease = buffer._lease
    other._peer = buffer._peer
    other._key = buffer._key
    other._memory = buffer._memory
    known = _several.get(other._handle)
    if known is None:
        _several[other._handle] = [buffer._reference, other._reference]
    else:
        known.append(other._reference)
    return other


def ipc_counts() -> dict:
    """What is held for other processes: leases, in_flight, connections, peers, endpoints, fds."""
    cdef qnnrt_ipc_counts_t c
    memset(&c, 0, sizeof(c))
    qnnrt_ipc_counts(&c)
    return {"leases": c.leases, "in_flight": c.in_flight, "connections": c.connections,
            "peers": c.peers, "endpoints": c.endpoints, "fds": c.fds}


def ipc_forget_messages() -> None:
    """Keep no memory any more for messages that nobody has received. For tests."""
    qnnrt_ipc_forget_messages()
