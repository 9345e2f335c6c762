"""Random nodes of one ONNX operator each, as clients of a QNN backend meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.onnx.one_op import (
    I32,
    I64,
    B,
    F,
    OneOp,
    Rng,
    axis_of,
    broadcast,
    drawn,
    floats,
    numbers,
    pick,
    real,
)
from support.onnx.windowed_ops import (
    conv,
    conv_transpose,
    norms,
    pools,
    products,
    recurrent,
    resize,
    samples,
)

# ---- families ------------------------------------------------------------------------------------

# Between Q and DQ nodes a number is up to half a step larger: within 1 for acos and asin, too.
_UNARY = {
    "Abs": (-3, 3), "Asin": (-0.99, 0.99), "Atan": (-3, 3), "Ceil": (-3, 3), "Cos": (-3, 3),
    "Erf": (-3, 3), "Exp": (-3, 3), "Floor": (-3, 3), "Gelu": (-3, 3), "HardSwish": (-5, 5),
    "Identity": (-3, 3), "Log": (0.1, 5), "Neg": (-3, 3), "Reciprocal": (0.3, 4),
    "Relu": (-3, 3), "Round": (-3, 3), "Sigmoid": (-5, 5), "Sign": (-2, 2), "Sin": (-3, 3),
    "Softplus": (-3, 3), "Softsign": (-3, 3), "Sqrt": (0, 5), "Tanh": (-3, 3),
    "Acos": (-0.99, 0.99), "Asinh": (-3, 3), "Atanh": (-0.9, 0.9), "Cosh": (-3, 3), "Mish": (-3, 3),
    "IsInf": (-1, 1), "IsNaN": (-1, 1), "Selu": (-3, 3), "Sinh": (-3, 3), "Tan": (-1, 1),
}  # fmt: skip
_WHOLE = ("Abs", "Neg", "Sign", "Relu", "Identity")  # those of integers, too


def unary(r: Rng) -> OneOp:
    op = pick(r, *_UNARY)
    x = floats(r, drawn(r, 1, 5), *_UNARY[op])
    if op in ("IsNaN", "IsInf"):
        x = np.where(r.random(x.shape) < 0.3, F(pick(r, np.nan, np.inf, -np.inf)), x)
        return OneOp(op, [x], outputs=(B,))
    if op in _WHOLE and r.random() < 0.4:
        dtype = pick(r, I32, I64)
        return OneOp(op, [(x * 9).astype(dtype)], outputs=(dtype,))
    attributes = {"approximate": pick(r, "none", "tanh")} if op == "Gelu" else {}
    return OneOp(op, [x], attributes, quantizable=True)


def with_attributes(r: Rng) -> OneOp:
    op = pick(r, "Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Celu")
    attributes = {"alpha": real(r, 0.05, 1.5)}
    if op == "HardSigmoid":
        attributes["beta"] = real(r, 0.1, 0.8)
    return OneOp(op, [floats(r, drawn(r))], attributes, quantizable=True)


def clip(r: Rng) -> OneOp:
    dtype = pick(r, F, F, I32, I64)
    x = floats(r, drawn(r), -20, 20).astype(dtype)
    low, high = np.array(real(r, -9, 0), dtype), np.array(real(r, 1, 9), dtype)
    form = r.integers(3)
    inputs: list[np.ndarray | None] = [[x, low, high], [x, low], [x, None, high]][form]
    return OneOp("Clip", inputs, constant=(1, 2), outputs=(dtype,), quantizable=dtype is F)


def binary(r: Rng) -> OneOp:
    op = pick(r, "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mod", "PRelu")
    sa, sb = broadcast(r)
    whole = op in ("Add", "Sub", "Mul", "Min", "Max", "Div", "Mod") and r.random() < 0.3
    dtype = pick(r, I32, I64) if whole else F
    if op == "PRelu" and len(sb) > len(sa):
        sa, sb = sb, sa
    a, b = floats(r, sa, -9, 9), floats(r, sb, 0.5, 5)
    if op == "Pow":
        a, b = (
            floats(r, sa, 0.2, 3),
            pick(r, np.array(2, F), np.array(0.5, F), floats(r, sb, 0.5, 2.5)),
        )
    if op in ("Add", "Sub", "Max", "Min"):
        b = floats(r, sb, -5, 5)
    if whole:
        a, b = np.trunc(a * 5).astype(dtype), np.trunc(b * 3).astype(dtype)
    attributes = {"fmod": 1} if op == "Mod" and not whole else {}
    if op == "PRelu" and len(sa) > 1 and r.random() < 0.5:
        b = floats(r, (sa[1], *[1] * (len(sa) - 2)), 0.05, 1)  # a slope for each channel
    constant = (1,) if op == "PRelu" or r.random() < 0.4 else ()
    return OneOp(op, [a, b], attributes, constant, (dtype,), not whole and op != "Mod")


def several(r: Rng) -> OneOp:
    op = pick(r, "Sum", "Mean", "Max", "Min")
    shape = drawn(r)
    parts = [shape] + [tuple(pick(r, 1, n, n) for n in shape) for _ in range(int(r.integers(3)))]
    return OneOp(op, [floats(r, s) for s in parts], quantizable=True)


def compare(r: Rng) -> OneOp:
    op = pick(r, "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor")
    sa, sb = broadcast(r)
    if op in ("And", "Or", "Xor"):
        return OneOp(op, [r.random(sa) < 0.5, r.random(sb) < 0.5], outputs=(B,))
    dtype = pick(r, F, F, I32, I64)
    values = [r.integers(-3, 4, s).astype(dtype) for s in (sa, sb)]
    return OneOp(op, values, constant=pick(r, (), (1,)), outputs=(B,), quantizable=dtype is F)


def logic(r: Rng) -> OneOp:
    if r.random() < 0.3:
        return OneOp("Not", [r.random(drawn(r)) < 0.5], outputs=(B,))
    sa, sb = broadcast(r)
    shape = np.broadcast_shapes(sa, sb)
    dtype = pick(r, F, F, F, I32, I64)
    values = [floats(r, s, -9, 9).astype(dtype) for s in (sa, sb)]
    if r.random() < 0.3:
        shape = tuple(pick(r, 1, n) for n in shape)
    return OneOp("Where", [r.random(shape) < 0.5, *values], constant=pick(r, (), (2,)),
                 outputs=(dtype,), quantizable=dtype is F)  # fmt: skip


def reduce(r: Rng) -> OneOp:
    op = pick(r, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2",
              "ReduceSum", "ReduceMean", "ReduceMax", "ReduceL1", "ReduceSumSquare",
              "ReduceLogSum", "ReduceLogSumExp")  # fmt: skip
    shape = drawn(r, 1, 5)
    rank = len(shape)
    axes = r.permutation(rank)[: int(r.integers(1, rank + 1))].astype(I64)
    axes = np.where(r.random(len(axes)) < 0.3, axes - rank, axes)
    inputs: list[np.ndarray | None] = [floats(r, shape, 0.5, 2), axes]
    if r.random() < 0.15:
        inputs = inputs[:1]
    whole = op in ("ReduceSum", "ReduceMax", "ReduceMin") and r.random() < 0.2
    dtype = pick(r, I32, I64) if whole else F
    if whole:
        inputs[0] = floats(r, shape, -9, 9).astype(dtype)
    return OneOp(op, inputs, {"keepdims": int(r.integers(2))}, (1,), (dtype,), not whole)


def arg(r: Rng) -> OneOp:
    shape = drawn(r)
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(pick(r, F, F, I32))
    attributes = {"axis": axis_of(r, len(shape)), "keepdims": int(r.integers(2))}
    return OneOp(
        pick(r, "ArgMax", "ArgMin"),
        [x],
        attributes,
        outputs=(I64,),
        quantizable=x.dtype == F and x.size < 256,
    )  # no two of them are one step


def softmax(r: Rng) -> OneOp:
    shape = drawn(r)
    op = pick(r, "Softmax", "LogSoftmax", "Softmax", "LpNormalization", "Hardmax")
    attributes: dict[str, Any] = {"axis": axis_of(r, len(shape))}
    if op == "LpNormalization":
        attributes["p"] = 2
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(F) / 4
    return OneOp(op, [x], attributes, quantizable=op != "Hardmax")


def shapes(r: Rng) -> OneOp:
    shape = drawn(r, 1, 5)
    rank, x = len(shape), numbers(r, shape)
    op = pick(r, "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile")
    given: np.ndarray | None = None
    attributes: dict[str, Any] = {}
    if op == "Transpose":
        if r.random() < 0.9:
            attributes["perm"] = [int(i) for i in r.permutation(rank)]
    elif op == "Flatten":
        attributes["axis"] = int(r.integers(-rank, rank + 1))
    elif op == "Reshape":
        sizes = [int(n) for n in r.permutation(shape)]
        form = r.random()
        if form < 0.2:
            sizes = [0, -1] if rank > 1 else [-1]  # 0: the size there
        else:
            sizes[int(r.integers(rank))] = -1
        given = np.array([*sizes, 1] if form > 0.7 else sizes, I64)
    elif op == "Squeeze":
        places = sorted(int(i) for i in r.integers(0, rank + 1, r.integers(1, 3)))
        for i in places:
            x = np.expand_dims(x, i)
        ones = [i for i, n in enumerate(x.shape) if n == 1]
        some = r.permutation(ones)[: int(r.integers(1, len(ones) + 1))]
        given = np.where(r.random(len(some)) < 0.3, some - x.ndim, some).astype(I64)
        if r.random() < 0.15:
            given = None
    elif op == "Unsqueeze":
        count = int(r.integers(1, 3))
        some = r.permutation(rank + count)[:count]
        given = np.where(r.random(count) < 0.3, some - rank - count, some).astype(I64)
    elif op == "Expand":
        x = x[tuple(slice(0, 1) if r.random() < 0.5 else slice(None) for _ in shape)]
        given = np.array(shape if r.random() < 0.7 else (2, *shape), I64)
    else:
        given = r.integers(1, 4, rank).astype(I64)
    inputs: list[np.ndarray | None] = [x] if given is None else [x, given]
    return OneOp(op, inputs, attributes, (1,), (x.dtype.type,), x.dtype == F)


def joins(r: Rng) -> OneOp:
    shape = drawn(r, 1, 5)
    axis = axis_of(r, len(shape))
    if r.random() < 0.5:
        parts = []
        for _ in range(int(r.integers(1, 5))):
            other = list(shape)
            other[axis] = int(r.integers(1, 6))
            parts.append(floats(r, other))
        dtype = pick(r, F, F, F, I32, I64)
        constant = pick(r, (), (), (1,)) if len(parts) > 1 else ()
        return OneOp("Concat", [p.astype(dtype) for p in parts], {"axis": axis}, constant,
                     (dtype,), dtype is F)  # fmt: skip
    sizes = r.integers(1, 5, int(r.integers(1, 5))).astype(I64)
    attributes, constant = {"axis": axis}, (1,)
    even = r.random() < 0.3
    whole = list(shape)
    whole[axis] = int(sizes[0]) * len(sizes) if even else int(sizes.sum())
    x = numbers(r, whole)
    inputs: list[np.ndarray | None] = [x] if even else [x, sizes]
    if even:
        attributes["num_outputs"] = len(sizes)
    outputs = (x.dtype.type,) * len(sizes)
    return OneOp("Split", inputs, attributes, constant, outputs, x.dtype == F)


def slices(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(2, 9, r.integers(1, 6)))
    x = numbers(r, shape)
    axes = r.permutation(len(shape))[: int(r.integers(1, len(shape) + 1))]
    starts, ends, steps = [], [], []
    for a in axes:
        step = pick(r, 1, 1, 1, 2, 3, -1)
        low, high = sorted(int(n) for n in r.choice(shape[a] + 1, 2, replace=False))
        if step < 0:
            starts.append(high - 1 if high > 0 else 0)
            ends.append(low - 1 if low > 0 else -shape[a] - 1)
        else:
            starts.append(low)
            ends.append(high)
        steps.append(step)
    dtype = pick(r, I64, I64, I32)
    inputs: list[np.ndarray | None] = [
        x, *(np.array(v, dtype) for v in (starts, ends, axes, steps))
    ]  # fmt: skip
    if set(steps) == {1} and r.random() < 0.5:
        inputs.pop()
    return OneOp("Slice", inputs, constant=(1, 2, 3, 4), outputs=(x.dtype.type,),
                 quantizable=x.dtype == F)  # fmt: skip


def pad(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(3, 8, r.integers(1, 5)))
    mode = pick(r, "constant", "constant", "constant", "reflect", "edge", "wrap")
    low = -1 if r.random() < 0.1 else 0  # negative: cut off
    dtype = pick(r, F, F, F, F, I32)
    x = floats(r, shape, -9, 9).astype(dtype)
    inputs: list[np.ndarray | None] = [x, r.integers(low, 3, 2 * len(shape)).astype(I64)]
    if mode == "constant" and r.random() < 0.6:
        inputs.append(np.array(real(r, -9, 9), dtype))
    if r.random() < 0.25:
        axes = r.permutation(len(shape))[: int(r.integers(1, len(shape) + 1))].astype(I64)
        pads = r.integers(low, 3, 2 * len(axes)).astype(I64)
        inputs = [x, pads, inputs[2] if len(inputs) > 2 else None, axes]
    return OneOp("Pad", inputs, {"mode": mode}, (1, 2, 3), (dtype,), dtype is F)


def gathers(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(2, 8, r.integers(1, 5)))
    rank, x = len(shape), floats(r, shape)
    axis = axis_of(r, rank)
    dtype = pick(r, I32, I64)
    op = pick(r, "Gather", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
    constant = pick(r, (1,), (1, 2), ())
    if op == "Gather":
        x = numbers(r, shape)
        index = r.integers(0, shape[axis], pick(r, (), (3,), (2, 2))).astype(dtype)
        if constant and r.random() < 0.2:
            index = index - np.array(shape[axis], dtype)  # from the end
        whole = constant == (1,) or r.random() < 0.8
        return OneOp(op, [x, index], {"axis": axis}, constant if whole else (0,),
                     (x.dtype.type,), x.dtype == F)  # fmt: skip
    if op in ("GatherElements", "ScatterElements"):
        sizes = list(shape)
        sizes[axis] = int(r.integers(1, shape[axis] + 1))
        if op == "ScatterElements":
            index = np.argsort(r.random(shape), axis=axis)
            index = index.take(range(sizes[axis]), axis=axis)
            more = {"reduction": pick(r, "none", "none", "add", "mul", "max")}
            inputs: list[np.ndarray | None] = [x, index.astype(dtype), floats(r, sizes)]
            return OneOp(op, inputs, {"axis": axis, **more}, constant,
                         quantizable=more["reduction"] == "none")  # fmt: skip
        return OneOp(op, [x, r.integers(0, shape[axis], sizes).astype(dtype)], {"axis": axis},
                     constant, quantizable=True)  # fmt: skip
    depth = int(r.integers(1, rank + 1))
    count = int(r.integers(1, 3))
    flat = r.choice(int(np.prod(shape[:depth])), count, replace=False)
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(I64)
    if op == "GatherND":
        return OneOp(op, [x, index], constant=constant, quantizable=True)
    inputs = [x, index, floats(r, (count, *shape[depth:]))]
    reduction = pick(r, "none", "none", "add", "mul")
    return OneOp(op, inputs, {"reduction": reduction}, constant, quantizable=reduction == "none")


def blocks(r: Rng) -> OneOp:
    n, c, h, w = (int(v) for v in r.integers(1, 4, 4))
    size = pick(r, 2, 2, 3)
    if r.random() < 0.5:
        mode = pick(r, "DCR", "CRD")
        x = floats(r, (n, size * size * c, h + 1, w + 1))
        return OneOp("DepthToSpace", [x], {"blocksize": size, "mode": mode}, quantizable=True)
    x = floats(r, (n, c, size * h, size * w))
    return OneOp("SpaceToDepth", [x], {"blocksize": size}, quantizable=True)


def choices(r: Rng) -> OneOp:
    shape = drawn(r, 1, 3)
    axis = axis_of(r, len(shape))
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(F)
    op = pick(r, "TopK", "OneHot", "CumSum")
    if op == "TopK":
        k = np.array([int(r.integers(1, shape[axis] + 1))], I64)
        attributes = {"axis": axis, "largest": int(r.integers(2))}
        return OneOp(op, [x, k], attributes, (1,), (F, I64), x.size < 256)
    if op == "CumSum":
        attributes = {"exclusive": int(r.integers(2)), "reverse": int(r.integers(2))}
        return OneOp(op, [x, np.array(axis, I64)], attributes, (1,), quantizable=True)
    depth = int(r.integers(2, 6))
    index = r.integers(0, depth, shape).astype(I64)
    inputs: list[np.ndarray | None] = [index, np.array(depth, I64), np.array([0, 1], F)]
    return OneOp(op, inputs, {"axis": int(r.integers(-1, len(shape) + 1))}, (1, 2))


_CODES = {F: 1, I32: 6, I64: 7, B: 9, np.uint8: 2, np.int8: 3, np.uint16: 4, np.float16: 10}


def casts(r: Rng) -> OneOp:
    source, to = pick(r, *_CODES), pick(r, *_CODES)
    x = np.abs(floats(r, drawn(r), 0, 90)).astype(source)
    return OneOp("Cast", [x], {"to": _CODES[to]}, outputs=(to,))


_EQUATIONS = (
    ("ij,jk->ik", "ij", "jk"), ("bij,bjk->bik", "bij", "bjk"), ("bhid,bhjd->bhij", "bhid", "bhjd"),
    ("bhij,bhjd->bhid", "bhij", "bhjd"), ("bij,jk->bik", "bij", "jk"), ("ij,ij->ij", "ij", "ij"),
    ("i,j->ij", "i", "j"), ("bhwc,hkc->bhwk", "bhwc", "hkc"), ("ij->ji", "ij", None),
)  # fmt: skip


def einsum(r: Rng) -> OneOp:
    equation, *terms = pick(r, *_EQUATIONS)
    sizes = {letter: int(r.integers(1, 6)) for letter in "bhijdkwc"}
    values = [floats(r, [sizes[letter] for letter in term]) for term in terms if term]
    return OneOp("Einsum", [*values], {"equation": equation}, quantizable=True)


def linear(r: Rng) -> OneOp:
    """QuantizeLinear and DequantizeLinear by themselves, with one scale or one for each channel."""
    shape = drawn(r, 2, 4)
    kind = pick(r, np.uint8, np.int8, np.uint16)
    axis = None if r.random() < 0.7 else int(r.integers(len(shape)))
    count = () if axis is None else (shape[axis],)
    attributes = {} if axis is None else {"axis": axis}
    scale = floats(r, count, 0.02, 0.05)
    zero = (r.integers(0, 100, count) if axis is None else np.zeros(count)).astype(kind)
    if r.random() < 0.5:
        return OneOp("QuantizeLinear", [floats(r, shape), scale, zero], attributes, (1, 2), (kind,))
    whole = r.integers(0, 120, shape).astype(kind)
    return OneOp("DequantizeLinear", [whole, scale, zero], attributes, (1, 2))


FAMILIES: tuple[Callable[[Rng], OneOp], ...] = (
    unary, unary, with_attributes, clip, binary, binary, several, compare, logic, reduce, arg,
    softmax, shapes, shapes, joins, slices, pad, gathers, gathers, blocks, choices, casts, einsum,
    linear, conv, conv, conv, conv_transpose, pools, pools, products, products, norms, resize,
    recurrent, samples,
)  # fmt: skip


def one_op(seed: int, number: int) -> OneOp:
    """The node with this number, of the families in turn."""
    return FAMILIES[number % len(FAMILIES)](np.random.default_rng([seed, number]))
