"""Session: what it computes, binds, counts and refuses."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from functools import partial
from io import BytesIO

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Tensor
from support import reference
from support.parallel import in_threads, running
from support.toy import F32, add_model, conv_model, relu_model, tensors

IO = pytest.mark.parametrize("io", ["memhandle", "raw"])


@IO
@pytest.mark.parametrize("seed", range(3))
def test_a_convolution_is_right_on_bound_memory(io, seed):
    model = conv_model(seed)
    x = np.random.default_rng(seed + 100).standard_normal((1, 8, 8, 8)).astype(np.float32)
    with qnnrt.Session(model, io=io) as s:
        s.inputs["x"].array[...] = x
        assert s.run() is None
        np.testing.assert_allclose(
            s.outputs["y"].array, reference.run(model, {"x": x})["y"], 1e-4, 1e-5
        )


@pytest.mark.parametrize("prepare", ["memhandle", "raw"])
@IO
def test_every_combination_of_prepare_and_io_runs(prepare, io):
    with qnnrt.Session(add_model(), io=io, prepare=prepare) as s:
        declared = {t.mem_type for t in (*s.graph.inputs, *s.graph.outputs)}
        assert declared == {1 if prepare == "memhandle" else 0}
        assert (s.inputs["a"].handle is None) == (io == "raw")
        s.inputs["a"].array[...] = 2
        s.inputs["b"].array[...] = -5
        s.run()
        assert (s.outputs["w"].array == -3).all()
        assert (s.outputs["z"].array == 0).all()


def test_inputs_and_outputs_keep_the_models_order_and_cannot_be_replaced():
    with qnnrt.Session(add_model()) as s:
        assert list(s.inputs) == ["a", "b"]
        assert list(s.outputs) == ["w", "z"]
        with pytest.raises(TypeError):
            s.inputs["a"] = s.inputs["b"]  # type: ignore[index]
        t = s.inputs["a"]
        assert (t.name, t.shape, t.dtype, t.nbytes) == ("a", (4, 8), F32, 128)
        assert t.quantization is None
        assert t.buffer is not None
        assert t.buffer.address == t.array.ctypes.data
        assert t.handle is not None
        assert t.handle.buffer is t.buffer


def test_scalars_have_a_place_of_one_element():
    model = Model(
        "scalar",
        tensors(Tensor("x", (), F32), Tensor("y", (), F32)),
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )
    for io in ("raw", "memhandle"):
        with qnnrt.Session(model, io=io) as s:
            s.inputs["x"].array[...] = 3
            s.run()
            assert s.outputs["y"].array.shape == ()
            assert s.outputs["y"].array == 3


def test_feeding_returns_arrays_that_later_runs_leave_alone():
    with qnnrt.Session(relu_model()) as s:
        first = s.run({"x": np.full((1, 16), 1, np.float32)})["y"]
        second = s.run({"x": np.full((1, 16), 2, np.float32)})["y"]
        assert first[0, 0] == 1
        assert second[0, 0] == 2


@pytest.mark.parametrize(
    ("feeds", "error", "match"),
    [
        ({"q": np.zeros((1, 16), np.float32)}, KeyError, "'x'"),
        ({"x": np.zeros((1, 15), np.float32)}, ValueError, r"\[1, 16\].*\[1, 15\]"),
        ({"x": np.zeros((1, 16), np.float64)}, ValueError, "float32.*float64"),
    ],
)
def test_wrong_feeds_are_refused_before_anything_changes(feeds, error, match):
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].array[...] = 9
        with pytest.raises(error, match=match):
            s.run(feeds)
        assert (s.inputs["x"].array == 9).all()
        assert s.stats.executes == 0
        assert s.stats.copied_bytes == 0


# ---- bind


def test_raw_binding_takes_an_array_in_place():
    with qnnrt.Session(relu_model(), io="raw") as s:
        x = np.arange(-8, 8, dtype=np.float32).reshape(1, 16)
        y = np.full((1, 16), np.nan, np.float32)
        s.inputs["x"].bind(x)
        s.outputs["y"].bind(y)
        assert s.inputs["x"].array is x
        assert s.inputs["x"].buffer is None
        s.run()
        assert y.tolist() == np.maximum(x, 0).tolist()
        x[...] = 4
        s.run()
        assert (y == 4).all()
        assert s.stats.copied_bytes == 0


def test_handles_take_arrays_on_shared_buffers_wherever_they_lie():
    with qnnrt.Session(relu_model()) as s:
        pool = qnnrt.alloc(1 << 16)
        for offset in (0, 64, 4096, 8192 + 4):
            x = pool.array((1, 16), np.float32, offset)
            x[...] = offset
            s.inputs["x"].bind(x)
            assert s.inputs["x"].offset == offset
            assert s.inputs["x"].buffer is pool
            s.run()
            assert (s.outputs["y"].array == offset).all()
        assert s.stats.copied_bytes == 0


def test_binding_the_same_memory_again_registers_nothing_new():
    with qnnrt.Session(relu_model()) as s:
        frames = [qnnrt.alloc_array((1, 16)) for _ in range(3)]
        kept = []
        for x in frames:
            s.inputs["x"].bind(x)
            kept.append(s.inputs["x"].handle)
        before = s.stats.registrations
        for _ in range(5):
            for x in frames:
                s.inputs["x"].bind(x)
        assert s.stats.registrations == before == 2 + 3


@IO
def test_a_buffer_a_handle_and_an_fd_can_be_bound(io):
    with qnnrt.Session(relu_model(), io=io) as s:
        b = qnnrt.alloc(4096)
        b.array((1, 16), np.float32)[...] = 7
        s.inputs["x"].bind(b)
        s.run()
        assert (s.outputs["y"].array == 7).all()

        fd = os.memfd_create("test")
        try:
            os.ftruncate(fd, 8192)
            os.pwrite(fd, np.full(16, 8, np.float32).tobytes(), 4096)
            s.inputs["x"].bind((fd, 64, 4096))
        finally:
            os.close(fd)
        s.run()
        assert (s.outputs["y"].array == 8).all()

        if io == "memhandle":
            handle = s.context.register(b, (1, 16), np.float32, offset=128, kind="shared_buffer")
            handle.array[...] = 9
            s.inputs["x"].bind(handle)
            assert s.inputs["x"].handle is handle
            s.run()
            assert (s.outputs["y"].array == 9).all()


def test_one_sessions_output_is_anothers_input_without_a_copy():
    with qnnrt.Session(relu_model()) as first, qnnrt.Session(relu_model()) as second:
        second.inputs["x"].bind(first.outputs["y"])
        first.inputs["x"].array[...] = 6
        first.run()
        second.run()
        assert (second.outputs["y"].array == 6).all()
        assert first.stats.copied_bytes == second.stats.copied_bytes == 0


def test_an_output_can_be_bound_to_its_own_input():
    with qnnrt.Session(relu_model()) as s:
        s.outputs["y"].bind(s.inputs["x"])
        s.inputs["x"].array[...] = np.arange(-8, 8)
        s.run()
        assert s.inputs["x"].array.tolist() == np.maximum(np.arange(-8.0, 8), 0)[None].tolist()


def _misaligned() -> np.ndarray:
    return np.zeros(65, np.uint8)[1:].view(np.float32).reshape(1, 16)


def _read_only() -> np.ndarray:
    a = np.zeros((1, 16), np.float32)
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: np.zeros((1, 16), np.float64), "float32.*float64"),
        (lambda: np.zeros((16,), np.float32), r"\[1, 16\].*\[16\]"),
        (lambda: np.zeros((1, 32), np.float32)[:, ::2], r"C-contiguous.*\(64, 4\).*\(128, 8\)"),
        (_misaligned, "multiple of 4"),
        (_read_only, "writable"),
        (lambda: qnnrt.alloc(63), "64 bytes.*63"),
        (lambda: (0, 63), "64 bytes.*63"),
        (lambda: (0, 64, 0, 0), "tuple"),
        (lambda: object(), "object"),
        (lambda: [1.0] * 16, "list"),
    ],
    ids=["dtype", "shape", "strides", "align", "readonly", "small", "fd", "tuple", "obj", "list"],
)
def test_what_cannot_be_bound_says_what_is_needed_and_what_came(make, match):
    with qnnrt.Session(relu_model(), io="raw") as s:
        before = s.outputs["y"].array
        with pytest.raises(qnnrt.BindError, match=match) as e:
            s.outputs["y"].bind(make())
        assert e.value.tensor == "y"
        assert s.outputs["y"].array is before
        s.run()


def test_an_ordinary_array_cannot_be_a_memory_handle():
    with qnnrt.Session(relu_model()) as s:
        with pytest.raises(qnnrt.BindError, match="alloc_array"):
            s.inputs["x"].bind(np.zeros((1, 16), np.float32))
        wrapped = qnnrt.Buffer.from_array(np.zeros((1, 16), np.float32))
        with pytest.raises(qnnrt.BindError, match="shared buffer"):
            s.inputs["x"].bind(wrapped)


def test_handles_of_another_context_or_shape_are_refused():
    with qnnrt.Session(relu_model()) as s, qnnrt.Session(relu_model()) as other:
        with pytest.raises(qnnrt.BindError, match="another context"):
            s.inputs["x"].bind(other.inputs["x"].handle)
        b = qnnrt.alloc(4096)
        handle = s.context.register(b, (16,), np.float32)
        with pytest.raises(qnnrt.BindError, match=r"\[1, 16\].*\[16\]"):
            s.inputs["x"].bind(handle)
    with qnnrt.Session(relu_model(), io="raw") as s:
        context = s.backend.create_context()
        with pytest.raises(qnnrt.BindError, match="io='raw'"):
            s.inputs["x"].bind(context.register(b, (1, 16), np.float32))
        context.close()


# ---- options


def test_what_is_no_model_no_feed_or_no_number_is_named() -> None:
    """Newcomers' calls, each answered with what it takes instead."""
    with pytest.raises(TypeError, match=r"path of a file, not of a bytes: qnnrt.importers.onnx"):
        qnnrt.Session(b"model")  # type: ignore[arg-type]
    for given in (BytesIO(b"model"), None):
        with pytest.raises(TypeError, match=r"load takes a path, not the given .*onnx.load takes"):
            qnnrt.load(given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="threads must be a whole number, not '2'"):
        qnnrt.Session(relu_model(), threads="2")  # type: ignore[arg-type]
    with qnnrt.Session(relu_model()) as session:
        (name,) = session.inputs
        shape = session.inputs[name].shape
        with pytest.raises(TypeError, match=rf"names of inputs, {{'{name}': array}}, not a ndarr"):
            session.run(np.zeros(shape, np.float32))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r": np.asarray\(values, 'float32'\) converts them"):
            session.run({name: np.zeros(shape).tolist()})
        with pytest.raises(ValueError, match=r"not float32\[1\]$"):
            session.run({name: np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"io": "ram"}, "io must be"),
        ({"prepare": "ram"}, "prepare must be"),
        ({"threads": 0}, "threads"),
        ({"options": {"kernel": "auto"}}, "unknown option 'kernel'"),
        ({"options": {"kernels": "fast"}}, "kernels must be"),
        ({"threads": 1 << 32}, "threads must be a whole number"),
        ({"options": {"plan_milliseconds": -1}}, "plan_milliseconds must be a whole number"),
        ({"options": {"plan_milliseconds": "9"}}, "plan_milliseconds must be .*, not '9'"),
        ({"options": {"share_weights": 1}}, "share_weights' must be one of .*, not 1"),
        ({"options": {"keep_constants": "no"}}, "keep_constants' is True or False, not 'no'"),
        ({"options": {"byte_activations": "no"}}, "byte_activations' is True or False, not 'no'"),
        ({"options": {"prepare_shapes": 2}}, "prepare_shapes' is True or False, not 2"),
    ],
)
def test_bad_options_are_refused(kwargs, match):
    with pytest.raises(ValueError, match=match):
        qnnrt.Session(relu_model(), **kwargs)


