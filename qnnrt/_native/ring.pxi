# Part of _core.pyx: rings of slots between processes.

cdef uint64_t _LOOK = 100_000_000  # nanoseconds between two looks for signals
cdef uint64_t _FOR_EVER = 0xFFFFFFFFFFFFFFFF


cdef object _ring_error(uint64_t code, str call):
    text = _text(qnnrt_ipc_last_error())
    if code == QNNRT_RING_CLOSED:
        return errors.ClosedError(text)
    if code == QNNRT_RING_ENDED:
        return errors.HandoffError(text, "sender")
    if code == QNNRT_RING_TAKEN:
        return errors.HandoffError(text, "taken")
    if code == QNNRT_RING_LAYOUT:
        return errors.HandoffError(text, "memory")
    return _handoff_error(code, call)


cdef qnnrt_ring_config_t _ring_config(slots, slot_bytes, stride, flags):
    cdef qnnrt_ring_config_t config
    config.slots = slots
    config.flags = flags
    config.slot_bytes = slot_bytes
    config.stride = stride
    return config


def ring_bytes(slots: int, slot_bytes: int, stride: int, flags: int) -> int:
    """Bytes of the control block; 0 where there can be no such ring."""
    cdef qnnrt_ring_config_t config = _ring_config(slots, slot_bytes, stride, flags)
    return qnnrt_ring_bytes(&config)


def ring_format(Buffer control not None, slots: int, slot_bytes: int, stride: int,
                flags: int) -> None:
    """Make the control block of a ring in memory that nobody else has yet."""
    cdef qnnrt_ring_config_t config = _ring_config(slots, slot_bytes, stride, flags)
    control._open()
    cdef uint64_t code = qnnrt_ring_format(control._handle, &config)
    if code:
        raise _ring_error(code, "Channel")


cdef class RingEnd:
    """A producer's or a consumer's end of a ring; closes with its last reference."""

    cdef qnnrt_endpoint_t _handle
    cdef uint32_t _generation
    cdef Buffer _control
    # Of the slot that ``next`` or ``done`` was last about.
    cdef readonly uint64_t sequence
    cdef readonly uint64_t published

    def __init__(self, Buffer control not None, bint producer, spin=None):
        control._open()
        cdef uint64_t nanoseconds = 0 if spin is None else <uint64_t>(spin * 1e9)
        cdef uint64_t code = qnnrt_ring_open(
            control._handle, QNNRT_RING_PRODUCER if producer else QNNRT_RING_CONSUMER,
            &self._handle)
        if code:
            raise _ring_error(code, "Channel")
        self._generation = Generation()
        self._control = control
        if spin is not None:
            qnnrt_ring_set_spin(self._handle, nanoseconds)

    def __dealloc__(self):
        if self._handle and self._generation == Generation():
            qnnrt_ring_close(self._handle)

    cdef int _open(self) except -1:
        if not self._handle:
            raise errors.ClosedError("this end of the channel is closed")
        return _check_process(self._generation, "this end of the channel")

    @property
    def closed(self):
        """Whether it is closed."""
        return self._handle == 0

    def close(self) -> None:
        """Close it. Twice is harmless."""
        cdef uint64_t code = 0
        with cython.critical_section(self):
            if not self._handle:
                return
            if self._generation == Generation():
                code = qnnrt_ring_close(self._handle)
            if not code:
                self._handle = 0
                self._control = None
        if code:
            raise _ring_error(code, "close")

    def next(self, timeout) -> int:
        """The slot to fill or to read; -1 when there was none for so many seconds."""
        self._open()
        cdef qnnrt_ring_slot_t slot
        cdef qnnrt_endpoint_t handle = self._handle
        cdef uint64_t left, part
        cdef uint64_t code = qnnrt_ring_next(handle, 0, &slot)
        if code == QNNRT_RING_TIMEOUT:
            left = _FOR_EVER if timeout is None else <uint64_t>(max(timeout, 0.0) * 1e9)
            while code == QNNRT_RING_TIMEOUT and left:
                part = min(left, _LOOK)
                with nogil:
                    code = qnnrt_ring_next(handle, part, &slot)
                if code == QNNRT_RING_TIMEOUT:
                    PyErr_CheckSignals()
                    if left != _FOR_EVER:
                        left -= part
        if code == QNNRT_RING_TIMEOUT:
            return -1
        if code:
            raise _ring_error(code, "next")
        self.sequence = slot.sequence
        self.published = slot.published
        return slot.index

    def done(self, uint32_t index, bint publish) -> None:
        """The slot is filled, or read."""
        self._open()
        cdef qnnrt_ring_slot_t slot
        cdef uint64_t code = qnnrt_ring_done(self._handle, index, publish, &slot)
        if code:
            raise _ring_error(code, "done")

    def info(self) -> dict:
        """Slots, flags, slot_bytes, stride; published, dropped, consumers, closed."""
        self._open()
        cdef qnnrt_ring_info_t info
        cdef uint64_t code = qnnrt_ring_info(self._handle, &info)
        if code:
            raise _ring_error(code, "info")
        return {
            "slots": info.config.slots, "flags": info.config.flags,
            "slot_bytes": info.config.slot_bytes, "stride": info.config.stride,
            "published": info.published, "dropped": info.dropped, "consumers": info.consumers,
            "closed": info.closed != 0,
        }


RING_DROP_OLDEST = QNNRT_RING_DROP_OLDEST
RING_QUEUE = QNNRT_RING_QUEUE
