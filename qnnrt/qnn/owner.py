"""What every QNN object has: one handle, parents that it keeps alive, children closed first."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from .._native import _core
from ..errors import ClosedError, ForkError, QnnError
from ..support import log

#: Entries of a QNN config list: (option, value); see ``_core.Config``.
Options: TypeAlias = list[tuple[int, Any]]


def config(options: Options) -> _core.Config | None:
    """The C config list; None, which is NULL there, when there is nothing to say."""
    return _core.Config(options) if options else None


def _release(
    free: Callable[[int], None], handle: int, generation: int, what: str, keep: object
) -> None:
    """Gives a handle back; `keep` holds the parents until then."""
    if generation != _core.fork_generation():
        return  # the parent's: not this child's to free
    try:
        free(handle)
    except QnnError as e:
        log.warning("closing %s: %s", what, str(e))  # not e: a record would keep its frames


class Owner:
    """Owns one handle. Children are closed first, whoever starts."""

    # Children with a lower rank go first: memory handles, then graphs.
    _rank: ClassVar[int] = 5

    def _own(
        self,
        what: str,
        handle: int,
        free: Callable[[int], None],
        *parents: Owner,
        keep: Any = None,
    ) -> None:
        self._what = what
        self._raw = handle
        self._generation = _core.fork_generation()
        self._dependents: weakref.WeakSet[Any] | None = None
        self._finalizer = weakref.finalize(
            self, _release, free, handle, self._generation, what, (parents, keep)
        )
        for parent in parents:
            parent._adopt(self)

    def _adopt(self, child: Any) -> None:
        """Close this child, something with `close` and `_rank`, before itself."""
        if self._dependents is None:
            self._dependents = weakref.WeakSet()
        self._dependents.add(child)

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
        if not self._finalizer.alive:
            raise ClosedError(f"{self._what} is closed")
        return self._raw

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Close what stands on it, then itself. Closing twice is harmless."""
        if not self._finalizer.alive or self._generation != _core.fork_generation():
            return
        self._close_children()
        self._finalizer()

    def _close_children(self) -> None:
        for child in sorted(self._dependents or (), key=lambda c: int(c._rank)):
            child.close()

    def __enter__(self) -> Any:
        self.handle  # noqa: B018 - raises when closed
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<qnnrt {self._what}{', closed' if self.closed else ''}>"
