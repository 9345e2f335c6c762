"""What an interrupt leaves behind: files closed, objects freed in their order, tools that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.outside import run_code

FILES = {
    "read_whole": "read_whole(path, 1 << 30)",
    "map_file": "map_file(path).close()",
    "read_file": "read_file(path, 'a model')",
}


@pytest.mark.parametrize("call", FILES.values(), ids=FILES)
def test_an_interrupt_at_any_point_leaves_no_file_open(call: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    done = run_code(
        """
        import gc, os, sys, warnings
        from qnnrt.importers.guard import read_file
        from qnnrt.model.binary import map_file
        from qnnrt.support.files import read_whole
        from support.interrupts import at_every_point
        warnings.simplefilter("ignore", ResourceWarning)  # of files that their end closes
        path = sys.argv[1]
        call = eval("lambda: " + sys.argv[2])
        call()
        fds = len(os.listdir("/proc/self/fd"))

        def after():
            gc.collect()
            assert len(os.listdir("/proc/self/fd")) == fds

        assert at_every_point(call, after) > 5
        """,
        str(path),
        call,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_what_is_garbage_together_is_freed_from_the_top(backend: str) -> None:
    """As after an interrupt in the middle of a ``close``: nobody has any of it any more."""
    done = run_code(
        """
        import gc, sys
        import qnnrt
        from qnnrt._native import _core
        from support.toy import relu_model
        gc.disable()
        pooled = ("buffers", "maps", "fds")  # memory that stays for the next session

        def live():
            return {k: n for k, n in _core.live_counts().items() if k not in pooled}

        before = live()
        backend = qnnrt.qnn.Backend.open(sys.argv[1])
        if sys.argv[1] == "htp":
            backend.set_perf_profile("balanced")
            backend.set_perf_profile("burst")
        session = qnnrt.Session(relu_model(), backend)
        session.run()
        ring = [backend, session, backend.create_profile(), backend.create_context()]
        ring.append(ring)
        del ring, backend, session
        for _ in range(4):  # what was kept goes one round later
            gc.collect()
        assert live() == before, live()
        """,
        backend,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interpreter_whose_close_was_interrupted_closes_the_next_time() -> None:
    pytest.importorskip("ai_edge_litert")  # which makes the toy
    done = run_code(
        """
        from qnnrt import tflite
        from qnnrt._native import _core
        from qnnrt.qnn import Backend
        from support.tflite.models import toy
        it = tflite.Interpreter(model_content=toy())
        it.allocate_tensors()
        it.invoke()
        close, tries = Backend.close, []

        def interrupted(self):
            tries.append(self)
            if len(tries) == 1:
                raise KeyboardInterrupt
            close(self)

        Backend.close = interrupted
        try:
            it.close()
        except KeyboardInterrupt:
            pass
        it.close()
        counts = _core.live_counts()
        assert (len(tries), counts["contexts"], counts["backends"]) == (2, 0, 0), counts
        it.close()
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_wait_in_net_run_leaves_the_completing_thread_alone_at_any_point() -> None:
    done = run_code(
        """
        from types import SimpleNamespace
        import qnnrt
        from qnnrt.cli._io_sets import IoSet
        from support.interrupts import at_every_point
        from support.toy import relu_model
        with qnnrt.Session(relu_model(), "htp") as s:
            graph = s.graph
            ready = SimpleNamespace(
                inputs=graph.inputs, outputs=graph.outputs, graph=graph, context=s.context
            )
            one = IoSet(ready, None)

            def call():
                one.start()
                one.wait()

            assert at_every_point(call, call) > 5
            one.close()
        """
    )
    assert done.returncode == 0, done.stderr


def test_threads_of_throughput_net_run_end_wherever_the_first_is_interrupted() -> None:
    """Also while it starts them and while it waits for their ends."""
    done = run_code(
        """
        import os
        from types import SimpleNamespace
        from qnnrt.cli.throughput_net_run import together
        from support.interrupts import at_every_point
        from support.waiting import until

        ended = []

        def work(gate, stop):
            gate.wait()
            stop.wait(0.002)
            ended.append(1)

        def all_ended():
            ended = until(lambda: len(os.listdir("/proc/self/task")) <= threads)
            assert ended, os.listdir("/proc/self/task")

        worker = SimpleNamespace(work=work, item=SimpleNamespace(name="t"), error=None)
        threads = len(os.listdir("/proc/self/task")) + 1  # the watchdog of the points
        assert at_every_point(lambda: together([worker, worker]), all_ended) > 5
        assert ended
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.other_fds  # the driver's
def test_kernels_are_made_without_code_that_drops_interrupts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyopencl looks for attributes of a program by functions of Python's, and drops what they
    raise."""
    gpu = pytest.importorskip("qnnrt.gpu")
    if why := gpu.why_not():
        pytest.skip(why)
    import pyopencl as cl

    import qnnrt
    from support.toy import conv_model

    asked: list[str] = []
    monkeypatch.setattr(cl.Program, "__getattr__", lambda _, name: asked.append(name))
    with qnnrt.Session(conv_model(), "gpu") as s:
        s.run()
    assert asked == []
