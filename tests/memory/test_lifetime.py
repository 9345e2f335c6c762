"""Who keeps whom alive, and what may be closed when."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.outside import run_code
from support.toy import add_model, conv_model, relu_model


def test_a_view_keeps_its_buffer():
    b = qnnrt.alloc(4096)
    a = b.array(1024, np.float32)
    gone = weakref.ref(b)
    del b
    gc.collect()
    a[...] = 7
    assert gone() is not None
    del a
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b.array(16, np.uint8),
        lambda b: b.array((4, 4), np.uint8)[1:, 2:].T,
        memoryview,
        np.asarray,
        np.from_dlpack,
        lambda b: np.frombuffer(b, np.uint8),
    ],
    ids=["array", "slice", "memoryview", "asarray", "dlpack", "frombuffer"],
)
def test_close_refuses_while_a_view_is_left_and_says_so(view):
    b = qnnrt.alloc(64)
    v = view(b)
    with pytest.raises(qnnrt.BufferInUseError, match="1 view") as e:
        b.close()
    assert len(e.value.holders) == 1
    assert not b.closed
    del v
    gc.collect()
    b.close()
    assert b.closed
    b.close()


def test_close_names_the_registration_that_holds_the_buffer():
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        b = qnnrt.alloc(4096)
        handle = context.register(b, (4, 4), np.float32)
        with pytest.raises(qnnrt.BufferInUseError, match=r"memory handle .*float32\[4, 4\]"):
            b.close()
        handle.close()
        b.close()


def test_a_closed_buffer_says_so():
    b = qnnrt.alloc(64)
    b.close()
    for use in (
        lambda: memoryview(b),
        lambda: b.array(1, np.uint8),
        lambda: b.fd,
        lambda: b.address,
        lambda: b.holds(),
        lambda: b.__dlpack__(),
        lambda: b.cpu_access(),
        lambda: b.check_alive(),
        lambda: b.__enter__(),
    ):
        with pytest.raises(qnnrt.ClosedError, match="64 bytes is closed"):
            use()
    assert "closed" in repr(b)


def test_children_are_closed_before_what_they_stand_on():
    backend = qnn.Backend.open("cpu")
    context = backend.create_context()
    graph = context.create_graph("g")
    b = qnnrt.alloc(4096)
    handle = context.register(b, (16,), np.float32)
    profile = backend.create_profile()
    backend.close()
    for thing in (backend, context, graph, handle, profile):
        assert thing.closed
        with pytest.raises(qnnrt.ClosedError, match="is closed"):
            thing.handle  # noqa: B018
    backend.close()
    b.close()


def test_a_child_keeps_its_parents():
    handle = (
        qnn.Backend.open("cpu")
        .create_context()
        .register(qnnrt.alloc(4096), (16,), np.float32, kind="shared_buffer")
    )
    gc.collect()
    assert handle.array.shape == (16,)
    assert not handle.context.closed
    assert not handle.context.backend.closed


def test_dropping_everything_frees_everything():
    start = _core.live_counts()
    s = qnnrt.Session(conv_model())
    s.run()
    assert _core.live_counts()["graphs"] == start["graphs"] + 1
    del s
    gc.collect()
    now = _core.live_counts()
    assert (now["graphs"], now["contexts"], now["mem_handles"], now["backends"]) == (
        start["graphs"],
        start["contexts"],
        start["mem_handles"],
        start["backends"],
    )


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_a_backend_goes_with_its_device_and_log_when_nobody_uses_it(name):
    before = _core.live_counts()
    backend = qnn.Backend.open(name)
    assert backend.has_device == (name == "htp")
    context = backend.create_context()
    assert _core.live_counts()["backends"] == before["backends"] + 1
    del backend, context
    gc.collect()
    assert _core.live_counts() == before


def test_sessions_die_by_reference_count_alone():
    gc.disable()
    try:
        s = qnnrt.Session(relu_model())
        gone = weakref.ref(s)
        del s
        assert gone() is None
    finally:
        gc.enable()


def test_arrays_outlive_their_session():
    with qnnrt.Session(relu_model()) as s:
        x, y = s.inputs["x"].array, s.outputs["y"].array
        x[...] = -1
        x[0, 3] = 5
        s.run()
    gc.collect()
    assert y[0, 3] == 5
    x[...] = 2


def test_a_closed_session_says_so():
    s = qnnrt.Session(relu_model())
    x = s.inputs["x"]
    s.close()
    s.close()
    assert s.closed
    for use in (
        s.run,
        lambda: s.run({"x": np.zeros((1, 16), np.float32)}),
        s.run_async,
        s.profile,
        lambda: x.array,
        lambda: x.bind(np.zeros((1, 16), np.float32)),
        s.__enter__,
    ):
        with pytest.raises(qnnrt.ClosedError, match="closed"):
            use()
    assert s.stats.executes == 0


def test_closing_the_context_under_a_session_closes_the_session():
    s = qnnrt.Session(relu_model())
    s.context.close()
    assert s.closed
    with pytest.raises(qnnrt.ClosedError):
        s.run()


def test_a_failed_session_leaves_nothing():
    model = relu_model()
    model.nodes[0].type = "NoSuchOp"
    with pytest.raises(qnnrt.QnnError, match="NoSuchOp"):
        qnnrt.Session(model)


def test_bound_memory_cannot_be_closed():
    with qnnrt.Session(add_model()) as s:
        b = qnnrt.alloc(4096)
        s.inputs["a"].bind(b)
        with pytest.raises(qnnrt.BufferInUseError):
            b.close()
        s.inputs["a"].bind(qnnrt.alloc_array((4, 8)))
        gc.collect()
        b.close()


@pytest.mark.parametrize(
    "end",
    [
        "",
        "import sys; sys.exit(0)",
        "s.inputs = None",
        "import builtins; builtins.kept = (s, x, b, view, capsule)",
        "cycle = [s, b]; cycle.append(cycle); del s, b",
        "f = s.run_async()",
        # A thread that comes too late finds the session closed and says so: no matter here.
        (
            "import threading; threading.excepthook = lambda _: None; "
            "threading.Thread(target=s.run, daemon=True).start()"
        ),
    ],
    ids=["plain", "exit", "mangled", "builtins", "cycle", "async", "daemon"],
)
def test_the_interpreter_goes_down_silently_with_everything_open(end):
    result = run_code(
        f"""
        import numpy as np, qnnrt
        from support.toy import relu_model
        s = qnnrt.Session(relu_model())
        x = s.inputs["x"].array
        s.run()
        b = qnnrt.alloc(4096)
        view = memoryview(b)
        capsule = b.__dlpack__(max_version=(1, 0))
        array = np.from_dlpack(b)
        {end}
        """
    )
    assert (result.returncode, result.stderr) == (0, "")
