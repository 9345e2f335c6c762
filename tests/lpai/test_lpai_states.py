"""State on lpai: quantized tensors that a graph updates, in aligned buffers or the scratch pool."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from qnnrt.model.dynamic import OpenInput

U8 = np.dtype(np.uint8)
SHAPE = (1, 8, 64)


def average() -> Model:
    """The mean of the state and the input becomes the state: the codes' own mean, since all have
    one encoding but for half of the scale."""
    own, half = Quantization(0.5, -10), Quantization(0.25, -10)
    tensors = {
        "past": Tensor("past", SHAPE, U8, quantization=own),
        "x": Tensor("x", SHAPE, U8, quantization=own),
        "sum": Tensor("sum", SHAPE, U8, quantization=Quantization(1.0, -10)),
        "y": Tensor("y", SHAPE, U8, quantization=own),
        "half": Tensor("half", (1,), U8, np.array([12], U8), half),
        "present": Tensor("present", SHAPE, U8, quantization=own),
    }
    nodes = [
        Node("add", "ElementWiseAdd", ["past", "x"], ["sum"]),
        Node("mean", "ElementWiseMultiply", ["sum", "half"], ["present"]),
        Node("relu", "Relu", ["present"], ["y"]),
    ]
    model = Model("average", tensors, nodes, ["past", "x"], ["y", "present"])
    model.set_state({"past": "present"})
    return model


@pytest.mark.parametrize("io", ["memhandle", "raw", "scratch"])
def test_state_goes_on_from_run_to_run_without_a_copy(io):
    with qnnrt.Session(average(), "lpai", io=io, strict=io == "memhandle") as s:
        assert list(s.inputs), list(s.outputs) == (["x"], ["y"])
        state = np.full(SHAPE, 10, U8)
        s.load_state({"past": state})
        rng = np.random.default_rng(0)
        for _ in range(6):
            x = rng.integers(10, 250, SHAPE).astype(U8)
            s.inputs["x"].array[...] = x
            s.run()
            wanted = state + (x.astype(int) - state) / 2
            got = s.state["past"].array
            assert np.abs(got - wanted).max() <= 1
            np.testing.assert_array_equal(s.outputs["y"].array, np.maximum(got, 10))
            state = got.astype(int).copy()
        assert s.stats.copied_bytes == 0


def test_a_loaded_binary_has_its_state_in_the_scratch_pool_too(tmp_path):
    with qnnrt.Session(average(), "lpai") as s:
        s.save_binary(tmp_path / "average.bin")
    with qnnrt.Session(tmp_path / "average.bin", "lpai", io="scratch") as s:
        assert list(s.state) == ["past"]
        s.reset_state()
        s.load_state({"past": np.full(SHAPE, 10, U8)})
        s.inputs["x"].array[...] = 30
        for wanted in (20, 25):
            s.run()
            assert (s.state["past"].array == wanted).all()


def window() -> Model:
    """One token of attention behind as many as the cache has rows: of LPAI's operations none puts a
    row where an index says, so that the rows move up by one and the new one is the last."""
    rows, size = 16, 32
    row, cache = (1, 1, size), (1, rows, size)
    own = Quantization(0.02, -128)
    tensors = {name: Tensor(name, row, U8, quantization=own) for name in ("q", "k", "v", "y")}
    nodes = []
    for name in ("k", "v"):
        past, kept, present = f"past.{name}", f"kept.{name}", f"present.{name}"
        tensors[past] = Tensor(past, cache, U8, quantization=own)
        tensors[kept] = Tensor(kept, (1, rows - 1, size), U8, quantization=own)
        tensors[present] = Tensor(present, cache, U8, quantization=own)
        ranges = np.array([[0, 1, 1], [1, rows, 1], [0, size, 1]], np.int32)
        along = {"axis": np.uint32(1)}
        nodes += [
            Node(kept, "StridedSlice", [past], [kept], {"ranges": ranges}),
            Node(present, "Concat", [kept, name], [present], along),
        ]
    scores, weights = Quantization(0.05, -128), Quantization(1 / 256, 0)
    tensors["scores"] = Tensor("scores", (1, 1, rows), U8, quantization=scores)
    tensors["weights"] = Tensor("weights", (1, 1, rows), U8, quantization=weights)
    nodes += [
        Node("scores", "MatMul", ["q", "present.k"], ["scores"], {"transpose_in1": True}),
        Node("weights", "Softmax", ["scores"], ["weights"]),
        Node("y", "MatMul", ["weights", "present.v"], ["y"]),
    ]
    inputs = ["past.k", "past.v", "q", "k", "v"]
    model = Model("window", tensors, nodes, inputs, ["y", "present.k", "present.v"])
    model.set_state({"past.k": "present.k", "past.v": "present.v"})
    return model


@pytest.mark.parametrize("io", ["memhandle", "raw", "scratch"])
def test_a_token_of_attention_copies_nothing_and_is_that_of_the_cpu(io):
    """More tokens than the window has rows, and a rewind to what was kept."""
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 256, (24, 3, 1, 1, 32)).astype(U8)
    past = np.zeros((2, 16, 32), U8)

    def step(session: qnnrt.Session, token: np.ndarray) -> np.ndarray:
        for name, x in zip("qkv", token, strict=True):
            session.inputs[name].array[...] = x
        session.run()
        return session.outputs["y"].array.copy()

    with (
        qnnrt.Session(window(), "lpai", io=io, strict=io == "memhandle") as lpai,
        qnnrt.Session(window(), "cpu") as cpu,
    ):
        for session in (lpai, cpu):
            session.load_state({f"past.{name}": past[:1] for name in "kv"})
        made = []
        for i, token in enumerate(tokens):
            if i == 20:
                saved = lpai.save_state()
            made.append(step(lpai, token))
            np.testing.assert_array_equal(made[-1], step(cpu, token))
            past = np.concatenate([past[:, 1:], token[1:, 0]], axis=1)
            for name, rows in zip("kv", past, strict=True):
                np.testing.assert_array_equal(lpai.state[f"past.{name}"].array[0], rows)
        assert len(np.unique(made)) > 16
        lpai.load_state(saved)
        for token, y in zip(tokens[20:], made[20:], strict=True):
            np.testing.assert_array_equal(step(lpai, token), y)
        assert lpai.stats.copied_bytes == 0


def averages() -> qnnrt.DynamicModel:
    """The mean of the state and of any number of rows becomes the state."""
    row = (1, 1, 64)

    def make(shapes: dict[str, tuple[int, ...]]) -> Model:
        own = Quantization(0.5, -10)
        tensors = {
            "past": Tensor("past", row, U8, quantization=own),
            "x": Tensor("x", shapes["x"], U8, quantization=own),
            "rows": Tensor("rows", row, U8, quantization=own),
            "sum": Tensor("sum", row, U8, quantization=Quantization(1.0, -10)),
            "half": Tensor("half", (1,), U8, np.array([12], U8), Quantization(0.25, -10)),
            "present": Tensor("present", row, U8, quantization=own),
            "y": Tensor("y", row, U8, quantization=own),
        }
        axes = {"axes": np.array([1], np.uint32), "keep_dims": True}
        nodes = [
            Node("rows", "ReduceMean", ["x"], ["rows"], axes),
            Node("add", "ElementWiseAdd", ["past", "rows"], ["sum"]),
            Node("mean", "ElementWiseMultiply", ["sum", "half"], ["present"]),
            Node("relu", "Relu", ["present"], ["y"]),
        ]
        return Model("averages", tensors, nodes, ["past", "x"], ["y", "present"])

    inputs = [OpenInput("past", row), OpenInput("x", (1, "rows", 64))]
    patterns = [(row, (1, None, 64))]
    model = qnnrt.DynamicModel("averages", "here", inputs, ["y", "present"], patterns, make, ())
    model.set_state({"past": "present"})
    return model


@pytest.mark.parametrize("io", ["memhandle", "raw"])
def test_graphs_of_many_shapes_update_one_state(io):
    """Two graphs at most: one goes and comes again."""
    state = np.full((1, 1, 64), 10)
    rng = np.random.default_rng(1)
    with qnnrt.Session(averages(), "lpai", io=io, options={"max_shapes": 2}) as s:
        s.at({"rows": 4})
        s.load_state({"past": state.astype(U8)})
        for rows in (4, 1, 3, 4, 1):
            x = rng.integers(10, 250, (1, rows, 64)).astype(U8)
            y = s.run({"x": x})["y"]
            got = s.state["past"].array
            assert np.abs(got - (state + x.mean(1, keepdims=True)) / 2).max() <= 2
            np.testing.assert_array_equal(y, np.maximum(got, 10))
            state = got.astype(int).copy()
        mine = qnnrt.alloc_array((1, 1, 64), U8)
        mine[...] = 10
        s.bind_state({"past": mine})
        for rows in (2, 1):
            s.run({"x": np.full((1, rows, 64), 90, U8)})
        assert np.abs(mine - 70.0).max() <= 1
        assert all(c.tensor in ("x", "y") for c in s.stats.copies)


def test_in_the_scratch_pool_each_shape_has_its_own_state():
    with qnnrt.Session(averages(), "lpai", io="scratch") as s:
        one, two = (s.at({"rows": rows}) for rows in (1, 2))
        for session, code in ((one, 90), (two, 50)):
            session.load_state({"past": np.full((1, 1, 64), 10, U8)})
            session.run({"x": np.full(session.inputs["x"].shape, code, U8)})
        assert np.abs(one.state["past"].array - 50.0).max() <= 1
        assert np.abs(two.state["past"].array - 30.0).max() <= 1
