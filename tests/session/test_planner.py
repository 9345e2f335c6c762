"""The memory plan: what a graph says of its arena."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import planning
from qnnrt.model import Model, Node, Quantization, Tensor
from zoo import networks

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("name", networks.NAMES)
def test_a_described_arena_is_a_plan_near_the_lower_bound(name: str) -> None:
    plan = described(networks.path(name))
    arena, steps = plan["arena"], plan["steps"]
    items = arena["items"]
    assert pairs_that_share_bytes(items) == []
    assert max(item["offset"] + item["size"] for item in items) == arena["peak"]
    assert sum(item["size"] for item in items) == arena["sum"]
    assert arena["lower_bound"] <= arena["peak"] <= 1.05 * arena["lower_bound"]
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


# What each node reads, and the length of its result t0, t1, ... in words of four bytes: one is a
# part of what it reads, from its end on, several are joined in an encoding of their own, so that
# none is computed in place. Every order of the portfolio leaves a gap in this graph's arena.
GAPS = [
    ("x", 9), ("t0 x", 25), ("t0", 9), ("t0", 9), ("t2 t1", 34), ("t4", 24), ("t0 t1", 34),
    ("t2", 3), ("t7 t6 t4", 71), ("t8", 71), ("t9 t7 t4", 108), ("t5 t10 t8", 203), ("t9", 71),
    ("t10 t8", 179), ("t9", 70), ("t11", 41), ("t10", 108), ("t16 t14", 178), ("t14", 60),
    ("t3 t12 t13 t15 t17 t18", 538),
]  # fmt: skip


def graph_with_gaps() -> Model:
    uint8 = np.dtype(np.uint8)
    tensors = {"x": Tensor("x", (64,), uint8, quantization=Quantization(1.0, 0))}
    nodes = []
    for i, (reads, words) in enumerate(GAPS):
        size, encoding = 4 * words, Quantization(1 + i / 64, 0)
        if " " in reads:
            nodes.append(Node(f"n{i}", "Concat", reads.split(), [f"t{i}"], {"axis": 0}))
        else:
            part = {"ranges": np.array([[size - 1, -1, -1]], np.int32)}
            nodes.append(Node(f"n{i}", "StridedSlice", [reads], [f"t{i}"], part))
            encoding = tensors[reads].quantization
        tensors[f"t{i}"] = Tensor(f"t{i}", (size,), uint8, quantization=encoding)
    return Model("gaps", tensors, nodes, ["x"], [f"t{len(GAPS) - 1}"])


def test_a_search_finds_the_smallest_arena_and_changes_no_result() -> None:
    model = graph_with_gaps()
    arenas, results = [], []
    for options in ({}, {"plan_milliseconds": 600_000}):  # it ends when the plan is proved
        with qnnrt.Session(model, threads=1, options=options) as session:
            arenas.append(json.loads(session.graph.describe())["arena"])
            results.append(session.run({"x": np.arange(64, dtype=np.uint8)})["t19"])
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


# ---- the planner by itself


def random_items(seed: int) -> list[planning.Item]:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    first = random.integers(0, 40, count)
    last = first + random.integers(0, 12, count)
    size = random.integers(0, 300, count) * (random.random(count) > 0.1)
    alignment = 1 << random.integers(0, 7, count)
    return [planning.Item(*row) for row in np.stack([first, last, size, alignment], 1).tolist()]


@pytest.mark.parametrize("given", [{"effort": "size"}, {}, {"steps": 500}], ids=str)
def test_plans_of_random_items_hold_and_lie_between_bound_and_sum(given: dict[str, Any]) -> None:
    for seed in range(150):
        items = random_items(seed)
        plan = planning.plan(items, **given)
        planning.check(items, plan.offsets, plan.peak)
        assert plan.sum == sum(item.size for item in items)
        padded = sum(item.size + item.alignment for item in items)
        assert plan.lower_bound <= plan.peak <= padded, seed


def test_each_effort_is_at_least_as_good_as_the_one_before() -> None:
    path = ROOT / "tests/data/minimalloc/F.1048576.csv"
    items = planning.read_csv(path)
    size = planning.plan(items, effort="size")
    portfolio = planning.plan(items)
    exact = planning.plan(items, steps=5000)
    assert [p.peak for p in (size, portfolio, exact)] == [1433600, 1177600, 1048576]
    assert (exact.order, exact.proved, portfolio.proved) == ("exact", True, False)
    assert 0 < exact.steps < 5000
    assert size.steps == portfolio.steps == 0


def test_sizes_beyond_32_bits_and_empty_items() -> None:
    big = 3 << 40
    items = [(0, 1, big), (1, 2, big), (2, 3, big), (0, 3, 0, 4096)]
    plan = planning.plan(items, steps=100)
    assert (plan.peak, plan.lower_bound, plan.sum, plan.proved) == (2 * big, 2 * big, 3 * big, True)
    assert planning.plan([]).offsets == ()


@pytest.mark.parametrize(
    ("items", "given", "words"),
    [
        ([(0, 1, 8, 3)], {}, "item 0: alignment 3 is not a power of two"),
        ([(0, 1, 8), (3, 2, 8)], {}, "item 1: first step 3 comes after last step 2"),
        ([(0, 1, 1 << 62), (0, 1, 1 << 62)], {}, "more than 2\\^62 bytes"),
        ([(-1, 1, 8)], {}, "steps are from 0"),
        ([(0, 1, 8), (0, 1)], {}, r"item 1 is \(0, 1\): expected the whole numbers first"),
        ([(0, 1.5, 8)], {}, r"item 0 is \(0, 1.5, 8\): expected the whole numbers"),
        ([(0, 1, 8)], {"milliseconds": -1}, "milliseconds must be a whole number"),
        ([(0, 1, 8)], {"milliseconds": 1 << 32}, "milliseconds must be a whole number"),
        ([(0, 1, 8)], {"steps": -1}, "steps must be from 0"),
        ([(0, 1, 8)], {"effort": "best"}, "size, portfolio, exact"),
        ([(0, 1, 8)], {"effort": "exact"}, "at least one"),
        ([(0, 1, 8)], {"effort": "size", "steps": 3}, "exact search"),
    ],
    ids=lambda v: str(v),
)
def test_bad_items_and_options_are_refused(
    items: list[tuple[int, ...]], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        planning.plan(items, **given)


def test_the_check_finds_each_kind_of_bad_plan() -> None:
    items = [(0, 2, 100), (1, 3, 100), (3, 4, 100)]
    planning.check(items, [0, 128, 0], 228)
    for offsets, peak in [
        ([0, 64, 0], 228),  # 0 and 1 share bytes
        ([0, 128, 192], 292),  # 1 and 2 share bytes in step 3
        ([0, 130, 0], 230),  # off its boundary
        ([0, 128, 0], 227),  # beyond the peak
        ([0, 128], 228),  # an offset is missing
    ]:
        with pytest.raises(ValueError, match=r"item|offsets"):
            planning.check(items, offsets, peak)


def test_csv_files_go_in_and_out(tmp_path: Path) -> None:
    source = ROOT / "tests/data/minimalloc/A.1048576.csv"
    items = planning.read_csv(source)
    plan = planning.plan(items)
    planning.write_csv(tmp_path / "items.csv", items)
    planning.write_csv(tmp_path / "plan.csv", items, plan.offsets)
    assert (tmp_path / "items.csv").read_text().split() == source.read_text().split()
    assert planning.read_csv(tmp_path / "plan.csv") == items
    assert (tmp_path / "plan.csv").read_text().startswith("id,lower,upper,size,offset\n0,995328,")
    (tmp_path / "bad.csv").write_text("id,lower,upper,size\n0,1,two,3\n")
    with pytest.raises(ValueError, match=r"bad.csv:2: expected the columns"):
        planning.read_csv(tmp_path / "bad.csv")
