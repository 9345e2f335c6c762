"""Runs in the background: in the backend's queue, or on a thread of the session's."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final

from .._native import _core
from ..qnn import completions
from ..qnn.backend import Backend
from ..qnn.profile import Signal

_QUEUE_DEPTH: Final = 10  # unless the context says otherwise


class AsyncRuns:
    """The runs of a session that are not done, first in, first out."""

    def __init__(self, runner: _core.Runner, backend: Backend, queue_depth: int | None) -> None:
        self._runner = runner
        self._library = backend.library
        self._queues_itself = backend.has_capability("async_execution")
        self._queue_depth = queue_depth or _QUEUE_DEPTH
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self._runs: dict[Future[None], None] = {}

    def start(self, signal: Signal | None) -> Future[None]:
        """Start one; waits while the backend's queue is full."""
        if self._queues_itself:
            handle = signal.handle if signal is not None else 0
            future = completions.start(
                self._library, partial(self._runner.run_async, handle), keep=signal
            )
        else:
            future = self._run_on_pool(signal)
        self._runs[future] = None
        future.add_done_callback(self._runs.pop)
        return future

    def _run_on_pool(self, signal: Signal | None) -> Future[None]:
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="qnnrt-run")
            return self._pool.submit(
                self._runner.execute, 0, signal.handle if signal is not None else 0
            )

    async def until_free(self) -> None:
        """Wait until the backend's queue takes another one."""
        while self._queues_itself and len(runs := list(self._runs)) >= self._queue_depth:
            await completions.until_done(runs[0])

    def finish_pool(self) -> None:
        """Wait for those on the session's thread, and end it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def finish(self) -> None:
        """Wait until the futures are done."""
        if not completions.on_completing_thread():  # that one completes them after this
            wait(list(self._runs))
