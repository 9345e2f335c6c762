"""Where tensors of a gpu graph lie: arenas, memory used again, constants in place and shared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import planning
from qnnrt.gpu import allocation, ir
from qnnrt.gpu.device import Device, choose
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from support import reference
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.toy import F32, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are

WIDTH = 128  # tensors of 1536 bytes, which is a multiple of every device's alignment


@pytest.fixture(scope="module")
def backend(opencl_is_up: None) -> Iterator[qnnrt.qnn.Backend]:  # noqa: F811
    with qnnrt.qnn.Backend.open("gpu") as found:
        yield found


def layers(count: int = 4, seed: int = 0) -> Model:
    """x is multiplied by a matrix and its result's tangent by the next one, with a way past."""
    rng = np.random.default_rng(seed)
    shape = (3, WIDTH)
    model = Model("layers", tensors(Tensor("x", shape, F32)), [], ["x"], ["y"])
    last = "x"
    for i in range(count):
        weight = (rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
        end = "y" if i == count - 1 else f"sum{i}"
        names = (f"product{i}", f"tanh{i}", end)
        model.tensors |= tensors(
            Tensor(f"w{i}", weight.shape, F32, weight), *(Tensor(n, shape, F32) for n in names)
        )
        model.nodes += [
            Node(f"matmul{i}", "MatMul", [last, f"w{i}"], [f"product{i}"]),
            Node(f"tanh_node{i}", "Tanh", [f"product{i}"], [f"tanh{i}"]),
            Node(f"add{i}", "ElementWiseAdd", [last, f"tanh{i}"], [end]),
        ]
        last = end
    return model


X = np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32)


def expected(model: Model) -> np.ndarray:
    return reference.run(model, {"x": X})["y"]


def described(s: qnnrt.Session) -> dict[str, Any]:
    text = s.graph.describe()
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def check(told: dict[str, Any]) -> None:
    """Every arena of a description, by the planner's independent check."""
    alignment = choose().alignment
    for arena in range(told["arenas"]):
        items = [i for i in told["arena"]["items"] if i["arena"] == arena]
        planning.check(
            [planning.Item(i["first"], i["last"], i["size"], alignment) for i in items],
            [i["offset"] for i in items],
            max(i["offset"] + i["size"] for i in items),
        )


def test_intermediates_share_an_arena() -> None:
    model = layers()
    options = {"gpu": {"node_optimizations": False}}  # every node has its kernel
    with qnnrt.Session(model, "gpu", options=options) as s:
        np.testing.assert_allclose(s.run({"x": X})["y"], expected(model), rtol=1e-5, atol=1e-5)
        told = described(s)
        check(told)
        arena = told["arena"]
        assert told["arenas"] == 1 or not choose().overlaps
        assert arena["lower_bound"] <= arena["peak"] < arena["sum"]
        stats = s.backend.library.graph_stats(s.graph.handle)
        assert stats["arena_bytes"] == arena["peak"]
        assert (stats["num_steps"], stats["weight_bytes"]) == (
            len(told["steps"]),
            told["weight_bytes"],
        )
        assert any("shared" in item for item in arena["items"])  # a tangent in its operand's place
        assert [step["name"] for step in told["steps"]][-1] == "add3"
        assert 2 <= sum(told["programs"].values()) < len(told["steps"])
        s.backend.close()


def test_where_overlapping_sub_buffers_are_slow_tensors_have_whole_buffers_in_turn() -> None:
    sizes = [64, 640, 32, 640, 320, 16]
    chain = [value(f"v{i}", size) for i, size in enumerate(sizes)]
    launches = [launch(a, b) for a, b in pairwise(chain)]
    target = Target(replace(choose(), overlaps=False))
    found = allocation.arenas(launches, target, 1 << 30)
    assert [[v.name for v in arena.values] for arena in found] == [
        ["v1", "v3", "v5"],
        ["v4", "v0", "v2"],
    ]
    for arena in found:
        assert not any(arena.plan.offsets)
        assert arena.plan.peak == max(item.size for item in arena.items)
        planning.check(arena.items, arena.plan.offsets, arena.plan.peak)


def test_results_are_the_same_in_buffers_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Device.of
    monkeypatch.setattr(Device, "of", lambda raw: replace(of(raw), overlaps=False))
    model = layers()
    options = {"gpu": {"node_optimizations": False}}
    with qnnrt.Session(model, "gpu", options=options) as s:
        np.testing.assert_allclose(s.run({"x": X})["y"], expected(model), rtol=1e-5, atol=1e-5)
        told = described(s)
        check(told)
        assert 1 < told["arenas"] < len(told["arena"]["items"])
        assert not any(item["offset"] for item in told["arena"]["items"])
        s.backend.close()


