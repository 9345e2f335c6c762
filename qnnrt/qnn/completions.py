"""Futures for executions in the background.

Backends report on threads of their own, which must not wait for the interpreter. They put their
results down, and one thread of the binding collects them and completes the futures.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from concurrent.futures import Future

from .._native import _core

_registered = -1  # the fork generation whose end waits for its executions


class ExecutionFuture(_core.Outcome, Future[None]):
    """A ``concurrent.futures.Future`` that an interrupt leaves whole."""

    def __repr__(self) -> str:
        state = "running" if self.running() else "finished"
        if self.done() and (error := self.exception()) is not None:
            state += f" raised {type(error).__name__}"
        return f"<{type(self).__name__} at {id(self):#x} state={state}>"


def start(library: _core.Library, launch: Callable[[ExecutionFuture], None]) -> Future[None]:
    """Start an execution by ``launch(future)`` and return the future.

    The future runs from the start: an execution that a backend has taken can be ended by a signal,
    not by ``Future.cancel``. ``launch`` is a ``functools.partial`` rather than a closure: CPython
    3.12 crashes where the memory for a closure is missing.

    Raises:
        QnnError: the backend refused; there is no future then.
        Error: no thread can be started.
        RuntimeError: the interpreter is going down.
    """
    global _registered
    if _registered != (generation := _core.fork_generation()):
        atexit.register(_stop, generation)  # twice is harmless
        _registered = generation
    future = ExecutionFuture(library)
    launch(future)
    return future


async def until_done(future: Future[None]) -> None:
    """Wait for a future, whatever becomes of it."""
    import asyncio

    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def done() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: Future[None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(done)

    future.add_done_callback(wake)
    await waiter


def _stop(generation: int) -> None:
    """At exit, while everything still works: backends must be done with the program's memory."""
    if generation == _core.fork_generation():
        _core.stop_completing()
