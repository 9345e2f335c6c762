"""Kernels of one work group that run as one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from test_gpu_shares import target

import qnnrt
from qnnrt.dtypes import data_type
from qnnrt.gpu import ir, programs
from qnnrt.gpu.compile import args_before
from qnnrt.gpu.ops import table
from qnnrt.gpu.together import each_kernel, run_together
from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import one_backend  # noqa: F401
from support.gpu.opencl import cl, opencl_is_up  # noqa: F401
from support.one_node import u32

F32 = np.dtype(np.float32)
RW = cl.mem_flags.READ_WRITE


def launches(op: str, shape: tuple[int, ...], **params: Any) -> list[tuple[ir.Node, ir.Launch]]:
    ends = [ir.Value(n, 1, shape, F32, data_type(F32), "native") for n in "xy"]
    node = ir.Node(op, op, ends[:1], ends[1:], params)
    return [(node, launch) for launch in table()[op](node, target())]


def softmax(*shape: int) -> list[tuple[ir.Node, ir.Launch]]:
    return launches("Softmax", shape, axis=1, beta=1.0)


def parts(
    given: list[tuple[ir.Node, ir.Launch]], widest: int = 1024, nests: bool = True
) -> list[int]:
    found = run_together(given, widest, nests)
    assert [launch for _, launch in each_kernel(found)] == [launch for _, launch in given]
    return [len(launch.parts) or 1 for _, launch in found]


def test_kernels_of_one_work_group_are_one() -> None:
    small, relu = softmax(4, 16), launches("Relu", (4, 16))
    assert parts([]) == []
    assert parts(small) == [1]
    assert parts(small * 3) == [3]
    assert parts(small + relu + small) == [3]
    assert parts(small * 20) == [16, 4]
    assert parts(small * 3, widest=128) == [1, 1, 1]


def test_kernels_with_more_to_do_are_alone() -> None:
    small = softmax(4, 16)
    assert parts(small * 2 + softmax(400, 160) + small * 2) == [2, 1, 2]
    assert parts(launches("Relu", (1 << 15,)) * 2) == [1, 1]  # more than one work group's share
    assert parts(launches("Relu", (1 << 11,)) * 2) == [2]  # 512 work items, four elements each
    # Work items behind the group's end would not come to its barriers.
    assert parts(small + launches("Relu", (1 << 11,)) + small) == [1, 1, 1]


def test_local_memory_is_the_entry_s_where_a_device_knows_it_nowhere_else() -> None:
    small, relu = softmax(4, 16), launches("Relu", (4, 16))
    assert parts(small * 2 + relu * 3 + small, nests=False) == [1, 1, 3, 1]


def test_what_notes_indices_is_alone() -> None:
    (node, launch), *_ = launches("Relu", (16,))
    noting = dataclasses.replace(launch, args=(*launch.args, ir.FAULTS, 0))
    assert parts([(node, noting)] * 2) == [1, 1]


def test_equal_runs_have_one_program() -> None:
    """Names and memory are not in the text, and a part that comes twice is there once."""
    (_, one), (_, other) = (run_together(softmax(4, 16) * 3, 1024, True)[0] for _ in range(2))
    text = programs.source(one)
    assert text == programs.source(other)
    assert text.count("KERNEL(softmax_held)(__global") == 1
    assert text.count("qnnrt_part0_softmax_held(a") == 3
    assert text.count("barrier(CLK_GLOBAL_MEM_FENCE);") == 2


def mixed() -> Model:
    """Kernels with barriers and without, of one, two and three dimensions."""
    shapes = {
        "x": (6, 10), "a": (6, 10), "b": (10, 6), "c": (10, 1), "d": (10, 6), "y": (6, 10),
    }  # fmt: skip
    nodes = [
        Node("first", "Softmax", ["x"], ["a"], {"axis": np.uint32(1)}),
        Node("turned", "Transpose", ["a"], ["b"], {"perm": u32(1, 0)}),
        Node("summed", "ReduceSum", ["b"], ["c"], {"axes": u32(1), "keep_dims": True}),
        Node("less", "ElementWiseSubtract", ["b", "c"], ["d"]),
        Node("back", "Transpose", ["d"], ["y"], {"perm": u32(1, 0)}),
    ]
    tensors = {name: Tensor(name, shape, F32) for name, shape in shapes.items()}
    return Model("mixed", tensors, nodes, ["x"], ["y"])


def test_they_compute_what_they_do_alone(
    monkeypatch: pytest.MonkeyPatch,
    one_backend: qnnrt.qnn.Backend,  # noqa: F811
) -> None:
    model, library = mixed(), one_backend.library
    x = np.random.default_rng(0).standard_normal((6, 10), F32)
    with qnnrt.Session(model, "cpu") as cpu:
        expected = cpu.run({"x": x})["y"]
    monkeypatch.setattr(library, "device", dataclasses.replace(library.device, kind="gpu"))
    with qnnrt.Session(model, "gpu") as s:
        got = s.run({"x": x})["y"]
        steps = json.loads(s.graph.describe() or "")["steps"]
        started = library.gpu_counts(s.graph.handle)["kernels"]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
    assert started == len({step["start"] for step in steps}) < len(steps)


def test_parts_before_one_that_writes_are_done() -> None:
    values = [
        ir.Value(n, 1, (4, 16), F32, data_type(F32), kind)
        for n, kind in {"x": "input", "z": "input", "y": "output", "w": "output"}.items()
    ]
    x, z, y, w = values
    graph = ir.Ir("g", tuple(values))

    def step(op: str, read: ir.Value, written: ir.Value, **params: Any) -> Any:
        node = ir.Node(op, op, [read], [written], params)
        return [(node, launch) for launch in table()[op](node, target())]

    def counts(*steps: Any) -> tuple[int, int]:
        made = [launch for step in steps for launch in step]
        launches = [launch for _, launch in run_together(made, 1024, True)]
        found = args_before(launches, graph)
        assert (found[x], found[z]) == (0, 0)
        return found[y], found[w]

    relu, soft = (len(step(op, x, y, axis=1, beta=1.0)[0][1].args) for op in ("Relu", "Softmax"))
    assert counts(step("Relu", x, y)) == (relu, 0)
    assert counts(step("Softmax", x, y, axis=1, beta=1.0)) == (0, 0)
    assert counts(step("Relu", x, y), step("Relu", z, w)) == (relu, 2 * relu)
    assert counts(step("Softmax", z, y, axis=1, beta=1.0), step("Relu", x, w)) == (0, soft + relu)


def test_memory_of_inputs_that_parts_are_done_with(
    monkeypatch: pytest.MonkeyPatch,
    one_backend: qnnrt.qnn.Backend,  # noqa: F811
) -> None:
    """Two states in one kernel, each updated in place, and an input that a later part reads."""
    library, shape = one_backend.library, (4, 16)
    monkeypatch.setattr(library, "device", dataclasses.replace(library.device, kind="gpu"))
    given = {n: np.random.default_rng(i).standard_normal(shape, F32) for i, n in enumerate("abc")}
    with one_backend.create_context() as context:
        graph = context.create_graph("g")
        kinds = dict.fromkeys("abc", "app_write") | {"s": "native"}
        kinds |= dict.fromkeys("uvw", "app_read")
        t = {n: graph.add_tensor(n, shape, F32, type=kind) for n, kind in kinds.items()}
        graph.add_node("softened", "Softmax", [t["c"]], [t["s"]], {"axis": np.uint32(1)})
        for x, y in zip("abs", "uvw", strict=True):
            graph.add_node(f"to {y}", "ElementWiseMultiply", [t[x], t[x]], [t[y]])
        graph.finalize()
        assert library.gpu_counts(graph.handle)["kernels"] == 0
        buffers = {n: cl.Buffer(one_backend.cl_context, RW, 256) for n in "abcuvw"}
        handles = {n: context.register(b, shape, F32, kind="opencl") for n, b in buffers.items()}

        def run(outputs: str) -> list[np.ndarray]:
            for n, x in given.items():
                cl.enqueue_copy(one_backend.cl_queue, buffers[n], x)
            graph.execute([handles[n] for n in "abc"], [handles[n] for n in outputs])
            got = [np.empty(shape, F32) for _ in outputs]
            for n, y in zip(outputs, got, strict=True):
                cl.enqueue_copy(one_backend.cl_queue, y, buffers[n])
            return got

        wanted = run("uvw")
        assert library.gpu_counts(graph.handle)["kernels"] == 1
        np.testing.assert_allclose(wanted[0], given["a"] ** 2, rtol=1e-6)
        for outputs in ("abc", "abw", "ubc", "cbw", "uca"):
            for y, expected in zip(run(outputs), wanted, strict=True):
                np.testing.assert_array_equal(y, expected, outputs)
        # `b` is read by the part behind the one that writes `u`.
        with pytest.raises(qnnrt.GraphError, match="'b' and output 'u' are one OpenCL"):
            run("bvw")
