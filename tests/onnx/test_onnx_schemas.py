"""The table of onnx's schemas says what the installed onnx says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from qnnrt.importers.onnx import checks, schemas
from qnnrt.importers.onnx.reader import FIRST_OPSET

OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})
OPSETS = range(FIRST_OPSET, min(schemas.newest(), onnx.defs.onnx_opset_version()) + 1)


@pytest.mark.skipif(
    onnx.__version__ != schemas.made_from(),
    reason=f"the table is made from onnx {schemas.made_from()}: python tools/onnx_schemas.py",
)
def test_the_table_is_what_onnx_has() -> None:
    assert schemas.newest() == onnx.defs.onnx_opset_version()
    for op in OPERATORS:
        for opset in OPSETS:
            assert checks.spec_of(op, opset, "") == checks.spec_of_installed(op, opset, "")


def test_what_the_table_has_not_is_asked_of_onnx() -> None:
    newer = schemas.newest() + 1
    assert schemas.find("Relu", newer) == schemas.find("Relu", newer - 1)
    assert schemas.find("Rel", 13) is None
    assert schemas.find("Celu", 11) is None  # of opset 12
    # of another domain; of no domain; no longer there
    scaler = checks.spec_of("Scaler", 1, "ai.onnx.ml")
    assert scaler is not None
    assert scaler.attributes.keys() == {"offset", "scale"}
    assert checks.spec_of("Rel", 13, "") is None
    assert checks.spec_of("Upsample", 10, "") is None


def test_schemas_of_an_ordinary_model_are_not_built(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Sigmoid", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    program = (
        "import sys, onnx\n"
        "def asked(*_): raise AssertionError('onnx was asked for a schema')\n"
        "onnx.defs.get_schema = asked\n"
        "from qnnrt.importers import load\n"
        "load(sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