def test_threads_and_kernels_reach_the_backend():
    x = np.random.default_rng(5).standard_normal((1, 8, 8, 8)).astype(np.float32)
    model = conv_model()
    for threads in (1, 2):
        with qnnrt.Session(model, threads=threads, options={"kernels": "portable"}) as s:
            np.testing.assert_allclose(
                s.run({"x": x})["y"], reference.run(model, {"x": x})["y"], 1e-4, 1e-5
            )
            steps = s.graph.describe()
            assert steps is not None
            assert "onednn" not in steps.lower()
    with pytest.raises(qnnrt.GraphError, match="1024"):
        qnnrt.Session(model, threads=100_000)


def test_a_session_stands_on_a_backend_given_to_it():
    with qnn.Backend.open("cpu") as backend:
        s = qnnrt.Session(relu_model(), backend)
        assert s.backend is backend
        s.run()
    assert s.closed


def test_sessions_share_one_backend():
    with qnnrt.Session(relu_model()) as a, qnnrt.Session(relu_model()) as b:
        assert a.backend is b.backend


@pytest.mark.parametrize("name", ["npu", "/nowhere/libQnnX.so"])
def test_an_unknown_backend_is_named(name):
    with pytest.raises(qnnrt.BackendNotFoundError, match=name):
        qnnrt.Session(relu_model(), name)


