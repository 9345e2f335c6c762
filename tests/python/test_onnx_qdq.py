"""Quantized ONNX models: what their Quantize and Dequantize nodes become, and what comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import quantizing
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model

SEED = 20261122

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

KERNELS = ("auto", "portable")

FLOAT = TensorProto.FLOAT


def make(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: list[str],
    constants: dict[str, np.ndarray],
    opset: int = 17,
    types: dict[str, int] | None = None,
) -> onnx.ModelProto:
    types = types or {}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(k, types.get(k, FLOAT), v) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = types.get(output.name, FLOAT)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def node(op: str, inputs: list[str], outputs: list[str], **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attrs)


def run(model: Model, feeds: dict[str, np.ndarray], kernels: str = "auto") -> list[np.ndarray]:
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        found = session.run({name: feeds[name] for name in model.inputs})
    return [found[name] for name in model.outputs]


def conversions(model: Model) -> dict[str, int]:
    counts = model.op_counts()
    return {op: counts[op] for op in ("Quantize", "Dequantize", "Convert") if op in counts}


# ---- networks of ONNX Runtime's quantizer ----------------------------------------------------


def residual_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Convolution, residual sum, pools, a depthwise convolution, a fully connected layer."""

    def weights(*shape: int) -> np.ndarray:
        fan_in = np.prod(shape[1:])
        return (rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)

    nodes = [
        node("Conv", ["x", "w0", "b0"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1", "b1"], ["c"], pads=[1] * 4),
        node("Add", ["c", "b"], ["d"]),
        node("Relu", ["d"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["f", "wd"], ["g"], pads=[1] * 4, group=16),
        node("Clip", ["g", "low", "high"], ["h"]),
        node("AveragePool", ["h"], ["i"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["i", "i"], ["j"], axis=1),
        node("Flatten", ["j"], ["k"]),
        node("Gemm", ["k", "wf", "bf"], ["l"], transB=1),
        node("Softmax", ["l"], ["y"]),
    ]
    constants = {
        "w0": weights(16, 3, 3, 3),
        "b0": weights(16, 1).ravel(),
        "w1": weights(16, 16, 3, 3),
        "b1": weights(16, 1).ravel(),
        "wd": weights(16, 1, 3, 3),
        "wf": weights(10, 512),
        "bf": weights(10, 1).ravel(),
        "low": np.float32(0),
        "high": np.float32(1),
    }
    return make(nodes, {"x": (1, 3, 16, 16)}, ["y"], constants)


@pytest.mark.parametrize("form", [quantizing.QDQ, quantizing.QOPERATOR], ids=["QDQ", "QOperator"])
@pytest.mark.parametrize("activations", [quantizing.UNSIGNED, quantizing.SIGNED], ids=["u8", "s8"])
def test_a_quantized_residual_network_is_fixed_point_inside(
    tmp_path: Path, form: object, activations: object
) -> None:
    rng = np.random.default_rng(SEED)
    proto = residual_network(rng)
    samples = [{"x": rng.standard_normal((1, 3, 16, 16), np.float32)} for _ in range(4)]
    proto = quantizing.quantized(proto, samples, tmp_path, activations=activations, form=form)
    model = importer.load(proto)
    found = conversions(model)
    assert found.pop("Convert", 0) <= 1  # Concat and Flatten have scales of their own
    assert found == {"Quantize": 1, "Dequantize": 1}
    assert not {"Relu", "ReluMinMax"} & set(model.op_counts())
    step = next(n for n in model.nodes if n.type == "Dequantize").inputs[0]
    scale = float(model.tensors[step].quantization.scale)
    feeds = {"x": rng.standard_normal((1, 3, 16, 16), np.float32)}
    wanted = quantizing.reference(proto, feeds)[0]
    for kernels in KERNELS:
        y = run(model, feeds, kernels)[0]
        assert np.abs(y - wanted).max() <= 1.01 * scale, kernels
