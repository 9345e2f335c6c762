"""``--capacity`` of the commands that load .onnx files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support.generator import generator
from support.tool_cases import Capture, call, complaint, listed, numbers, onnx_model, raw, report

pytestmark = pytest.mark.usefixtures("listed_here")


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """y = the numbers from 0 to below the sum of x."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Range", ["zero", "sum", "one"], ["y"]),
        ],
        "counting",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["n"])],
        [helper.make_tensor(n, TensorProto.INT32, [], [i]) for i, n in enumerate(("zero", "one"))],
    )
    path = tmp_path / "counting.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_commands_take_capacities(counting: Path, capsys: Capture) -> None:
    for command in ("run", "inspect"):
        found = report(capsys, command, counting, "--capacity", "sum=8")["outputs"]
        names = list(found) if isinstance(found, dict) else [t["name"] for t in found]
        assert names == ["y", "y.count", "sum.count"]


def test_the_generator_and_net_run_take_capacities(
    counting: Path, tmp_path: Path, capsys: Capture
) -> None:
    made = generator(counting, "--binary_file", "made", "--capacity", "sum=8", backend="cpu")
    assert call(*made) == 0
    raw(tmp_path / "x.raw", np.array([1, 3, 2], np.float32))
    listed(tmp_path / "l", "x.raw")
    binary = ("--retrieve_context", tmp_path / "output/made.bin")
    for source in (("--model", counting, "--capacity", "sum=8"), binary):
        assert call("net-run", *source, "--backend", "cpu", "--input_list", "l") == 0
        folder = tmp_path / "output/Result_0"
        np.testing.assert_array_equal(numbers(folder / "y.raw")[:6], np.arange(6))
        assert numbers(folder / "y_count.raw")[0] == 6
        capsys.readouterr()


def test_what_is_wrong_is_said(counting: Path, tmp_path: Path, capsys: Capture) -> None:
    error = complaint(capsys, "run", counting)
    assert "capacities={'sum': ...}; here: --capacity TENSOR=N" in error
    other = onnx_model(tmp_path)
    library = tmp_path / "lib.tflite"
    library.write_bytes(b"")
    for model, given, words in [
        (counting, ["sum"], "--capacity sum: expected TENSOR=N with a whole number"),
        (counting, ["sum=-1"], "--capacity sum=-1: expected TENSOR=N"),
        (counting, ["sum=1", "sum=2"], "--capacity sum=2: sum was given twice"),
        (counting, ["sim=8"], "nearest: 'sum'"),
        (counting, ["sum=0"], "the capacity of 'sum' is 0; it has to be 1 to"),
        (library, ["sum=8"], "--capacity: only of .onnx files sizes are computed, not of"),
    ]:
        options = [part for text in given for part in ("--capacity", text)]
        assert words in complaint(capsys, "run", model, *options)
    made = generator(f"{counting},{other}", "--binary_file", "b", "--capacity", "sum=8")
    assert "--capacity: the tensors are those of one model" in complaint(capsys, *made)
    old = ("net-run", "--backend", "cpu", "--retrieve_context", "b.bin", "--input_list", "l")
    assert "--capacity: the sizes in a context binary were chosen" in complaint(
        capsys, *old, "--capacity", "sum=8"
    )
