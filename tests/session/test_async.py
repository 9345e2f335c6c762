"""Asynchronous runs: futures, await, order, what stays in use until when, and no Python in the way.

The htp backend queues executions itself; on the cpu backend a thread of the session does.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import numpy as np
import pytest

import qnnrt
from support import reference
from support.async_runs import Gate, slow_model
from support.parallel import in_threads, or_traceback, running
from support.toy import add_model, conv_model, relu_model

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "htp"])
ASYNC = {"context": {"async_queue_depth": 4}}


@BACKENDS
def test_a_future_is_done_when_the_outputs_are_there(backend):
    model = conv_model(3)
    x = np.random.default_rng(3).standard_normal((1, 8, 8, 8)).astype(np.float32)
    with qnnrt.Session(model, backend, io="memhandle") as s:
        s.inputs["x"].array[...] = x
        future = s.run_async()
        assert future.result(120) is None
        np.testing.assert_allclose(
            s.outputs["y"].array, reference.run(model, {"x": x})["y"], 1e-4, 1e-5
        )
        assert s.stats.executes == 1
        assert s.stats.execute_seconds > 0
        s.reset_stats()
        assert s.stats.executes == 0
        assert s.stats.execute_seconds == 0


@BACKENDS
def test_callbacks_get_their_futures_in_order(backend):
    seen = []
    done = threading.Event()
    with qnnrt.Session(relu_model(), backend, options=ASYNC if backend == "htp" else None) as s:
        futures = [s.run_async(lambda f, i=i: seen.append((i, f))) for i in range(50)]
        s.run_async(lambda f: done.set())
        assert done.wait(120)
        assert seen == list(enumerate(futures))
        assert all(f.exception() is None for f in futures)
        assert s.stats.executes == 51


@BACKENDS
def test_synchronous_runs_come_in_turn(backend):
    with qnnrt.Session(slow_model(), backend) as s:
        futures = [s.run_async() for _ in range(5)]
        s.run()
        if backend == "htp":  # one queue: so the earlier ones have been executed
            assert s.backend.library.graph_stats(s.graph.handle)["executes"] == 6
        for f in futures:
            f.result(120)
        assert s.stats.executes == 6


def test_gathering_many_awaits_more_than_the_queue_takes():
    runs = 60

    async def main() -> None:
        gate = Gate()

        async def go_round() -> None:
            for _ in range(2 * runs):
                await asyncio.sleep(0)
            gate.open()  # only a loop that goes on gets here, and nothing ends before

        with gate.session(options=ASYNC) as s, gate:
            await asyncio.gather(go_round(), *(s.run_awaitable() for _ in range(runs)))
            assert s.stats.executes == runs

    with or_traceback():
        asyncio.run(main())


def test_cancelling_a_task_leaves_its_run_alone():
    async def main() -> None:
        with qnnrt.Session(slow_model(), "htp") as s:
            task = asyncio.create_task(s.run_awaitable())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            s.run()  # after what is in flight
            assert s.backend.library.graph_stats(s.graph.handle)["executes"] == 2

    asyncio.run(main())


def test_a_future_cannot_be_cancelled_and_says_so():
    with qnnrt.Session(slow_model(), "htp") as s:
        future = s.run_async()
        assert not future.cancel()
        assert future.result(120) is None
        assert not future.cancelled()


def test_a_cancelled_task_that_waits_for_a_slot_starts_nothing():
    async def main() -> None:
        gate = Gate()
        with gate.session(options={"context": {"async_queue_depth": 1}}) as s, gate:
            first = s.run_async()
            task = asyncio.create_task(s.run_awaitable())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.open()
            first.result(120)
        assert s._runner.counters()[0] == 1

    asyncio.run(main())


def test_a_failing_run_puts_its_reason_into_the_future():
    with qnnrt.Session(slow_model(), "htp") as s:
        signal = s.backend.create_signal(timeout_us=1)
        try:
            # The clock may have run out before the call has queued anything.
            with pytest.raises(qnnrt.GraphError, match="1 us") as e:
                s.run_async(signal=signal).result(120)
            assert e.value.code == 6033
            with pytest.raises(qnnrt.GraphError) as e:
                asyncio.run(s.run_awaitable(signal=signal))
            assert e.value.code == 6033
        finally:
            signal.close()
        assert s.run_async().result(120) is None
        assert s.stats.executes == 1


def test_a_signal_aborts_a_run():
    gate = Gate()
    with gate.session() as s, gate:
        signal = s.backend.create_signal(abort=True)
        busy, future = s.run_async(), s.run_async(signal=signal)
        signal.trigger()  # in the queue still, behind the other one
        assert not busy.done()
        gate.open()
        with pytest.raises(qnnrt.GraphError, match="aborted") as failed:
            future.result(120)
        assert failed.value.code == 6031
        assert busy.result(120) is None
        with pytest.raises(qnnrt.errors.SignalError) as idle:
            signal.trigger()
        assert idle.value.code == 9001
        signal.close()


def test_a_signal_is_for_one_run_at_a_time():
    gate = Gate()
    with gate.session() as s, gate:
        signal = s.backend.create_signal(abort=True)
        future = s.run_async(signal=signal)
        for _ in range(4):
            with pytest.raises(qnnrt.GraphError) as e:
                s.run_async(signal=signal)
            assert e.value.code == 6030
        gate.open()
        assert future.result(120) is None
        assert s.run_async(signal=signal).result(120) is None
        signal.close()


def test_the_cpu_backend_has_no_signals():
    with qnnrt.Session(relu_model()) as s:
        assert not s.backend.has_capability("async_execution")
        with pytest.raises(qnnrt.errors.SignalError) as e:
            s.backend.create_signal(abort=True)
        assert e.value.code == 1000


def test_the_depth_is_checked_where_the_context_is_made():
    for depth in (0, 301):
        with pytest.raises(qnnrt.ContextError, match="300") as e:
            qnnrt.Session(relu_model(), "htp", options={"context": {"async_queue_depth": depth}})
        assert e.value.code == 5010


@BACKENDS
def test_python_goes_on_meanwhile(backend):
    """While one thread is blocked in a full queue, others have the interpreter."""
    gate = Gate()
    options = {"context": {"async_queue_depth": 1}} if backend == "htp" else None
    with gate.session(backend, options=options) as s:
        futures = []

        def work() -> None:
            futures.extend(s.run_async() for _ in range(20))
            for f in futures:
                f.result(120)

        with or_traceback(), running(work), gate:
            for _ in range(1000):  # each gives the interpreter away
                time.sleep(0)
            assert not any(f.done() for f in futures)
            assert s.stats.executes == 0  # which waits for none of them
        assert len(futures) == s.stats.executes == 20


def test_memory_in_flight_cannot_be_closed():
    gate = Gate()
    with gate.session() as s, gate:
        buffer = qnnrt.alloc(s.inputs["x"].nbytes)
        s.inputs["x"].bind(buffer)
        handle = s.inputs["x"].handle
        future = s.run_async()
        s.inputs["x"].bind(qnnrt.alloc_array((16,)))  # for runs that come later
        with pytest.raises(qnnrt.BufferInUseError):
            buffer.close()
        with pytest.raises(qnnrt.MemError, match="in flight") as e:
            s.context.deregister(handle)
        assert e.value.code == 1005
        gate.open()
        future.result(120)
        del future, handle, e
        gc.collect()
        buffer.close()


def test_runs_in_flight_keep_what_they_were_started_with():
    with qnnrt.Session(relu_model((1, 1024)), "htp", options=ASYNC) as s:
        arrays, futures = [], []
        for i in range(40):
            x, y = qnnrt.alloc_array((1, 1024)), qnnrt.alloc_array((1, 1024))
            x[...] = i
            s.inputs["x"].bind(x)
            s.outputs["y"].bind(y)
            futures.append(s.run_async())
            arrays.append(y)
        for i, (future, y) in enumerate(zip(futures, arrays, strict=True)):
            future.result(120)
            assert (y == i).all()
        assert s.stats.copied_bytes == 0


def test_closing_waits_and_completes_the_futures():
    s = qnnrt.Session(slow_model(), "htp")
    futures = [s.run_async() for _ in range(10)]
    s.close()
    assert all(f.done() and f.exception() is None for f in futures)
    with pytest.raises(qnnrt.ClosedError):
        s.run_async()


def test_a_callback_may_close_the_session():
    s = qnnrt.Session(relu_model(), "htp")
    closed = threading.Event()

    def callback(_: object) -> None:
        s.close()
        closed.set()

    last = None
    for _ in range(5):
        last = s.run_async()
    s.run_async(callback)
    assert closed.wait(120)
    assert last.result(120) is None
    assert s.closed


def test_a_session_is_kept_by_its_runs():
    s = qnnrt.Session(slow_model(), "htp")
    future = s.run_async()
    del s
    gc.collect()
    assert future.result(120) is None


def test_close_races_with_asynchronous_runs_without_harm():
    for _ in range(10):
        s = qnnrt.Session(relu_model(), "htp", options=ASYNC)
        outcome: list[BaseException] = []

        def work(s: qnnrt.Session = s, outcome: list[BaseException] = outcome) -> None:
            futures = []
            try:
                while True:
                    futures.append(s.run_async())
            except qnnrt.ClosedError as e:
                outcome.append(e)
            for f in futures:
                f.result(120)

        with running(*[work] * 3):
            s.close()
        assert len(outcome) == 3


def test_threads_share_a_session_that_queues():
    with qnnrt.Session(add_model(), "htp", options=ASYNC) as s:

        def work() -> None:
            for i in range(200):
                if i % 4 == 0:
                    s.run()
                else:
                    s.run_async().result(120)

        in_threads(*[work] * 4)
        assert s.stats.executes == 800
