"""Fork: a child that uses its parent's objects is told so, and the parent goes on."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.support.guard import Guard
from support.outside import in_child
from support.parallel import running
from support.toy import relu_model

# Python and jax warn of forks beside threads: that is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork")


def test_a_session_in_a_child_raises_and_the_parents_goes_on():
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].array[...] = 2
        s.run()
        b = s.inputs["x"].buffer

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
                lambda: s.context.get_or_register(b, (1, 16), np.float32, kind="shared_buffer"),
                s.reset_stats,
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


def open_relu() -> onnx.ModelProto:
    """y = max(x, 0), of any number of rows."""
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ("batch", 4))
        for name in "xy"
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)


@contextmanager
def every_guard_held() -> Iterator[None]:
    """By another thread, which gives them back at the end of the block."""
    held, done = threading.Event(), threading.Event()
    guards = [o for o in gc.get_objects() if type(o) is Guard]  # isinstance asks dead proxies

    def hold() -> None:
        with ExitStack() as stack:
            try:
                for guard in guards:
                    stack.enter_context(guard.lock)
            finally:
                held.set()
            done.wait()

    with running(hold):
        held.wait()
        try:
            yield
        finally:
            done.set()


def test_a_child_does_not_wait_for_what_another_thread_held(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    onnx.save(open_relu(), path)
    model = qnnrt.load(path, shapes="any")
    x = np.full((3, 4), 2, np.float32)
    with qnnrt.Session(relu_model()) as s, qnnrt.Session(model) as many:
        s.inputs["x"].array[...] = 2
        s.run()
        many.run({"x": x})
        one = many.at({"batch": 3})
        buffer = s.inputs["x"].buffer
        assert buffer is not None

        def child() -> None:
            signal.alarm(120)  # what waits for ever ends the child
            assert s.inputs["x"].buffer is buffer
            assert (s.inputs["x"].array == 2).all()
            assert (s.outputs["y"].array == 2).all()
            assert (one.outputs["y"].array == 2).all()
            for use in (
                s.run,
                lambda: s.run({}),
                lambda: s.inputs["x"].bind(np.zeros((1, 16), np.float32)),
                lambda: s.context.get_or_register(buffer, (1, 16), np.float32),
                lambda: many.run({"x": x}),
                one.run,
                lambda: many.stats,
                many.reset_stats,
            ):
                with pytest.raises(qnnrt.ForkError):
                    use()
            with qnnrt.Session(model) as own:  # the model is nobody's
                assert (own.run({"x": -x})["y"] == 0).all()
            repr(many)
            many.close()
            s.close()

        with every_guard_held():
            in_child(child)
        many.run({"x": x})
        s.run()


def test_a_child_that_is_forked_under_a_guard_leaves_it() -> None:
    guard = Guard()

    def child() -> None:
        signal.alarm(120)
        with guard.lock:
            pid = os.fork()
        with guard.lock:  # in either process
            pass
        if pid:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    in_child(child)
