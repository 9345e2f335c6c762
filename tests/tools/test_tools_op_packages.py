"""--op_packages: nodes of a package in the tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.building import WARNINGS, Builder
from support.net_run import net_run
from support.tool_cases import Capture, X, complaint, numbers, python_model, report

pytestmark = pytest.mark.usefixtures("listed_here")

SOURCE = Path(__file__).resolve().parents[1] / "clients/op_package.cc"
MODEL = """
import numpy as np

def compose(graph):
    x = graph.add_tensor("x", (2, 8), np.float32, type="app_write")
    y = graph.add_tensor("y", (2, 8), np.float32, type="app_read")
    params = {"scale": 3.0, "shift": np.arange(8, dtype=np.float32)}
    graph.add_node("scale", "ScaleShift", [x], [y], params, package="test.ops")
"""


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_model_with_nodes_of_a_package_runs_and_is_saved_and_runs(
    builder: Builder, backend: str, tmp_path: Path, capsys: Capture
) -> None:
    library = builder.library(SOURCE, *WARNINGS, name="libTestOps.so")
    model = python_model(tmp_path, text=MODEL)
    package = ["--op_packages", f"{library}:TestOps:CPU"]
    report(capsys, *net_run(model, "--input_list", "l", *package, backend=backend))
    expected = X * 3 + np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/y.raw"), expected.ravel())
    report(
        capsys,
        *("context-binary-generator", "--model", model, "--backend", backend, *package),
        *("--binary_file", "saved", "--output_dir", "binary"),
    )
    run = ("net-run", "--retrieve_context", "binary/saved.bin", "--backend", backend)
    report(capsys, *run, "--input_list", "l", *package, "--output_dir", "again")
    np.testing.assert_array_equal(numbers(tmp_path / "again/Result_0/y.raw"), expected.ravel())
    assert "'test.ops' is not registered" in complaint(capsys, *run, "--input_list", "l")
