"""Blocks of networks for sequences: products, attention, gates, recurrent layers."""

from __future__ import annotations

import math

import numpy as np

from .elementwise import activation_of
from .net import Batch, Net, Skip, block
from .norms import layer_norm_of


@block(4)
def dense(g: Net) -> str:
    """Gemm, or MatMul and what is added to it."""
    x = g.pick(fits=lambda s: len(s) >= 2 and not isinstance(s[-1], Batch) and s[-1] <= 128
               and math.prod(s[:-1]) <= 300)  # fmt: skip
    s, out = g.shape(x), g.choice([4, 8, 12, 16, 24])
    biases = ((out,), (1, out), (1,), ())
    if len(s) == 2 and g.chance(0.5):
        turned = g.between(0, 1)
        given = [x, g.weights(out, s[1]) if turned else g.matrix(s[1], out)]
        if g.opset < 11 or g.chance(0.8):
            given.append(g.weights(*g.choice(biases)))
        alpha, beta = g.choice([1.0, 1.0, 0.5]), g.choice([1.0, 1.0, 2.0])
        y = g.op("Gemm", given, (s[0], out), transB=turned, alpha=alpha, beta=beta)
    else:
        w = g.matrix(s[-1], out)
        if g.chance(0.15):
            turned_w = g.weights(out, s[-1])
            w = g.hidden("Transpose", [turned_w], (s[-1], out), perm=[1, 0])
        y = g.matmul(x, w)
        if g.chance(0.7):
            y = g.either("Add", y, g.weights(*g.choice(biases)))
    return activation_of(g, y) if g.chance(0.6) else y


