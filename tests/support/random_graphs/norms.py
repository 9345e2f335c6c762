"""Blocks of normalizations along an axis, composed."""

from __future__ import annotations

from .net import Batch, Net, Skip, block


def layer_norm_of(g: Net, x: str) -> str:
    """LayerNorm or RMSNorm in one of the forms in which it is exported, or almost."""
    s = g.shape(x)
    axis = g.choice([-1, -1, -1, -1, 1, -2]) % len(s)
    size = s[axis]
    if isinstance(size, Batch) or size < 2:
        raise Skip
    last, mean_square = axis == len(s) - 1, g.chance(0.35)
    if g.opset >= 17 and last and not mean_square and g.chance(0.2):
        parts = [g.weights(size), g.weights(size)]
        return g.op("LayerNormalization", [x, *parts], axis=-1, epsilon=1e-3)
    axes = [axis - len(s)] if g.opset >= 11 and g.chance(0.7) else [axis]
    d = squared = x
    if not mean_square:
        mean = g.reduce("ReduceMean", x, axes)
        d = squared = g.both("Sub", x, mean)
        if g.chance(0.15):
            squared = g.both("Sub", x, mean)
    power = g.chance(0.6)
    square = g.op("Pow", [squared, g.const(2.0)]) if power else g.op("Mul", [squared, squared])
    variance = g.reduce("ReduceMean", square, axes)
    e = g.either("Add", variance, g.number(g.choice([1e-5, 1e-3, 1e-6, 0.1])))
    form = g.between(0, 3)
    if form == 0:
        y = g.both("Div", d, g.op("Sqrt", [e]))
    elif form == 1:
        y = g.either("Mul", d, g.op("Reciprocal", [g.op("Sqrt", [e])]))
    elif form == 2:
        y = g.either("Mul", d, g.op("Pow", [e, g.const(-0.5)]))
    else:
        y = g.either("Mul", d, g.both("Div", g.const(1.0), g.op("Sqrt", [e])))

    def parameters() -> str:
        if g.chance(0.1):
            return g.const(1.3)
        if g.chance(0.1):
            return g.weights(*(1 if isinstance(t, Batch) else t for t in s))
        return g.weights(size, *[1] * (len(s) - 1 - axis))

    if g.chance(0.8):
        y = g.either("Mul", y, parameters())
    if not mean_square and g.chance(0.7):
        y = g.either("Add", y, parameters())
    return y


@block(5)
def layer_norm(g: Net) -> str:
    return layer_norm_of(g, g.pick(fits=lambda s: 2 <= len(s) <= 4))


@block(2)
def l2_norm(g: Net) -> str:
    x = g.pick(fits=lambda s: len(s) >= 2)
    axis = g.choice([-1, 1])
    if isinstance(g.shape(x)[axis], Batch):
        raise Skip
    if g.chance(0.5):
        y = g.reduce("ReduceL2", x, [axis])
    else:
        y = g.op("Sqrt", [g.reduce("ReduceSum", g.op("Mul", [x, x]), [axis])])
    if g.opset < 11:
        y = g.op("Clip", [y], min=1e-3, max=1e9)
    elif g.chance(0.6):
        y = g.op("Clip", [y, g.const(1e-3)])
    else:
        y = g.either("Max", y, g.const(1e-3))
    return g.both("Div", x, y)
