"""Single operators beside each other in one ONNX model, in floats or between Q and DQ nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from support.onnx.one_op import OneOp
from support.onnx.single_ops import one_op

#: Types of activations.
KINDS = ("f32", "f32", "f32", "f16", "u8", "u8", "s8", "u16", "u16")
FLOATS = ("f32", "f16")
_TYPES = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16}
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_SAME = {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Tile", "Slice", "Gather",
         "GatherElements", "GatherND", "MaxPool", "GlobalMaxPool", "DepthToSpace",
         "SpaceToDepth", "Identity", "Split", "Expand", "TopK"}  # fmt: skip

#: Inputs that stay floats between Q and DQ nodes, as ONNX Runtime's quantizer leaves them.
_PLAIN = {("Resize", 2), ("BatchNormalization", 3), ("BatchNormalization", 4)}


@dataclass
class Case:
    """One node of a sweep: its number, and the type of what goes in and comes out."""

    number: int
    node: OneOp
    kind: str
    seed: int

    @property
    def name(self) -> str:
        return f"c{self.number}"

    @property
    def outputs(self) -> list[str]:
        return [f"{self.name}.y{i}" for i in range(len(self.node.outputs))]


@dataclass
class Expected:
    """Results of ONNX Runtime's own kernels; step: of a fixed-point output's encoding, or 0."""

    values: list[np.ndarray]
    steps: list[float]


def case(seed: int, number: int) -> Case:
    """The case with this number, the same whenever it is asked for."""
    node = one_op(seed, number)
    kind = str(np.random.default_rng([seed, number, 1]).choice(KINDS))
    real = kind == "f16" and node.op != "Cast"
    return Case(number, node, kind if node.quantizable or real else "f32", seed)


def cpu_session(model: bytes) -> ort.InferenceSession:
    """A session of ONNX Runtime's own kernels, exact in 8 bits on any processor."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, np.ndarray] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def given(self, name: str, value: np.ndarray) -> str:
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, value.shape))
        self.feeds[name] = value
        return name

    def result(self, name: str, dtype: Any, shape: Sequence[int] | None) -> None:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self) -> bytes:
        graph = helper.make_graph(self.nodes, "ops", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 21)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 10
        return model.SerializeToString()


def _float(to: _Builder, case: Case, shapes: list[tuple[int, ...]] | None) -> None:
    names = []
    node, half = case.node, case.kind == "f16"
    for i, value in enumerate(node.inputs):
        name = f"{case.name}.x{i}"
        if value is None:
            names.append("")
            continue
        if half and value.dtype == np.float32 and (node.op != "Resize" or i == 0):
            value = value.astype(np.float16)
        names.append(to.constant(name, value) if i in node.constant else to.given(name, value))
    to.nodes.append(helper.make_node(node.op, names, case.outputs, case.name, **node.attributes))
    for i, (name, dtype) in enumerate(zip(case.outputs, node.outputs, strict=True)):
        if half and dtype is np.float32:
            dtype = np.float16
        to.result(name, dtype, None if shapes is None else shapes[i])


Encoding = tuple[np.ndarray, np.ndarray]  # scale and zero point, of the integers' type


def _encoding(values: np.ndarray, dtype: Any) -> Encoding:
    """That of a range in which 0 is one of the integers."""
    info = np.iinfo(dtype)
    low, high = min(float(values.min(initial=0)), 0.0), max(float(values.max(initial=0)), 0.0)
    scale = np.float32(max(high - low, 1e-3) / (int(info.max) - int(info.min)))
    zero = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
    return np.asarray(scale), np.array(zero, dtype)


def _symmetric(values: np.ndarray, axis: int | None) -> Encoding:
    rest = None if axis is None else tuple(i for i in range(values.ndim) if i != axis)
    most = np.maximum(np.abs(values).max(rest), 1e-3)
    scale = np.asarray(most / 127, np.float32)
    return scale, np.zeros(scale.shape, np.int8)


def _axis(node: OneOp) -> int | None:
    """Of the weights, that of the outputs; None: they have one scale."""
    if node.op == "Conv":
        return 0
    if node.op == "ConvTranspose":
        return 1 if node.attributes["group"] == 1 else None
    if node.op == "Gemm":
        return 0 if node.attributes.get("transB") else 1
    weights = node.inputs[1]
    return 1 if weights is not None and weights.ndim == 2 else None


