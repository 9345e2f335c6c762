"""The graphs of a session's shapes: made when first needed, the least recently used let go."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from .._native import _core
from ..model.dynamic import Shape


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
        let_go: Callable[[E], None],
        most: int | None,
        most_bytes: int | None,
    ) -> None:
        """
        Args:
            make: the graph of a shape, which sets the event when it was freed.
            let_go: told of a graph that makes room.
            most, most_bytes: how many graphs stay, and how many bytes of them; None: all. The one
                that was asked for last stays in any case.
        """
        self._make, self._let_go = make, let_go
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Shape, E] = OrderedDict()  # the last one was used last
        self._alive: weakref.WeakValueDictionary[Shape, E] = weakref.WeakValueDictionary()
        self._freed: weakref.WeakValueDictionary[Shape, _core.Event] = weakref.WeakValueDictionary()
        self._making: dict[Shape, threading.Event] = {}
        self._closed = False

    def get(self, shape: Shape) -> E:
        """The graph of a shape; waits while another thread makes it."""
        while True:
            with self._lock:
                found = self._kept.get(shape)
                if found is not None and not found.closed:
                    self._kept.move_to_end(shape)
                    return found
                found = self._alive.get(shape)
                if found is not None and not found.closed:
                    self._kept[shape] = found
                    self._kept.move_to_end(shape)
                    dropped = self._surplus(0)
                    break
                others = self._making.get(shape)
                if others is None:
                    self._kept.pop(shape, None)
                    mine = self._making[shape] = threading.Event()
                    dropped = self._surplus(len(self._making))
                    break
            others.wait()
        if found is None or found.closed:
            try:
                self._drop(dropped)
                dropped = []
                found = self._made(shape)
                with self._lock:
                    if not self._closed:
                        self._kept[shape] = found
                        self._alive[shape] = found
                        dropped = self._surplus(0)
            finally:
                with self._lock:
                    del self._making[shape]
                mine.set()
        self._drop(dropped)
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
        least = 0 if more else 1
        while self._most is not None and len(kept) > least and len(kept) + more > self._most:
            dropped.append(kept.popitem(last=False)[1])
        if self._most_bytes is not None and not more:
            total = sum(e.nbytes for e in kept.values() if not e.closed)
            while total > self._most_bytes and len(kept) > 1:
                dropped.append(kept.popitem(last=False)[1])
                total -= 0 if dropped[-1].closed else dropped[-1].nbytes
        return dropped

    def _drop(self, dropped: list[E]) -> None:
        """Outside of the lock: what goes may wait for its executions."""
        for entry in dropped:
            self._let_go(entry)
        dropped.clear()

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._kept

    def kept(self) -> dict[Shape, E]:
        """Those that are there, the least recently used first."""
        with self._lock:
            return {s: e for s, e in self._kept.items() if not e.closed}

    def end(self) -> list[E]:
        """No more are kept; those that somebody has, and those that were."""
        with self._lock:
            self._closed = True
            found = [*self._alive.values()]
            self._kept.clear()
        return found
