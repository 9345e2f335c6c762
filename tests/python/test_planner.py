"""The memory plan: what a graph says of its arena."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor


def pairs_that_share_bytes(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Every pair of items alive at one step and at one address: looks at all pairs."""
    first, last, offset, size = (
        np.array([item[key] for item in items], np.int64)
        for key in ("first", "last", "offset", "size")
    )
    end = offset + size
    together = (first[:, None] <= last) & (first <= last[:, None])
    touching = (offset[:, None] < end) & (offset < end[:, None])
    return [
        (items[a]["name"], items[b]["name"])
        for a, b in zip(*np.nonzero(together & touching), strict=True)
        if a < b
    ]


def described(model: Any, **given: Any) -> dict[str, Any]:
    with qnnrt.Session(model, **given) as session:
        return json.loads(session.graph.describe())


@pytest.mark.parametrize("name", ["squeezenet", "densenet121"])
def test_a_described_arena_is_a_plan(name: str) -> None:
    plan = described(networks.path(name))
    arena, steps = plan["arena"], plan["steps"]
    items = arena["items"]
    assert pairs_that_share_bytes(items) == []
    assert max(item["offset"] + item["size"] for item in items) == arena["peak"]
    assert sum(item["size"] for item in items) == arena["sum"]
    assert all(item["offset"] % 64 == 0 for item in items)
    assert plan["persistent_bytes"] == 0
    names = {n for step in steps for n in (*step["inputs"], *step["outputs"])}
    for item in items:
        assert 0 <= item["first"] <= item["last"] < len(steps)
        if item["kind"] == "scratch":
            assert item["name"] == steps[item["first"]]["name"]
            assert item["first"] == item["last"]
        else:
            assert item["kind"] == "tensor"
            assert {item["name"], *item.get("shared", [])} & names


def test_tensors_that_share_memory_are_one_item() -> None:
    names = ["x", "t0", "t1", "t2", "y"]
    tensors = {n: Tensor(n, (2, 8), np.dtype(np.float32)) for n in names}
    nodes = [Node(f"abs{i}", "ElementWiseAbs", [names[i]], [names[i + 1]]) for i in range(4)]
    model = Model("chain", tensors, nodes, ["x"], ["y"])
    items = described(model)["arena"]["items"]
    assert [(i["name"], i["kind"], i.get("shared")) for i in items] == [
        ("t0", "tensor", ["t1", "t2"])
    ]


# What each node reads, and the length of its result t0, t1, ...: one is a part of what it reads,
# several are joined. Every order of the portfolio leaves a gap in this graph's arena.
GAPS = [
    ("x", 9), ("t0 x", 25), ("t0", 9), ("t0", 9), ("t2 t1", 34), ("t4", 24), ("t0 t1", 34),
    ("t2", 3), ("t7 t6 t4", 71), ("t8", 71), ("t9 t7 t4", 108), ("t5 t10 t8", 203), ("t9", 71),
    ("t10 t8", 179), ("t9", 70), ("t11", 41), ("t10", 108), ("t16 t14", 178), ("t14", 60),
    ("t3 t12 t13 t15 t17 t18", 538),
]  # fmt: skip


def graph_with_gaps() -> Model:
    float32 = np.dtype(np.float32)
    tensors = {"x": Tensor("x", (16,), float32)}
    nodes = []
    for i, (reads, size) in enumerate(GAPS):
        tensors[f"t{i}"] = Tensor(f"t{i}", (size,), float32)
        if " " in reads:
            nodes.append(Node(f"n{i}", "Concat", reads.split(), [f"t{i}"], {"axis": 0}))
        else:
            part = {"ranges": np.array([[0, size, 1]], np.int32)}
            nodes.append(Node(f"n{i}", "StridedSlice", [reads], [f"t{i}"], part))
    return Model("gaps", tensors, nodes, ["x"], [f"t{len(GAPS) - 1}"])


def test_a_search_finds_the_smallest_arena_and_changes_no_result() -> None:
    model = graph_with_gaps()
    arenas, results = [], []
    for options in ({}, {"plan_milliseconds": 600_000}):  # it ends when the plan is proved
        with qnnrt.Session(model, threads=1, options=options) as session:
            arenas.append(json.loads(session.graph.describe())["arena"])
            results.append(session.run({"x": np.arange(16, dtype=np.float32)})["t19"])
    greedy, exact = arenas
    assert (greedy["peak"], greedy["proved"]) == (3276, False)
    assert (exact["peak"], exact["proved"], exact["order"]) == (3020, True, "exact")
    assert exact["lower_bound"] == greedy["lower_bound"] == 2848  # without what alignment takes
    assert pairs_that_share_bytes(exact["items"]) == []
    np.testing.assert_array_equal(*results)


def test_a_plan_in_a_binary_is_the_one_that_was_searched_for(tmp_path: Path) -> None:
    path = tmp_path / "gaps.bin"
    options = {"plan_milliseconds": 600_000}
    with qnnrt.Session(graph_with_gaps(), threads=1, options=options) as session:
        session.save_binary(path)
    assert described(path)["arena"]["peak"] == 3020
    with pytest.raises(ValueError, match="leave them out"):
        qnnrt.Session(path, options=options)