def test_without_memory_optimizations_every_tensor_has_a_buffer() -> None:
    model = layers()
    options = {"gpu": {"memory_optimizations": False}}
    with qnnrt.Session(model, "gpu", options=options) as s:
        np.testing.assert_allclose(s.run({"x": X})["y"], expected(model), rtol=1e-5, atol=1e-5)
        told = described(s)
        assert told["arenas"] == len(told["arena"]["items"]) > 1
        assert told["arena"]["peak"] == told["arena"]["sum"]
        s.backend.close()


def target() -> Target:
    """Of a device on which arenas have sub-buffers that overlap."""
    return Target(replace(choose(), overlaps=True))


def value(name: str, size: int = 64, kind: str = "native") -> ir.Value:
    return ir.Value(name, 0, (size,), F32, 0x0232, kind)


def launch(*args: ir.Value, in_place: tuple[tuple[ir.Value, ir.Value], ...] = ()) -> ir.Launch:
    return ir.Launch("copy", "copy", (), (1,), args, in_place=in_place)


def test_a_result_takes_the_memory_of_an_operand_that_ends_there() -> None:
    a, b, c, d = (value(n) for n in "abcd")
    x, y = value("x", kind="input"), value("y", kind="output")
    launches = [
        launch(x, a),
        launch(a, b, in_place=((b, a),)),
        launch(a, b, c, in_place=((c, a), (c, b))),  # the first of the two that will do
        launch(c, b, d, in_place=((d, x), (d, c))),
        launch(d, y, in_place=((y, d),)),
    ]
    (arena,) = allocation.arenas(launches, target(), 1 << 30)
    # b is made while a is still needed; c takes a's place, and d that of c, which is a's.
    assert (arena.values, arena.shared) == ([a, b], {a: [c, d]})
    assert [(i.first, i.last) for i in arena.items] == [(0, 4), (1, 3)]


def test_results_of_another_size_and_views_of_other_values_get_their_own() -> None:
    a, b, c = value("a"), value("b", 32), value("c")
    view = ir.Value("view", 0, (8, 8), F32, 0x0232, "native", base=a)
    x = value("x", kind="input")
    launches = [
        launch(x, a),
        launch(a, b, in_place=((b, a),)),
        launch(view, b, c, in_place=((c, view),)),
    ]
    (arena,) = allocation.arenas(launches, target(), 1 << 30)
    assert (arena.values, arena.shared) == ([a, b], {a: [c]})


def test_an_arena_beyond_the_largest_buffer_becomes_several(
    backend: qnnrt.qnn.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_for = target()
    sizes = (4096, 1024, 2048, 512)
    values = [value(f"v{n}", n) for n in sizes]
    launches = [launch(*values)]
    (one,) = allocation.arenas(launches, made_for, 4 * sum(sizes))
    assert one.plan.peak == 4 * sum(sizes)
    several = allocation.arenas(launches, made_for, 16384)
    assert [[v.size for v in arena.values] for arena in several] == [[4096], [2048, 1024, 512]]
    for arena in several:
        planning.check(arena.items, arena.plan.offsets, 16384)
    # and a graph runs on such
    monkeypatch.setattr(allocation, "most_bytes", lambda device: device.alignment)
    model = layers()
    with qnnrt.Session(model, backend) as s:
        np.testing.assert_allclose(s.run({"x": X})["y"], expected(model), rtol=1e-5, atol=1e-5)
        told = described(s)
        check(told)
        assert told["arenas"] > 1


def test_constants_are_read_where_the_runtime_has_them(backend: qnnrt.qnn.Backend) -> None:
    with qnnrt.Session(layers(), backend) as s:
        told = described(s)
        assert told["weight_bytes"] >= 4 * WIDTH * WIDTH * 4
        if s.backend.library.device.kind == "cpu" and s.backend.library.device.shared:
            assert told["weights_in_place"] > 0
        if not s.backend.library.device.shared:
            assert told["weights_in_place"] == 0


def test_equal_constants_of_a_backends_graphs_are_one() -> None:
    with qnnrt.qnn.Backend.open("gpu", gpu={"weight_sharing": True}) as own:
        with qnnrt.Session(layers(), own) as first:
            assert described(first)["weight_bytes"] >= 4 * WIDTH * WIDTH * 4
            with qnnrt.Session(layers(), own) as second:
                assert described(second)["weight_bytes"] == 0
                got = [s.run({"x": X})["y"].copy() for s in (first, second)]
                np.testing.assert_array_equal(*got)
        with qnnrt.Session(layers(), own) as third:  # nobody has them any more
            assert described(third)["weight_bytes"] >= 4 * WIDTH * WIDTH * 4


def test_constants_of_families_are_copies_on_a_page() -> None:
    made_for = target()
    array = np.arange(12, dtype=np.float16).reshape(3, 4).T
    made = made_for.constant(array, "packed")
    assert made.data is not None
    assert made.data.ctypes.data % 4096 == 0
    assert (made.shape, made.kind, made.nbytes) == ((4, 3), "static", 24)
    np.testing.assert_array_equal(made.data, array)
    assert not np.shares_memory(made.data, array)
