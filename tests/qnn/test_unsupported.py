"""``UnsupportedOpError``: a line for each reason, all nodes in an attribute."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import UnsupportedNode, UnsupportedOpError
from qnnrt.importers import onnx as importer
from qnnrt.importers import tflite
from qnnrt.model import Model, Node, Tensor
from support.onnx.models import model_of

F32 = np.float32


def nodes(count: int, reason: str, start: int = 0) -> list[UnsupportedNode]:
    return [UnsupportedNode(f"n{start + i}", "Conv", "float32", reason) for i in range(count)]


def test_nodes_with_one_reason_are_one_line_with_the_first_five() -> None:
    error = UnsupportedOpError([*nodes(67, "no floats"), *nodes(1, "no such", 67)], "m.onnx")
    head, many, one, note = str(error).splitlines()
    assert head == "68 nodes are not supported in m.onnx:"
    assert many == (
        "  67 nodes, Conv 'n0' (float32), Conv 'n1' (float32), Conv 'n2' (float32), "
        "Conv 'n3' (float32), Conv 'n4' (float32) and 62 more: no floats"
    )
    assert one == "  Conv 'n67' (float32): no such"
    assert "'nodes'" in note
    assert [n.name for n in error.nodes] == [f"n{i}" for i in range(68)]


def test_five_nodes_are_all_named() -> None:
    text = str(UnsupportedOpError(nodes(5, "no floats")))
    assert text.count("Conv") == 5
    assert "more" not in text
    assert len(text.splitlines()) == 2


def test_the_text_is_short_however_many_reasons_there_are() -> None:
    error = UnsupportedOpError([n for i in range(5000) for n in nodes(1, f"reason {i}", i)])
    assert "and 4980 more reasons" in str(error)
    assert len(str(error).splitlines()) < 30
    assert len(error.nodes) == 5000


def test_the_error_can_be_pickled() -> None:
    error = UnsupportedOpError(nodes(7, "no floats"), "m.onnx")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.nodes) == (str(error), error.nodes)


def test_a_float_model_on_lpai_is_one_line() -> None:
    f32 = np.dtype(np.float32)
    names = [f"t{i}" for i in range(68)]
    model = Model(
        "chain",
        {name: Tensor(name, (1, 4), f32) for name in names},
        [Node(f"n{i}", "Relu", [names[i]], [names[i + 1]]) for i in range(67)],
        names[:1],
        names[-1:],
    )
    with pytest.raises(UnsupportedOpError) as e:
        qnnrt.Session(model, "lpai")
    assert len(e.value.nodes) == 67
    _, line, note = str(e.value).splitlines()
    assert line.startswith("  67 nodes, Relu 'n0' (float32), ")
    assert line.endswith(
        " and 62 more: lpai computes on fixed-point numbers alone: quantize the model first, see "
        "docs/quantization.md"
    )
    assert "'nodes'" in note
    assert "'t0', 't1' are float" in e.value.nodes[0].reason  # each node's own


def test_an_onnx_node_that_contains_what_is_listed_is_not_listed_itself() -> None:
    branch = helper.make_graph(
        [helper.make_node("MaxRoiPool", ["m", "m"], ["d"], name="inner", pooled_shape=[1, 1])],
        "branch",
        [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, [])],
    )
    proto = model_of(
        [
            helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=branch),
            helper.make_node("Abs", ["y"], ["z"], name="behind"),
        ],
        {"m": (2, 2)},
        ["z"],
        {"c": np.array(True)},
        17,
        {},
    )
    with pytest.raises(UnsupportedOpError) as e:
        importer.load(proto)
    assert [(n.name, n.op) for n in e.value.nodes] == [("inner", "MaxRoiPool")]


def test_a_tflite_operator_behind_an_unknown_shape_is_not_listed() -> None:
    pytest.importorskip("ai_edge_litert")
    from support.tflite.builder import ModelBuilder

    b = ModelBuilder()
    x = b.input((2, 3))
    (y,) = b.op("UNIQUE", [x], [((), F32)])  # no dimensions: any rank
    (z,) = b.op("CONCATENATION", [y, y], [((), F32)], "ConcatenationOptions", axis=1)
    (u,) = b.op("STABLEHLO_WHILE", [z], [((2, 3), F32)])
    (shape,) = b.op("SHAPE", [y], [((1,), np.int32)], "ShapeOptions")
    (v,) = b.op("RESHAPE", [x, shape], [((6,), F32)], "ReshapeOptions")
    b.output(u, v)
    with pytest.raises(UnsupportedOpError) as e:
        tflite.load(b.build())
    assert [n.op for n in e.value.nodes] == ["UNIQUE", "STABLEHLO_WHILE"]
