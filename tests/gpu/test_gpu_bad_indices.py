"""An index that comes with a run and has no element fails the run, as on the cpu backend; the next
run works. Memory outside of a tensor is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from support.gpu.cases import joined, loops_and_lanes, one_backend  # noqa: F401
from support.gpu.client import LIBRARY, environment
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case

pytestmark = pytest.mark.foreign  # OpenCL drivers are

X = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
I32 = np.dtype(np.int32)


def rows(*picks: int) -> np.ndarray:
    return np.array(picks, I32)[:, None] + np.zeros((1, 3), I32)


#: A node whose input 1 (of RoiAlign 2) has indices, those that it takes, and those of which one is
#: nowhere: -> position, index and axis.
MANY = (np.arange(36).reshape(12, 3) * 3 % 8 - 4).astype(I32)
CASES: dict[str, tuple[Case, np.ndarray, np.ndarray, tuple[int, int, int, int]]] = {
    "Gather": (
        case("Gather", [X, np.zeros(3, I32)], [(3, 3)], {"axis": 0}),
        np.array([3, -4, 0], I32), np.array([3, 4, 0], I32), (1, 4, 0, 4),
    ),
    "GatherElements": (
        case("GatherElements", [X, np.zeros((4, 2), I32)], [(4, 2)], {"axis": 1}),
        np.array([[0, 1], [2, -3], [1, 0], [0, 0]], I32),
        np.array([[0, 1], [2, -4], [1, 0], [0, 0]], I32), (3, -4, 1, 3),
    ),
    "GatherNd": (
        case("GatherNd", [X, np.zeros((2, 2), I32)], [(2,)]),
        np.array([[3, 2], [0, -1]], I32), np.array([[3, 2], [0, 3]], I32), (3, 3, 1, 3),
    ),
    "ScatterElements": (
        case("ScatterElements", [X, rows(0, 0), np.ones((2, 3), np.float32)], [X.shape],
             {"axis": 0}),
        rows(1, -1), np.array([[1, 2, 3], [0, 9, 0]], I32), (4, 9, 0, 4),
    ),
    "ScatterNd": (
        case("ScatterNd", [X, np.zeros((2, 1), I32), np.ones((2, 3), np.float32)], [X.shape]),
        np.array([[2], [-4]], I32), np.array([[2], [-5]], I32), (1, -5, 0, 4),
    ),
    "ScatterElements, many updates": (
        case("ScatterElements", [X, MANY, np.ones(MANY.shape, np.float32)], [X.shape],
             {"axis": 0}),
        MANY, np.where(np.arange(36).reshape(12, 3) == 16, I32.type(-5), MANY), (16, -5, 0, 4),
    ),
    "ScatterNd, many updates": (
        case("ScatterNd", [X, MANY[:, :1], np.ones(MANY.shape, np.float32)], [X.shape]),
        MANY[:, :1].copy(), np.where(np.arange(12)[:, None] == 7, I32.type(4), MANY[:, :1]),
        (7, 4, 0, 4),
    ),
    "RoiAlign": (
        case("RoiAlign", [np.ones((2, 4, 4, 8), np.float32), np.float32([[0, 0, 3, 3]] * 2),
                          np.zeros(2, I32)], [(2, 1, 1, 8)],
             {"img_size_ratio": np.ones(2, np.float32)}),
        np.array([1, 0], I32), np.array([1, 2], I32), (1, 2, 0, 2),
    ),
}  # fmt: skip


def fails(session: qnnrt.Session, feeds: dict[str, Any], text: str) -> None:
    with pytest.raises(qnnrt.GraphError, match="node 'node'") as e:
        session.run(feeds)
    assert e.value.code == 6000
    assert text in str(e.value)


@pytest.mark.parametrize("op", CASES)
def test_a_run_with_a_bad_index_fails_and_the_next_works(
    op: str,
    loops_and_lanes: str,  # noqa: F811
) -> None:
    what, good, bad, (position, index, axis, size) = CASES[op]
    key = "in2" if op == "RoiAlign" else "in1"
    feeds = what.feeds | {key: good}
    text = f"index {index} (element {position} of the indices) is outside of [-{size}, {size}), "
    with qnnrt.Session(what.model, "cpu") as s:
        expected = s.run(feeds)
        fails(s, feeds | {key: bad}, f"{text}the range of axis {axis}")
    with qnnrt.Session(what.model, "gpu") as s:
        for _ in range(2):
            np.testing.assert_array_equal(s.run(feeds)["out0"], expected["out0"])
            fails(s, feeds | {key: bad}, f"{text}the range of axis {axis}")
        np.testing.assert_array_equal(s.run(feeds)["out0"], expected["out0"])


def test_the_node_that_is_named_is_the_one_with_the_index() -> None:
    what, good, bad, _ = CASES["Gather"]
    three = joined([Case(what.model, what.feeds | {"in1": good + 0}) for _ in range(3)], 1)
    names = [n.inputs[1] for n in three.model.nodes]
    assert len(set(names)) == 3
    with qnnrt.Session(three.model, "gpu") as s:
        s.run(three.feeds)
        with pytest.raises(qnnrt.GraphError, match=r"node '2\.node': index 4 "):
            s.run(three.feeds | {names[1]: bad})


def test_indices_far_away_are_not_followed() -> None:
    far = np.array([2, 3, 2**31 - 1, -(2**31), 0], np.int64) * 2**20
    what = case("Gather", [X, far], [(5, 3)], {"axis": 0})
    with qnnrt.Session(what.model, "gpu") as s:
        with pytest.raises(qnnrt.GraphError, match="of the indices"):
            s.run(what.feeds)
        good = {"in1": np.arange(5, dtype=np.int64) % 4}
        np.testing.assert_array_equal(s.run(what.feeds | good)["out0"], X[good["in1"]])


def test_a_graph_without_indices_at_run_time_reads_nothing_back() -> None:
    constant = case("Gather", [X, np.array([1, 2], I32)], [(2, 3)], {"axis": 0}, static=(1,))
    with qnnrt.Session(constant.model, "gpu") as s:
        s.run(constant.feeds)
        step = s.graph.describe()
    assert step is not None
    assert "CHECKED" not in step


def test_the_library_for_c_clients_fails_the_run_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    what, good, bad, _ = CASES["Gather"]
    with qnnrt.Session(what.model, str(LIBRARY), io="raw") as s:
        for _ in range(2):
            got = s.run(what.feeds | {"in1": good})
            np.testing.assert_array_equal(got["out0"], X[good])
            fails(s, what.feeds | {"in1": bad}, "index 4 (element 1 of the indices)")
