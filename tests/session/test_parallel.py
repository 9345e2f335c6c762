"""Many threads at once on one object: each call is whole, with an interpreter lock and without.

Without one (a free-threaded Python) two threads are in the binding at the same moment; with one
they take turns. What is promised is the same.
"""

from __future__ import annotations

import gc
import os
import pickle
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


def test_a_view_that_ends_while_another_thread_tries_to_close_is_counted_off() -> None:
    for _ in range(100):
        buffer = qnnrt.alloc(4096)

        def work(i: int, buffer: qnnrt.Buffer = buffer) -> None:
            for _ in range(100):
                try:
                    if i == 0:
                        buffer.close()
                        return
                    memoryview(buffer).release()
                except (qnnrt.Error, BufferError):
                    continue

        none_raised(at_once(work))
        assert buffer.closed or buffer.holds()["exports"] == 0
        buffer.close()


def test_a_message_that_many_threads_receive_is_one_mapping() -> None:
    before = _core.memory_counts()
    for _ in range(50):
        buffer = qnnrt.alloc(4096)
        message = pickle.dumps(buffer)

        def work(_: int, message: bytes = message) -> list[int]:
            addresses = []
            for _ in range(20):
                with pickle.loads(message) as received:
                    addresses.append(received.address)
            return addresses

        given = at_once(work)
        none_raised(given)
        assert {address for addresses in given for address in addresses} == {buffer.address}
        buffer.close()
    gc.collect()
    assert _core.memory_counts() == before


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


def test_an_event_is_waited_for_while_it_is_cleared() -> None:
    event = _core.Event()

    def work(i: int) -> None:
        for _ in range(3000):
            if i == 0:
                event.set()
                event.clear()
            else:
                event.wait(0)

    none_raised(at_once(work))
    assert not event.is_set()
    event.set()
    assert event.wait(0)


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


def test_what_a_tensor_says_is_what_runs_use_whoever_binds() -> None:
    with qnnrt.Session(relu_model()) as session:
        own = [qnnrt.alloc_array((1, 16)) for _ in range(THREADS)]
        x, y = session.inputs["x"], session.outputs["y"]

        def work(i: int) -> None:
            for _ in range(20):
                x.bind(own[i])
                assert x.handle is not None
                array = x.array
                assert any(np.shares_memory(array, a) for a in own)

        for n in range(1, 9):
            none_raised(at_once(work))
            for a in own:
                a[:] = -1
            x.array[:] = n
            session.run()
            assert np.array_equal(y.array, np.full((1, 16), n, np.float32)), n


def test_memory_bound_while_the_session_closes_can_be_closed() -> None:
    for _ in range(30):
        session = qnnrt.Session(relu_model())
        x = session.inputs["x"]
        buffers = [qnnrt.alloc(64) for _ in range(THREADS)]

        def work(i: int, session: Any = session, x: Any = x, buffers: Any = buffers) -> None:
            for n in range(20):
                if i == 0 and n == 5:
                    session.close()
                try:
                    x.bind(buffers[i])
                except (qnnrt.ClosedError, qnnrt.MemError):  # its context was closed meanwhile
                    return

        none_raised(at_once(work))
        session.close()
        for buffer in buffers:
            buffer.close()


def test_memory_that_many_threads_ask_for_is_registered_once() -> None:
    with qnnrt.Session(relu_model()) as session:
        context = session.context
        for _ in range(50):
            buffer = qnnrt.alloc(64)
            before = context.registrations

            def work(_: int, buffer: qnnrt.Buffer = buffer) -> Any:
                return context.get_or_register(buffer, (1, 16), np.float32)

            handles = at_once(work)
            assert all(handle is handles[0] for handle in handles), handles
            assert context.registrations == before + 1
            del handles
            buffer.close()


def test_a_backend_closes_what_every_thread_has_made_of_it() -> None:
    for _ in range(30):
        backend = qnnrt.qnn.Backend.open("cpu")
        made: list[Any] = []

        def work(_: int, backend: Any = backend, made: list[Any] = made) -> None:
            made.extend(backend.create_context() for _ in range(5))

        none_raised(at_once(work))
        backend.close()
        assert len(made) == THREADS * 5
        assert all(context.closed for context in made)


def test_a_failure_of_a_run_is_the_same_for_all_who_ask() -> None:
    def refuse(inputs: Any, outputs: Any) -> None:
        raise ValueError("never")

    def rule(inputs: Any) -> Any:
        return inputs[0].shape

    qnnrt.qnn.register_op("Refused", rule, refuse)
    try:
        with qnnrt.qnn.Backend.open("htp") as backend, backend.create_context() as context:
            graph = context.create_graph("net")
            x = graph.add_tensor("x", (4,), "float32", type="app_write")
            y = graph.add_tensor("y", (4,), "float32", type="app_read")
            graph.add_node("node", "Refused", [x], [y], package=qnnrt.qnn.PYTHON_PACKAGE)
            graph.finalize()
            array = np.zeros(4, np.float32)
            for _ in range(50):
                future = graph.execute_async([array], [array.copy()])
                given = at_once(lambda _, f=future: f.exception(120))  # type: ignore[misc]
                assert isinstance(given[0], qnnrt.GraphError), given
                assert all(g is given[0] for g in given)
    finally:
        qnnrt.qnn.unregister_op("Refused")


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
            future.result(120)
            session.run_async().result(120)  # callbacks are called in order: those before are over
            assert sorted(called) == list(range(THREADS))


def test_a_future_is_waited_for_by_many() -> None:
    with qnnrt.Session(relu_model(), "htp") as session:
        session.inputs["x"].array[:] = 1
        for _ in range(50):
            futures = [session.run_async() for _ in range(4)]

            def work(i: int, futures: list[Any] = futures) -> int:
                if i % 2:
                    return len(list(as_completed(futures, 120)))
                return len(wait(futures, 120, ALL_COMPLETED).done)

            assert at_once(work) == [4] * THREADS
