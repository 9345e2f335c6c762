"""Sessions of many shapes: the state that their graphs share, and binaries of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt._native import _core
from support.many_shapes import check, given, live_graphs, saved


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path)


# ---- state --------------------------------------------------------------------------------------


def counting(path: Path, dims: tuple[Any, ...] = (1, 4)) -> Path:
    """total += the sum of x over the second dimension, which is open; y = 2 total."""

    def value(name: str, shape: tuple[Any, ...]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
        helper.make_node("Add", ["past_total", "s"], ["present_total"]),
        helper.make_node("Mul", ["present_total", "two"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "count",
        [value("x", (dims[0], "seq", 4)), value("past_total", dims)],
        [value("y", dims), value("present_total", dims)],
        [
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
            numpy_helper.from_array(np.float32(2), "two"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


TOTAL = {"past_total": "present_total"}


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_shapes_share_one_state(tmp_path: Path, backend: str) -> None:
    model = qnnrt.load(counting(tmp_path / "m.onnx"), shapes={"seq": "any"}, state=TOTAL)
    model = pickle.loads(pickle.dumps(model))
    with qnnrt.Session(model, backend, options={"max_shapes": 2}) as session:
        assert list(session.inputs) == ["x"]
        assert list(session.outputs) == ["y"]
        with pytest.raises(ValueError, match="no graph is made yet"):
            session.save_state()
        total = np.zeros((1, 4), np.float32)
        for seq in (5, 1, 1, 3, 5):  # the graph of the first one goes meanwhile
            x = given(1, seq)
            total += x.sum(1)
            found = session.run({"x": x})["y"]
            np.testing.assert_allclose(found, 2 * total, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(session.state["past_total"].array, total, rtol=1e-5)
        saved = session.save_state()
        session.reset_state()
        x = given(1, 1)
        np.testing.assert_allclose(session.run({"x": x})["y"], 2 * x.sum(1), rtol=1e-5)
        session.load_state(saved)
        assert session.state["past_total"].array.tolist() == saved["past_total"].tolist()
        mine = qnnrt.alloc_array((1, 4), np.float32)
        mine[...] = 1
        session.bind_state({"past_total": mine})
        for seq in (1, 2):
            session.run({"x": np.zeros((1, seq, 4), np.float32)})
            assert session.at({"seq": seq}).state["past_total"].array.ctypes.data == (
                mine.ctypes.data
            )
        assert mine.tolist() == [[1, 1, 1, 1]]
        assert {copy.tensor for copy in session.stats.copies} == {"x", "y"}


def test_memory_for_a_state_that_is_there_is_not_made(tmp_path: Path) -> None:
    def allocations() -> int:
        return sum(heap.allocations for heap in qnnrt.memory.heaps())

    model = qnnrt.load(counting(tmp_path / "m.onnx"), shapes={"seq": "any"}, state=TOTAL)
    with qnnrt.Session(model) as session:
        first = session.at({"seq": 2})
        first.state["past_total"].array[...] = 5
        _core.pool_trim(0)  # where memory would be taken from
        before = allocations()
        second = session.at({"seq": 3})
        assert allocations() == before + 2  # of x and y
        assert second.state["past_total"].array.tolist() == [[5, 5, 5, 5]]


def test_state_of_other_shapes_is_each_ones_own(tmp_path: Path) -> None:
    path = counting(tmp_path / "m.onnx", ("batch", 4))
    model = qnnrt.load(path, shapes={"batch": [1, 2], "seq": [1, 3]}, state="auto")
    with qnnrt.Session(model) as session:
        for batch, seq in ((1, 3), (2, 1), (2, 3), (1, 1)):
            session.run({"x": np.ones((batch, seq, 4), np.float32)})
        with pytest.raises(ValueError, match="state has other shapes in other shapes"):
            session.save_state()
        for batch in (1, 2):
            state = session.at({"batch": batch, "seq": 1}).state["past_total"]
            np.testing.assert_array_equal(state.array, np.full((batch, 4), 4))


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"past": "present_total"}, "no input 'past'"),
        ({"past_total": "z"}, "no output 'z'"),
        ({"past_total": "y", "x": "y"}, "y"),
        ({"x": "y"}, "x"),
        ("all", "'auto' or a mapping"),
    ],
)
def test_bad_pairs_are_one_error(tmp_path: Path, state: Any, why: str) -> None:
    path = counting(tmp_path / "m.onnx")
    with pytest.raises(qnnrt.ModelError, match=why):
        qnnrt.load(path, shapes={"seq": [1, 2]}, state=state)


# ---- binaries -----------------------------------------------------------------------------------


@pytest.fixture
def binary(path: Path, tmp_path: Path) -> Path:
    model = qnnrt.load(path, shapes={"batch": [1, 2], "seq": [3, 5]})
    with qnnrt.Session(model, options={"prepare_shapes": True}) as session:
        session.save_binary(tmp_path / "net.bin")
    return tmp_path / "net.bin"


def test_a_binary_has_a_graph_for_each_shape(binary: Path) -> None:
    names = tuple(f"net_batch_{b}_seq_{s}" for b in (1, 2) for s in (3, 5))
    assert qnnrt.load(binary).graphs == names
    with qnnrt.Session(binary) as session:
        for batch, seq in ((2, 5), (1, 3), (2, 5)):
            check(session, batch, seq)
        with pytest.raises(ValueError, match=r"no graph for x=\[3, 3, 4\].*Make the binary"):
            session.run({"x": given(3, 3)})
        assert session.stats.executes == 3


def test_one_graph_of_a_binary_is_chosen_by_its_name(binary: Path) -> None:
    with qnnrt.Session(binary, graph="net_batch_2_seq_3") as session:
        assert type(session) is qnnrt.Session
        check(session, 2, 3)
    some = ["net_batch_2_seq_3", "net_batch_1_seq_3"]
    with qnnrt.Session(qnnrt.load(binary), graph=some) as session:
        check(session, 1, 3)
        with pytest.raises(ValueError, match="no graph for"):
            session.run({"x": given(1, 5)})
    with pytest.raises(ValueError, match="no graph 'other'"):
        qnnrt.Session(binary, graph="other")


def test_graphs_of_a_binary_run_with_threads_of_their_own(binary: Path) -> None:
    with qnnrt.Session(binary, threads=1) as session:
        check(session, 1, 3)
        check(session, 2, 5)


def test_memory_of_a_binarys_shapes_is_limited_too(binary: Path) -> None:
    with qnnrt.Session(binary, options={"max_shapes": 1}) as session:
        for batch, seq in ((1, 3), (2, 3), (1, 3)):
            check(session, batch, seq)
            assert session.shapes == (session.at({"x": (batch, seq, 4)}).sizes,)
        assert live_graphs() == 4  # they stay in the context


def test_shapes_of_a_binary_share_one_state(tmp_path: Path) -> None:
    model = qnnrt.load(counting(tmp_path / "m.onnx"), shapes={"seq": [1, 3]}, state=TOTAL)
    with qnnrt.Session(model, options={"prepare_shapes": True}) as session:
        session.save_binary(tmp_path / "m.bin")
    with qnnrt.Session(tmp_path / "m.bin") as session:
        for seq in (3, 1, 3):
            found = session.run({"x": np.ones((1, seq, 4), np.float32)})
        np.testing.assert_array_equal(found["y"], np.full((1, 4), 14))


def test_nothing_to_write_is_said(path: Path, tmp_path: Path) -> None:
    with (
        qnnrt.Session(qnnrt.load(path, shapes="any")) as session,
        pytest.raises(ValueError, match="no graph is made yet"),
    ):
        session.save_binary(tmp_path / "none.bin")
