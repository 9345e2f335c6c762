"""Locks that a forked child does not inherit."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

__all__ = ["Guard"]


class Guard:
    """An ``RLock`` of this process. A child of ``os.fork`` has a new one: a thread that held the
    parent's at that moment is not there to give it back.

    What it guards is in the child as it was then, maybe in the middle of a change.

    Attributes:
        lock: ask for it anew each time.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _guards.add(weakref.ref(self, _guards.discard))


#: Not a WeakSet, whose methods are Python's: a thread may fork in the middle of them.
_guards: Final[set[weakref.ref[Guard]]] = set()


def _renew() -> None:
    for reference in list(_guards):
        if (guard := reference()) is not None:
            guard.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
