"""Fork: a child that uses its parent's objects is told so, and the parent goes on."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.outside import in_child
from support.parallel import running
from support.toy import relu_model

# Python and jax warn of forks beside threads: that is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork")


def test_a_session_in_a_child_raises_and_the_parents_goes_on():
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].array[...] = 2
        s.run()

        def child() -> None:
            for use in (
                s.run,
                lambda: s.run({}),
                s.run_async,
                s.profile,
                lambda: s.inputs["x"].bind(np.zeros((1, 16), np.float32)),
                lambda: s.context.create_graph("g"),
                lambda: s.backend.create_context(),
                lambda: s.inputs["x"].handle.handle,
            ):
                with pytest.raises(qnnrt.ForkError, match="parent of this forked process"):
                    use()
            s.close()

        in_child(child)
        s.inputs["x"].array[...] = 3
        s.run()
        assert (s.outputs["y"].array == 3).all()
        assert s.stats.executes == 2


def test_a_child_can_open_its_own():
    with qnnrt.Session(relu_model()) as s:
        s.run()

        def child() -> None:
            with qnnrt.Session(relu_model()) as own:
                own.inputs["x"].array[...] = 5
                own.run()
                assert (own.outputs["y"].array == 5).all()
                assert own.run_async().result(120) is None

        in_child(child)
        s.run()


def test_a_child_reads_its_parents_buffers_but_does_not_close_them():
    b = qnnrt.alloc(4096)
    a = b.array(4, np.int32)
    a[...] = 7

    def child() -> None:
        assert a.tolist() == [7, 7, 7, 7]
        assert b.array(4, np.int32).tolist() == [7, 7, 7, 7]
        a[0] = 8  # the memory is shared
        with pytest.raises(qnnrt.ForkError):
            b.close()

    in_child(child)
    assert a[0] == 8


def test_a_child_that_ends_normally_frees_nothing_of_its_parent():
    with qnnrt.Session(relu_model()) as s:
        backend = qnn.Backend.open("cpu")
        before = _core.live_counts()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                import atexit

                atexit._run_exitfuncs()
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert _core.live_counts() == before
        s.run()
        backend.close()


def test_a_fork_while_other_threads_run_leaves_the_child_usable():
    import threading

    with qnnrt.Session(relu_model((1, 1 << 14))) as s:
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                s.run()

        def child() -> None:
            with pytest.raises(qnnrt.ForkError):
                s.run()
            with qnnrt.Session(relu_model()) as own:
                own.run()

        with running(*[work] * 3):
            try:
                for _ in range(5):
                    in_child(child)
            finally:
                stop.set()
        s.run()
