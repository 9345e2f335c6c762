"""What every QNN object has: one handle, parents that it keeps alive, children closed first."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, ClassVar, TypeAlias

from .._native import _core
from ..errors import ClosedError, ForkError

#: Entries of a QNN config list: (option, value); see ``_core.Config``.
Options: TypeAlias = list[tuple[int, Any]]


def config(options: Options) -> _core.Config | None:
    """The C config list; None, which is NULL there, when there is nothing to say."""
    return _core.Config(options) if options else None


atexit.register(_core.close_held)


class Owner:
    """Owns one handle. Children are closed first, whoever starts."""

    # Children with a lower rank go first: memory handles, then graphs.
    _rank: ClassVar[int] = 5

    def _own(
        self,
        what: str,
        held: _core.Held,
        *parents: Owner,
        keep: Any = None,
    ) -> None:
        held.own(what, (parents, keep))
        self._what = what
        self._held = held
        self._raw = held.handle
        self._generation = _core.fork_generation()
        # Not a WeakSet, whose methods are Python's: other threads adopt while this one closes.
        self._dependents: set[weakref.ref[Any]] = set()
        for parent in parents:
            parent._adopt(self)

    def _adopt(self, child: Any) -> None:
        """Close this child, something with `close` and `_rank`, before itself."""
        self._dependents.add(weakref.ref(child, self._dependents.discard))

    @property
    def handle(self) -> int:
        """The C handle as an integer.

        Raises:
            ClosedError: it has been closed.
            ForkError: it belongs to the parent of this forked process.
        """
        if self._generation != _core.fork_generation():
            raise ForkError(
                f"{self._what} belongs to the parent of this forked process (this is process "
                f"{os.getpid()}): backends do not survive a fork. Open it again here, or start "
                "children with the 'spawn' or 'forkserver' method"
            )
        if not self._held.alive:
            raise ClosedError(f"{self._what} is closed")
        return self._raw

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._held.alive

    def close(self) -> None:
        """Close what stands on it, then itself. Closing twice is harmless."""
        if not self._held.alive or self._generation != _core.fork_generation():
            return
        self._close_children()
        self._held.close()

    def _close_children(self) -> None:
        children = [child for ref in list(self._dependents) if (child := ref()) is not None]
        for child in sorted(children, key=lambda c: int(c._rank)):
            child.close()

    def __enter__(self) -> Any:
        self.handle  # noqa: B018 - raises when closed
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<qnnrt {self._what}{', closed' if self.closed else ''}>"
