"""Sessions of many shapes: the graph of the shape that comes in, within limits, in one context."""

from __future__ import annotations

import gc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt import _core
from qnnrt.model.dynamic import OpenInput
from support.lpai_models import quantized_relu
from support.vendor import vendor_library

WEIGHTS = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)


def network(dims: tuple[Any, ...] = ("batch", "seq", 4)) -> onnx.ModelProto:
    """y = relu(x @ w) + sum over the second dimension of x @ w, z = x."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("ReduceSum", ["p", "axes"], ["s"]),
        helper.make_node("Add", ["r", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(WEIGHTS, "w"),
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(x: np.ndarray) -> np.ndarray:
    p = x @ WEIGHTS
    return np.maximum(p, 0) + p.sum(1, keepdims=True)


def given(batch: int, seq: int) -> np.ndarray:
    return np.random.default_rng(batch * 100 + seq).standard_normal((batch, seq, 4), np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    onnx.save(network(), file)
    return file


def check(session: Any, batch: int, seq: int) -> None:
    x = given(batch, seq)
    found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def live_graphs() -> int:
    return _core.live_counts()["graphs"]


# ---- what load gives ----------------------------------------------------------------------------


def test_lists_of_sizes_are_all_their_combinations(path: Path) -> None:
    model = qnnrt.load(path, shapes={"batch": [1, 4], "seq": [2, 5, 9]})
    assert isinstance(model, qnnrt.DynamicModel)
    assert model.shapes == tuple({"batch": b, "seq": s} for b in (1, 4) for s in (2, 5, 9))
    assert model.listed is not None
    assert model.listed[1] == ((1, 5, 4),)
    assert model.at({"batch": 4, "seq": 9}).tensors["y"].shape == (4, 9, 3)


def test_a_list_of_dicts_is_the_combinations_that_it_lists(path: Path) -> None:
    model = qnnrt.load(path, shapes=[{"batch": 1, "seq": 8}, {"batch": [2, 3], "seq": 1}])
    assert model.shapes == (
        {"batch": 1, "seq": 8}, {"batch": 2, "seq": 1}, {"batch": 3, "seq": 1},
    )  # fmt: skip


def test_shapes_of_inputs_are_listed_as_such(path: Path) -> None:
    model = qnnrt.load(path, shapes={"x": [(1, 2, 4), (3, 5, 4)]})
    assert model.listed == (((1, 2, 4),), ((3, 5, 4),))
    assert isinstance(qnnrt.load(path, shapes={"x": [1, 2, 4]}), qnnrt.Model)


def test_any_leaves_open_what_it_stands_for(path: Path) -> None:
    assert qnnrt.load(path, shapes="any").shapes == ({"batch": "any", "seq": "any"},)
    some = qnnrt.load(path, shapes={"batch": [1, 2], "seq": "any"})
    assert some.shapes == ({"batch": 1, "seq": "any"}, {"batch": 2, "seq": "any"})
    assert some.listed is None
    assert some.at({"batch": 2, "seq": 7}).inputs == ["x"]
    with pytest.raises(ValueError, match="no graph for batch=3 seq=7"):
        some.at({"batch": 3, "seq": 7})


def test_one_size_for_each_is_a_model_as_ever(path: Path) -> None:
    model = qnnrt.load(path, shapes={"batch": 1, "seq": 2})
    assert isinstance(model, qnnrt.Model)


def test_graphs_are_called_by_their_shape(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    assert model.at({"batch": 1, "seq": 64}).name == "net_batch_1_seq_64"
    assert model.at({"x": (2, 3, 4)}).name == "net_batch_2_seq_3"


def test_names_without_letters_stay_apart() -> None:
    model = qnnrt.importers.onnx.load(network(("a b", "a.b", 4)), shapes="any")
    names = {model.at({"a b": i, "a.b": j}).name for i in (1, 2) for j in (1, 2)}
    assert len(names) == 4


def test_dimensions_without_a_name_are_called_by_their_place() -> None:
    model = qnnrt.importers.onnx.load(network((None, None, 4)), shapes={"x": ("any", 3, 4)})
    assert model.shapes == ({"x_0": "any", "x_1": 3},)
    assert model.at({"x_0": 5}).name == "net_x_0_5_x_1_3"


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ({"batch": [1, 2]}, "is not fixed, and shapes= does not say it"),
        ({"batch": [1], "seq": []}, "lists no size for 'seq'"),
        ({"batch": [1, -2], "seq": 1}, "-2 for 'batch'"),
        ({"batch": [1, True], "seq": 1}, "True for 'batch'"),
        ({"batch": ["all"], "seq": 1}, "'all' for 'batch'"),
        ({"batch": [1], "seq": 1, "time": 3}, "no input or dimension named 'time'"),
        ({"x": [(1, 2, 5), (1, 2, 4)]}, r"shapes= gives it \[1, 2, 5\]"),
        ({"x": [(1, 2), (1, 2, 4)]}, r"shapes= gives it \[1, 2\]"),
        ([], "lists no shape"),
        ({"batch": list(range(1, 100)), "seq": list(range(1, 100))}, "more than 4096 shapes"),
    ],
)
def test_bad_lists_are_one_error(path: Path, shapes: Any, why: str) -> None:
    with pytest.raises(qnnrt.ModelError, match=why):
        qnnrt.load(path, shapes=shapes)


@pytest.mark.parametrize(("shapes", "kind"), [("every", ValueError), (3, TypeError)])
def test_what_is_no_list_is_refused(path: Path, shapes: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="shapes is a dict, a list of dicts or 'any'"):
        qnnrt.load(path, shapes=shapes)


def test_what_is_wrong_with_the_first_listed_shape_shows_when_it_is_loaded() -> None:
    bad = network(("batch", "seq", "width"))
    with pytest.raises(qnnrt.ModelError, match="MatMul"):
        qnnrt.importers.onnx.load(bad, shapes={"batch": [1], "seq": 2, "width": [5]})


def test_a_model_of_many_shapes_is_pickled_as_its_file(path: Path) -> None:
    model = pickle.loads(pickle.dumps(qnnrt.load(path, shapes={"batch": [1, 2], "seq": "any"})))
    with qnnrt.Session(model) as session:
        check(session, 2, 3)


# ---- runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_session_runs_the_shape_that_comes_in(path: Path, backend: str) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any"), backend) as session:
        for batch, seq in ((1, 4), (3, 2), (1, 4), (2, 9)):
            check(session, batch, seq)
        assert session.stats.executes == 4
        assert session.shapes == (
            {"batch": 3, "seq": 2}, {"batch": 1, "seq": 4}, {"batch": 2, "seq": 9},
        )  # fmt: skip
        assert live_graphs() == 3
    assert live_graphs() == 0


def test_a_shape_that_is_not_listed_is_one_error_that_lists_them(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes={"batch": [1, 4], "seq": 2})) as session:
        with pytest.raises(ValueError, match=r"batch=1 seq=2; batch=4 seq=2.*pad") as caught:
            session.run({"x": given(2, 2)})
        assert "x=[2, 2, 4]" in str(caught.value)
        with pytest.raises(ValueError, match="no graph for x="):
            session.run({"x": given(1, 2)[0]})
        check(session, 4, 2)


def test_at_is_the_session_of_one_shape(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any"), "htp", strict=True) as session:
        one = session.at({"batch": 2, "seq": 3})
        assert one is session.at({"x": (2, 3, 4)})
        assert one.sizes == {"batch": 2, "seq": 3}
        assert one.outputs["y"].shape == (2, 3, 3)
        x = given(2, 3)
        buffer = qnnrt.alloc_array(x.shape, x.dtype)
        buffer[...] = x
        one.inputs["x"].bind(buffer)
        one.run()
        np.testing.assert_allclose(one.outputs["y"].array, expected(x), rtol=1e-5, atol=1e-5)
        one.run_async().result()
        assert session.run({"x": buffer})["y"] is one.outputs["y"].array
        assert one.stats.copied_bytes == 0
        assert session.stats.executes == 3
        assert one.profile()


def test_what_is_of_one_shape_says_so(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any")) as session:
        for call in (session.run, session.run_async, session.profile):
            with pytest.raises(ValueError, match=r"session\.at"):
                call()
        with pytest.raises(qnnrt.BindError, match=r"session\.at"):
            _ = session.inputs["x"].array
        with pytest.raises(qnnrt.BindError, match=r"session\.at"):
            session.inputs["x"].bind(given(1, 1))
        assert session.inputs["x"].shape == ("batch", "seq", 4)
        assert list(session.outputs) == ["y"]
        with pytest.raises(KeyError, match="no input 'z'"):
            session.run({"z": given(1, 1)})


def test_all_graphs_are_in_one_context(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any")) as session:
        one, two = session.at({"batch": 1, "seq": 1}), session.at({"batch": 2, "seq": 1})
        assert one.context is two.context is session.context


# ---- limits -------------------------------------------------------------------------------------


def test_the_least_recently_used_graph_goes(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    with qnnrt.Session(model, options={"max_shapes": 2}) as session:
        for seq in (1, 2, 1, 3):
            check(session, 1, seq)
        assert [s["seq"] for s in session.shapes] == [1, 3]
        assert live_graphs() == 2
        check(session, 1, 2)  # made anew, under the name that it had
        assert [s["seq"] for s in session.shapes] == [3, 2]
        assert session.stats.executes == 5
        assert live_graphs() == 2


def test_a_graph_that_somebody_has_stays_and_comes_back(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    with qnnrt.Session(model, options={"max_shapes": 1}) as session:
        one = session.at({"batch": 1, "seq": 1})
        check(session, 1, 2)
        assert live_graphs() == 2
        one.run({"x": given(1, 1)})
        assert session.at({"batch": 1, "seq": 1}) is one
        assert live_graphs() == 1


def test_memory_is_a_limit_too(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    with qnnrt.Session(model) as session:
        small = session.at({"batch": 1, "seq": 10}).nbytes
        large = session.at({"batch": 64, "seq": 10}).nbytes
        assert large > small
    limits = {"max_shape_bytes": large + small}
    with qnnrt.Session(model, options=limits) as session:
        check(session, 1, 10)
        check(session, 64, 10)
        assert len(session.shapes) == 2
        check(session, 1, 9)
        assert [s["batch"] for s in session.shapes] == [64, 1]
        check(session, 640, 10)  # more than the limit by itself: it alone stays
        assert [s["batch"] for s in session.shapes] == [640]


def test_listed_shapes_are_made_at_once_where_that_is_asked_for(path: Path) -> None:
    model = qnnrt.load(path, shapes={"batch": [1, 2], "seq": [3, 4]})
    with qnnrt.Session(model, options={"prepare_shapes": True}) as session:
        assert len(session.shapes) == live_graphs() == 4
    with (
        pytest.raises(ValueError, match="some are open"),
        qnnrt.Session(qnnrt.load(path, shapes="any"), options={"prepare_shapes": True}),
    ):
        pass


def test_a_shape_that_was_let_go_and_is_held_counts_on(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    with qnnrt.Session(model, options={"max_shapes": 1}) as session:
        held = session.at({"batch": 1, "seq": 4})
        check(session, 2, 3)
        assert session.shapes == ({"batch": 2, "seq": 3},)
        for n in range(3):
            held.run()
            assert session.stats.executes == n + 2
        del held
        assert session.stats.executes == 4
        closed = session.at({"batch": 3, "seq": 2})
        closed.run()
        closed.close()
        assert session.stats.executes == 5
        session.reset_stats()
        assert session.stats.executes == 0
        check(session, 2, 3)
    assert session.stats.executes == 1


@pytest.mark.parametrize("name", ["max_shapes", "max_shape_bytes"])
def test_limits_are_whole_numbers_of_models_of_many_shapes(path: Path, name: str) -> None:
    model = qnnrt.load(path, shapes="any")
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"option '{name}' is a whole number"):
            qnnrt.Session(model, options={name: bad})
    one = qnnrt.load(path, shapes={"batch": 1, "seq": 1})
    with pytest.raises(ValueError, match="is for models of many shapes"):
        qnnrt.Session(one, options={name: 2})


# ---- the end, and threads -----------------------------------------------------------------------


def test_a_closed_session_closes_what_at_gave(path: Path) -> None:
    session = qnnrt.Session(qnnrt.load(path, shapes="any"))
    one = session.at({"batch": 1, "seq": 1})
    one.run({"x": given(1, 1)})
    session.close()
    session.close()
    assert one.closed
    assert session.closed
    for call in (lambda: check(session, 1, 1), lambda: session.at({"batch": 1, "seq": 1}), one.run):
        with pytest.raises(qnnrt.ClosedError):
            call()


def test_a_closed_shape_is_made_anew(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any")) as session:
        one = session.at({"batch": 1, "seq": 1})
        one.close()
        assert live_graphs() == 0
        check(session, 1, 1)
        assert session.at({"batch": 1, "seq": 1}) is not one


def test_garbage_gives_everything_back(path: Path) -> None:
    session = qnnrt.Session(qnnrt.load(path, shapes="any"))
    check(session, 1, 1)
    one = session.at({"batch": 1, "seq": 2})
    del session
    gc.collect()
    one.run({"x": given(1, 2)})  # it has what it stands on
    assert live_graphs() == 1
    del one
    gc.collect()
    assert live_graphs() == 0


def test_a_graph_that_cannot_be_made_leaves_nothing() -> None:
    # Of the open dimension only 4 fits the weights.
    model = qnnrt.importers.onnx.load(network(("batch", "seq", "width")), shapes="any")
    with qnnrt.Session(model) as session:
        for _ in range(2):
            with pytest.raises(qnnrt.ModelError, match="MatMul"):
                session.run({"x": np.zeros((1, 2, 5), np.float32)})
        assert live_graphs() == 0
        check(session, 1, 2)


def test_threads_run_one_shape_while_others_are_made(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    failures: list[BaseException] = []
    with qnnrt.Session(model, options={"max_shapes": 3}) as session:

        def work(number: int) -> None:
            try:
                for turn in range(40):
                    check(session, 1, 1 + (number * 7 + turn * (number % 2)) % 6)
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert session.stats.executes == 240
        assert live_graphs() <= 3


def test_one_shape_is_made_once_for_all_threads(path: Path) -> None:
    with qnnrt.Session(qnnrt.load(path, shapes="any")) as session:
        gate = threading.Barrier(4)
        found: list[Any] = []

        def work() -> None:
            gate.wait()
            found.append(session.at({"batch": 2, "seq": 2}))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(one is found[0] for one in found)


# ---- other backends -----------------------------------------------------------------------------


def relus() -> qnnrt.DynamicModel:
    """Quantized, of any size."""

    def make(shapes: dict[str, tuple[int, ...]]) -> qnnrt.Model:
        return quantized_relu(shapes["x"][1])

    inputs = [OpenInput("x", (1, "size"))]
    return qnnrt.DynamicModel("relu", "here", inputs, ["y"], [((1, None),)], make, ())


@pytest.mark.parametrize("io", ["memhandle", "raw", "scratch"])
def test_each_shape_has_pools_of_its_own_on_lpai(io: str) -> None:
    with qnnrt.Session(relus(), "lpai", io=io, options={"max_shapes": 2}) as session:
        for size in (16, 40, 16, 64, 40):
            x = np.arange(size, dtype=np.uint8)[None]
            np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x, 10))
        assert live_graphs() == 2
        assert session.context is not None
        kept = {one.graph.name for one in map(session.at, session.shapes)}
        # Without scratch memory for its ends a graph of one step needs none.
        needed = kept if io == "scratch" else set()
        assert {name for name, _ in session.context._pools} == needed


@pytest.mark.foreign
def test_the_vendors_library_has_a_context_for_each_shape(path: Path, tmp_path: Path) -> None:
    library = vendor_library("libQnnHtp.so")
    model = qnnrt.load(path, shapes="any")
    with qnnrt.Session(model, library, io="raw", options={"max_shapes": 1}) as session:
        for batch, seq in ((1, 2), (2, 3), (1, 2)):
            x = given(batch, seq)
            found = session.run({"x": x})["y"]
            np.testing.assert_allclose(found, expected(x), rtol=0.02, atol=0.02)
        assert session.context is None
        assert len(session.shapes) == 1
        one = session.at({"batch": 1, "seq": 2})
        assert one.context is not session.at({"batch": 2, "seq": 2}).context
        with pytest.raises(ValueError, match="each shape has a context of its own"):
            session.save_binary(tmp_path / "net.bin")


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
