"""Operators on quantized tensors as what they stand for: DequantizeLinear, the operator, and
QuantizeLinear.

They are the operators of ONNX Runtime's QOperator format and of its dynamic quantization; their
definitions are those of ONNX and of ONNX Runtime's contrib operators (domain com.microsoft).
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from .bodies import MICROSOFT, Body, body, first_channels, last_channels
from .nodes import OnnxNode


@body(MICROSOFT, "QLinearConv")
@body("", "QLinearConv", to="Conv2d, DepthWiseConv2d, Conv3d in fixed point")
def _conv(n: OnnxNode) -> onnx.FunctionProto:
    b, rank = Body(n), n.input(0).rank
    x, last = b.real(0), n.integer("channels_last")
    inputs = [first_channels(b, x, rank) if last else x, b.real(3)]
    if n.has(8):
        inputs.append(b.decoded(b.given(8), b.op("Mul", [b.given(1), b.given(4)])))
    y = b.like("Conv", inputs, "channels_last")
    return b.proto(b.coded(last_channels(b, y, rank) if last else y, 6))


@body("", "QLinearMatMul", to="FullyConnected, MatMul in fixed point")
def _matmul(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)

    def real(index: int, axis: int) -> str:
        # In 32 bits, whatever the scale has: a product of halves would be rounded before its codes.
        scale = b.op("Cast", [b.given(index + 1)], to=onnx.TensorProto.FLOAT)
        return b.decoded(b.given(index), scale, b.given(index + 2), axis)

    product = b.op("MatMul", [real(0, -2), real(3, -1)])
    return b.proto(b.coded(product, 6))


# ---- ONNX Runtime's contrib operators --------------------------------------------------------


@body(MICROSOFT, "QLinearAdd", "QLinearMul")
def _binary(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(b.coded(b.op(n.op.removeprefix("QLinear"), [b.real(0), b.real(3)]), 6))


@body(MICROSOFT, "QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean")
def _unary(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    # The axes of ReduceMean are an attribute, as up to opset 17.
    opset = 13 if n.op == "QLinearReduceMean" else 0
    return b.proto(b.coded(b.like(n.op.removeprefix("QLinear"), [b.real(0)]), 3), opset=opset)


@body(MICROSOFT, "QLinearSoftmax")
def _softmax(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    y = b.like("Softmax", [b.real(0)], "opset")
    opset, newest = n.integer("opset"), onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise ValueError(f"opset is {opset}; it has to be one of 1 to {newest}")
    return b.proto(b.coded(y, 3), opset=opset)


@body(MICROSOFT, "QLinearAveragePool", "QLinearGlobalAveragePool")
def _pool(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    x, rank, last = b.real(0), n.input(0).rank, n.integer("channels_last")
    if rank < 3:
        raise ValueError(f"a pool over an input of shape {list(n.input(0).shape)}")
    if last:
        x = first_channels(b, x, rank)
    y = b.like(n.op.removeprefix("QLinear"), [x], "channels_last")
    if last:
        y = last_channels(b, y, rank)
    return b.proto(b.coded(y, 3))


@body(MICROSOFT, "QLinearConcat")
def _concat(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    if (len(n.inputs) - 2) % 3:
        raise ValueError(f"it has {len(n.inputs)} inputs; three for each part, and two before them")
    parts = [b.real(i) for i in range(2, len(n.inputs), 3)]
    return b.proto(b.coded(b.like("Concat", parts), 0))


@body(MICROSOFT, "QLinearWhere")
def _where(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(b.coded(b.op("Where", [b.given(0), b.real(1), b.real(4)]), 7))


@body(MICROSOFT, "QGemm")
def _gemm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    inputs = [b.real(0), b.real(3, axis=0 if n.integer("transB") else 1)]
    if n.has(6):
        scale = b.op("Mul", [b.given(1), b.given(4)])
        if n.number("alpha", 1.0) != 1:
            scale = b.op("Mul", [scale, b.number(n.number("alpha"))])
        inputs.append(b.decoded(b.given(6), scale))
    y = b.like("Gemm", inputs)
    return b.proto(b.coded(y, 7) if n.has(7) else y)


@body(MICROSOFT, "DynamicQuantizeMatMul")
def _dynamic_matmul(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    codes, scale, zero = "codes", "scale", "zero"
    b.nodes.append(helper.make_node("DynamicQuantizeLinear", [b.given(0)], [codes, scale, zero]))
    if n.input(2).rank < 2:
        y = b.scaled([codes, b.given(1), zero, b.given(3)], [scale, b.given(2)])
    else:
        y = b.op("MatMul", [b.decoded(codes, scale, zero), b.real(1, 2, 3, axis=-1)])
    return b.proto(b.op("Add", [y, b.given(4)]) if n.has(4) else y)


@body(MICROSOFT, "DynamicQuantizeLSTM")
def _dynamic_lstm(n: OnnxNode) -> onnx.FunctionProto:
    """An LSTM with weights of 8 bits; what they are multiplied with stays float.

    ONNX Runtime quantizes the input, and the state in each step, to spare products: an error that
    the model does not ask for. Its weights are transposed: [directions, I, 4 * H].
    """
    b = Body(n)

    def decoded(index: int, scale: int) -> str:
        shape = n.input(index).shape
        if len(shape) != 3:
            raise ValueError(f"weights of shape {list(shape)}; it has to be [directions, I, 4 * H]")
        for size in (math.prod(n.input(i).shape) for i in (scale, scale + 1)):
            if size not in (each := (shape[0], shape[0] * shape[2])):
                raise ValueError(
                    f"{size} scales or zero points of weights of shape {list(shape)}; there has to "
                    f"be one of each direction ({each[0]}) or of each column of each ({each[1]})"
                )
        rows = onnx.numpy_helper.from_array(np.array([shape[0], 1, -1]))
        per = b.op("Constant", [], value=rows)
        number, zero = (
            b.op("Cast", [b.given(i)], to=onnx.TensorProto.FLOAT) for i in (index, scale + 1)
        )
        real = b.op("Sub", [number, b.op("Reshape", [zero, per])])
        real = b.op("Mul", [real, b.op("Reshape", [b.given(scale), per])])
        return b.op("Transpose", [real], perm=[0, 2, 1])

    inputs = [b.given(0), decoded(1, 8), decoded(2, 10), *(b.given(i) for i in range(3, 8))]
    b.like("LSTM", inputs)
    outputs = [f"o{i}" for i in range(len(n.outputs))]
    del b.nodes[-1].output[:]
    b.nodes[-1].output.extend(outputs)
    return b.proto(*outputs)


@body(MICROSOFT, "MatMulIntegerToFloat")
def _matmul_to_float(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    if math.prod(n.input(2).shape) == 1 and n.input(3).rank < 2:
        y = b.scaled([b.given(i) for i in (0, 1, 4, 5)], [b.given(2), b.given(3)])
    else:
        y = b.op("MatMul", [b.real(0, 2, 4, axis=-2), b.real(1, 3, 5, axis=-1)])
    return b.proto(b.op("Add", [y, b.given(6)]) if n.has(6) else y)
