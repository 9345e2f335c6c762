"""The graphs of a session's shapes: made when first needed, the least recently used let go."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from .._native import _core
from ..model.dynamic import Shape
from ..support.guard import Guard


class Entry(Protocol):
    """What stands for a shape: a session of its own."""

    @property
    def closed(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...


E = TypeVar("E", bound=Entry)


class ShapeCache(Generic[E]):
    """Shape -> its graph. A graph that was let go is freed when nobody has it any more; asked for
    before that, it comes back."""

    def __init__(
        self,
        make: Callable[[Shape, _core.Event], E],
        most: int | None,
        most_bytes: int | None,
    ) -> None:
        """
        Args:
            make: the graph of a shape, which sets the event when it was freed.
            most, most_bytes: how many graphs stay, and how many bytes of them; None: all. The one
                that was asked for last stays in any case.
        """
        self._make = make
        self._most, self._most_bytes = most, most_bytes
        self._guard = Guard()
        self._kept: OrderedDict[Shape, E] = OrderedDict()  # the last one was used last
        self._bytes: dict[Shape, int] = {}
        self._alive: weakref.WeakValueDictionary[Shape, E] = weakref.WeakValueDictionary()
        self._freed: weakref.WeakValueDictionary[Shape, _core.Event] = weakref.WeakValueDictionary()
        #: Held by who makes the graph of a shape, and how many threads want it.
        self._making: dict[Shape, tuple[threading.Lock, int]] = {}
        self._closed = False

    def get(self, shape: Shape) -> E:
        """The graph of a shape; waits while another thread makes it."""
        if (found := self._there(shape)) is not None:
            return found
        with self._alone(shape):
            if (found := self._there(shape)) is not None:
                return found
            with self._guard.lock:
                self._kept.pop(shape, None)  # closed
                dropped = self._surplus(1)
            dropped.clear()  # outside of the lock: what goes may wait for its executions
            found = self._made(shape)
            nbytes = found.nbytes
            with self._guard.lock:
                if not self._closed:
                    self._kept[shape], self._alive[shape] = found, found
                    self._bytes[shape] = nbytes
                    for gone in self._bytes.keys() - self._alive.keys():
                        del self._bytes[gone]
                    dropped = self._surplus(0)
        dropped.clear()
        return found

    @contextmanager
    def _alone(self, shape: Shape) -> Iterator[None]:
        """One thread at a time makes the graph of a shape."""
        with self._guard.lock:
            lock, users = self._making.get(shape) or (threading.Lock(), 0)
            self._making[shape] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard.lock:
                users = self._making[shape][1] - 1
                if users:
                    self._making[shape] = lock, users
                else:
                    del self._making[shape]

    def _there(self, shape: Shape) -> E | None:
        with self._guard.lock:
            found = self._kept.get(shape) or self._alive.get(shape)
            if found is None or found.closed:
                return None
            self._kept[shape] = found
            self._kept.move_to_end(shape)
            dropped = self._surplus(0)
        dropped.clear()
        return found

    def _made(self, shape: Shape) -> E:
        if (before := self._freed.get(shape)) is not None:
            before.wait()  # the last reference to it went in another thread
        freed = _core.Event()
        self._freed[shape] = freed
        return self._make(shape, freed)

    def _surplus(self, more: int) -> list[E]:
        """What makes room for so many `more`, out of those that are kept; under the lock."""
        dropped: list[E] = []
        kept = self._kept
        while self._most is not None and len(kept) > 1 - more and len(kept) + more > self._most:
            dropped.append(self._oldest())
        if self._most_bytes is not None:
            while len(kept) > 1 and sum(self._bytes[s] for s in kept) > self._most_bytes:
                dropped.append(self._oldest())
        return dropped

    def _oldest(self) -> E:
        return self._kept.popitem(last=False)[1]

    def kept(self) -> dict[Shape, E]:
        """Those that are there, the least recently used first."""
        with self._guard.lock:
            return {s: e for s, e in self._kept.items() if not e.closed}

    def alive(self) -> list[E]:
        """Those that are there, and those that were let go and that somebody has."""
        with self._guard.lock:
            return [entry for entry in self._alive.values() if not entry.closed]

    def end(self) -> list[E]:
        """No more are kept; those that somebody has, and those that were."""
        with self._guard.lock:
            self._closed = True
            found = [*self._alive.values()]
            self._kept.clear()
        return found
