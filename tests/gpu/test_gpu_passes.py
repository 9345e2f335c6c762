"""What becomes of a graph before its kernels are made: views, constants, graphs without kernels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import ir
from qnnrt.gpu.compile import launches_of
from qnnrt.gpu.device import choose
from qnnrt.gpu.ops.common import fused
from qnnrt.gpu.passes import aliases
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Tensor
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.toy import F32, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are


@pytest.fixture(scope="module")
def backend(opencl_is_up: None) -> Iterator[qnnrt.qnn.Backend]:  # noqa: F811
    with qnnrt.qnn.Backend.open("gpu") as found:
        yield found


def run(model: Model, backend: qnnrt.qnn.Backend, **given: object) -> tuple[dict, dict[str, int]]:
    """Outputs of one run, and what it enqueued, where kernels that run as one count each."""
    with qnnrt.Session(model, backend) as s:
        got = {k: v.copy() for k, v in s.run(given).items()}
        counts = s.backend.library.gpu_counts(s.graph.handle)
        return got, counts | {"kernels": len(json.loads(s.graph.describe() or "")["steps"])}


X = np.arange(-6, 6, dtype=np.float32)


def chain(*steps: tuple[str, str, str, tuple[int, ...]], outputs: str) -> Model:
    """Nodes (type, input, output, shape of the output) on x[3,4]."""
    given = [Tensor("x", (3, 4), F32), *(Tensor(y, shape, F32) for _, _, y, shape in steps)]
    nodes = [Node(f"{t}_{i}", t, [x], [y]) for i, (t, x, y, _) in enumerate(steps)]
    for node in nodes:
        if node.type == "ExpandDims":
            node.params["axis"] = np.uint32(0)
    return Model("chain", tensors(*given), nodes, ["x"], outputs.split())


def test_reshapes_between_nodes_start_no_kernel(backend: qnnrt.qnn.Backend) -> None:
    model = chain(
        ("Reshape", "x", "a", (2, 6)),
        ("Relu", "a", "b", (2, 6)),
        ("Reshape", "b", "c", (12,)),
        ("ExpandDims", "c", "d", (1, 12)),
        ("ElementWiseNeg", "d", "e", (1, 12)),
        ("Squeeze", "e", "y", (12,)),
        outputs="y",
    )
    got, counts = run(model, backend, x=X.reshape(3, 4))
    np.testing.assert_array_equal(got["y"], -np.maximum(X, 0))
    assert counts["kernels"] == 1  # for both of the others


def test_what_is_input_and_output_is_copied_by_a_kernel(backend: qnnrt.qnn.Backend) -> None:
    model = chain(("Reshape", "x", "a", (2, 6)), ("Squeeze", "a", "y", (2, 6)), outputs="y")
    got, counts = run(model, backend, x=X.reshape(3, 4))
    np.testing.assert_array_equal(got["y"], X.reshape(2, 6))
    assert counts["kernels"] == 1


def test_outputs_of_one_value_are_written_once_and_copied(backend: qnnrt.qnn.Backend) -> None:
    model = chain(
        ("Relu", "x", "a", (3, 4)),
        ("Reshape", "a", "y", (2, 6)),
        ("Reshape", "a", "z", (12,)),
        ("ElementWiseNeg", "a", "w", (3, 4)),
        outputs="y z w",
    )
    got, counts = run(model, backend, x=X.reshape(3, 4))
    y = np.maximum(X, 0)
    for name, expected in (("y", y.reshape(2, 6)), ("z", y), ("w", -y.reshape(3, 4))):
        np.testing.assert_array_equal(got[name], expected)
    assert counts["kernels"] == 3  # Relu, Neg and the copy to one of the two


def test_nodes_that_nobody_reads_and_parts_of_them(backend: qnnrt.qnn.Backend) -> None:
    model = chain(("Relu", "x", "y", (3, 4)), ("Tanh", "x", "unused", (3, 4)), outputs="y")
    got, _ = run(model, backend, x=X.reshape(3, 4))
    np.testing.assert_array_equal(got["y"], np.maximum(X, 0).reshape(3, 4))


def test_inputs_that_nobody_reads_and_graphs_without_kernels(backend: qnnrt.qnn.Backend) -> None:
    model = chain(("Relu", "x", "y", (3, 4)), outputs="y")
    model.tensors["z"] = Tensor("z", (2,), F32)
    model.inputs.append("z")
    got, _ = run(model, backend, x=X.reshape(3, 4), z=X[:2])
    np.testing.assert_array_equal(got["y"], np.maximum(X, 0).reshape(3, 4))
    for nodes in (model.nodes, []):  # what nobody reads is removed
        nothing = Model("nothing", model.tensors, nodes, ["x"], [])
        got, counts = run(nothing, backend, x=X.reshape(3, 4))
        assert (got, counts["kernels"]) == ({}, 0)


def test_a_constant_becomes_an_output(backend: qnnrt.qnn.Backend) -> None:
    model = chain(("Reshape", "k", "y", (4, 3)), outputs="y")
    model.tensors["k"] = Tensor("k", (3, 4), F32, X.reshape(3, 4))
    got, counts = run(model, backend, x=X.reshape(3, 4))
    np.testing.assert_array_equal(got["y"], X.reshape(4, 3))
    assert counts["kernels"] == 1


def test_the_runtimes_passes_come_first(backend: qnnrt.qnn.Backend) -> None:
    model = chain(
        ("ElementWiseAdd", "k", "two_k", (4,)),
        ("ElementWiseMultiply", "x", "scaled", (3, 4)),
        ("Relu", "scaled", "y", (3, 4)),
        outputs="y",
    )
    model.tensors["k"] = Tensor("k", (4,), F32, np.arange(4, dtype=np.float32))
    model.nodes[0].inputs = ["k", "k"]
    model.nodes[1].inputs = ["x", "two_k"]
    for optimize in (True, False):
        options = {"gpu": {"node_optimizations": optimize}}
        with qnnrt.Session(model, "gpu", options=options) as s:
            got = s.run({"x": X.reshape(3, 4)})["y"]
            np.testing.assert_array_equal(got, np.maximum(X.reshape(3, 4) * 2 * np.arange(4), 0))
            assert s.backend.library.gpu_counts(s.graph.handle)["kernels"] <= 2
            with pytest.raises(qnnrt.QnnError, match="is finalized: it takes no more tensors"):
                s.graph.add_tensor("late", (3,), F32)
            s.backend.close()


def graph(*nodes: ir.Node) -> ir.Ir:
    return ir.Ir("g", nodes=list(nodes))


def value(name: str, *shape: int, kind: str = "native", code: int = 0x0232) -> ir.Value:
    return ir.Value(name, 1, shape, F32, code, kind)


@pytest.mark.parametrize(
    ("shape", "perm", "view"),
    [
        ((1, 3, 4), (1, 0, 2), True),
        ((1, 3, 4), (1, 2, 0), True),
        ((2, 3, 4), (1, 0, 2), False),
        ((2, 1, 4), (2, 1, 0), False),
        ((1, 1), (1, 0), True),
    ],
)
def test_transposes_that_only_move_ones_are_views(
    shape: tuple[int, ...], perm: tuple[int, ...], view: bool
) -> None:
    x, y = value("x", *shape), value("y", *(shape[p] for p in perm))
    node = ir.Node("t", "Transpose", [x], [y], {"perm": np.array(perm, np.uint32)})
    g = graph(node)
    aliases.share(g, Target(choose()))
    assert (x.root is y.root) == view
    assert g.nodes == ([] if view else [node])


def test_casts_between_types_are_no_views() -> None:
    x = value("x", 3)
    same, other = value("y", 3), value("z", 3, code=0x0216)
    cast = [ir.Node("c", "Cast", [x], [y], {}) for y in (same, other)]
    assert [aliases.is_view(n) for n in cast] == [True, False]


def test_tensors_that_a_kernel_cannot_count_are_refused_all_at_once() -> None:
    x, y, z = value("x", 1 << 16, 1 << 15), value("y", 1 << 31), value("z", 3)
    nodes = [
        ir.Node("flat", "Reshape", [x], [y], {}),
        ir.Node("odd", "NoSuchOp", [z], [z], {}),
        ir.Node("relu", "Relu", [z], [z], {}),
    ]
    with pytest.raises(qnnrt.UnsupportedOpError) as e:
        launches_of(graph(*nodes), Target(choose()))
    assert [(n.name, n.reason) for n in e.value.nodes] == [
        ("flat", "tensor 'x' has 2147483648 elements, kernels take 2147483647 at most"),
        ("odd", "the gpu backend has no such operation"),
    ]


def test_functions_of_kernels_are_static() -> None:
    """`inline` alone lets a compiler call another definition, which there is none of."""
    folder = Path(gpu.__file__).with_name("kernels")
    sources = [p.read_text() for p in sorted(folder.glob("*.cl"))]
    post = ir.Post("sin(v)")
    sources.append(fused(ir.Node("a", "MatMul", [], [], {}, [post])).before)
    for text in sources:
        assert not re.search(r"^inline ", text, re.MULTILINE)