def test_an_invalid_model_is_refused_before_a_backend_sees_it():
    model = relu_model()
    model.nodes[0].inputs = ["nothing"]
    with pytest.raises(qnnrt.ModelError, match="nothing"):
        qnnrt.Session(model)


@pytest.mark.parametrize("shape", [(2**32,), (2, 2**62), (2**32 - 1, 2**30), (2**31, 2**31, 4)])
def test_a_tensor_that_no_memory_can_hold_is_refused_by_its_name(shape):
    model = relu_model()
    name = model.inputs[0]
    model.tensors[name].shape = shape
    with pytest.raises(qnnrt.ModelError, match=f"tensor '{name}' is too large"):
        qnnrt.Session(model)


# ---- threads, async


def test_runs_of_one_session_queue():
    with qnnrt.Session(conv_model()) as s:
        s.run()
        expected = s.outputs["y"].array.copy()
        in_threads(*[lambda: [s.run() for _ in range(200)]] * 4)
        assert s.stats.executes == 801
        assert (s.outputs["y"].array == expected).all()


def test_feeds_of_several_threads_do_not_mix():
    wrong = []
    with qnnrt.Session(relu_model((1, 4096))) as s:

        def work(value: float) -> None:
            x = np.full((1, 4096), value, np.float32)
            outs = (s.run({"x": x})["y"] for _ in range(100))
            wrong.extend(value for y in outs if not (y == value).all())

        in_threads(*(partial(work, float(v)) for v in range(4)))
        assert not wrong
        assert s.stats.executes == 400


