"""Rules of operators that work element by element, and of normalizations, which keep the shape."""

from __future__ import annotations

import math

import numpy as np

from .checks import ELEMENT_TYPES
from .infer import (
    BOOL,
    Found,
    axes_of,
    axis_attribute,
    broadcast,
    exactly,
    infers,
    one_of,
    one_way,
    rank_of,
    same,
    single,
)
from .nodes import OnnxNode
from .types import TypeOf


def element_type(n: OnnxNode, name: str) -> np.dtype | None:
    """The element type that an attribute names; None when it is left out, as 0 may say."""
    if name not in n.attrs:
        return None
    number = n.integer(name)
    if number == 0 and name == "output_dtype":
        return None
    if number not in ELEMENT_TYPES:
        raise ValueError(f"{name} is {number}, which is no element type")
    return ELEMENT_TYPES[number]


@infers(
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu",
    "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish",
    "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
def _unary(n: OnnxNode) -> Found:
    return same(n)


@infers("Celu")
def _celu(n: OnnxNode) -> Found:
    if not n.number("alpha", 1.0):
        raise ValueError("alpha is 0, by which it divides")
    return same(n)


@infers("Gelu")
def _gelu(n: OnnxNode) -> Found:
    one_of(n, "approximate", ("none", "tanh"), "none")
    return same(n)


@infers("IsInf", "IsNaN")
def _test(n: OnnxNode) -> Found:
    return n.input(0).shape, BOOL


@infers(
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "Mul", "Or", "Pow", "Sub",
    "Xor",
)  # fmt: skip
def _binary(n: OnnxNode) -> Found:
    a, b = n.input(0), n.input(1)
    return broadcast(a.shape, b.shape), a.dtype


@infers("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def _compare(n: OnnxNode) -> Found:
    return broadcast(n.input(0).shape, n.input(1).shape), BOOL


@infers("Max", "Mean", "Min", "Sum")
def _variadic(n: OnnxNode) -> Found:
    shapes = [n.input(i).shape for i in range(len(n.inputs))]
    if n.version < 8 and len(set(shapes)) > 1:
        raise ValueError(f"{n.op} of opset {n.version} takes tensors of one shape")
    return broadcast(*shapes), n.input(0).dtype


@infers("Where")
def _where(n: OnnxNode) -> Found:
    return broadcast(*(n.input(i).shape for i in range(3))), n.input(1).dtype


@infers("PRelu")
def _prelu(n: OnnxNode) -> Found:
    # ONNX allows a slope to be broadcast to x alone, and ONNX Runtime x to the slope, too.
    return broadcast(n.input(0).shape, n.input(1).shape), n.input(0).dtype


@infers("Clip")
def _clip(n: OnnxNode) -> Found:
    if n.version >= 11:
        single(n, 1, "min")
        single(n, 2, "max")
    return same(n)


@infers("Dropout")
def _dropout(n: OnnxNode) -> Found:
    if n.version >= 12:
        single(n, 1, "ratio")
        single(n, 2, "training_mode")
    x = n.input(0)
    return [same(n), (x.shape, BOOL if n.version >= 10 else x.dtype)]


@infers("Cast")
def _cast(n: OnnxNode) -> Found:
    dtype = element_type(n, "to")
    assert dtype is not None
    return n.input(0).shape, dtype


@infers("CastLike")
def _cast_like(n: OnnxNode) -> Found:
    return n.input(0).shape, n.input(1).dtype


# ---- along an axis -----------------------------------------------------------------------------


@infers("Hardmax", "LogSoftmax", "Softmax")
def _softmax(n: OnnxNode) -> Found:
    axis_attribute(n, -1 if n.version >= 13 else 1, n.input(0).rank)
    return same(n)


@infers("LpNormalization")
def _lp_normalization(n: OnnxNode) -> Found:
    axis_attribute(n, -1, n.input(0).rank)
    if n.integer("p", 2) not in (1, 2):
        raise ValueError(f"p is {n.integer('p')}; it has to be 1 or 2")
    return same(n)


@infers("MeanVarianceNormalization")
def _mean_variance(n: OnnxNode) -> Found:
    axes_of(n.integers("axes") or [0, 2, 3], n.input(0).rank)
    return same(n)


@infers("LRN")
def _lrn(n: OnnxNode) -> Found:
    rank_of(n, 0, 3)
    if n.integer("size") < 1:
        raise ValueError(f"size is {n.integer('size')}; it has to be 1 or more")
    return same(n)


@infers("BatchNormalization")
def _batch_normalization(n: OnnxNode) -> Found:
    shape = rank_of(n, 0, 1)
    channels = shape[1] if len(shape) > 1 else 1
    if n.version >= 9 or n.integer("spatial", 1):
        for index, what in enumerate(("scale", "B", "mean", "var"), 1):
            exactly(n, index, (channels,), what)
    mean, variance = n.input(3), n.input(4)
    saved: list[TypeOf] = [(v.shape, v.dtype) for v in (mean, variance)]
    return [same(n), *saved, *saved]


@infers("InstanceNormalization")
def _instance_normalization(n: OnnxNode) -> Found:
    shape = rank_of(n, 0, 3)
    exactly(n, 1, shape[1:2], "scale")
    exactly(n, 2, shape[1:2], "B")
    return same(n)


@infers("GroupNormalization")
def _group_normalization(n: OnnxNode) -> Found:
    shape = rank_of(n, 0, 2)
    groups = n.integer("num_groups")
    if groups < 1 or shape[1] % groups:
        raise ValueError(f"num_groups is {groups}, which does not divide {shape[1]} channels")
    size = shape[1] if n.version >= 21 else groups
    exactly(n, 1, (size,), "scale")
    exactly(n, 2, (size,), "bias")
    return same(n)


@infers("LayerNormalization", "RMSNormalization")
def _layer_normalization(n: OnnxNode) -> Found:
    x = n.input(0)
    axis = axis_attribute(n, -1, x.rank)
    for index, what in ((1, "a scale"), (2, "a bias")):
        value = n.optional(index)
        if value is not None:
            whole = value.shape
            while len(whole) > x.rank and whole[0] == 1:
                whole = whole[1:]
            one_way(whole, x.shape, what)
    left = (*x.shape[:axis], *[1] * (x.rank - axis))
    if n.op == "RMSNormalization":
        element_type(n, "stash_type")
        return x.shape, n.input(1).dtype
    stash = element_type(n, "stash_type") or np.dtype(np.float32)
    return [same(n), (left, stash), (left, stash)]


# ---- quantization ------------------------------------------------------------------------------


def _parameters(n: OnnxNode, index: int, what: str) -> None:
    """Scales or zero points: one, one for each index of an axis, or one for each block of it."""
    value = n.optional(index)
    if value is None or math.prod(value.shape) == 1:
        return
    shape = n.input(0).shape
    axis, block = axis_attribute(n, 1, len(shape)), n.integer("block_size")
    if block < 0:
        raise ValueError(f"block_size is {block}")
    if block:
        grid = [-(-d // block) if i == axis else d for i, d in enumerate(shape)]
        exactly(n, index, grid, f"{what} of blocks of {block} along dimension {axis}")
    elif value.rank == 1:
        exactly(n, index, shape[axis : axis + 1], f"{what} along dimension {axis}")
    else:
        one_way(value.shape, shape, what)


@infers("DequantizeLinear")
def _dequantize(n: OnnxNode) -> Found:
    _parameters(n, 1, "scales")
    _parameters(n, 2, "zero points")
    return n.input(0).shape, element_type(n, "output_dtype") or n.input(1).dtype


@infers("DynamicQuantizeLinear")
def _dynamic_quantize(n: OnnxNode) -> Found:
    byte = np.dtype(np.uint8)
    return [(n.input(0).shape, byte), ((), n.input(0).dtype), ((), byte)]


@infers("QuantizeLinear")
def _quantize(n: OnnxNode) -> Found:
    _parameters(n, 1, "scales")
    _parameters(n, 2, "zero points")
    named = element_type(n, "output_dtype")
    zero = n.optional(2)
    if zero is not None and named is not None and zero.dtype != named:
        raise ValueError(
            f"the zero point is {zero.dtype.name}, and output_dtype {named.name}: they have to be "
            "one"
        )
    return n.input(0).shape, zero.dtype if zero is not None else named or np.dtype(np.uint8)
