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

    # The slot to fill or to read, in `slot`; False when there was none for so many seconds.
    cdef bint _next(self, timeout, qnnrt_ring_slot_t* slot) except -1:
        self._open()
        cdef qnnrt_endpoint_t handle = self._handle
        cdef uint64_t left, part
        cdef uint64_t code = qnnrt_ring_next(handle, 0, slot)
        if code == QNNRT_RING_TIMEOUT:
            left = _FOR_EVER if timeout is None else <uint64_t>(max(timeout, 0.0) * 1e9)
            while code == QNNRT_RING_TIMEOUT and left:
                part = min(left, _LOOK)
                with nogil:
                    code = qnnrt_ring_next(handle, part, slot)
                if code == QNNRT_RING_TIMEOUT:
                    PyErr_CheckSignals()
                    if left != _FOR_EVER:
                        left -= part
        if code == QNNRT_RING_TIMEOUT:
            return False
        if code:
            raise _ring_error(code, "next")
        return True

    # The slot is filled, or read.
    cdef int _done(self, uint32_t index, bint publish) except -1:
        self._open()
        cdef qnnrt_ring_slot_t slot
        cdef uint64_t code = qnnrt_ring_done(self._handle, index, publish, &slot)
        if code:
            raise _ring_error(code, "done")
        return 0

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


cdef class Slot:
    """A slot that is being filled or read: a context manager, which gives it back at its end.

    A producer's is published then, unless an exception ends the block. After that its array must
    not be used any more: it is whatever is in the slot next.

    Attributes:
        array: the numpy array in the slot, always the same one for a slot and an end.
        index: which slot it is, 0 to ``slots - 1``.
        offset: where it begins in ``channel.buffer``, in bytes.
        sequence: which publication it is or will be, counted from 0.
        published_ns: when it was published, on the clock of ``time.monotonic_ns``; 0 while a
            producer fills it.
    """

    cdef RingEnd _end
    cdef object _array
    cdef CpuAccess _access  # None where processor and devices see the same bytes
    cdef bint _held
    cdef readonly uint32_t index
    cdef readonly uint64_t offset
    cdef readonly uint64_t sequence
    cdef readonly uint64_t published_ns

    def __init__(self, RingEnd end not None, uint32_t index, uint64_t offset, array,
                 CpuAccess access=None):
        self._end = end
        self.index = index
        self.offset = offset
        self._array = array
        self._access = access

    @property
    def array(self):
        """The numpy array in the slot."""
        if self._array is None:
            raise errors.ClosedError("this end of the channel is closed")
        return self._array

    cdef int _begin(self, const qnnrt_ring_slot_t* slot) except -1:
        self.sequence = slot.sequence
        self.published_ns = slot.published
        if self._access is not None:
            self._access.__enter__()
        self._held = True
        return 0

    cdef int _finish(self, bint publish) except -1:
        self._held = False
        if self._access is not None:
            self._access.__exit__(None, None, None)
        return self._end._done(self.index, publish)

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if self._held:
            self._finish(kind is None)

    def done(self) -> None:
        """Give it back now: publish it, or let the producer have it again.

        Raises:
            ClosedError: it was given back already, or its end is closed.
        """
        if not self._held:
            raise errors.ClosedError("this slot was given back")
        self._finish(True)


cdef class ChannelEnd:
    """One end of a channel: what its producer and its consumers have in common."""

    cdef RingEnd _end
    cdef list _slots

    def __init__(self, RingEnd end not None, list slots not None):
        self._end = end
        self._slots = slots

    def next(self, timeout=None) -> Slot:
        """The next slot, for a ``with`` block.

        Args:
            timeout: seconds to wait at most; None is as long as it takes.

        Raises:
            TimeoutError: nothing to read, or no room, in that time.
            ClosedError: this end is closed; or the producer has closed the channel, and all that
                it published was read.
            HandoffError: "sender", the producer's process has ended without closing it.
        """
        cdef qnnrt_ring_slot_t taken
        if not self._end._next(timeout, &taken):
            raise TimeoutError(self._nothing(timeout))
        if taken.index >= <uint32_t>len(self._slots):
            raise errors.ClosedError("this end of the channel is closed")
        cdef Slot slot = self._slots[taken.index]
        slot._begin(&taken)
        return slot

    def _info(self) -> dict:
        return self._end.info()

    @property
    def dropped(self):
        """What this consumer has missed, or this producer has overwritten unread."""
        return self._end.info()["dropped"]

    @property
    def closed(self):
        """Whether this end is closed."""
        return self._end.closed

    def close(self) -> None:
        """Close this end. A producer's ends the channel for consumers that have read the rest.

        Twice is harmless.
        """
        self._end.close()
        cdef Slot slot
        for slot in self._slots:
            slot._array = None  # a view of the memory, which the channel could not be closed with
        self._slots = []

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()


RING_DROP_OLDEST = QNNRT_RING_DROP_OLDEST
RING_QUEUE = QNNRT_RING_QUEUE
