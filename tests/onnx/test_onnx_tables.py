"""An operator's rules lie in modules that are imported when a network has the operator."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx import tables
from qnnrt.importers.onnx.nodes import TABLE
from qnnrt.importers.onnx.tables import Table

_SMALL = """
import sys
from onnx import TensorProto, helper
import numpy as np
from qnnrt.importers import onnx as importer
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", (1, 3, 8, 8)), ("y", (1, 4, 8, 8))))
w = helper.make_tensor("w", TensorProto.FLOAT, (4, 3, 1, 1), np.zeros(12, np.float32))
nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
graph = helper.make_graph(nodes, "g", [x], [y], [w])
importer.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
print(*(m.rpartition(".")[2] for m in sys.modules if m.startswith("qnnrt.importers.")))
"""


def test_each_listed_operator_is_registered_by_its_module() -> None:
    assert tables._TABLES
    for table in tables._TABLES:
        for op in table:
            assert table.get(op) is table[op]  # whose module said so
    assert set(importer.supported_ops()) >= set(TABLE)


def test_a_network_imports_what_its_operators_need() -> None:
    run = subprocess.run([sys.executable, "-c", _SMALL], check=True, capture_output=True, text=True)
    loaded = set(run.stdout.split())
    assert {"op_conv", "op_activation", "infer_windows", "infer_elementwise"} <= loaded
    assert not loaded & {
        *("op_gather", "op_norm", "op_quantize", "op_recurrent", "op_reduce", "op_resize"),
        *("fold_elementwise", "fold_index", "fold_make", "fold_reduce", "fold_shape"),
        *("attended", "bits", "blocks", "contrib", "expanded", "fused", "fused_attention"),
        *("bounded", "control_flow", "rows", "sequences", "sizes", "many", "python_ops"),
        *("norm_algebra", "norms", "qlinear", "quantized"),
        *("op_matmul", "einsum", "infer_linear", "child", "external", "attention"),
    }


def test_an_operator_that_is_not_listed_cannot_be_registered() -> None:
    table: Table[object] = Table({"op_conv": "Conv"})
    tables._TABLES.remove(table)
    with pytest.raises(LookupError, match="Gemm is not listed as one of test_onnx_tables"):
        table.register(["Gemm"], test_each_listed_operator_is_registered_by_its_module)
    assert table.get("Gemm") is None
    assert "Gemm" not in table
    with pytest.raises(KeyError):
        table["Gemm"]
