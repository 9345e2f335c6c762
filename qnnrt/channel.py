"""A bounded ring of slots in shared memory: one producer, many consumers, between processes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from ._native import _core
from ._native._core import Slot
from .errors import ClosedError, HandoffError
from .memory import Buffer, alloc

__all__ = ["Channel", "Consumer", "Producer", "Slot"]

_ALIGNMENT = 4096  # of slots that have at least so many bytes
_SMALL_ALIGNMENT = 64


class Channel:
    """Slots of one shape and type, which a producer fills and consumers read where they are.

    It is made in one process and pickled to the others, as a ``Buffer`` is: the memory goes, the
    bytes stay. Each process opens what it needs: ``producer()`` (one at a time, in any process) or
    ``consumer()`` (up to 32). Nothing is copied; a wait takes no Python and no interpreter lock.

    Args:
        shape, dtype: of the array in each slot.
        slots: how many there are, 2 to 4096. One is being filled, and each consumer reads one.
        full: what a producer does when there is no slot: "wait" for a consumer, or "drop_oldest",
            to overwrite what has not been read yet (a slot that is being read never is).
        delivery: "all": each consumer gets each slot that is published while it is open. "one":
            each slot goes to one consumer, whichever is free.
        readonly: only this process can write slots, so the producer has to be in it; consumers map
            them read-only. For memfd memory.
        heap: where the slots lie, as for ``qnnrt.alloc``.

    Raises:
        ValueError: a shape without elements, or a number of slots or a name that cannot be.
        MemError: 1002 no memory, 1010 no such heap here, 1000 the heap has no read-only memory.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        dtype: Any = np.float32,
        slots: int = 4,
        *,
        full: Literal["wait", "drop_oldest"] = "wait",
        delivery: Literal["all", "one"] = "all",
        readonly: bool = False,
        heap: str | None = None,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        if self.dtype.hasobject:
            raise ValueError(f"dtype {self.dtype}: Python objects cannot be shared")
        if full not in ("wait", "drop_oldest"):
            raise ValueError(f"full must be 'wait' or 'drop_oldest', not {full!r}")
        if delivery not in ("all", "one"):
            raise ValueError(f"delivery must be 'all' or 'one', not {delivery!r}")
        nbytes = self.slot_nbytes
        flags = (_core.RING_DROP_OLDEST if full == "drop_oldest" else 0) | (
            _core.RING_QUEUE if delivery == "one" else 0
        )
        alignment = _ALIGNMENT if nbytes >= _ALIGNMENT else _SMALL_ALIGNMENT
        stride = -(-nbytes // alignment) * alignment
        possible = min(self.shape, default=1) > 0 and 2 <= slots <= 4096 and nbytes > 0
        size = _core.ring_bytes(slots, nbytes, stride, flags) if possible else 0
        if size == 0:
            raise ValueError(
                f"expected 2 to 4096 slots with at least one element, not {slots} of {self.shape}"
            )
        self.readonly = readonly
        self.buffer = alloc(stride * slots, heap=heap)
        if readonly:
            self.buffer.lease(readonly=True).close()  # the seal stays
        self._control = alloc(size, heap="memfd")
        _core.ring_format(self._control, slots, nbytes, stride, flags)
        self._layout = (slots, nbytes, stride, flags)

    @classmethod
    def _attach(
        cls, control: Buffer, buffer: Buffer, shape: tuple[int, ...], dtype: str, layout: Any
    ) -> Self:
        self = cls.__new__(cls)
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.readonly = buffer.readonly
        self.buffer, self._control, self._layout = buffer, control, tuple(layout)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # The type as numpy writes it, which keeps structured ones.
        arguments = (self._control, self.buffer, self.shape, _described(self.dtype), self._layout)
        return _attach, arguments

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return int(self._layout[0])

    @property
    def slot_nbytes(self) -> int:
        """Bytes of the array in a slot."""
        return math.prod(self.shape) * int(self.dtype.itemsize)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each slot begins in ``buffer``, in bytes: for registering them, each once."""
        return tuple(i * self._layout[2] for i in range(self.slots))

    @property
    def full(self) -> str:
        """What the producer does when there is no slot."""
        return "drop_oldest" if self._layout[3] & _core.RING_DROP_OLDEST else "wait"

    @property
    def delivery(self) -> str:
        """Who gets a slot."""
        return "one" if self._layout[3] & _core.RING_QUEUE else "all"

    def producer(self, *, spin: float | None = None) -> Producer:
        """The writing end; one process at a time has it.

        Args:
            spin: as for ``consumer``.

        Raises:
            HandoffError: "taken", somebody has it and is alive.
            ClosedError: the channel is closed here.
            ValueError: the slots are read-only in this process.
        """
        if self.buffer.readonly:
            raise ValueError(
                "the slots are read-only here: with readonly=True the producer is in the process "
                "that made the channel"
            )
        return Producer(self, spin)

    def consumer(self, *, spin: float | None = None) -> Consumer:
        """A reading end. With delivery "all" it gets what is published from now on.

        Args:
            spin: seconds that a wait keeps its core and looks before it sleeps, 1 at most. None is
                100 us, less as long as that is in vain, and nothing where there are more ends than
                cores. More is for an end that has a core of its own: being woken takes many times
                as long as seeing.

        Raises:
            ValueError: a time that is negative or longer.
            HandoffError: "taken", there are 32 consumers.
            ClosedError: the channel is closed here.
        """
        return Consumer(self, spin)

    def close(self) -> None:
        """Give the memory back in this process; other processes keep it.

        Raises:
            BufferInUseError: an end of it, an array or a registration is still there.
        """
        self.buffer.close()
        self._control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.buffer.__exit__(kind, error, trace)
        self._control.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return (
            f"<qnnrt.Channel {self.slots} slots of {self.dtype}{list(self.shape)}, "
            f"full={self.full!r}, delivery={self.delivery!r}>"
        )


def _described(dtype: np.dtype[Any]) -> Any:
    return dtype.descr if dtype.names else dtype.str


def _attach(
    control: Buffer, buffer: Buffer, shape: tuple[int, ...], dtype: Any, layout: Any
) -> Channel:
    return Channel._attach(control, buffer, shape, dtype, layout)


class _End(_core.ChannelEnd):
    """One end of a channel."""

    _writes: bool

    def __init__(self, channel: Channel, spin: float | None) -> None:
        if spin is not None and not 0 <= spin <= 1:
            raise ValueError(f"spin must be 0 to 1 seconds, not {spin!r}")
        memory = channel.buffer
        end = _core.RingEnd(channel._control, self._writes, spin)
        info = end.info()
        if channel._layout != tuple(info[k] for k in ("slots", "slot_bytes", "stride", "flags")):
            end.close()
            raise HandoffError("the control block is that of another channel", "memory")
        if info["slots"] * info["stride"] > memory.nbytes:
            end.close()
            raise HandoffError("the slots do not fit into the buffer", "memory")
        self.channel = channel
        slots = [
            Slot(
                end,
                i,
                offset,
                memory.array(channel.shape, channel.dtype, offset),
                None if memory.coherent else memory.cpu_access(read=True, write=self._writes),
            )
            for i, offset in enumerate(channel.offsets)
        ]
        super().__init__(end, slots)

    def _nothing(self, timeout: float | None) -> str:
        raise NotImplementedError


class Producer(_End):
    """The writing end of a channel: ``with producer.next() as slot: slot.array[...] = frame``."""

    _writes = True

    def _nothing(self, timeout: float | None) -> str:
        return f"no slot became free within {timeout} s: the consumers read too slowly, or stopped"

    @property
    def consumers(self) -> int:
        """How many there are; one that died counts until the ring is full the next time."""
        return int(self._info()["consumers"])

    def wait_for_consumers(self, count: int = 1, timeout: float | None = None) -> None:
        """Wait until so many consumers are open: with delivery "all" they miss nothing then.

        Raises:
            TimeoutError: there were fewer after ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self.consumers < count:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{self.consumers} of {count} consumers came in {timeout} s")
            time.sleep(0.001)


class Consumer(_End):
    """A reading end of a channel: ``for slot in consumer: use(slot.array)``."""

    _writes = False

    def _nothing(self, timeout: float | None) -> str:
        return f"nothing was published within {timeout} s"

    def __iter__(self) -> Iterator[Slot]:
        """Slots until the producer closes the channel; each is given back when the next is asked
        for."""
        while True:
            try:
                slot = self.next()
            except ClosedError:
                if self.closed:
                    raise
                return
            with slot:
                yield slot
