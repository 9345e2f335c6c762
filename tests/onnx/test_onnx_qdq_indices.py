"""What is quantized behind a TopK is not rounded before it: its indices are those of the floats."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer


def test_indices_are_those_of_the_numbers_before_they_are_rounded() -> None:
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "indices"], largest=0),
        helper.make_node("QuantizeLinear", ["values", "scale", "zero"], ["codes"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [5])],
        [helper.make_tensor_value_info("indices", 7, [2]),
         helper.make_tensor_value_info("codes", 3, [2])],
        [numpy_helper.from_array(np.int64([2]), "k"),
         numpy_helper.from_array(np.float32(0.25), "scale"),
         numpy_helper.from_array(np.int8(3), "zero")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    x = np.float32([-1.65, -1.98, 1.1, -2.1, -2.87])  # -1.98 and -2.1 have one code
    with qnnrt.Session(importer.load(proto)) as s:
        found = s.run({"x": x})
    np.testing.assert_array_equal(found["indices"], [4, 3])
    np.testing.assert_array_equal(found["codes"], np.int8([-8, -5]))
