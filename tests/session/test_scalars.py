"""Inputs and outputs without dimensions: shape () at every way in and out."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt import gpu
from qnnrt.importers import onnx as importer
from support.onnx.models import model_of, node

F32 = np.float32


def model(**options: object) -> qnnrt.Model:
    """y = x + s, t = 2 s, and r = the sum of x; s, t and r have no dimensions."""
    proto = model_of(
        [
            node("Add", ["x", "s"], ["y"]),
            node("Mul", ["s", "two"], ["t"]),
            node("ReduceSum", ["x"], ["r"], keepdims=0),
        ],
        {"x": (2, 3), "s": ()},
        ["y", "t", "r"],
        {"two": F32(2)},
        17,
        {},
    )
    return importer.load(proto, **options)


X = np.arange(6, dtype=F32).reshape(2, 3)


@pytest.fixture(params=["cpu", "htp", pytest.param("gpu", marks=pytest.mark.foreign)])
def session(request):
    if request.param == "gpu" and (reason := gpu.why_not()):
        pytest.skip(reason)
    with qnnrt.Session(model(), request.param) as s:
        yield s
    s.backend.close()


def check(results: dict[str, np.ndarray], s: float) -> None:
    assert {n: r.shape for n, r in results.items()} == {"y": (2, 3), "t": (), "r": ()}
    assert all(isinstance(r, np.ndarray) and r.dtype == F32 for r in results.values())
    assert np.array_equal(results["y"], X + F32(s))
    assert (results["t"], results["r"]) == (F32(2 * s), F32(15))


@pytest.mark.parametrize(
    "scalar", [np.array(1.5, F32), F32(1.5), np.array([1.5], F32)], ids=["0-d", "numpy", "[1]"]
)
def test_a_fed_scalar_and_its_results(session, scalar) -> None:
    check(session.run({"x": X, "s": scalar}), 1.5)


def test_the_bound_tensors_have_no_dimensions(session) -> None:
    s, t = session.inputs["s"], session.outputs["t"]
    assert s.shape == t.shape == s.array.shape == t.array.shape == ()
    assert (s.nbytes, repr(s)) == (4, "<input 's' float32[scalar]>")
    s.array[...] = 2.5
    session.inputs["x"].array[...] = X
    session.run()
    assert t.array == F32(5)
    check({n: o.array for n, o in session.outputs.items()}, 2.5)


def test_scalars_are_run_in_the_background(session) -> None:
    session.inputs["x"].array[...] = X
    session.inputs["s"].array[...] = 3
    session.run_async().result()
    check({n: o.array for n, o in session.outputs.items()}, 3)
    session.inputs["s"].array[...] = 4
    asyncio.run(session.run_awaitable())
    check({n: o.array for n, o in session.outputs.items()}, 4)


def test_what_a_scalar_is_bound_to(session) -> None:
    session.inputs["x"].array[...] = X
    s = session.inputs["s"]
    for memory in (qnnrt.alloc_array((), F32), qnnrt.alloc_array((1,), F32)):
        s.bind(memory)
        assert s.array.shape == ()
        memory[...] = 7
        session.run()
        assert session.outputs["t"].array == F32(14)
    buffer = qnnrt.alloc(4096)
    s.bind(buffer)
    buffer.array((), F32)[...] = 8
    session.run()
    assert session.outputs["t"].array == F32(16)
    with pytest.raises(qnnrt.BindError, match=r"needs shape \[\], not \[2\]"):
        s.bind(qnnrt.alloc_array((2,), F32))
    with pytest.raises(qnnrt.BindError, match="needs elements of type float32"):
        s.bind(qnnrt.alloc_array((), np.int32))
    with pytest.raises(ValueError, match=r"needs float32\[\], not float32\[2\]"):
        session.run({"x": X, "s": np.zeros(2, F32)})


def test_a_handle_and_another_sessions_tensor() -> None:
    with qnnrt.Session(model()) as first, qnnrt.Session(model()) as second:
        with first.context.register(qnnrt.alloc(64), (1,), F32) as handle:
            first.inputs["s"].bind(handle)
            handle.array[...] = 6
            first.inputs["x"].array[...] = X
            first.run()
            check({n: o.array for n, o in first.outputs.items()}, 6)
            first.inputs["s"].bind(qnnrt.alloc_array((), F32))
        second.inputs["s"].bind(first.outputs["t"])
        first.inputs["s"].array[...] = 2
        first.run()
        second.inputs["x"].array[...] = X
        second.run()
        assert second.outputs["t"].array == F32(8)


def test_plain_memory_and_dlpack() -> None:
    with qnnrt.Session(model(), io="raw") as s:
        memory = np.array(3, F32)
        s.inputs["s"].bind(memory)
        s.inputs["x"].bind(X.copy())
        s.run()
        check({n: o.array for n, o in s.outputs.items()}, 3)
        taken = np.from_dlpack(s.outputs["t"].array)
        assert taken.shape == ()
        assert taken == F32(6)
        given = np.array(4, F32)
        s.outputs["t"].bind(given)
        s.run()
        assert given == F32(6)


def test_the_model_says_what_has_no_dimensions() -> None:
    m = model()
    assert [(n, t.shape) for n, t in m.tensors.items() if t.scalar] == [
        ("s", (1,)), ("t", (1,)), ("r", (1,)),
    ]  # fmt: skip
    assert str(m.tensors["s"]) == "s: float32[scalar]"
    m.check()
    again = pickle.loads(pickle.dumps(m))
    with qnnrt.Session(again) as s:
        check(s.run({"x": X, "s": F32(1)}), 1)
    m.tensors["x"].scalar = True
    with pytest.raises(qnnrt.ModelError, match=r"'x' is a scalar of shape \(2, 3\)"):
        m.check()


def test_a_context_binary_has_scalars_as_qnn_does(tmp_path: Path) -> None:
    """QNN's tensors have a dimension; the format has no place for more."""
    path = tmp_path / "x.bin"
    with qnnrt.Session(model(), "htp") as s:
        s.save_binary(path)
    with qnnrt.Session(path, "htp") as s:
        results = s.run({"x": X, "s": np.array([1], F32)})
        assert results["t"].shape == s.inputs["s"].shape == (1,)
        assert results["t"] == F32(2)


def test_a_scalar_that_is_an_input_and_an_output() -> None:
    proto = model_of(
        [node("Identity", ["s"], ["y"]), node("Squeeze", ["v"], ["w"])],
        {"s": (), "v": (1,)},
        ["y", "w"],
        {},
        17,
        {"s": TensorProto.INT64, "y": TensorProto.INT64},
    )
    with qnnrt.Session(importer.load(proto)) as session:
        results = session.run({"s": np.int64(5), "v": np.ones(1, F32)})
        assert (results["y"].shape, results["w"].shape) == ((), ())
        assert (results["y"], results["w"]) == (5, 1)
        with pytest.raises(ValueError, match=r"'v' needs float32\[1\], not float32\[\]"):
            session.run({"s": np.int64(5), "v": F32(1)})


def test_a_model_built_by_hand_may_have_them_too() -> None:
    m = model()
    for name in ("s", "t", "r"):
        m.tensors[name].scalar = False
    with qnnrt.Session(m) as s:
        assert s.run({"x": X, "s": np.ones(1, F32)})["t"].shape == (1,)
