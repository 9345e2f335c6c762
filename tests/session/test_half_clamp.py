"""HTP's option for results that FLOAT_16 cannot hold: its largest number instead of infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.abi.structs import QnnHtpGraph_CustomConfig_t
from qnnrt.errors import QnnError
from qnnrt.model import Model, Node, Tensor
from support.htp.half import FLOAT16

FP16_CLAMP_OVERFLOW = 20  # QNN_HTP_GRAPH_CONFIG_OPTION_
LARGEST = 65504.0
F16, F32 = np.dtype(np.float16), np.dtype(np.float32)


def clamp(on: bool = True) -> bytes:
    return QnnHtpGraph_CustomConfig_t.pack(option=FP16_CLAMP_OVERFLOW, fp16ClampOverflow=on)


X = np.array([[3.0, -3.0, 300.0, -300.0], [6e4, 12.0, 6e4, np.nan], [6e4, 6e4, -6e4, 6e4]])
ONE = np.array([[2.0, 40.0, 300.0, 300.0], [2.0, 1.0, 9000.0, 1.0], [1.0, 1.0, 1.0, -2.0]])
WEIGHTS = np.array([[1.0, 2.0, 300.0, 250.0], [-1.0, -2.0, -300.0, -250.0]])

#: Ops with post ops and without, of one output and of several, with constants beyond the range.
OPS: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
    ("ElementWiseMultiply", [ONE], {}),
    ("ElementWiseMultiply", [ONE * 1e4], {}),
    ("ElementWiseExp", [], {}),
    ("FullyConnected", [WEIGHTS], {}),
    ("ReduceSum", [], {"axes": np.array([1], np.uint32), "keep_dims": True}),
    ("CumulativeSum", [], {"axis": np.uint32(1)}),
    ("Softmax", [], {}),
]


def model(op: str, constants: list[np.ndarray], params: dict[str, Any], dtype: np.dtype) -> Model:
    shape = {"FullyConnected": (3, 2), "ReduceSum": (3, 1)}.get(op, X.shape)
    found = Model(op, inputs=["x"], outputs=["y"])
    found.tensors["x"] = Tensor("x", X.shape, dtype)
    found.tensors["y"] = Tensor("y", shape, dtype)
    for i, values in enumerate(constants):
        with np.errstate(over="ignore"):
            data = values.astype(dtype)
        found.tensors[f"c{i}"] = Tensor(f"c{i}", values.shape, dtype, data)
    names = ["x", *(f"c{i}" for i in range(len(constants)))]
    found.nodes.append(Node("n", op, names, ["y"], params))
    return found


def run(model: Model, *configs: bytes, **more: Any) -> np.ndarray:
    with qnnrt.Session(model, "htp", options={"graph_config": list(configs), **more}) as s:
        y = s.run({"x": X.astype(model.tensors["x"].dtype)})["y"]
    return np.asarray(y, np.float64)


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize(("op", "constants", "params"), OPS, ids=[op for op, _, _ in OPS])
def test_what_would_be_infinite_is_the_largest_number(
    op: str, constants: list[np.ndarray], params: dict[str, Any], kernels: str
) -> None:
    half = model(op, constants, params, F16)
    single = model(op, constants, params, F32)
    for net, configs in ((half, []), (single, [FLOAT16])):
        if net is half and any(np.abs(c).max() > LARGEST for c in constants):
            continue  # a constant that is infinite is the client's
        plain = run(net, *configs, kernels=kernels)
        assert run(net, *configs, clamp(False), kernels=kernels).tobytes() == plain.tobytes()
        got = run(net, *configs, clamp(), kernels=kernels)
        finite = np.isfinite(plain)
        assert np.isinf(plain).any() == (op != "Softmax")
        np.testing.assert_array_equal(got[finite], plain[finite])
        np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))
        infinite = np.isinf(plain)
        np.testing.assert_array_equal(got[infinite], np.copysign(LARGEST, plain[infinite]))


def test_a_graph_in_float32_is_as_it_was() -> None:
    single = model("ElementWiseMultiply", [ONE * 1e4], {}, F32)
    assert run(single, clamp()).tobytes() == run(single).tobytes()


def test_a_binary_keeps_it(tmp_path) -> None:
    half = model("ElementWiseExp", [], {}, F16)
    with qnnrt.Session(half, "htp", options={"graph_config": [clamp()]}) as s:
        s.save_binary(tmp_path / "x.bin")
    with qnnrt.Session(tmp_path / "x.bin", "htp") as s:
        y = s.run({"x": X.astype(F16)})["y"]
    assert y[0, 2] == LARGEST


def test_only_htp_has_the_option() -> None:
    with pytest.raises((QnnError, ValueError)):
        qnnrt.Session(
            model("ElementWiseExp", [], {}, F16), "cpu", options={"graph_config": [clamp()]}
        )
