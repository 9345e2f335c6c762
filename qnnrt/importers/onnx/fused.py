"""ONNX Runtime's fused operators (domain com.microsoft) as the operators that they were made of.

Its optimizers write them into files. The definitions are those of ONNX Runtime's documentation of
its contrib operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .bodies import MICROSOFT, Body, body, first_channels, last_channels
from .expanded import OPSET, array, ints
from .nodes import OnnxNode, Unsupported


def only_first(n: OnnxNode, *others: str) -> None:
    """Refuses a node of which results are used that only training needs."""
    for index, what in enumerate(others, 1):
        if what and n.wants(index):
            raise Unsupported(f"output {index} ({what}), which is used")


def typed(b: Body, value: float, index: int = 0) -> str:
    """A constant of the type of an input."""
    kind = helper.np_dtype_to_tensor_dtype(b.node.input(index).dtype)
    return b.op("Constant", [], value=helper.make_tensor("", kind, (), [value]))


def total_of(b: Body, *names: str) -> str:
    """Of those that are there; "" where none is."""
    total = ""
    for name in names:
        total = b.op("Add", [total, name]) if total and name else total or name
    return total


#: Activation -> the attributes of its ONNX operator that it has parameters for, in order.
_ACTIVATIONS = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
}


def _activated(b: Body, x: str, parameters: list[float]) -> str:
    kind = b.node.text("activation")
    if not kind:
        return x
    if kind == "Clip":
        if len(parameters) != 2:
            raise ValueError(f"activation Clip has {len(parameters)} parameters, not 2")
        return b.op("Clip", [x, *(typed(b, p) for p in parameters)])
    if kind not in _ACTIVATIONS:
        raise Unsupported(f"activation {kind!r}")
    how: dict[str, Any] = dict(zip(_ACTIVATIONS[kind], parameters, strict=False))
    return b.op(kind, [x], **how)


def _parameters(n: OnnxNode) -> list[float]:
    """Of the activation behind a convolution."""
    given: list[float] = list(n.attrs.get("activation_params") or [])  # type: ignore[call-overload]
    return given


@body(MICROSOFT, "NhwcConv", "NhwcFusedConv")
def _conv_of_last_channels(n: OnnxNode) -> onnx.FunctionProto:
    """NhwcConv has the channels of its weights last, too; NhwcFusedConv has not."""
    b, rank = Body(n), n.input(0).rank
    weights = b.given(1)
    if n.op == "NhwcConv":
        weights = first_channels(b, weights, rank)
    inputs = [first_channels(b, b.given(0), rank), weights, b.given(2)]
    y = last_channels(b, b.like("Conv", inputs, "activation", "activation_params"), rank)
    return b.proto(_activated(b, total_of(b, y, b.given(3)), _parameters(n)), opset=OPSET)


@body(MICROSOFT, "NhwcMaxPool")
def _pool_of_last_channels(n: OnnxNode) -> onnx.FunctionProto:
    b, rank = Body(n), n.input(0).rank
    y = b.like("MaxPool", [first_channels(b, b.given(0), rank)])
    return b.proto(last_channels(b, y, rank), opset=OPSET)


@body(MICROSOFT, "FusedConv")
def _conv(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    inputs = [b.given(i) for i in range(3)]
    y = total_of(b, b.like("Conv", inputs, "activation", "activation_params"), b.given(3))
    return b.proto(_activated(b, y, _parameters(n)), opset=OPSET)


@body(MICROSOFT, "FusedGemm")
def _gemm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    y = b.like("Gemm", [b.given(i) for i in range(3)], "activation", *names)
    given = [n.number(name) for name in names[:2] if name in n.attrs]
    return b.proto(_activated(b, y, given), opset=OPSET)


@body(MICROSOFT, "FusedMatMul", "TransposeMatMul")
def _matmul(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    sides = []
    for index, side in enumerate("AB"):
        name, rank = b.given(index), n.input(index).rank
        if n.integer(f"transBatch{side}") and rank > 2:  # the first dimension is one of the matrix
            name = b.op("Transpose", [name], perm=[*range(1, rank - 1), 0, rank - 1])
        if n.integer(f"trans{side}") and rank > 1:
            name = b.op("Transpose", [name], perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(name)
    y, alpha = b.op("MatMul", sides), n.number("alpha", 1.0)
    return b.proto(y if alpha == 1 else b.op("Mul", [y, typed(b, alpha)]))


# ---- activations ---------------------------------------------------------------------------------


@body(MICROSOFT, "Gelu", "BiasGelu", "FastGelu")
def _gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    how: dict[str, Any] = {"approximate": "tanh"} if n.op == "FastGelu" else {}
    return b.proto(b.op("Gelu", [total_of(b, b.given(0), b.given(1))], **how), opset=OPSET)


@body(MICROSOFT, "QuickGelu")
def _quick_gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    scaled = b.op("Mul", [b.given(0), typed(b, n.number("alpha", 1.702))])
    return b.proto(b.op("Mul", [b.given(0), b.op("Sigmoid", [scaled])]))


@body(MICROSOFT, "BiasSplitGelu")
def _split_gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    size = n.input(0).shape[-1]
    if size % 2:
        raise ValueError(f"its last dimension of {size} has no two halves")
    both = total_of(b, b.given(0), b.given(1))
    halves = ["first", "second"]
    b.nodes.append(helper.make_node("Split", [both], halves, axis=-1, num_outputs=2))
    return b.proto(b.op("Mul", [halves[0], b.op("Gelu", [halves[1]])]), opset=OPSET)


@body(MICROSOFT, "BiasAdd")
def _bias_add(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(total_of(b, *(b.given(i) for i in range(3))))


# ---- normalizations ------------------------------------------------------------------------------


def _normalized(b: Body, x: str, scale: int, bias: int | None, epsilon: float) -> str:
    if bias is None:
        how: dict[str, Any] = {"axis": -1, "epsilon": epsilon}
        return b.op("RMSNormalization", [x, b.given(scale)], **how)
    inputs = [x, b.given(scale), b.given(bias)]
    return b.op("LayerNormalization", inputs, axis=-1, epsilon=epsilon)


@body("", "SimplifiedLayerNormalization", to="RmsNorm")
def _simplified(n: OnnxNode) -> onnx.FunctionProto:
    """ONNX Runtime writes it into ONNX's own domain, which has no such operator."""
    b = Body(n)
    only_first(n, "inv_std_var")
    how: dict[str, Any] = {"axis": n.integer("axis", -1), "epsilon": n.number("epsilon", 1e-5)}
    return b.proto(b.op("RMSNormalization", [b.given(0), b.given(1)], **how), opset=OPSET)


