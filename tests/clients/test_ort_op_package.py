"""ONNX Runtime's provider option `op_packages`: a node of another domain by an op package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from support.building import WARNINGS, Builder
from support.outside import run_script

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

HERE = Path(__file__).parent
X = np.array([[-2, -1, 0], [1, 2, 3]], np.float32)


def model() -> onnx.ModelProto:
    """y = -op(-x), where my.ops.Relu is Relu for whoever has no package with it."""
    nodes = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node("Relu", ["h"], ["g"], domain="my.ops", name="custom"),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, X.shape) for n in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    body = helper.make_function(
        "my.ops", "Relu", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets[:1]
    )
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[body])


@pytest.mark.parametrize("backend", ["Cpu", "Htp"])
def test_the_provider_runs_a_node_by_the_package(
    builder: Builder, backend: str, tmp_path: Path
) -> None:
    package = builder.library(HERE / "op_package.cc", *WARNINGS, name="libTestOps.so")
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=X)
    # The provider takes what stands before "InterfaceProvider" as the package's name.
    option = {"op_packages": f"Relu:{package}:OrtOpsInterfaceProvider:CPU"}
    (tmp_path / "o.json").write_text(json.dumps({"provider": option}))
    library = Path(qnnrt.__file__).parent / "lib" / f"libQnn{backend}.so"
    files = [tmp_path / name for name in ("m.onnx", "in.npz", "out.npz", "o.json")]
    done = run_script(HERE / "ort_client.py", files[0], library, files[1], files[2], 2, files[3])
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(files[2]) as found:
        np.testing.assert_array_equal(found["arr_0"], -(1 - X))  # the package adds 1
    assert re.search(r"is OrtOps::Relu '\w+' by kernel package OrtOps", done.stderr)
    said = json.loads(done.stdout.splitlines()[-1])
    for what in ("backends", "contexts", "graphs", "logs"):
        assert said["after"][what] == said["before"][what]
