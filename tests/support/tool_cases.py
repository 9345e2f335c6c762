"""What the tests of the SDK's tools share: models in files, input lists, calls in process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from qnnrt.cli import main

Capture = pytest.CaptureFixture[str]

#: y = -max(x, 0), with the tensor h between; a batch of two.
PYTHON_MODEL = """
import numpy as np

def compose(graph):
    x = graph.add_tensor("x", (2, 8), np.float32, type="app_write")
    h = graph.add_tensor("h", (2, 8), np.float32)
    y = graph.add_tensor("out/y", (2, 8), np.float32, type="app_read")
    graph.add_node("relu", "Relu", [x], [h])
    graph.add_node("neg", "ElementWiseNeg", [h], [y])
"""

#: An input of it, and its output.
X = np.arange(-8, 8, dtype=np.float32).reshape(2, 8)
EXPECTED = -np.maximum(X, 0).ravel()

#: A tensor of each type through Reshape: what goes in comes out.
TYPES = ("float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")
TYPES_MODEL = f"""
import numpy as np

def compose(graph):
    for name in {TYPES!r}:
        a = graph.add_tensor("in_" + name, (1, 6), np.dtype(name), type="app_write")
        b = graph.add_tensor("out_" + name, (6, 1), np.dtype(name), type="app_read")
        graph.add_node(name, "Reshape", [a], [b])
"""


def python_model(folder: Path, name: str = "m", text: str = PYTHON_MODEL) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def onnx_model(folder: Path, name: str = "sum", shape: Sequence[int] = (1, 4)) -> Path:
    """total = a + 2 * b, positive = relu(total)."""
    values = {
        n: helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape))
        for n in ("a", "in/b", "total", "positive")
    }
    nodes = [
        helper.make_node("Mul", ["in/b", "two"], ["twice"], name="double"),
        helper.make_node("Add", ["a", "twice"], ["total"], name="add"),
        helper.make_node("Relu", ["total"], ["positive"], name="cut"),
    ]
    graph = helper.make_graph(
        nodes,
        "some graph",
        [values["a"], values["in/b"]],
        [values["total"], values["positive"]],
        [helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])],
    )
    path = folder / f"{name}.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def raw(path: Path, values: Any, dtype: Any = np.float32) -> Path:
    """A file with the bytes of some values."""
    np.asarray(values).astype(dtype).tofile(path)
    return path


def listed(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def here(folder: Path, monkeypatch: pytest.MonkeyPatch, **inputs: Any) -> None:
    """Work in a folder, with a file of each input in it."""
    monkeypatch.chdir(folder)
    for name, values in inputs.items():
        raw(folder / f"{name}.raw", values)


def numbers(path: Path, dtype: Any = np.float32) -> np.ndarray:
    return np.fromfile(path, dtype)


def call(*arguments: object) -> int:
    """The exit status of a command run in this process."""
    try:
        return main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)


def complaint(capsys: Capture, *arguments: object) -> str:
    """The one error line of a command that ends with status 2, without anything on stdout."""
    status = call(*arguments)
    out, err = capsys.readouterr()
    assert status == 2, (status, out, err)
    assert out == ""
    lines = [line for line in err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, err
    assert " error: " in lines[0]
    return lines[0]


def report(capsys: Capture, *arguments: object) -> dict[str, Any]:
    """The JSON object that a command prints; it succeeds."""
    status = call(*arguments, "--json")
    out, err = capsys.readouterr()
    assert status == 0, (status, out, err)
    found: dict[str, Any] = json.loads(out)
    return found


def results(folder: Path) -> dict[str, set[str]]:
    """Result folders, relative, and the names of the files in them."""
    return {
        str(path.relative_to(folder)): {f.name for f in path.iterdir()}
        for path in sorted(folder.rglob("Result_*"))
    }
