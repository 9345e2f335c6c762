"""Nodes that a file has in another order than the one in which they can run."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from support.onnx import models as onnx_models

FLOAT = TensorProto.FLOAT


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    with qnnrt.Session(importer.load(proto.SerializeToString())) as session:
        return next(iter(session.run(feeds).values())).copy()


def shuffled(graph: onnx.GraphProto | onnx.FunctionProto, seed: int) -> None:
    nodes = list(graph.node)
    random.Random(seed).shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


@pytest.mark.parametrize("seed", range(4))
def test_a_network_in_any_order(seed: int) -> None:
    proto = onnx_models.small_network()
    name = proto.graph.input[0].name
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected = run(proto, {name: x})
    shuffled(proto.graph, seed)
    np.testing.assert_array_equal(run(proto, {name: x}), expected)


def value(name: str, shape: list[int] | None = None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [3] if shape is None else shape)


def model(nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto] | None = None) -> bytes:
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    made = helper.make_model(graph, opset_imports=opsets, functions=functions or [], ir_version=9)
    return bytes(made.SerializeToString())


def test_a_branch_that_reads_what_is_written_behind_its_node() -> None:
    """In the branch, and from the graph around it."""
    inner = [
        helper.make_node("Neg", ["twice"], ["out"]),
        helper.make_node("Add", ["around", "around"], ["twice"]),
    ]
    body = helper.make_graph(inner, "body", [], [value("out")])
    yes = helper.make_tensor("yes", TensorProto.BOOL, (), [True])
    nodes = [
        helper.make_node("If", ["which"], ["y"], then_branch=body, else_branch=body),
        helper.make_node("Abs", ["x"], ["around"]),
        helper.make_node("Constant", [], ["which"], value=yes),
    ]
    x = np.array([1, -2, 3], np.float32)
    got = run(onnx.ModelProto.FromString(model(nodes)), {"x": x})
    np.testing.assert_array_equal(got, -2 * np.abs(x))


def test_a_function_in_any_order() -> None:
    inner = [
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Abs", ["a"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("mine", "F", ["a"], ["c"], inner, opsets)
    data = model([helper.make_node("F", ["x"], ["y"], domain="mine")], [function])
    x = np.array([1, -2, 3], np.float32)
    np.testing.assert_array_equal(run(onnx.ModelProto.FromString(data), {"x": x}), -np.abs(x))


def test_nodes_that_wait_for_each_other_are_refused() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    with pytest.raises(ModelError, match=r"reads 'b', which is neither .* of an earlier node"):
        importer.load(model(nodes))


def test_a_node_that_reads_its_own_output_is_refused() -> None:
    with pytest.raises(ModelError, match="reads 'y'"):
        importer.load(model([helper.make_node("Add", ["x", "y"], ["y"])]))


@pytest.mark.foreign
def test_casts_that_a_converter_appends() -> None:
    """ONNX Runtime's converter to float16 writes the Cast of an input behind what reads it."""
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    proto = onnx_models.small_network()
    name = proto.graph.input[0].name
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    half = float16.convert_float_to_float16(
        onnx.shape_inference.infer_shapes(proto), keep_io_types=True
    )
    readers = {i: at for at, node in reversed(list(enumerate(half.graph.node))) for i in node.input}
    makers = {o: at for at, node in enumerate(half.graph.node) for o in node.output}
    assert any(makers.get(i, -1) > at for i, at in readers.items()), "it sorts them now"
    exact = run(proto, {name: x})
    np.testing.assert_allclose(run(half, {name: x}), exact, atol=5e-3 * np.abs(exact).max())