class _Quantized:
    """The node of a case between DequantizeLinear and QuantizeLinear."""

    def __init__(self, to: _Builder, case: Case) -> None:
        self.to, self.case = to, case
        self.dtype = _TYPES[case.kind]
        self.rng = np.random.default_rng([case.seed, case.number, 2])

    def _ends(self, at: str, e: Encoding) -> list[str]:
        return [self.to.constant(f"{at}.scale", e[0]), self.to.constant(f"{at}.zero", e[1])]

    def _linear(self, op: str, at: str, source: str, e: Encoding, axis: int | None) -> str:
        name = f"{at}.{op[0].lower()}"
        more = {} if axis is None else {"axis": axis}
        node = helper.make_node(op, [source, *self._ends(f"{name}", e)], [name], name, **more)
        self.to.nodes.append(node)
        return name

    def _stored(self, at: str, value: np.ndarray, e: Encoding, axis: int | None = None) -> str:
        shape = [1] * value.ndim
        if axis is not None:
            shape[axis] = -1
        info = np.iinfo(e[1].dtype)
        whole = np.rint(value / e[0].reshape(shape)) + e[1].reshape(shape).astype(np.int64)
        data = np.clip(whole, info.min, info.max).astype(e[1].dtype)
        source = self.to.constant(f"{at}.stored", data)
        return self._linear("DequantizeLinear", at, source, e, axis)

    def build(self, results: list[np.ndarray]) -> list[float]:
        node, case = self.case.node, self.case
        product = node.op in _PRODUCTS
        encodings: list[Encoding | None] = []
        names = []
        for i, value in enumerate(node.inputs):
            at = f"{case.name}.x{i}"
            encodings.append(None)
            if value is None:
                names.append("")
            elif value.dtype != np.float32 or (node.op, i) in _PLAIN:
                constant = i in node.constant
                names.append(self.to.constant(at, value) if constant else self.to.given(at, value))
            elif i in node.constant and product and i == 1:
                form = self.rng.random()
                axis = _axis(node) if form < 0.5 else None
                e = _symmetric(value, axis) if form < 0.75 else _encoding(value, np.uint8)
                encodings[1] = e
                names.append(self._stored(at, value, e, axis))
            elif i in node.constant and product and i == 2:
                names.append(self._bias(at, value, encodings))
            elif i in node.constant:
                names.append(self._stored(at, value, _encoding(value, self.dtype)))
            else:
                e = encodings[i] = _encoding(value, self.dtype)
                source = self._linear("QuantizeLinear", at, self.to.given(at, value), e, None)
                names.append(self._linear("DequantizeLinear", at, source, e, None))
        outputs = [
            f"{case.name}.r{i}" if value.dtype == np.float32 else case.outputs[i]
            for i, value in enumerate(results)
        ]
        self.to.nodes.append(
            helper.make_node(node.op, names, outputs, case.name, **node.attributes)
        )
        steps = []
        for i, value in enumerate(results):
            if value.dtype != np.float32:
                self.to.result(case.outputs[i], value.dtype, value.shape)
                steps.append(0.0)
                continue
            same = node.op in _SAME and encodings[0] is not None
            e = encodings[0] if same and encodings[0] else _encoding(value, self.dtype)
            at = f"{case.name}.y{i}"
            source = self._linear("QuantizeLinear", at, outputs[i], e, None)
            last = helper.make_node(
                "DequantizeLinear", [source, f"{at}.q.scale", f"{at}.q.zero"], [at], f"{at}.d"
            )
            self.to.nodes.append(last)
            self.to.result(at, np.float32, value.shape)
            steps.append(float(e[0]))
        return steps

    def _bias(self, at: str, value: np.ndarray, encodings: list[Encoding | None]) -> str:
        activation, weights = encodings[:2]
        if activation is None or weights is None or value.ndim != 1:
            return self._stored(at, value, _encoding(value, self.dtype))
        scale = np.asarray(activation[0] * weights[0], np.float32)
        axis = 0 if scale.ndim == 1 else None
        return self._stored(at, value, (scale, np.zeros(scale.shape, np.int32)), axis)


@dataclass
class Batch:
    """Nodes beside each other in one model."""

    cases: list[Case]
    model: bytes
    feeds: dict[str, np.ndarray]


def expected_of(cases: Sequence[Case]) -> tuple[dict[int, Expected], Batch]:
    """The batch of these cases and what ONNX Runtime itself makes of it.

    Raises:
        Exception: ONNX Runtime does not take one of the nodes.
    """
    plain = _Builder()
    for case in cases:
        _float(plain, case, None)
    session = cpu_session(plain.model())
    floats = dict(zip([o.name for o in session.get_outputs()],
                      session.run(None, plain.feeds), strict=True))  # fmt: skip
    to = _Builder()
    steps: dict[int, list[float]] = {}
    for case in cases:
        results = [floats[name] for name in case.outputs]
        if case.kind in FLOATS:
            _float(to, case, [r.shape for r in results])
            steps[case.number] = [0.0] * len(results)
        else:
            steps[case.number] = _Quantized(to, case).build(results)
    batch = Batch(list(cases), to.model(), to.feeds)
    names = [name for case in cases for name in case.outputs]
    values = dict(zip(names, cpu_session(batch.model).run(names, batch.feeds), strict=True))
    return {
        c.number: Expected([values[n] for n in c.outputs], steps[c.number]) for c in cases
    }, batch
