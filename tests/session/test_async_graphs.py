"""Asynchronous executions of graphs, and what of them processes keep."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.async_runs import Gate, graph_of
from support.outside import run_code
from support.toy import relu_model

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "htp"])
ASYNC = {"context": {"async_queue_depth": 4}}


@pytest.fixture
def backend() -> Iterator[qnn.Backend]:
    with qnn.Backend.open("htp") as b:
        yield b


def test_a_graph_executes_asynchronously_on_handles_arrays_and_buffers(backend):
    graph = graph_of(backend)
    values = np.arange(-8, 8, dtype=np.float32)
    buffers = [qnnrt.alloc(64) for _ in range(2)]
    handles = [graph.context.register(b, (16,), np.float32) for b in buffers]
    handles[0].array[...] = values
    out = np.zeros(16, np.float32)
    plain = qnnrt.alloc(64)
    futures = [
        graph.execute_async(handles[:1], handles[1:]),
        graph.execute_async([values], [out]),
        graph.execute_async({"x": handles[0]}, {"y": plain}),
    ]
    for f in futures:
        f.result(120)
    for result in (handles[1].array, out, plain.array((16,), np.float32)):
        assert (result == np.maximum(values, 0)).all()


def test_buffers_of_a_graph_in_flight_cannot_be_closed(backend):
    gate = Gate()
    graph = gate.graph(backend)
    x, y = qnnrt.alloc(64), qnnrt.alloc(64)
    with gate:
        future = graph.execute_async([x], [y])
        with pytest.raises(qnnrt.BufferInUseError, match="graph 'gated' in flight"):
            y.close()
    future.result(120)
    gc.collect()
    y.close()
    x.close()


def test_errors_of_the_call_are_raised_by_the_call(backend):
    graph = graph_of(backend)
    other = backend.create_context()
    foreign = other.register(qnnrt.alloc(64), (16,), np.float32)
    with pytest.raises(qnnrt.GraphError, match="another context") as e:
        graph.execute_async([foreign], [np.zeros(16, np.float32)])
    assert e.value.code == 6004


def test_a_profile_says_how_long_the_queue_took(backend):
    gate = Gate()
    graph = gate.graph(backend)
    x, y, z = (np.zeros(16, np.float32) for _ in range(3))
    with backend.create_profile("basic") as profile:
        with gate:
            future = graph.execute_async([x], [z], profile=profile)
            with pytest.raises(qnnrt.QnnError) as e:
                graph.execute([x], [y], profile=profile)
            assert e.value.code == 6032
        future.result(120)
        kinds = [event.kind for event in profile.events()]
        assert kinds[0] == "queue_wait"
        assert "execute" in kinds


def test_signals_and_profiles_in_flight_stay(backend):
    gate = Gate()
    graph = gate.graph(backend)
    x, y = (np.zeros(16, np.float32) for _ in range(2))
    signal, profile = backend.create_signal(abort=True), backend.create_profile()
    with gate:
        future = graph.execute_async([x], [y], signal=signal, profile=profile)
        for thing, code in ((signal, 9000), (profile, 12001)):
            with pytest.raises(qnnrt.QnnError) as e:
                thing.close()
            assert e.value.code == code
            assert not thing.closed
        del signal, profile, thing, e  # the execution keeps them
        gc.collect()
    assert future.result(120) is None
    del future
    gc.collect()
    assert _core.live_counts()["signals"] == 0


def test_finalize_takes_a_signal(backend):
    graph = backend.create_context().create_graph("g")
    x = graph.add_tensor("x", (16,), np.float32, type="app_write")
    y = graph.add_tensor("y", (16,), np.float32, type="app_read")
    graph.add_node("n", "Relu", [x], [y])
    with backend.create_signal(timeout_us=1) as late, pytest.raises(qnnrt.GraphError) as e:
        graph.finalize(signal=late)
    assert e.value.code == 6033
    graph.finalize()
    out = np.zeros(16, np.float32)
    graph.execute([np.ones(16, np.float32)], [out])
    assert (out == 1).all()


def test_an_environment_holds_its_handles(backend):
    assert backend.has_capability("bind_mem_handles")
    graph = graph_of(backend)
    handles = [graph.context.register(qnnrt.alloc(64), (16,), np.float32) for _ in range(2)]
    environment = graph.prepare_environment(handles[:1], handles[1:])
    with pytest.raises(qnnrt.MemError, match="execution environment") as e:
        _deregister(graph, handles[0])
    assert e.value.code == 1005
    handles[0].array[...] = 3
    graph.execute(handles[:1], handles[1:])
    assert (handles[1].array == 3).all()
    environment.close()
    graph.execute(handles[:1], handles[1:])
    environment = graph.prepare_environment({"x": handles[0]}, {})  # a part of the tensors
    handles[0].close()  # closes the environment first
    assert environment.closed
    with pytest.raises(qnnrt.GraphError) as e:
        graph.prepare_environment([np.zeros(16, np.float32)], {"y": handles[1]})
    assert e.value.code == 6004


def test_client_buffers_are_used_in_place(backend):
    assert backend.has_capability("populate_client_bufs")
    graph = graph_of(backend)
    arrays = graph.populate_environment().arrays
    assert {n: a.shape for n, a in arrays.items()} == {"x": (16,), "y": (16,)}
    arrays["x"][...] = np.arange(-8, 8)
    graph.execute([arrays["x"]], [arrays["y"]])
    graph.execute_async({"x": arrays["x"]}, {"y": arrays["y"]}).result(120)
    assert (arrays["y"] == np.maximum(np.arange(-8, 8), 0)).all()
    assert graph._library.graph_copies(graph.handle) == []
    graph.context.close()
    assert arrays["y"][15] == 7  # arrays keep their memory


def _deregister(graph: qnn.Graph, handle: qnn.MemHandle) -> None:
    graph._library.mem_deregister([handle.handle])


def test_the_interpreter_waits_for_runs_in_flight():
    result = run_code(
        """
        import numpy as np, qnnrt
        from support.async_runs import slow_model
        s = qnnrt.Session(slow_model(), "htp")
        done = []
        futures = [s.run_async(lambda f: done.append(f.exception())) for _ in range(5)]
        import atexit
        atexit.register(lambda: print("started"))
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_forked_child_has_futures_of_its_own():
    result = run_code(
        """
        import os, numpy as np, qnnrt, warnings
        from support.toy import relu_model
        # Python 3.12 and later warn of a fork beside threads, which is what this is about.
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        s = qnnrt.Session(relu_model(), "htp")
        s.run_async().result(120)
        pid = os.fork()
        if pid == 0:
            try:
                s.run_async()
                os._exit(1)
            except qnnrt.ForkError:
                pass
            own = qnnrt.Session(relu_model(), "htp")
            own.inputs["x"].array[...] = 2
            own.run_async().result(120)
            os._exit(0 if (own.outputs["y"].array == 2).all() else 2)
        assert os.waitpid(pid, 0)[1] == 0
        s.run_async().result(120)
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_nothing_is_left_of_many_runs():
    before = _core.live_counts()
    for _ in range(20):
        with qnnrt.Session(relu_model(), "htp") as s:
            signal = s.backend.create_signal(abort=True)
            for _ in range(20):
                s.run_async(signal=signal).result(120)
            assert _core.live_counts()["signals"] == before["signals"] + 1
            signal.close()
    gc.collect()
    after = _core.live_counts()
    assert {k: after[k] for k in ("signals", "contexts", "graphs", "mem_handles", "buffers")} == {
        k: before[k] for k in ("signals", "contexts", "graphs", "mem_handles", "buffers")
    }
