"""Quantized models made node by node, run here and by ONNX Runtime."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import onnx
from onnx import TensorProto

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.loading import loaded
from support.onnx.models import model_of, node
from support.reference import run as run_in_numpy
from zoo.quantizing import reference

FLOAT = TensorProto.FLOAT

SEED = 20261122
KERNELS = ("auto", "portable")


def example() -> ModuleType:
    """examples/quantize.py."""
    return loaded("examples/quantize.py")


def make(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: list[str],
    constants: dict[str, np.ndarray],
    opset: int = 17,
    types: dict[str, int] | None = None,
) -> onnx.ModelProto:
    types = dict.fromkeys(outputs, FLOAT) | (types or {})
    return model_of(nodes, inputs, outputs, constants, opset, types, ["com.microsoft"])


def run(model: Model, feeds: dict[str, np.ndarray], kernels: str = "auto") -> list[np.ndarray]:
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        found = session.run({name: feeds[name] for name in model.inputs})
    return [found[name] for name in model.outputs]


def conversions(model: Model) -> dict[str, int]:
    counts = model.op_counts()
    return {op: counts[op] for op in ("Quantize", "Dequantize", "Convert") if op in counts}


class Graph:
    """A quantized graph under construction, node by node."""

    def __init__(self, opset: int = 21) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.opset = opset

    def op(self, op: str, inputs: list[str], count: int = 1, **attrs: object) -> str:
        outputs = [f"{op.lower()}{len(self.nodes)}.{i}" for i in range(count)]
        self.nodes.append(node(op, inputs, outputs, **attrs))
        return outputs[0]

    def const(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def q(self, x: str, scale: float, zero: int = 0, dtype: type = np.uint8) -> str:
        return self.op(
            "QuantizeLinear", [x, self.const(np.float32(scale)), self.const(dtype(zero))]
        )

    def dq(self, x: str, scale: float, zero: int = 0, dtype: type = np.uint8) -> str:
        return self.op(
            "DequantizeLinear", [x, self.const(np.float32(scale)), self.const(dtype(zero))]
        )

    def qdq(self, x: str, scale: float, zero: int = 0, dtype: type = np.uint8) -> str:
        return self.dq(self.q(x, scale, zero, dtype), scale, zero, dtype)

    def weights(self, codes: np.ndarray, scale: np.ndarray | float, axis: int = 0) -> str:
        scales = np.asarray(scale, np.float32)
        inputs = [self.const(codes), self.const(scales)]
        inputs.append(self.const(np.zeros(scales.shape, codes.dtype)))
        return self.op("DequantizeLinear", inputs, axis=axis)

    def proto(
        self, inputs: dict[str, tuple[int, ...]], outputs: list[str], **types: int
    ) -> onnx.ModelProto:
        return make(self.nodes, inputs, outputs, self.constants, self.opset, types)


def check(
    proto: onnx.ModelProto,
    feeds: dict[str, np.ndarray],
    step: float,
    steps: float = 1.01,
    **options: object,
) -> Model:
    """The model gives what ONNX Runtime gives, `steps` of `step` apart at most."""
    wanted = reference(proto, feeds)
    model = importer.load(proto, **options)
    for kernels in KERNELS:
        for y, ref in zip(run(model, feeds, kernels), wanted, strict=True):
            found = np.abs(y.reshape(ref.shape).astype(np.float64) - ref.astype(np.float64))
            assert found.max() <= steps * step, f"{kernels}: {found.max() / step} steps"
    plain = run_in_numpy(model, {name: feeds[name] for name in model.inputs})
    for name, ref in zip(model.outputs, wanted, strict=True):
        found = np.abs(plain[name].reshape(ref.shape).astype(np.float64) - ref.astype(np.float64))
        assert found.max() <= steps * step, f"numpy: {found.max() / step} steps"
    return model


def types(model: Model) -> list[str]:
    return [n.type for n in model.nodes]


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal(shape, np.float32)


def codes(*shape: int, dtype: type = np.int8) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(SEED + 1).integers(info.min, info.max + 1, shape).astype(dtype)


def convolution(g: Graph, x: str, scale: float = 1 / 100, bias: str = "", **attrs: object) -> str:
    """Four channels in and out; each output channel has a scale of its own."""
    scales = scale * np.array([1, 0.5, 2, 0.25], np.float32)
    w = g.weights(codes(4, 4, 3, 3), scales)
    return g.op("Conv", [x, w, *([bias] if bias else [])], pads=[1] * 4, **attrs)
