"""Several threads at once."""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 600  # to wait for a thread that should be long done


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[None]:
    """A thread for each of these; leaving the block waits for them and raises what one raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def in_threads(*works: Callable[[], object]) -> None:
    """All of these at once, to their ends."""
    with running(*works):
        pass


@contextmanager
def or_traceback() -> Iterator[None]:
    """Ends the process with every thread's stack where the block hangs: also where a thread keeps
    the interpreter, so that no Python can say so."""
    # The process's own: what pytest has in its place may have no descriptor.
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