def test_sessions_run_at_the_same_time():
    sessions = [qnnrt.Session(conv_model(seed)) for seed in range(3)]
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)
    for s in sessions:
        s.inputs["x"].array[...] = x
    in_threads(*(lambda s=s: [s.run() for _ in range(300)] for s in sessions))
    for seed, s in enumerate(sessions):
        np.testing.assert_allclose(
            s.outputs["y"].array, reference.run(conv_model(seed), {"x": x})["y"], 1e-4, 1e-5
        )
        s.close()


def test_run_async_runs_in_order_and_calls_back():
    with qnnrt.Session(relu_model()) as s:
        s.inputs["x"].array[...] = 3
        done = threading.Event()
        futures = [s.run_async() for _ in range(10)]
        last = s.run_async(lambda f: done.set())
        assert last.result(120) is None
        assert done.wait(120)
        assert all(f.done() for f in futures)
        assert (s.outputs["y"].array == 3).all()
        assert s.stats.executes == 11


def test_run_awaitable_leaves_the_event_loop_free():
    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            for _ in range(5):
                await asyncio.sleep(0)
                ticks += 1

        with qnnrt.Session(relu_model()) as s:
            await asyncio.gather(tick(), *(s.run_awaitable() for _ in range(5)))
            assert s.stats.executes == 5
        return ticks

    assert asyncio.run(main()) == 5


