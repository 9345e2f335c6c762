"""How often a graph is walked through while Quantize rises through what moves elements."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qnnrt.importers import onnx as importer
from qnnrt.importers import rewriting


def _chain(length: int) -> onnx.ModelProto:
    node = helper.make_node
    names = ["x", *(f"m{i}" for i in range(length))]
    nodes = [
        node("MaxPool", [a], [b], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        for a, b in itertools.pairwise(names)
    ]
    nodes += [node("QuantizeLinear", [names[-1], "s"], ["q"])]
    nodes += [node("DequantizeLinear", ["q", "s"], ["y"])]
    float_, scale = TensorProto.FLOAT, numpy_helper.from_array(np.float32(0.1), "s")
    x = helper.make_tensor_value_info("x", float_, (1, 4, 6, 6))
    graph = helper.make_graph(
        nodes, "g", [x], [helper.make_tensor_value_info("y", float_, None)], [scale]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_a_longer_chain_of_moves_is_not_walked_through_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks: list[int] = []
    index = rewriting.Graph.index

    def counted(graph: rewriting.Graph) -> None:
        walks.append(1)
        index(graph)

    monkeypatch.setattr(rewriting.Graph, "index", counted)
    counts = []
    for length in (2, 20):
        walks.clear()
        model = importer.load(_chain(length))
        counts.append(len(walks))
        quantizes = [i for i, n in enumerate(model.nodes) if n.type == "Quantize"]
        pools = [i for i, n in enumerate(model.nodes) if n.type == "PoolMax2d"]
        assert len(pools) == length
        assert len(quantizes) == 1
        assert quantizes[0] < pools[0]
    assert counts[0] == counts[1]
