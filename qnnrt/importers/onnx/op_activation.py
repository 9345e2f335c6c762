"""Activations: the ones that QNN has, and the ones made of them."""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import has_data_type, is_float
from .common import (
    add,
    cast,
    div,
    mul,
    nary,
    plus,
    reduce,
    scalar,
    select,
    sub,
    times,
    unary,
    widened,
)
from .nodes import Lowering, OnnxNode, Result, Unsupported, axis_of, lowers
from .values import Value, constant
from .whole import greatest_below, least_above, truncated_sum

BOOL = np.dtype(bool)

# ElementWiseNeuron's operation codes.
HARD_SIGMOID, SOFTPLUS = np.uint32(2), np.uint32(7)

_DIRECT = {"Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "HardSwish": "HardSwish"}


@lowers("Relu", to="Relu")
@lowers("Sigmoid", to="Sigmoid")
@lowers("Tanh", to="Tanh")
@lowers("HardSwish", to="HardSwish")
def direct(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.op == "Relu" and (not is_float(x.dtype) or x.dtype == np.float64):
        return nary(c, "ElementWiseMaximum", [x, scalar(0, x.dtype)])
    if not is_float(x.dtype):
        raise Unsupported(f"{n.op} of {x.dtype.name}")
    return unary(c, _DIRECT[n.op], x)


@lowers("Elu", to="Elu")
def elu(c: Lowering, n: OnnxNode) -> Value:
    return unary(c, "Elu", n.input(0), alpha=np.float32(n.number("alpha", 1.0)))


@lowers("LeakyRelu", to="Prelu, or ElementWiseSelect and elementwise")
def leaky_relu(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return sloped(c, x, scalar(n.number("alpha", 0.01), x.dtype))


def sloped(c: Lowering, x: Value, slope: Value) -> Value:
    """Exact for integers and doubles, which QNN's own does not take or computes in 32 bits."""
    if x.dtype.kind == "i" or x.dtype == np.float64:
        below = nary(c, "ElementWiseLess", [x, scalar(0, x.dtype)], np.dtype(bool))
        return select(c, below, mul(c, x, slope), x)
    return nary(c, "Prelu", [x, slope])


@lowers("PRelu", to="Prelu, or ElementWiseSelect and elementwise")
def prelu(c: Lowering, n: OnnxNode) -> Value:
    x, slope = n.input(0), n.input(1)
    if x.shape != n.shape():
        from .op_shape import broadcast_to

        x = broadcast_to(c, x, n.shape())
    return x if x.dtype.kind == "u" else sloped(c, x, slope)


@lowers("Selu", to="Elu, ElementWiseMultiply")
def selu(c: Lowering, n: OnnxNode) -> Value:
    alpha = n.number("alpha", 1.67326319217681884765625)
    gamma = n.number("gamma", 1.05070102214813232421875)
    return times(c, unary(c, "Elu", n.input(0), alpha=np.float32(alpha)), gamma)


@lowers("Celu", to="Elu, ElementWiseMultiply")
def celu(c: Lowering, n: OnnxNode) -> Value:
    alpha = n.number("alpha", 1.0)
    # alpha * elu(x / alpha): the positive side is x again.
    inner = unary(c, "Elu", times(c, n.input(0), 1 / alpha), alpha=np.float32(1))
    return times(c, inner, alpha)


@lowers("Gelu", to="Gelu, or Tanh and elementwise")
def gelu(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.text("approximate", "none") == "none":
        return unary(c, "Gelu", x)
    cube = mul(c, mul(c, x, x), x)
    inner = times(c, add(c, x, times(c, cube, 0.044715)), math.sqrt(2 / math.pi))
    return mul(c, times(c, x, 0.5), plus(c, unary(c, "Tanh", inner), 1.0))


@lowers("HardSigmoid", to="ElementWiseNeuron")
def hard_sigmoid(c: Lowering, n: OnnxNode) -> Value:
    return unary(
        c,
        "ElementWiseNeuron",
        n.input(0),
        operation=HARD_SIGMOID,
        alpha=np.float32(n.number("alpha", 0.2)),
        beta=np.float32(n.number("beta", 0.5)),
    )


def softplus_of(c: Lowering, x: Value) -> Value:
    return unary(c, "ElementWiseNeuron", x, operation=SOFTPLUS, beta=np.float32(1))


@lowers("Softplus", to="ElementWiseNeuron")
def softplus(c: Lowering, n: OnnxNode) -> Value:
    return softplus_of(c, n.input(0))


@lowers("Mish", to="ElementWiseNeuron, Tanh, ElementWiseMultiply")
def mish(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return mul(c, x, unary(c, "Tanh", softplus_of(c, x)))


@lowers("Swish", to="Sigmoid, ElementWiseMultiply")
def swish(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return mul(c, x, unary(c, "Sigmoid", times(c, x, n.number("alpha", 1.0))))


@lowers("Softsign", to="ElementWiseAbs, ElementWiseAdd, ElementWiseDivide")
def softsign(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    return div(c, x, plus(c, unary(c, "ElementWiseAbs", x), 1.0))


@lowers("ThresholdedRelu", to="ElementWiseGreater, ElementWiseSelect")
def thresholded_relu(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    alpha = scalar(n.number("alpha", 1.0), x.dtype)
    above = nary(c, "ElementWiseGreater", [x, alpha], np.dtype(bool))
    return select(c, above, x, scalar(0, x.dtype))


@lowers("Shrink", to="ElementWiseSelect")
def shrink(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    bias, limit = n.number("bias", 0.0), n.number("lambd", 0.5)
    if not is_float(x.dtype):
        return _shrunk_integers(c, x, bias, limit)
    below = nary(c, "ElementWiseLess", [x, scalar(-limit, x.dtype)], BOOL)
    above = nary(c, "ElementWiseGreater", [x, scalar(limit, x.dtype)], BOOL)
    upper = select(c, above, sub(c, x, scalar(bias, x.dtype)), scalar(0, x.dtype))
    return select(c, below, plus(c, x, bias), upper)


def _shrunk_integers(c: Lowering, x: Value, bias: float, limit: float) -> Value:
    def whole(number: int) -> Value:
        return constant(np.array(number, x.dtype))

    def moved(amount: float) -> Value:
        step, turn = truncated_sum(amount, x.dtype)
        y = add(c, x, whole(step))
        if turn is None:
            return y
        less = nary(c, "ElementWiseLess", [x, whole(turn)], BOOL)
        return select(c, less, add(c, y, whole(1)), y)

    least, greatest = least_above(limit, x.dtype), greatest_below(-limit, x.dtype)
    y = mul(c, x, whole(0)) if least is None and greatest is None else whole(0)
    if least is not None:
        above = nary(c, "ElementWiseGreaterEqual", [x, whole(least)], BOOL)
        y = select(c, above, moved(-bias), y)
    if greatest is not None:
        below = nary(c, "ElementWiseLessEqual", [x, whole(greatest)], BOOL)
        y = select(c, below, moved(bias), y)
    return y


@lowers("Clip", to="ReluMinMax, ElementWiseMinimum, ElementWiseMaximum")
def clip(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.version < 11:
        low: Value | None = scalar(n.number("min", -3.4028234663852886e38), x.dtype)
        high: Value | None = scalar(n.number("max", 3.4028234663852886e38), x.dtype)
    else:
        low, high = n.optional(1), n.optional(2)
    fixed = all(v is None or v.is_const for v in (low, high))
    narrow = is_float(x.dtype) and x.dtype != np.float64  # whose limits floats hold
    if narrow and fixed and (low is not None or high is not None):
        lowest = float(np.finfo(np.float32).min)
        least = lowest if low is None else float(low.const.reshape(()))
        most = -lowest if high is None else float(high.const.reshape(()))
        if least <= most:
            return unary(
                c, "ReluMinMax", x, min_value=np.float32(least), max_value=np.float32(most)
            )
    if x.dtype.kind in "iu" and fixed and (limits := _whole_limits(x.dtype, low, high)):
        return unary(c, "ReluMinMax", x, min_value=limits[0], max_value=limits[1])
    if low is not None:
        x = nary(c, "ElementWiseMaximum", [x, low])
    if high is not None:
        x = nary(c, "ElementWiseMinimum", [x, high])
    return x if low is not None or high is not None else c.b.reshape(x, x.shape)


def _whole_limits(
    dtype: np.dtype, low: Value | None, high: Value | None
) -> tuple[np.float32, np.float32] | None:
    """Both limits in one pass, where floats hold them: what a type cannot reach is no limit."""
    limits = [None if v is None else int(v.const.reshape(())) for v in (low, high)]
    if limits == [None, None] or any(v is not None and int(np.float32(v)) != v for v in limits):
        return None
    least, most = (
        np.float32(end if v is None else v)
        for v, end in zip(limits, (-np.inf, np.inf), strict=True)
    )
    return (least, most) if least <= most else None


@lowers("Softmax", "LogSoftmax", to="Softmax, LogSoftmax")
def softmax(c: Lowering, n: OnnxNode) -> Value:
    x = n.input(0)
    if n.version >= 13:
        x = c.b.real(x)
        at = x.perm.index(axis_of(n.integer("axis", -1), x.rank))
        return c.b.op(n.op, [x], x.shape, None, x.perm, axis=np.uint32(at))
    # Before opset 13 the input is a matrix: what follows `axis` is one dimension.
    axis = axis_of(n.integer("axis", 1), x.rank)
    if all(d == 1 for d in x.shape[axis + 1 :]):
        x = c.b.real(x)
        at = x.perm.index(axis)
        return c.b.op(n.op, [x], x.shape, None, x.perm, axis=np.uint32(at))
    rows = math.prod(x.shape[:axis])
    flat = c.b.plain(c.b.reshape(x, (rows, math.prod(x.shape[axis:]))))
    y = c.b.op(n.op, [flat], flat.shape, axis=np.uint32(1))
    return c.b.reshape(y, x.shape)


@lowers("Hardmax", to="Argmax, OneHot")
def hardmax(c: Lowering, n: OnnxNode) -> Value:
    x = c.b.plain(n.input(0))
    shape = x.shape
    axis = axis_of(n.integer("axis", -1 if n.version >= 13 else 1), x.rank)
    if n.version < 13 or x.rank == 1:  # without a dimension that stays Argmax had no output shape
        x = c.b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        axis = 1
    left = [d for i, d in enumerate(x.shape) if i != axis]
    best = c.b.op(
        "Argmax", [x], left, np.dtype(np.int32), axis=np.uint32(axis), keep_dims=np.bool_(False)
    )
    hot = c.b.op(
        "OneHot",
        [best],
        x.shape,
        x.dtype,
        depth=np.uint32(x.shape[axis]),
        axis=np.uint32(axis),
        on_value=np.float32(1),
        off_value=np.float32(0),
    )
    return c.b.reshape(hot, shape)


@lowers("Dropout", "Identity", to="nothing")
def identity_op(c: Lowering, n: OnnxNode) -> Result:
    x = n.input(0)
    if n.op == "Identity":
        return x
    training = n.const_input(2, "training_mode") if n.version >= 12 else None
    ratio = n.const_input(1, "ratio") if n.version >= 12 else np.array(0.5)
    drops = ratio is None or float(ratio.reshape(())) != 0
    if drops and training is not None and bool(training.all()):
        raise Unsupported("training mode")
    mask: Value | None = None
    if n.wants(1):
        one = np.ones((), bool if n.version >= 10 else x.dtype)
        mask = constant(np.broadcast_to(one, x.shape))
    return [x, mask]


@lowers("MeanVarianceNormalization", to="ReduceMean and elementwise")
def mean_variance(c: Lowering, n: OnnxNode) -> Value:
    x = widened(c, n.input(0))
    axes = [axis_of(a, x.rank) for a in n.integers("axes") or [0, 2, 3]]
    centred = sub(c, x, reduce(c, "ReduceMean", x, axes))
    variance = reduce(c, "ReduceMean", mul(c, centred, centred), axes)
    y = div(c, centred, plus(c, unary(c, "ElementWiseSquareRoot", variance), 1e-9))
    return cast(c, y, n.input(0).dtype)


@lowers("Cast", to="Cast")
def lower_cast(c: Lowering, n: OnnxNode) -> Value:
    return _cast_to(c, n, n.dtype())


@lowers("CastLike", to="Cast")
def cast_like(c: Lowering, n: OnnxNode) -> Value:
    return _cast_to(c, n, n.input(1).dtype)


def _cast_to(c: Lowering, n: OnnxNode, dtype: np.dtype) -> Value:
    x = n.input(0)
    for t in (x.dtype, dtype):
        if not has_data_type(t):
            kind = "text" if t.kind == "O" else t.name
            raise Unsupported(f"the type {kind}, which QNN does not have")
    return cast(c, x, dtype)
