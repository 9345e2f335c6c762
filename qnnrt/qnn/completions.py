"""Futures for executions that backends do in the background.

Backends report on threads of their own, which must not wait for the interpreter. They put their
results down, and one thread of this module collects them and completes the futures.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

from .._native import _core
from ..errors import make_error
from ..support import log

_lock = threading.Lock()
_threads: dict[int, threading.Thread] = {}  # by fork generation: a forked child needs its own
_over = False


def start(
    library: _core.Library,
    launch: Callable[[Callable[[int, str], None]], None],
    keep: object = None,
) -> Future[None]:
    """Start an execution by ``launch(done)`` and return its future, which keeps ``keep``.

    The future runs from the start: an execution that a backend has taken can be ended by a signal,
    not by ``Future.cancel``.

    Raises:
        QnnError: the backend refused; there is no future then.
        RuntimeError: the interpreter is going down.
    """
    _ensure_thread()
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()

    def done(code: int, message: str) -> None:
        nonlocal keep
        keep = None
        if code == 0:
            future.set_result(None)
            return
        message = message or library.error_message(code)
        future.set_exception(make_error(code, "graph", "graphExecuteAsync", "", message))

    launch(done)
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


def on_completing_thread() -> bool:
    """Whether the caller is the done-callback of such a future."""
    return threading.current_thread() is _threads.get(_core.fork_generation())


def _ensure_thread() -> None:
    generation = _core.fork_generation()
    if generation in _threads:
        return
    with _lock:
        if _over:
            raise RuntimeError("the interpreter is going down: no new executions")
        if generation in _threads:
            return
        _threads.clear()
        # A daemon, since the interpreter waits for other threads before it calls _stop.
        thread = threading.Thread(target=_complete_all, name="qnnrt-async", daemon=True)
        _threads[generation] = thread
        thread.start()
        atexit.register(_stop, generation)


def _complete_all() -> None:
    more = True
    while more:
        try:
            more = _core.complete_next()
        except Exception:  # futures swallow those of their callbacks: a fault of this package
            log.exception("completing an asynchronous execution")


def _stop(generation: int) -> None:
    """At exit, while everything still works: backends must be done with the program's memory."""
    global _over
    thread = _threads.get(generation)
    if thread is None or generation != _core.fork_generation():
        return
    with _lock:
        _over = True
    _core.stop_completing()
    thread.join()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that the child has not may have held it


os.register_at_fork(after_in_child=_after_fork)
