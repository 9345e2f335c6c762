"""Asynchronous runs after an interrupt, a thread that cannot start, an allocation that fails: the
call that met it ends with an error, and all later ones work.
"""

from __future__ import annotations

import json
import sys

import pytest

from support.outside import run_code

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "htp"])

_CALLS = {
    "run_async": "s.run_async()",
    "with_a_callback": "s.run_async(lambda f: None)",
    "result": "futures[0].result(120)",
    "exception": "futures[-1].exception()",
    "add_done_callback": "futures[-1].add_done_callback(id)",
    "as_completed": "list(as_completed(futures))",
    "wait": "wait(futures)",
    "wait_for_the_first": "wait(futures, return_when='FIRST_COMPLETED')",
    "run": "s.run()",
    "feeds": "s.run({'x': x})",
    "graph": "s.graph.execute_async([x], [np.zeros_like(x)]).result(120)",
}


@BACKENDS
def test_an_interrupt_at_any_point_leaves_nobody_waiting(backend: str) -> None:
    calls = dict(_CALLS)
    if backend == "cpu":
        del calls["graph"]  # its graphs have no queue
    done = run_code(
        """
        import json, sys
        from concurrent.futures import as_completed, wait
        import numpy as np, qnnrt
        from support.interrupts import at_every_point
        from support.toy import relu_model
        s = qnnrt.Session(relu_model(), sys.argv[1])
        x = np.ones(s.inputs["x"].shape, np.float32)
        s.run_async().result(120)
        futures = []

        def begin():
            futures[:] = [s.run_async() for _ in range(3)]

        def works():
            for f in futures:
                f.result(120)
            done = s.run_async()
            assert list(as_completed([done, *futures], 120))
            done.result(120)
            s.run({"x": x})

        for name, call in json.loads(sys.argv[2]).items():
            print(name, file=sys.stderr)
            points = at_every_point(eval("lambda: " + call), works, before=begin)
            assert points > 0
        s.close()
        print("closed")
        """,
        backend,
        json.dumps(calls),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "closed\n"


@pytest.mark.parametrize(
    ("backend", "call"),
    [("htp", "s.run_async()"), ("htp", "s.close()"), ("cpu", "s.close()")],
    ids=["htp-run_async", "htp-close", "cpu-close"],
)
def test_an_interrupt_ends_a_wait_for_runs_in_flight(backend: str, call: str) -> None:
    """While the backend's queue is full, and where a session is closed: none of the runs ends
    before the interrupt has come."""
    done = run_code(
        """
        import faulthandler, sys
        from support.async_runs import Gate
        from support.interrupts import is_interrupted
        faulthandler.dump_traceback_later(300, exit=True)
        gate = Gate()
        options = {"context": {"async_queue_depth": 2}} if sys.argv[1] == "htp" else None
        s = gate.session(sys.argv[1], options=options)
        futures = [s.run_async() for _ in range(2)]
        print(is_interrupted(eval("lambda: " + sys.argv[2])), [f.done() for f in futures])
        gate.open()
        assert [f.result(120) for f in futures] == [None, None]
        if not s.closed:
            s.run()
            s.run_async().result(120)
        s.close()
        assert s.context.closed
        faulthandler.cancel_dump_traceback_later()
        """,
        backend,
        call,
    )
    assert (done.returncode, done.stdout) == (0, "True [False, False]\n"), done.stderr


def test_runs_go_on_after_a_thread_that_could_not_start() -> None:
    """The one that completes futures and the one that executes, once each."""
    done = run_code(
        """
        import os, resource, sys
        import qnnrt
        from support.toy import relu_model
        sessions = [qnnrt.Session(relu_model(), name) for name in ("htp", "cpu")]
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)  # root is above that limit
        failures = 0
        for s in sessions:
            for allowed in (0, 1):  # threads
                resource.setrlimit(
                    resource.RLIMIT_NPROC, (len(os.listdir("/proc/self/task")) - 1 + allowed, hard)
                )
                try:
                    s.run_async().result(120)
                except qnnrt.Error as e:
                    failures += 1
                    assert "thread" in str(e), e
                resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
                s.run()
            s.run_async().result(120)
            s.close()
        print(failures)
        """,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    if int(done.stdout) == 0:
        pytest.skip("this user has no limit on threads")
    assert int(done.stdout) >= 2


@BACKENDS
def test_runs_go_on_after_each_allocation_that_fails(backend: str) -> None:
    pytest.importorskip("_testcapi")
    if sys.implementation.name != "cpython":
        pytest.skip("CPython's allocator")
    done = run_code(
        """
        import faulthandler, os, sys, threading
        from pathlib import Path
        import _testcapi
        from support.async_runs import Gate
        from support.waiting import until
        # CPython puts its allocators in place and back one pointer after the other, and a thread
        # that enters or leaves Python meanwhile crashes: all others wait, for the run before.
        gate = Gate()
        s = gate.session(sys.argv[1])

        def waits(task):
            try:
                stat = Path("/proc/self/task", task, "stat").read_text()
            except OSError:  # it has ended
                return False
            return stat.rpartition(")")[2].split()[0] == "S"

        def alone():
            others = set(os.listdir("/proc/self/task")) - {str(threading.get_native_id())}
            return all(map(waits, others))

        failed = 0
        for n in range(60):
            faulthandler.dump_traceback_later(300, exit=True)
            gate.close()
            before, future = s.run_async(), None
            assert until(lambda: all(alone() for _ in range(5)))
            try:
                _testcapi.set_nomemory(n, n + 1)
                try:
                    future = s.run_async()
                finally:
                    _testcapi.remove_mem_hooks()
            except MemoryError:
                failed += 1
            gate.open()
            before.result(120)
            if future is not None:
                future.result(120)
            s.run_async().result(120)
        s.close()
        faulthandler.cancel_dump_traceback_later()
        print(failed)
        """,
        backend,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3


@BACKENDS
def test_a_close_that_is_interrupted_closes_the_next_time(backend: str) -> None:
    done = run_code(
        """
        import sys
        import qnnrt
        from qnnrt import _core
        from support.interrupts import at_every_point
        from support.toy import relu_model
        made = []
        with qnnrt.Session(relu_model(), sys.argv[1]) as first:
            backend = first.backend  # kept, so that counts compare

        def begin():
            made[:] = [qnnrt.Session(relu_model(), sys.argv[1])]
            made[0].run_async()

        def again():
            made[0].close()
            assert made[0].context.closed
            live = _core.live_counts()
            assert (live["contexts"], live["graphs"], live["mem_handles"]) == (0, 0, 0), live

        at_every_point(lambda: made[0].close(), again, before=begin)
        """,
        backend,
    )
    assert done.returncode == 0, done.stderr
