"""The vendor's libraries of the onnxruntime-qnn wheel, and a context binary of its simulator."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.model import Quantization


def vendor_library(name: str) -> str:
    """A library of the wheel; the test is skipped where the wheel is not installed."""
    spec = importlib.util.find_spec("onnxruntime_qnn")
    if spec is None or spec.origin is None:
        pytest.skip("the package onnxruntime-qnn is not installed")
    path = Path(spec.origin).parent / name
    assert path.exists(), path
    return str(path)


def two_graphs(backend: qnn.Backend, dtype: str = "float32") -> bytes:
    """A binary of "first", with a memhandle input, and "second", float with a memhandle output.

    "first" is quantized when ``dtype`` is an integer type.
    """
    context = backend.create_context()
    q = None if dtype.startswith("float") else Quantization(0.5, -3)
    first = context.create_graph("first")
    x = first.add_tensor(
        "x", (1, 4, 4, 8), dtype, type="app_write", quantization=q, mem_type="memhandle"
    )
    y = first.add_tensor("y", (1, 4, 4, 8), dtype, type="app_read", quantization=q)
    first.add_node("r", "Relu", [x], [y])
    first.finalize()
    second = context.create_graph("second")
    x = second.add_tensor("in/x", (2, 3), np.float32, type="app_write")
    y = second.add_tensor("y", (2, 3), np.float32, type="app_read", mem_type="memhandle")
    second.add_node("r", "Relu", [x], [y])
    second.finalize()
    return context.binary()


@functools.cache
def simulator_binary() -> bytes:
    """``two_graphs`` of the vendor's HTP simulator, the first quantized."""
    with qnn.Backend.open(vendor_library("libQnnHtp.so"), log_level="error") as backend:
        return two_graphs(backend, "uint8")
