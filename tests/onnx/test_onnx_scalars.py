"""Elementwise operators on tensors of rank 0: their results are of rank 0, whatever they become."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

ONE = {
    "Abs", "Acos", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish",
    "Neg", "Reciprocal", "ReduceSum", "ReduceMean", "Relu", "Round", "Selu", "Shrink", "Sigmoid",
    "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
}  # fmt: skip
TWO = {"Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"}
BOOLEAN = {"Equal", "Greater", "Less"}
BITS = {"BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}


def operands(op: str) -> dict[str, np.ndarray]:
    x = np.array(-0.3 if op in ("Celu", "LeakyRelu") else 0.3, np.float32)
    if op == "Clip":  # ONNX Runtime takes a limit of shape [1], too
        return {"v": x, "w": np.array([0.5], np.float32)}
    return {"v": x, "w": np.array(0.5, np.float32)} if op in TWO else {"v": x}


def check(op: str, values: dict[str, np.ndarray], held: str, **attributes: object) -> None:
    feeds = {"x": np.zeros(2, np.float32)} | {n: x for n, x in values.items() if n not in held}
    kind = helper.np_dtype_to_tensor_dtype(values["v"].dtype)
    nodes = [
        helper.make_node(op, list(values), ["s"], **attributes),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "scalars",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in feeds.items()
        ],
        [
            helper.make_tensor_value_info("s", TensorProto.BOOL if op in BOOLEAN else kind, ()),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,)),
        ],
        [numpy_helper.from_array(values[n], n) for n in held],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    proto.ir_version = 9
    reference = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = reference.run(["s"], feeds)[0]
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        given = {n: feeds[n].reshape(t.shape) for n, t in session.inputs.items()}
        found = session.run(given)["s"]
    assert np.shape(found) == np.shape(wanted) == ()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "held"),
    [(op, held) for op in sorted(ONE) for held in ("", "v")]
    + [(op, held) for op in sorted(TWO | {"Clip"}) for held in ("", "v", "w", "vw")],
)
def test_a_function_of_a_scalar_is_a_scalar(op: str, held: str) -> None:
    """held: which of its operands are constants."""
    check(op, operands(op), held)


@pytest.mark.parametrize(
    ("op", "held"),
    [("BitwiseNot", held) for held in ("", "v")]
    + [(op, held) for op in sorted(BITS) for held in ("", "v", "w", "vw")],
)
def test_bits_of_a_scalar_are_a_scalar(op: str, held: str) -> None:
    values = {"v": np.array(53, np.uint8), "w": np.array(3, np.uint8)}
    how = {"direction": "RIGHT"} if op == "BitShift" else {}
    check(op, values if op in BITS else {"v": values["v"]}, held, **how)
