"""Sessions of many shapes: the graph of the shape that comes in, within limits, in one context."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model.dynamic import OpenInput
from support.lpai_models import quantized_relu
from support.many_shapes import check, expected, given, live_graphs, network, saved
from support.vendor import vendor_library


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path)


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