def test_closing_waits_for_runs_in_flight():
    s = qnnrt.Session(conv_model())
    futures = [s.run_async() for _ in range(50)]
    s.close()
    assert all(f.done() and f.exception() is None for f in futures)


def test_close_races_with_runs_without_harm():
    for _ in range(10):
        s = qnnrt.Session(conv_model())
        outcome: list[BaseException] = []

        def work(s: qnnrt.Session = s, outcome: list[BaseException] = outcome) -> None:
            try:
                while True:
                    s.run()
            except qnnrt.ClosedError as e:
                outcome.append(e)

        with running(*[work] * 3):
            s.close()
        assert len(outcome) == 3


# ---- counting


def test_stats_count_and_reset():
    with qnnrt.Session(relu_model()) as s:
        for _ in range(3):
            s.run()
        stats = s.stats
        assert stats.executes == 3
        assert stats.execute_seconds > 0
        assert stats.registrations == 2
        assert (stats.copied_bytes, stats.copies, stats.reserved_bytes) == (0, (), 0)
        assert (stats.reserved_at, stats.fallback) == (None, None)
        s.run({"x": np.zeros((1, 16), np.float32)})
        copies = {(name, direction, n) for name, direction, n, _ in s.stats.copies}
        assert copies == {("x", "in", 64), ("y", "out", 64)}
        assert s.stats.copied_bytes == 128
        s.reset_stats()
        stats = s.stats
        assert (stats.executes, stats.copied_bytes, stats.registrations) == (0, 0, 0)
        assert stats.execute_seconds == 0


def test_a_profile_names_the_nodes():
    with qnnrt.Session(conv_model()) as s:
        events = s.profile()
        kinds = [event.kind for top in events for _, event in top.walk()]
        assert "execute" in kinds
        assert "node" in kinds
        assert all(event.unit for event in events)
        assert s.stats.executes == 1
        basic = [event for top in s.profile("basic") for _, event in top.walk()]
        assert len(basic) < len(kinds)


def test_the_class_has_the_parameters_that_its_sessions_take() -> None:
    """Completion and help ask for them, though sessions of many shapes are of another class."""
    parameters = inspect.signature(qnnrt.Session).parameters
    assert list(parameters)[:2] == ["model", "backend"]
    assert {"io", "strict", "threads", "precision", "options"} <= set(parameters)


@IO
def test_numpy_and_dlpack_take_a_tensor_of_a_session_as_its_memory(io):
    with qnnrt.Session(add_model(), io=io) as s:
        bound = s.inputs["a"]
        for array in (np.asarray(bound), np.from_dlpack(bound)):
            assert np.shares_memory(array, bound.array)
            assert array.shape == bound.shape
            assert array.dtype == bound.dtype
        assert np.asarray(bound, np.float64).dtype == np.float64
        assert not np.shares_memory(np.array(bound), bound.array)
        bound.array[...] = -3
        found = s.run({"a": bound, "b": np.ones(bound.shape, np.float32)})
        assert (found["w"] == -2).all()
        del array
    with pytest.raises(qnnrt.ClosedError):
        np.asarray(bound)
