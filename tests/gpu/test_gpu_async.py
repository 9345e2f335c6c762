"""Executions of the gpu backend in the background: the runtime's own queue, over OpenCL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

import numpy as np
import pytest

import qnnrt
from support.gpu.opencl import cl, gpu, on_shared_memory, opencl_is_up  # noqa: F401
from support.outside import in_child
from support.toy import relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are


@pytest.fixture
def s():
    with qnnrt.Session(relu_model(), "gpu") as s:
        yield s
        s.close()
        s.backend.close()


def test_the_backend_says_that_it_has_a_queue(s) -> None:
    for name in ("async_execution", "signals", "execute_signal", "execute_async_signal"):
        assert s.backend.has_capability(name), name
    assert not s.backend.has_capability("finalize_signal")


def test_thousands_of_runs_each_with_its_own_memory(s) -> None:
    """Binding changes the runs that follow, so that each result is of its own input."""
    shape = (1, 16)
    places = []
    for i in range(20):
        x, y = (qnnrt.alloc(64) for _ in range(2))
        x.array(shape, np.float32)[...] = i - 10
        places.append((x, y))
    seen: list[int] = []
    lock = threading.Lock()

    def note(i: int) -> None:
        with lock:
            seen.append(i)

    futures = []
    for i in range(2000):
        x, y = places[i % 20]
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        futures.append(s.run_async(lambda _, i=i: note(i)))
    wait(futures)
    assert all(f.exception() is None for f in futures)
    assert seen == list(range(2000)), "told in the order of the calls"
    for i, (_, y) in enumerate(places):
        np.testing.assert_array_equal(y.array(shape, np.float32), max(i - 10, 0))
    assert s.stats.executes == 2000
    assert s.backend.library.gpu_counts(s.graph.handle)["executes"] == 2000


def test_no_thread_of_pythons_for_each_run(s) -> None:
    before = threading.active_count()
    futures = [s.run_async() for _ in range(200)]
    assert threading.active_count() <= before + 1, "the one that completes futures"
    wait(futures)


def test_synchronous_runs_come_between(s) -> None:
    s.inputs["x"].array[...] = 3
    futures = [s.run_async() for _ in range(5)]
    s.run()
    wait(futures)
    assert (s.outputs["y"].array == 3).all()
    assert s.stats.executes == 6


def test_raw_memory_is_staged_in_the_background_too() -> None:
    with qnnrt.Session(relu_model(), "gpu", io="raw") as s:
        s.inputs["x"].array[...] = -1
        s.run_async().result()
        assert (s.outputs["y"].array == 0).all()
        s.close()
        s.backend.close()


def test_the_depth_is_an_option_of_the_context() -> None:
    with qnnrt.qnn.Backend.open("gpu") as backend:
        with pytest.raises(qnnrt.ContextError, match="301"):
            backend.create_context(async_queue_depth=301)
        options = {"context": {"async_queue_depth": 1}}
        with qnnrt.Session(relu_model(), backend, options=options) as s:
            wait([s.run_async() for _ in range(50)])
            assert s.stats.executes == 50


def test_closing_waits_for_what_is_in_flight(s) -> None:
    futures = [s.run_async() for _ in range(10)]
    s.close()
    assert all(f.done() and f.exception() is None for f in futures)
    with pytest.raises(qnnrt.ClosedError):
        s.run_async()


@on_shared_memory
def test_what_a_run_uses_is_deregistered_after_it(s) -> None:
    """Deregistration waits for the runs in flight; the next one is refused by name."""
    x = qnnrt.alloc(64)
    s.inputs["x"].bind(x)
    futures = [s.run_async() for _ in range(10)]
    handle = s.context.get_or_register(x, (1, 16), np.float32, kind="opencl")
    s.context._library.mem_deregister([handle.handle])
    assert all(f.result() is None for f in futures)
    with pytest.raises(qnnrt.GraphError, match=r"'x'.*not registered") as e:
        s.run_async()
    assert e.value.code == 6004


def outcome(run: Callable[[], Future[None]]) -> int:
    """The code of a run, whether the call or the future says so; 0 without an error."""
    try:
        error = run().exception()
    except qnnrt.QnnError as e:
        error = e
    return error.code if isinstance(error, qnnrt.QnnError) else 0


def test_a_run_that_is_late_says_so_and_the_next_one_goes_on(s) -> None:
    with s.backend.create_signal(timeout_us=1) as late:
        first = s.run_async()
        assert outcome(lambda: s.run_async(signal=late)) == 6033
        first.result()
    s.run_async().result()


def test_an_aborted_run_has_failed_and_one_that_had_ended_has_not(s) -> None:
    with s.backend.create_signal(abort=True) as signal:
        for _ in range(50):
            before = s.run_async()
            future = s.run_async(signal=signal)
            try:
                signal.trigger()
                expected = 6031
            except qnnrt.QnnError as e:
                expected = 0 if e.code == 9001 else -1
            assert outcome(lambda f=future: f) == expected
            before.result()
    s.run_async().result()


def test_a_synchronous_run_takes_a_signal(s) -> None:
    with s.backend.create_signal(timeout_us=60_000_000) as signal:
        s._runner.execute(signal=signal.handle)
    assert s.stats.executes == 1


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_does_not_run(s) -> None:
    s.run_async().result()

    def child() -> None:
        for call in (s.run, s.run_async):
            with pytest.raises(qnnrt.ForkError):
                call()

    in_child(child)
    s.run_async().result()


def test_awaiting(s) -> None:
    import asyncio

    async def several() -> None:
        await asyncio.gather(*(s.run_awaitable() for _ in range(20)))

    asyncio.run(several())
    assert s.stats.executes == 20
