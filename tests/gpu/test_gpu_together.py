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
from qnnrt.gpu.ops import table
from qnnrt.gpu.together import each_kernel, run_together
from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.one_node import u32

F32 = np.dtype(np.float32)


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