@block()
def gated(g: Net) -> str:
    """Two projections, multiplied; or the halves of one tensor."""
    x, _, _, c = g.sequence()
    if c % 2 == 0 and g.chance(0.5):
        a, b = g.split(x, 2, [c // 2, c // 2])
        return g.either("Mul", a, g.op("Sigmoid", [b]))
    a, b = (g.matmul(x, g.matrix(c, 8)) for _ in range(2))
    y = g.matmul(g.either("Mul", activation_of(g, a), b), g.matrix(8, c))
    return g.either("Add", x, y)


@block()
def products(g: Net) -> str:
    """Of a tensor and itself."""
    x = g.pick(fits=lambda s: 2 <= len(s) <= 4 and math.prod(s) <= 1500
               and not any(isinstance(d, Batch) for d in s[-2:]))  # fmt: skip
    rank = len(g.shape(x))
    t = g.transpose(x, *range(rank - 2), rank - 1, rank - 2)
    y = g.matmul(x, t) if g.chance(0.5) else g.matmul(t, x)
    return g.both("Div", y, g.number(float(g.shape(y)[-1])))


@block()
def scaled_by_size(g: Net) -> str:
    x, *_ = g.sequence()
    sizes = g.hidden("Shape", [x], (3,))
    size = g.hidden("Gather", [sizes, g.const(2, np.int64)], (), axis=0)
    root = g.hidden("Sqrt", [g.hidden("Cast", [size], (), to=1)], ())
    return g.op("Div", [x, root])


@block()
def recurrent(g: Net) -> str:
    x, n, t, c = g.sequence()
    units, op = g.choice([3, 4, 8]), g.choice(["LSTM", "GRU", "RNN"])
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * units
    attrs = {"hidden_size": units, "direction": g.choice(["forward", "reverse", "bidirectional"])}
    if op == "GRU":
        attrs["linear_before_reset"] = g.between(0, 1)
    ways = 2 if attrs["direction"] == "bidirectional" else 1
    given = [g.weights(ways, rows, size, scale=0.3) for size in (c, units)]
    given = [g.transpose(x, 1, 0, 2), *given, g.weights(ways, 2 * rows, scale=0.2)]
    y, last = g.results(op, given, [(t, ways, n, units), (ways, n, units)], **attrs)
    if g.chance(0.5):
        return g.transpose(last, 1, 0, 2)
    if ways == 1:
        return g.transpose(g.squeeze(y, 1), 1, 0, 2)
    return g.reshape(g.transpose(y, 2, 0, 1, 3), n, t, ways * units)


@block()
def short_convolution(g: Net) -> str:
    x, n, c, t = g.sequence()  # channels first
    k, groups = g.between(1, 3), g.choice([1, 1, c])
    out = 8 if groups == 1 else c
    pads = g.choice([[0, 0], [k - 1, 0], [k // 2, k // 2]])
    if t + sum(pads) < k:
        raise Skip
    given = [x, g.weights(out, c // groups, k), g.weights(out)]
    shape = (n, out, t + sum(pads) - k + 1)
    y = g.op("Conv", given, shape, kernel_shape=[k], pads=pads, group=groups)
    return activation_of(g, y)


@block()
def to_image(g: Net) -> str:
    x, n, t, c = g.sequence()
    h = next(d for d in range(math.isqrt(t), 0, -1) if t % d == 0)
    return g.reshape(g.transpose(x, 0, 2, 1), n, c, h, t // h)


# ---- attention


def rotary_of(g: Net, x: str) -> str:
    n, h, t, d = g.shape(x)
    angles = np.arange(t)[:, None] / 10 ** np.linspace(0, 2, d // 2)
    form = g.choice([(t, d), (1, 1, t, d)])
    halves = g.chance(0.7)
    both = [np.tile(a, 2) if halves else np.repeat(a, 2, 1) for a in (np.cos(angles),
                                                                      np.sin(angles))]  # fmt: skip
    cos, sin = (g.const(a.reshape(form)) for a in both)
    if halves:
        a, b = g.split(x, 3, [d // 2] * 2) if g.chance(0.5) else (
            g.slice(x, 3, 0, d // 2), g.slice(x, 3, d // 2, None))  # fmt: skip
        if g.chance(0.85):
            turned = g.concat([g.op("Neg", [b]), a], 3)
        else:  # the other way round
            turned = g.concat([b, g.op("Neg", [a])], 3)
    else:
        a, b = g.slice(x, 3, 0, None, 2), g.op("Neg", [g.slice(x, 3, 1, None, 2)])
        pairs = g.concat([g.unsqueeze(b, 4), g.unsqueeze(a, 4)], 4)
        turned = g.reshape(pairs, n, h, t, d)
    return g.either("Add", g.either("Mul", x, cos), g.either("Mul", turned, sin))


def _projected(g: Net, x: str, width: int) -> str:
    y = g.matmul(x, g.matrix(g.shape(x)[-1], width))
    return g.either("Add", y, g.weights(width)) if g.chance(0.5) else y


def _heads(g: Net, x: str, heads: int, d: int) -> str:
    n, t, _ = g.shape(x)
    return g.transpose(g.reshape(x, n, t, heads, d), 0, 2, 1, 3)


def _from_one(g: Net, x: str, h: int, d: int) -> list[str]:
    """Queries, keys and values of one product."""
    n, t, _ = g.shape(x)
    y = _projected(g, x, 3 * h * d)
    form = g.between(0, 2)
    if form == 0:
        return [_heads(g, part, h, d) for part in g.split(y, 2, [h * d] * 3)]
    if form == 1:
        y = g.transpose(g.reshape(y, n, t, 3, h, d), 2, 0, 3, 1, 4)
        return [g.op("Gather", [y, g.const(i, np.int64)], (n, h, t, d), axis=0) for i in range(3)]
    return g.split(g.transpose(g.reshape(y, n, t, h, 3 * d), 0, 2, 1, 3), 3, [d] * 3)


def _repeated(g: Net, x: str, h: int) -> str:
    """A head of keys for each of the queries."""
    n, few, t, d = g.shape(x)
    y = g.reshape(x, n, few, 1, t, d)
    y = g.op("Expand", [y, g.ints(1, 1, h // few, 1, 1)], (n, few, h // few, t, d))
    return g.reshape(y, n, h, t, d)


def _masked(g: Net, scores: str) -> str:
    n, h, t, keys = g.shape(scores)
    form = g.between(0, 6)
    if form == 0:
        low = g.choice([-1e4, -np.inf, -1.0])
        return g.either("Add", scores, g.const(np.triu(np.full((t, keys), low), 1)))
    if form == 1:
        return g.either("Add", scores, g.weights(1, h, t, keys))
    if form == 2 and g.opset >= 9:
        seen = g.const(np.tril(np.ones((t, keys))) > 0, np.bool_)
        return g.op("Where", [seen, scores, g.const(-1e9)], g.shape(scores))
    if form == 3:
        return g.either("Add", scores, g.input(n, 1, 1, keys, aside=True))
    if form == 4:
        capped = g.op("Tanh", [g.both("Div", scores, g.const(5.0))])
        return g.either("Mul", capped, g.const(5.0))
    return scores


@block(5)
def attention(g: Net) -> str:
    x, n, t, c = g.sequence()
    source = g.sequence()[0] if g.chance(0.2) else x
    h, d = g.choice([1, 2, 4]), g.choice([4, 8, 3])
    few = g.choice([h, h, 1])
    if source == x and few == h and g.chance(0.4):
        q, k, v = _from_one(g, x, h, d)
    else:
        q = _heads(g, _projected(g, x, h * d), h, d)
        k, v = (_heads(g, _projected(g, source, few * d), few, d) for _ in range(2))
    if d % 2 == 0 and g.opset >= 10 and g.chance(0.3):
        q, k = rotary_of(g, q), rotary_of(g, k)
    if g.chance(0.2):
        q, k = layer_norm_of(g, q), layer_norm_of(g, k)
    if few != h and g.opset >= 8 and g.chance(0.6):
        k, v = _repeated(g, k, h), _repeated(g, v, h)
    scale, form = 1 / math.sqrt(d), g.between(0, 4)
    if form in (0, 1):
        q = g.either("Mul", q, g.number(scale if form == 0 else scale**0.5))
    if form in (1, 2):
        k = g.either("Mul", k, g.number(scale if form == 2 else scale**0.5))
    scores = g.matmul(q, g.transpose(k, 0, 1, 3, 2))
    if form == 3:
        scores = g.both("Div", scores, g.number(1 / scale))
    if form == 4:
        scores = g.either("Mul", scores, g.number(scale))
    p = g.op("Softmax", [_masked(g, scores)], axis=-1 if g.opset >= 11 else 3)
    if g.chance(0.1):
        p = g.op("Dropout", [p])
    y = g.reshape(g.transpose(g.matmul(p, v), 0, 2, 1, 3), n, t, h * d)
    if g.chance(0.3):
        return y
    y = _projected(g, y, c)
    return g.either("Add", x, y) if g.chance(0.7) else y