@body(MICROSOFT, "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    only_first(n, "mean", "inv_std_var")
    simplified = n.op == "SkipSimplifiedLayerNormalization"
    # The bias first: it belongs to the product that the first input is.
    total = total_of(b, b.given(0), b.given(3 if simplified else 4), b.given(1))
    bias = None if simplified else 3
    y = _normalized(b, total, 2, bias, n.number("epsilon", 1e-12))
    return b.proto(*[y, "", "", total][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "EmbedLayerNormalization")
def _embed_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    found = [b.given(i) for i in (2, 3, 4)]
    y, mask, total = _embedded(b, found, [b.given(5), b.given(6)], b.given(8))
    return b.proto(*[y, mask, total][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "QEmbedLayerNormalization")
def _quantized_embed_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    real = [b.real(i, 6 + i, 11 + i) if n.has(i) else "" for i in range(2, 7)]
    y, mask, _ = _embedded(b, real[:3], real[3:], "")
    return b.proto(*[y, mask][: len(n.outputs)], opset=OPSET)


def _embedded(b: Body, tables: list[str], norm: list[str], places: str) -> tuple[str, str, str]:
    """The normalized sum of rows of tables, how many words count, and the sum."""
    n = b.node
    batch, length = n.input(0).shape
    words, positions, kinds = tables
    if not places:
        places = array(b, np.arange(length, dtype=np.int64))
    parts = [b.op("Gather", [words, b.given(0)]), b.op("Gather", [positions, places])]
    if n.has(1) and kinds:
        parts.append(b.op("Gather", [kinds, b.given(1)]))
    total = total_of(b, *parts)
    how: dict[str, Any] = {"axis": -1, "epsilon": n.number("epsilon", 1e-12)}
    y = b.op("LayerNormalization", [total, *norm], **how)
    count = ""
    if n.wants(1):
        if n.has(7):
            count = b.op("ReduceSum", [b.given(7), ints(b, [1])], keepdims=0)
            count = b.op("Cast", [count], to=onnx.TensorProto.INT32)
        else:
            count = array(b, np.zeros(batch, np.int32))
    return y, count, total


@body(MICROSOFT, "GroupNorm", "SkipGroupNorm")
def _group_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    x, shape = b.given(0), n.input(0).shape
    last = n.integer("channels_last", 1)
    if n.op == "SkipGroupNorm":
        ones = [1] * (len(shape) - 2)
        skip, bias = b.given(3), b.given(4)
        if n.input(3).rank == 2:
            rows = [shape[0], *ones, -1] if last else [shape[0], -1, *ones]
            skip = b.op("Reshape", [skip, ints(b, rows)])
        if bias and not last:
            bias = b.op("Reshape", [bias, ints(b, [1, -1, *ones])])
        x = total_of(b, x, skip, bias)
    total = x
    if last:
        x = first_channels(b, x, len(shape))
    kind = helper.np_dtype_to_tensor_dtype(n.input(0).dtype)
    scale, bias = (b.op("Cast", [b.given(i)], to=kind) for i in (1, 2))
    how: dict[str, Any] = {"epsilon": n.number("epsilon", 1e-5), "num_groups": n.integer("groups")}
    y = b.op("GroupNormalization", [x, scale, bias], **how)
    if n.integer("activation"):
        y = b.op("Mul", [y, b.op("Sigmoid", [y])])
    if last:
        y = last_channels(b, y, len(shape))
    return b.proto(*[y, total][: len(n.outputs)], opset=OPSET)
