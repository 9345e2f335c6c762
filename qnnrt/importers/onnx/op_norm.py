"""Normalizations."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..shorthand import u32
from .common import add, cast, div, mul, nary, plus, reduce, scalar, select, sub, unary
from .nodes import Lowering, OnnxNode, Unsupported, axis_of, lowers
from .op_shape import broadcast_to
from .values import Value, constant


@lowers("BatchNormalization", to="Batchnorm")
def batch_normalization(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.integer("training_mode") or any(n.wants(i) for i in range(1, 5)):
        raise Unsupported("training mode")
    if n.version < 9 and not n.integer("spatial", 1):
        raise Unsupported("statistics that differ between pixels (spatial=0)")
    epsilon = n.number("epsilon", 1e-5)
    scale, bias, mean, variance = (n.input(i) for i in range(1, 5))
    x = c.b.channels_last(x)
    if all(v.is_const for v in (scale, bias, mean, variance)):
        parts = c.b.computed(partial(_slope, epsilon, x.dtype), scale, bias, mean, variance)
        return c.b.op("Batchnorm", [x, *parts], x.shape, None, x.perm)
    dtype = x.dtype
    if {v.dtype for v in (scale, bias, mean, variance)} != {dtype}:
        x, scale, bias, mean, variance = (
            cast(c, v, np.float32) for v in (x, scale, bias, mean, variance)
        )
    root = unary(c, "ElementWiseSquareRoot", plus(c, variance, epsilon))
    weight = div(c, scale, root)
    offset = sub(c, bias, mul(c, mean, weight))
    along = (-1, *[1] * (x.rank - 2)) if x.rank > 1 else (1,)
    column = [c.b.reshape(p, (p.shape[0], *along[1:])) for p in (weight, offset)]
    return cast(c, add(c, mul(c, x, column[0]), column[1]), dtype)


def _slope(
    epsilon: float,
    dtype: np.dtype,
    *statistics: np.ndarray,
) -> list[np.ndarray]:
    """What a BatchNormalization multiplies by, and what it adds then."""
    scale, bias, mean, variance = (a.astype(np.float64) for a in statistics)
    w = scale / np.sqrt(variance + epsilon)
    return [w.astype(dtype), (bias - mean * w).astype(dtype)]


@lowers("InstanceNormalization", to="InstanceNorm")
def instance_normalization(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    grouped = _grouped(c, n, x)
    if grouped is not None:
        return grouped
    flat = x
    if x.rank != 4:
        flat = c.b.reshape(x, (*x.shape[:2], 1, int(np.prod(x.shape[2:]))))
    flat = c.b.channels_last(flat)
    y = c.b.op(
        "InstanceNorm",
        [flat, c.b.plain(n.input(1)), c.b.plain(n.input(2))],
        flat.shape,
        None,
        flat.perm,
        epsilon=np.float32(n.number("epsilon", 1e-5)),
    )
    return c.b.reshape(y, x.shape)


def _grouped(c: Lowering, n: OnnxNode, x: Value) -> Value | None:
    """[N, C, ...] under the shape [N, groups, ...]: a GroupNorm of what is reshaped, in the order
    that it is held in. The reshape back, that follows in most models, then finds nothing to do."""
    whole, groups = x.base or x.of, x.shape[1]
    if whole is None or whole.rank < 3 or whole.shape[0] != x.shape[0]:
        return None
    channels = whole.shape[1]
    scale, bias = n.input(1), n.input(2)
    if channels == groups or channels % groups != 0 or not (scale.is_const and bias.is_const):
        return None
    repeat = channels // groups
    c.budget.array((2 * repeat, groups), scale.dtype, "a scale for each channel")
    whole = c.b.channels_last(whole)
    y = c.b.op(
        "GroupNorm",
        [whole, *(constant(np.repeat(v.const, repeat)) for v in (scale, bias))],
        whole.shape,
        None,
        whole.perm,
        epsilon=np.float32(n.number("epsilon", 1e-5)),
        group=np.uint32(groups),
    )
    return c.b.reshape(y, x.shape)


def _one_for_all(v: Value | None, shape: tuple[int, ...]) -> bool:
    """Is a scale or bias the same for everything that is normalized?"""
    return v is None or math.prod(v.shape[: max(v.rank - len(shape), 0)]) == 1


def _normalized(c: Lowering, value: Value, shape: tuple[int, ...]) -> Value:
    """A scale or bias of exactly the normalized shape, in its logical order as the input is."""
    more = value.rank - len(shape)
    if more > 0:  # dimensions of size 1
        value = c.b.reshape(value, value.shape[more:])
    if value.shape != shape:
        value = broadcast_to(c, value, shape)
    return c.b.plain(value)


def _norm(c: Lowering, n: OnnxNode, type_: str, bias: Value | None) -> Value:
    """LayerNorm or RmsNorm; a scale or bias that is not the same everywhere comes behind it."""
    x, scale = c.b.plain(n.input(0)), n.input(1)
    axis = axis_of(n.integer("axis", -1), x.rank)
    shape = x.shape[axis:]
    apart = not (_one_for_all(scale, shape) and _one_for_all(bias, shape))
    given = [constant(np.ones((), x.dtype))] if apart else [scale, *([bias] if bias else [])]
    y = c.b.op(
        type_,
        [x, *(_normalized(c, v, shape) for v in given)],
        x.shape,
        epsilon=np.float32(n.number("epsilon", 1e-5)),
        axes=u32(range(axis, x.rank)),
    )
    if not apart:
        return y
    for combine, v in ((mul, scale), (add, bias)):
        if v is not None:
            y = combine(c, y, c.b.reshape(v, v.shape[max(v.rank - x.rank, 0) :]))
    return y


@lowers("LayerNormalization", to="LayerNorm")
def layer_normalization(c: Lowering, n: OnnxNode) -> Value:
    if n.wants(1) or n.wants(2):
        raise Unsupported("mean and deviation as outputs")
    return _norm(c, n, "LayerNorm", n.optional(2))


@lowers("RMSNormalization", to="RmsNorm")
def rms_normalization(c: Lowering, n: OnnxNode) -> Value:
    return _norm(c, n, "RmsNorm", None)


@lowers("GroupNormalization", to="GroupNorm")
def group_normalization(c: Lowering, n: OnnxNode) -> Value:
    x, scale, bias = n.input(0), n.input(1), n.input(2)
    groups = n.integer("num_groups")
    if n.version < 21:  # one scale for a group, not for a channel
        if scale.data is None or bias.data is None:
            raise Unsupported("a scale for each group that is not constant")
        repeat = x.shape[1] // groups
        c.budget.array((2 * repeat, scale.shape[-1]), scale.dtype, "a scale for each channel")
        scale, bias = (constant(np.repeat(v.const, repeat)) for v in (scale, bias))
    x = c.b.channels_last(x)
    return c.b.op(
        "GroupNorm",
        [x, c.b.plain(scale), c.b.plain(bias)],
        x.shape,
        None,
        x.perm,
        epsilon=np.float32(n.number("epsilon", 1e-5)),
        group=np.uint32(groups),
    )


@lowers("LpNormalization", to="L2Norm, or ElementWiseDivide by ReduceSum")
def lp_normalization(c: Lowering, n: OnnxNode) -> Value:
    x, p = c.b.real(n.input(0)), n.integer("p", 2)
    axis = axis_of(n.integer("axis", -1), x.rank)
    if p == 2:
        at = np.uint32(x.perm.index(axis))
        return c.b.op("L2Norm", [x], x.shape, None, x.perm, axis=at)
    total = reduce(c, "ReduceSum", unary(c, "ElementWiseAbs", x), [axis])
    # A zero norm means a zero vector, which stays zero; no least norm is one in every precision.
    none = nary(c, "ElementWiseEqual", [total, scalar(0, x.dtype)], np.dtype(np.bool_))
    return div(c, x, select(c, none, scalar(1, x.dtype), total))


@lowers("LRN", to="Lrn")
def local_response_normalization(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.channels_last(n.input(0))
    size = n.integer("size")
    if size % 2 == 0:
        raise Unsupported(f"an even size ({size})")
    # ONNX divides alpha by the size of the window, QNN does not.
    return c.b.op(
        "Lrn",
        [x],
        x.shape,
        None,
        x.perm,
        alpha=np.float32(n.number("alpha", 1e-4) / size),
        beta=np.float32(n.number("beta", 0.75)),
        bias=np.float32(n.number("bias", 1.0)),
        radius=np.int32(size // 2),
        region=np.uint32(0),
    )
