"""The memory plan: what a graph says of its arena."""

from __future__ import annotations

import json
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
