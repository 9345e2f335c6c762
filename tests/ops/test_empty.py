"""Tensors without elements: inputs and outputs of graphs, and what ops make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt import qnn
from qnnrt.importers import onnx as importer

Arrays = tuple[Any, ...]


def f(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.uint32)


NONE = np.empty((0,), np.int32)
AXIS1 = {"axis": np.uint32(1)}
REDUCED = {"axes": ints(1)}
PAD = {
    "scheme": np.uint32(0),
    "pad_amount": ints([0, 0], [1, 2]),
    "pad_constant_value": np.float32(2.5),
}
WINDOW = {"stride": ints(1, 1), "pad_amount": ints([0, 0], [0, 0])}

CASES: list[tuple[str, Arrays, dict[str, Any], Callable[..., np.ndarray]]] = [
    ("Concat", (f(1, 0, 4), f(1, 2, 4)), AXIS1, lambda a, b: b),
    ("Concat", (f(1, 0, 4), f(1, 0, 4)), AXIS1, lambda a, b: a),
    ("Concat", (f(1, 2, 4), f(1, 0, 4), f(1, 1, 4)), AXIS1, lambda *a: np.concatenate(a, 1)),
    ("MatMul", (f(2, 0), f(0, 3)), {}, np.matmul),
    ("MatMul", (f(2, 5, 0), f(2, 0, 3)), {}, np.matmul),
    ("MatMul", (f(0, 4), f(4, 3)), {}, np.matmul),
    ("MatMul", (f(2, 4), f(4, 0)), {}, np.matmul),
    ("MatMul", (f(2, 0), f(3, 0)), {"transpose_in1": True}, lambda a, b: a @ b.T),
    ("Relu", (f(0, 3),), {}, lambda a: a),
    ("Softmax", (f(2, 0),), {}, lambda a: a),
    ("ReduceSum", (f(2, 0, 3),), REDUCED, lambda a: a.sum(1)),
    ("ReduceMean", (f(2, 0, 3),), REDUCED, lambda a: np.full((2, 3), np.nan)),
    ("ReduceMax", (f(2, 0, 3),), REDUCED, lambda a: np.full((2, 3), -np.inf)),
    ("ReduceMin", (f(2, 0, 3),), REDUCED, lambda a: np.full((2, 3), np.inf)),
    ("ReduceProd", (f(2, 0, 3),), REDUCED, lambda a: a.prod(1)),
    ("ReduceSum", (f(2, 0, 3),), {"axes": ints(2)}, lambda a: a.sum(2)),
    ("Transpose", (f(2, 0, 3),), {"perm": ints(2, 1, 0)}, lambda a: a.transpose(2, 1, 0)),
    ("Reshape", (f(2, 0, 3),), {}, lambda a: a.reshape(0, 5)),
    ("Pad", (f(2, 0),), PAD, lambda a: np.full((2, 3), 2.5)),
    ("Gather", (f(3, 4), NONE), {"axis": np.int32(0)}, lambda a, i: a[i]),
    ("ScatterNd", (f(3, 4), NONE.reshape(0, 1), f(0, 4)), {}, lambda a, i, u: a),
    ("ScatterElements", (f(3, 4), NONE.reshape(0, 4), f(0, 4)), {"axis": np.uint32(0)},
     lambda a, i, u: a),
    ("StridedSlice", (f(3, 4),), {"ranges": np.array([[0, 3, 1], [2, 2, 1]], np.int32)},
     lambda a: a[:, 2:2]),
    ("ElementWiseAdd", (f(0, 4), f(1, 4)), {}, np.add),
    ("CumulativeSum", (f(0, 4),), {"axis": np.uint32(0)}, lambda a: a),
    ("LayerNorm", (f(0, 4), f(4)), REDUCED, lambda a, b: a),
    ("Conv2d", (f(0, 4, 4, 2), f(3, 3, 2, 3)), WINDOW, lambda a, b: f(0, 2, 2, 3)),
    ("Tile", (f(2, 0),), {"multiples": ints(2, 3)}, lambda a: f(4, 0)),
    ("Cast", (f(2, 0),), {}, lambda a: a),
]  # fmt: skip


@pytest.fixture(params=["cpu", "htp"])
def context(request: pytest.FixtureRequest) -> Iterator[qnn.Context]:
    with qnn.Backend.open(request.param) as backend, backend.create_context() as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{[a.shape for a in c[1]]}")
def test_ops_take_what_has_no_elements(context: qnn.Context, case: Any) -> None:
    op, arrays, params, reference = case
    expected = reference(*arrays)
    graph = context.create_graph("g")
    inputs = [
        graph.add_tensor(f"i{i}", a.shape, a.dtype, type="app_write") for i, a in enumerate(arrays)
    ]
    out = graph.add_tensor("o", expected.shape, np.float32, type="app_read")
    graph.add_node("n", op, inputs, [out], params)
    graph.finalize()
    found = np.full(expected.shape, 7, np.float32)
    graph.execute(list(arrays), [found])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


W, R, B = f(5, 4), f(5, 5), f(3, 6, 4)
LEFT_OUT: list[tuple[str, Arrays, dict[str, Any], list[tuple[int, ...]]]] = [
    ("Lstm", (B, W, W, W, R, R, R, *[None] * 9, W, R), {"time_major": False},
     [(3, 6, 5), *[(3, 5)] * 2, *[(3, 6, 5)] * 5]),
    ("Gru", (B, W, W, W, R, R, R), {"time_major": False}, [(3, 6, 5), (1, 3, 5)]),
    ("NonMaxSuppression", (f(2, 9, 4), f(2, 3, 9)),
     {"iou_threshold": np.float32(0.5), "max_boxes_selected": np.uint32(3)}, [(18, 3), (1,)]),
]  # fmt: skip


@pytest.mark.parametrize("case", LEFT_OUT, ids=lambda c: c[0])
def test_an_output_without_elements_is_one_left_out(context: qnn.Context, case: Any) -> None:
    op, arrays, params, shapes = case
    types = [np.int32, np.uint32] if op.startswith("Non") else [np.float32] * len(shapes)

    def run(empty: bool) -> np.ndarray:
        graph = context.create_graph(f"empty {empty}")
        inputs = [
            None if a is None else graph.add_tensor(f"i{i}", a.shape, a.dtype, type="app_write")
            for i, a in enumerate(arrays)
        ]
        outs = [
            graph.add_tensor(f"o{i}", (0, 1) if i and empty else s, types[i], type="app_read")
            for i, s in enumerate(shapes)
        ]
        graph.add_node("n", op, inputs, outs, params)
        graph.finalize()
        memory = np.full((len(shapes), 1000), 77, np.uint32)
        results = [
            m[: np.prod(t.shape)].view(t.dtype).reshape(t.shape)
            for m, t in zip(memory, outs, strict=True)
        ]
        graph.execute([a for a in arrays if a is not None], results)
        assert not empty or (memory[1:] == 77).all()
        return results[0]

    np.testing.assert_array_equal(run(True), run(False))


def test_what_is_empty_between_nodes_is_there_after_a_round_trip(context: qnn.Context) -> None:
    graph = context.create_graph("g")
    x = graph.add_tensor("x", (1, 0, 4), np.float32, type="app_write")
    z = graph.add_tensor("z", (1, 2, 4), np.float32, type="app_write")
    r = graph.add_tensor("r", (1, 0, 4), np.float32)
    y = graph.add_tensor("y", (1, 2, 4), np.float32, type="app_read")
    e = graph.add_tensor("e", (1, 0, 4), np.float32, type="app_read")
    graph.add_node("r", "Relu", [x], [r])
    graph.add_node("e", "Tanh", [r], [e])
    graph.add_node("c", "Concat", [r, z], [y], {"axis": np.uint32(1)})
    graph.finalize()
    nothing, some = f(1, 0, 4), f(1, 2, 4)
    with qnn.Context.from_binary(context.backend, context.binary()) as other:
        for one in (graph, other.graph("g")):
            found = np.zeros_like(some)
            one.execute({"x": nothing, "z": some}, {"y": found, "e": nothing.copy()})
            np.testing.assert_array_equal(found, some)
            assert {c.tensor for c in one.copies} <= {"z", "y"}


def test_a_registration_is_of_memory(context: qnn.Context) -> None:
    buffer = qnnrt.alloc(64)
    with pytest.raises(qnnrt.MemError, match="has no memory, and is given as RAW"):
        context.register(buffer, (2, 0), np.float32, kind="shared_buffer")


# ---- models -------------------------------------------------------------------------------------

WEIGHTS = f(4, 4)


def decoder() -> onnx.ModelProto:
    """Attention of `x` to what was before and to itself; what has been is an output, too."""

    def value(name: str, dims: list[Any] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["k"]),
        helper.make_node("Concat", ["past", "k"], ["present"], axis=1),
        helper.make_node("Transpose", ["present"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "present"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [value("x", ["b", "t", 4]), value("past", ["b", "p", 4])],
        [value("y", None), value("present", None)],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def decoded(x: np.ndarray, past: np.ndarray) -> Arrays:
    present = np.concatenate([past, x @ WEIGHTS], 1)
    scores = x @ present.transpose(0, 2, 1)
    shares = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    shares /= shares.sum(-1, keepdims=True)
    return shares @ present, present


@pytest.mark.parametrize("backend", ["cpu", "htp"])
@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_a_cache_grows_from_nothing(backend: str, io: str) -> None:
    model = importer.load(decoder(), shapes="any")
    with qnnrt.Session(model, backend, io=io) as session:
        past = f(2, 0, 4)
        for length in (5, 1, 0, 2):
            x = f(2, length, 4)
            found = session.run({"x": x, "past": past})
            y, past = decoded(x, past)
            np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found["present"], past, rtol=1e-5, atol=1e-5)
        assert all(copy.nbytes > 0 for copy in session.stats.copies)


def test_a_tensor_without_elements_is_bound_as_it_is() -> None:
    model = importer.load(decoder(), shapes="any")
    with qnnrt.Session(model, "htp", strict=True) as session:
        one = session.at({"b": 1, "t": 0, "p": 3})
        x = one.inputs["x"]
        assert x.array.shape == (1, 0, 4)
        assert x.handle is None
        x.bind(np.empty((1, 0, 4), np.float32))
        with pytest.raises(qnnrt.BindError, match=r"needs shape \[1, 0, 4\]"):
            x.bind(np.empty((0, 1, 4), np.float32))
        past = qnnrt.alloc_array((1, 3, 4), np.float32)
        past[...] = f(1, 3, 4)
        one.inputs["past"].bind(past)
        one.run()
        np.testing.assert_array_equal(one.outputs["present"].array, past)
        assert one.outputs["y"].array.shape == (1, 0, 4)
        assert one.stats.copied_bytes == 0


def test_a_graph_of_nothing_runs() -> None:
    model = importer.load(decoder(), shapes={"b": 0, "t": 2, "p": 1})
    with qnnrt.Session(model) as session:
        found = session.run({"x": f(0, 2, 4), "past": f(0, 1, 4)})
        assert found["y"].shape == (0, 2, 4)
        assert found["present"].shape == (0, 3, 4)
        session.run_async().result()
