"""Many threads at once on one object: each call is whole, with an interpreter lock and without.

Without one (a free-threaded Python) two threads are in the binding at the same moment; with one
they take turns. What is promised is the same.
"""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, as_completed, wait
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support.toy import add_model, relu_model

THREADS = 4


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """work(0), work(1), ... on a thread each, which begin together; what they gave or raised."""
    gate = threading.Barrier(threads)
    given: list[Any] = [None] * threads

    def one(i: int) -> None:
        gate.wait(600)
        try:
            given[i] = work(i)
        except BaseException as e:
            given[i] = e.with_traceback(None)

    workers = [threading.Thread(target=one, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
        assert not worker.is_alive()
    return given


def none_raised(given: list[Any]) -> None:
    assert not [g for g in given if isinstance(g, BaseException)], given


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="has a GIL")
def test_the_package_leaves_the_interpreter_without_its_lock() -> None:
    assert not sys._is_gil_enabled()


def test_one_of_many_that_close_a_buffer_closes_it() -> None:
    for _ in range(200):
        buffer = qnnrt.alloc(4096)
        none_raised(at_once(lambda _, b=buffer: b.close()))  # type: ignore[misc]
        assert buffer.closed


def test_a_buffer_is_not_closed_under_a_view() -> None:
    for _ in range(200):
        buffer = qnnrt.alloc(4096)

        def work(i: int, buffer: qnnrt.Buffer = buffer) -> bytes | None:
            if i == 0:
                buffer.close()
                return None
            with memoryview(buffer) as view:
                return bytes(view[:8])

        given = at_once(work)
        for g in given:
            assert g is None or g == bytes(8) or isinstance(g, (qnnrt.Error, BufferError)), given
        buffer.close()


def test_views_are_counted_from_every_thread() -> None:
    buffer = qnnrt.alloc(4096)

    def work(_: int) -> None:
        for _ in range(2000):
            memoryview(buffer).release()

    none_raised(at_once(work))
    assert buffer.holds()["exports"] == 0
    buffer.close()


def test_a_buffer_that_is_looked_up_while_it_goes_is_whole_or_not_there() -> None:
    addresses = [0] * THREADS

    def work(i: int) -> None:
        for n in range(500):
            buffer = qnnrt.alloc(4096)
            addresses[i] = buffer.address
            other = addresses[(i + n) % THREADS]
            found = _core.lookup(other) if other else None
            if found is not None:
                assert found[0].nbytes == 4096
            del found, buffer

    none_raised(at_once(work))
    gc.collect()


def test_handles_that_many_threads_close_are_freed_once() -> None:
    for _ in range(200):
        freed: list[int] = []
        held = _core.Held(freed.append, int, "7")
        none_raised(at_once(lambda _, h=held: h.close()))  # type: ignore[misc]
        assert freed == [7]
        assert not held.alive


def test_handles_come_and_go_on_every_thread() -> None:
    freed: list[int] = []

    def work(i: int) -> None:
        kept = []
        for n in range(1000):
            kept.append(_core.Held(freed.append, int, str(n)))
            if n % 3 == i % 3:
                kept.pop(len(kept) // 2)

    none_raised(at_once(work))
    gc.collect()
    assert len(freed) == THREADS * 1000


def test_a_descriptor_is_closed_once() -> None:
    for _ in range(200):
        fd = _core.Fd(os.dup, 0)
        number = fd.number
        none_raised(at_once(lambda _, f=fd: f.close()))  # type: ignore[misc]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_an_event_is_set_by_many() -> None:
    for _ in range(300):
        event = _core.Event()
        none_raised(at_once(lambda i, e=event: e.set() if i % 2 else e.wait(300)))  # type: ignore[misc]
        assert event.is_set()


def test_runs_of_one_session_queue() -> None:
    with qnnrt.Session(add_model()) as session:

        def work(i: int) -> None:
            for n in range(200):
                a = np.full((4, 8), i + 1, np.float32)
                b = np.full((4, 8), n, np.float32)
                out = session.run({"a": a, "b": b})
                assert np.array_equal(out["z"], a + b), (i, n)

        none_raised(at_once(work))
        assert session.stats.executes == THREADS * 200


def test_sessions_are_made_and_closed_on_every_thread() -> None:
    def work(i: int) -> None:
        for n in range(20):
            with qnnrt.Session(relu_model()) as session:
                x = np.linspace(-i, n, 16, dtype=np.float32).reshape(1, 16)
                assert np.array_equal(session.run({"x": x})["y"], np.maximum(x, 0))

    none_raised(at_once(work))


def test_a_session_closed_while_others_run_says_so() -> None:
    for _ in range(30):
        session = qnnrt.Session(relu_model())
        session.inputs["x"].array[:] = 1

        def work(i: int, session: qnnrt.Session = session) -> int:
            for n in range(100):
                if i == 0 and n == 50:
                    session.close()
                try:
                    session.run()
                except qnnrt.ClosedError:
                    return n
            return 100

        none_raised(at_once(work))
        session.close()


def test_callbacks_of_a_future_are_called_once_each() -> None:
    with qnnrt.Session(relu_model(), "htp") as session:
        session.inputs["x"].array[:] = 1
        for _ in range(100):
            called: list[int] = []
            future = session.run_async()
            none_raised(
                at_once(
                    lambda i, f=future, c=called: f.add_done_callback(lambda _: c.append(i))  # type: ignore[misc]
                )
            )
            future.result(60)
            session.run_async().result(60)  # callbacks are called in order: those before are over
            assert sorted(called) == list(range(THREADS))


def test_a_future_is_waited_for_by_many() -> None:
    with qnnrt.Session(relu_model(), "htp") as session:
        session.inputs["x"].array[:] = 1
        for _ in range(50):
            futures = [session.run_async() for _ in range(4)]

            def work(i: int, futures: list[Any] = futures) -> int:
                if i % 2:
                    return len(list(as_completed(futures, 60)))
                return len(wait(futures, 60, ALL_COMPLETED).done)

            assert at_once(work) == [4] * THREADS
