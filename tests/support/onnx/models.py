"""Models built with onnx.helper that several tests use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[object]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    opset: int,
    types: Mapping[str, int],
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model with the shapes that onnx infers. Inputs are floats where `types` does not say."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(k, types.get(k, TensorProto.FLOAT), v)
            for k, v in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    for output in graph.output:
        if output.name in types:
            output.type.tensor_type.elem_type = types[output.name]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = min(model.ir_version, 10)
    return onnx.shape_inference.infer_shapes(model)


def node(op: str, inputs: list[str], outputs: list[str], **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attrs)


class GraphMaker:
    """Nodes and constants, one call for each."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def const(self, value: np.ndarray | list[int] | float) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        self.constants[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name

    def weight(self, *shape: int) -> str:
        scale = 1 / math.sqrt(shape[0])
        return self.const(self.rng.standard_normal(shape) * scale)

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attrs: object) -> str:
        names = [f"{op.lower()}{len(self.nodes)}" + (f".{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names[0]

    def model(
        self,
        inputs: dict[str, tuple[int, tuple[object, ...]]],
        outputs: dict[str, str],
        opset: int,
    ) -> onnx.ModelProto:
        nodes = [*self.nodes]
        nodes += [helper.make_node("Identity", [v], [k]) for k, v in outputs.items()]
        graph = helper.make_graph(
            nodes,
            "made",
            [helper.make_tensor_value_info(k, t, s) for k, (t, s) in inputs.items()],
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, None) for k in outputs],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        return model


def transformer_encoder(
    seed: int, *, layers: int = 2, width: int = 32, heads: int = 4, length: int = 10,
    batch: int = 2, opset: int = 17,
) -> onnx.ModelProto:  # fmt: skip
    """Token ids and a mask to hidden states, as exporters write it: dynamic-looking reshapes,
    gelu by its error function, layer normalization as an operator (opset 17) or spelled out."""
    g = GraphMaker(seed)
    each = width // heads

    def norm(x: str) -> str:
        scale, bias = g.const(g.rng.uniform(0.5, 1.5, width)), g.weight(width)
        if opset >= 17:
            return g("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        centred = g("Sub", x, g("ReduceMean", x, axes=[-1]))
        square = g("Pow", centred, g.const(2.0))
        deviation = g("Sqrt", g("Add", g("ReduceMean", square, axes=[-1]), g.const(1e-5)))
        return g("Add", g("Mul", g("Div", centred, deviation), scale), bias)

    def linear(x: str, n_in: int, n_out: int) -> str:
        return g("Add", g.weight(n_out), g("MatMul", x, g.weight(n_in, n_out)))

    def split_heads(x: str) -> str:
        size = g("Gather", g("Shape", x), g.const(np.array(1)), axis=0)
        shape = g(
            "Concat", g.const([batch]), g("Unsqueeze", size, g.const([0])),
            g.const([heads]), g.const([each]), axis=0,
        )  # fmt: skip
        return g("Transpose", g("Reshape", x, shape), perm=[0, 2, 1, 3])

    x = g("Gather", g.weight(50, width), "ids", axis=0)
    x = g("Add", x, g.weight(length, width))
    hidden = g("Cast", "mask", to=TensorProto.FLOAT)
    hidden = g("Unsqueeze", hidden, g.const([1, 2]))
    hidden = g("Mul", g("Sub", g.const(1.0), hidden), g.const(-10000.0))
    x = norm(x)
    for _ in range(layers):
        q, k, v = (split_heads(linear(x, width, width)) for _ in range(3))
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Add", g("Div", scores, g.const(math.sqrt(each))), hidden)
        mixed = g("MatMul", g("Softmax", scores, axis=-1), v)
        mixed = g("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = g("Reshape", mixed, g.const([0, 0, width]))
        x = norm(g("Add", x, linear(mixed, width, width)))
        up = linear(x, width, 4 * width)
        erf = g("Erf", g("Div", up, g.const(math.sqrt(2))))
        up = g("Mul", g("Mul", up, g("Add", erf, g.const(1.0))), g.const(0.5))
        x = norm(g("Add", x, linear(up, 4 * width, width)))
    first = g("Gather", x, g.const(np.array(0)), axis=1)
    pooled = g("Tanh", g("Gemm", first, g.weight(width, width), g.weight(width), transB=1))
    ids = (TensorProto.INT64, (batch, length))
    return g.model({"ids": ids, "mask": ids}, {"states": x, "pooled": pooled}, opset)


def recurrent(
    kind: str, direction: str, seed: int, *, initial: bool = False, bias: bool = True,
    **attrs: object,
) -> onnx.ModelProto:  # fmt: skip
    """An LSTM, GRU or RNN over [6, 2, 5] with 7 units, and all of its outputs."""
    g = GraphMaker(seed)
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    inputs = ["x", g.weight(ways, gates * 7, 5), g.weight(ways, gates * 7, 7)]
    inputs.append(g.weight(ways, 2 * gates * 7) if bias else "")
    given = {"x": (TensorProto.FLOAT, (6, 2, 5))}
    if initial:
        inputs += ["", "h"] + ["c"] * (kind == "LSTM")
        given |= dict.fromkeys(inputs[5:], (TensorProto.FLOAT, (ways, 2, 7)))
    count = 3 if kind == "LSTM" else 2
    first = g(kind, *inputs, outputs=count, hidden_size=7, direction=direction, **attrs)
    names = {"y": first, **{f"y{i}": f"{first}.{i}" for i in range(1, count)}}
    return g.model(given, names, 17)


def small_network(seed: int = 0) -> onnx.ModelProto:
    """A convolutional network of about eight kilobytes."""
    g = GraphMaker(seed)
    x = g("Conv", "x", g.const(g.rng.standard_normal((6, 3, 3, 3)) / 5), g.weight(6), pads=[1] * 4)
    stats = [g.const(g.rng.uniform(0.5, 1.5, 6)) for _ in range(4)]
    x = g("Relu", g("BatchNormalization", x, *stats))
    x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g("Reshape", x, g.const([1, -1]))
    x = g("Gemm", x, g.weight(96, 10), g.weight(10))
    return g.model({"x": (TensorProto.FLOAT, (1, 3, 8, 8))}, {"y": g("Softmax", x, axis=1)}, 13)
