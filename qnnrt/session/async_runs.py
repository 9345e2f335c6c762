"""Runs in the background: in the backend's queue, or on a thread of the session's."""

from __future__ import annotations

from concurrent.futures import Future
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

    def start(self, signal: Signal | None) -> Future[None]:
        """Start one; waits while the backend's queue is full."""
        if signal is None:  # whose time begins in the backend, and which ends its wait, too
            self._wait_until_free()
        handle = signal.handle if signal is not None else 0
        launch = partial(self._runner.run_async, handle, keep=signal, queued=self._queues_itself)
        return completions.start(self._library, launch)

    def _wait_until_free(self) -> None:
        """What the backend's queue would do, but for a thread that an interrupt may end."""
        if not self._queues_itself or _core.on_completing_thread():
            return
        while self._runner.in_flight() >= self._queue_depth:
            if len(runs := self._not_done()) < self._queue_depth:
                return
            runs[0].exception()

    async def until_free(self) -> None:
        """Wait until the backend's queue takes another one."""
        while self._queues_itself and len(runs := self._not_done()) >= self._queue_depth:
            await completions.until_done(runs[0])

    def finish(self) -> None:
        """Wait until the futures are done."""
        if not _core.on_completing_thread():  # that one completes them after this
            for future in self._not_done():
                future.exception()

    def _not_done(self) -> list[Future[None]]:
        return [future for future in self._runner.futures if not future.done()]
