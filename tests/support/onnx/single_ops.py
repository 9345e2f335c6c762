"""Random nodes of one ONNX operator each, as clients of a QNN backend meet them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F, I32, I64, B = np.float32, np.int32, np.int64, np.bool_
Rng = np.random.Generator


@dataclass
class OneOp:
    """A node.

    inputs: None for one left out. constant: numbers of the constant ones. outputs: their types.
    quantizable: whether it may stand between DequantizeLinear and QuantizeLinear.
    """

    op: str
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constant: Sequence[int] = ()
    outputs: Sequence[Any] = (F,)
    quantizable: bool = False

    def __post_init__(self) -> None:
        self.inputs = [None if x is None else np.asarray(x) for x in self.inputs]

    @property
    def label(self) -> str:
        shapes = ", ".join(
            "-" if x is None else f"{x.dtype}{list(x.shape)}" + "c" * (i in self.constant)
            for i, x in enumerate(self.inputs)
        )
        given = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}({shapes}{'; ' + given if given else ''})"


def _shape(r: Rng, low: int = 1, high: int = 4) -> tuple[int, ...]:
    return tuple(int(n) for n in r.integers(1, 8, r.integers(low, high, endpoint=True)))


def _x(r: Rng, shape: Sequence[int], low: float = -3, high: float = 3) -> np.ndarray:
    return r.uniform(low, high, tuple(shape)).astype(F)


def _pick(r: Rng, *values: Any) -> Any:
    return values[int(r.integers(len(values)))]


def _real(r: Rng, low: float, high: float) -> float:
    return round(float(r.uniform(low, high)), 3)


def _axis(r: Rng, rank: int) -> int:
    return int(r.integers(-rank, rank))


def _broadcast(r: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    a = _shape(r)
    b = tuple(1 if r.random() < 0.25 else n for n in a)[int(r.integers(0, len(a) + 1)) :]
    return (a, b) if r.random() < 0.7 else (b, a)


# ---- families ------------------------------------------------------------------------------------

_UNARY = {
    "Abs": (-3, 3), "Asin": (-1, 1), "Atan": (-3, 3), "Ceil": (-3, 3), "Cos": (-3, 3),
    "Erf": (-3, 3), "Exp": (-3, 3), "Floor": (-3, 3), "Gelu": (-3, 3), "HardSwish": (-5, 5),
    "Identity": (-3, 3), "Log": (0.1, 5), "Neg": (-3, 3), "Reciprocal": (0.3, 4),
    "Relu": (-3, 3), "Round": (-3, 3), "Sigmoid": (-5, 5), "Sign": (-2, 2), "Sin": (-3, 3),
    "Softplus": (-3, 3), "Softsign": (-3, 3), "Sqrt": (0, 5), "Tanh": (-3, 3),
    "IsNaN": (-1, 1), "Mish": (-3, 3), "Selu": (-3, 3),
}  # fmt: skip


def unary(r: Rng) -> OneOp:
    op = _pick(r, *_UNARY)
    x = _x(r, _shape(r), *_UNARY[op])
    return OneOp(op, [x], outputs=(B if op == "IsNaN" else F,), quantizable=op != "IsNaN")


def with_attributes(r: Rng) -> OneOp:
    op = _pick(r, "Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Celu")
    attributes = {"alpha": _real(r, 0.05, 1.5)}
    if op == "HardSigmoid":
        attributes["beta"] = _real(r, 0.1, 0.8)
    return OneOp(op, [_x(r, _shape(r))], attributes, quantizable=True)


def clip(r: Rng) -> OneOp:
    dtype = _pick(r, F, F, I32, I64)
    x = _x(r, _shape(r), -20, 20).astype(dtype)
    low, high = np.array(_real(r, -9, 0), dtype), np.array(_real(r, 1, 9), dtype)
    form = r.integers(3)
    inputs: list[np.ndarray | None] = [[x, low, high], [x, low], [x, None, high]][form]
    return OneOp("Clip", inputs, constant=(1, 2), outputs=(dtype,), quantizable=dtype is F)


def binary(r: Rng) -> OneOp:
    op = _pick(r, "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mod", "PRelu")
    sa, sb = _broadcast(r)
    whole = op in ("Add", "Sub", "Mul", "Min", "Max", "Div", "Mod") and r.random() < 0.3
    dtype = _pick(r, I32, I64) if whole else F
    if op == "PRelu" and len(sb) > len(sa):
        sa, sb = sb, sa
    a, b = _x(r, sa, -9, 9), _x(r, sb, 0.5, 5)
    if op == "Pow":
        a, b = _x(r, sa, 0.2, 3), _pick(r, np.array(2, F), np.array(0.5, F), _x(r, sb, 0.5, 2.5))
    if op in ("Add", "Sub", "Max", "Min"):
        b = _x(r, sb, -5, 5)
    if whole:
        a, b = np.trunc(a * 5).astype(dtype), np.trunc(b * 3).astype(dtype)
    attributes = {"fmod": 1} if op == "Mod" and not whole else {}
    constant = (1,) if op == "PRelu" or r.random() < 0.4 else ()
    return OneOp(op, [a, b], attributes, constant, (dtype,), not whole and op != "Mod")


def compare(r: Rng) -> OneOp:
    op = _pick(r, "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor")
    sa, sb = _broadcast(r)
    if op in ("And", "Or", "Xor"):
        return OneOp(op, [r.random(sa) < 0.5, r.random(sb) < 0.5], outputs=(B,))
    dtype = _pick(r, F, F, I32, I64)
    values = [r.integers(-3, 4, s).astype(dtype) for s in (sa, sb)]
    return OneOp(op, values, constant=_pick(r, (), (1,)), outputs=(B,))


def logic(r: Rng) -> OneOp:
    if r.random() < 0.3:
        return OneOp("Not", [r.random(_shape(r)) < 0.5], outputs=(B,))
    sa, sb = _broadcast(r)
    shape = np.broadcast_shapes(sa, sb)
    dtype = _pick(r, F, F, I32)
    values = [_x(r, s, -9, 9).astype(dtype) for s in (sa, sb)]
    return OneOp("Where", [r.random(shape) < 0.5, *values], outputs=(dtype,))


def reduce(r: Rng) -> OneOp:
    op = _pick(r, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")
    shape = _shape(r)
    rank = len(shape)
    axes = r.permutation(rank)[: int(r.integers(1, rank + 1))].astype(I64)
    axes = np.where(r.random(len(axes)) < 0.3, axes - rank, axes)
    inputs: list[np.ndarray | None] = [_x(r, shape, 0.5, 2), axes]
    if r.random() < 0.15:
        inputs = inputs[:1]
    return OneOp(op, inputs, {"keepdims": int(r.integers(2))}, (1,), quantizable=True)


def arg(r: Rng) -> OneOp:
    shape = _shape(r)
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(_pick(r, F, F, I32))
    attributes = {"axis": _axis(r, len(shape)), "keepdims": int(r.integers(2))}
    return OneOp(_pick(r, "ArgMax", "ArgMin"), [x], attributes, outputs=(I64,))


def softmax(r: Rng) -> OneOp:
    shape = _shape(r)
    op = _pick(r, "Softmax", "LogSoftmax", "Softmax", "LpNormalization", "Hardmax")
    attributes: dict[str, Any] = {"axis": _axis(r, len(shape))}
    if op == "LpNormalization":
        attributes["p"] = 2
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(F) / 4
    return OneOp(op, [x], attributes, quantizable=op != "Hardmax")


def shapes(r: Rng) -> OneOp:
    shape = _shape(r)
    rank, x = len(shape), _x(r, shape)
    op = _pick(r, "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile")
    if op == "Transpose":
        return OneOp(op, [x], {"perm": [int(i) for i in r.permutation(rank)]}, quantizable=True)
    if op == "Flatten":
        return OneOp(op, [x], {"axis": int(r.integers(0, rank + 1))}, quantizable=True)
    if op == "Reshape":
        sizes = [int(n) for n in r.permutation(shape)]
        sizes[int(r.integers(rank))] = -1
        given = np.array([*sizes, 1] if r.random() < 0.3 else sizes, I64)
    elif op == "Squeeze":
        x = x[:, None] if r.random() < 0.5 else x[None]
        given = np.array([1 if x.shape[0] != 1 or (x.ndim > 1 and x.shape[1] == 1) else 0], I64)
        if x.shape[int(given[0])] != 1:
            given = np.array([0], I64)
    elif op == "Unsqueeze":
        given = np.array([int(r.integers(0, rank + 1))], I64)
    elif op == "Expand":
        x = x[tuple(slice(0, 1) if r.random() < 0.5 else slice(None) for _ in shape)]
        given = np.array(shape, I64)
    else:
        given = r.integers(1, 4, rank).astype(I64)
    return OneOp(op, [x, given], constant=(1,), quantizable=op != "Expand")


def joins(r: Rng) -> OneOp:
    shape = _shape(r)
    axis = _axis(r, len(shape))
    if r.random() < 0.5:
        parts = []
        for _ in range(int(r.integers(1, 5))):
            other = list(shape)
            other[axis] = int(r.integers(1, 6))
            parts.append(_x(r, other))
        return OneOp("Concat", [*parts], {"axis": axis}, quantizable=True)
    sizes = r.integers(1, 5, int(r.integers(1, 5))).astype(I64)
    whole = list(shape)
    whole[axis] = int(sizes.sum())
    inputs: list[np.ndarray | None] = [_x(r, whole), sizes]
    return OneOp("Split", inputs, {"axis": axis}, (1,), (F,) * len(sizes), True)


def slices(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(2, 9, r.integers(1, 5)))
    x = _x(r, shape)
    axes = r.permutation(len(shape))[: int(r.integers(1, len(shape) + 1))]
    starts, ends, steps = [], [], []
    for a in axes:
        step = _pick(r, 1, 1, 1, 2, 3, -1)
        low, high = sorted(int(n) for n in r.choice(shape[a] + 1, 2, replace=False))
        if step < 0:
            starts.append(high - 1 if high > 0 else 0)
            ends.append(low - 1 if low > 0 else -shape[a] - 1)
        else:
            starts.append(low)
            ends.append(high)
        steps.append(step)
    inputs: list[np.ndarray | None] = [x, *(np.array(v, I64) for v in (starts, ends, axes, steps))]
    return OneOp("Slice", inputs, constant=(1, 2, 3, 4), quantizable=True)


def pad(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(3, 8, r.integers(1, 5)))
    mode = _pick(r, "constant", "constant", "reflect", "edge")
    pads = r.integers(0, 3, 2 * len(shape)).astype(I64)
    inputs: list[np.ndarray | None] = [_x(r, shape), pads]
    if mode == "constant" and r.random() < 0.6:
        inputs.append(np.array(_real(r, -2, 2), F))
    return OneOp("Pad", inputs, {"mode": mode}, (1, 2), quantizable=True)


def gathers(r: Rng) -> OneOp:
    shape = tuple(int(n) for n in r.integers(2, 8, r.integers(1, 5)))
    rank, x = len(shape), _x(r, shape)
    axis = _axis(r, rank)
    dtype = _pick(r, I32, I64)
    op = _pick(r, "Gather", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
    constant = _pick(r, (1,), (1, 2), ())
    if op == "Gather":
        index = r.integers(0, shape[axis], _pick(r, (), (3,), (2, 2))).astype(dtype)
        return OneOp(op, [x, index], {"axis": axis}, constant, quantizable=True)
    if op in ("GatherElements", "ScatterElements"):
        sizes = list(shape)
        sizes[axis] = int(r.integers(1, shape[axis] + 1))
        if op == "ScatterElements":
            index = np.argsort(r.random(shape), axis=axis)
            index = index.take(range(sizes[axis]), axis=axis)
            more = {"reduction": _pick(r, "none", "none", "add", "mul", "max")}
            inputs: list[np.ndarray | None] = [x, index.astype(dtype), _x(r, sizes)]
            return OneOp(op, inputs, {"axis": axis, **more}, constant)
        return OneOp(op, [x, r.integers(0, shape[axis], sizes).astype(dtype)], {"axis": axis},
                     constant, quantizable=True)  # fmt: skip
    depth = int(r.integers(1, rank + 1))
    count = int(r.integers(1, 3))
    flat = r.choice(int(np.prod(shape[:depth])), count, replace=False)
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(I64)
    if op == "GatherND":
        return OneOp(op, [x, index], constant=constant, quantizable=True)
    inputs = [x, index, _x(r, (count, *shape[depth:]))]
    return OneOp(op, inputs, {"reduction": _pick(r, "none", "none", "add", "mul")}, constant)


def blocks(r: Rng) -> OneOp:
    n, c, h, w = (int(v) for v in r.integers(1, 4, 4))
    if r.random() < 0.5:
        mode = _pick(r, "DCR", "CRD")
        x = _x(r, (n, 4 * c, h + 1, w + 1))
        return OneOp("DepthToSpace", [x], {"blocksize": 2, "mode": mode}, quantizable=True)
    return OneOp("SpaceToDepth", [_x(r, (n, c, 2 * h, 2 * w))], {"blocksize": 2}, quantizable=True)


def choices(r: Rng) -> OneOp:
    shape = _shape(r, 1, 3)
    axis = _axis(r, len(shape))
    x = r.permutation(int(np.prod(shape))).reshape(shape).astype(F)
    op = _pick(r, "TopK", "OneHot", "CumSum")
    if op == "TopK":
        k = np.array([int(r.integers(1, shape[axis] + 1))], I64)
        attributes = {"axis": axis, "largest": int(r.integers(2))}
        return OneOp(op, [x, k], attributes, (1,), (F, I64))
    if op == "CumSum":
        attributes = {"exclusive": int(r.integers(2)), "reverse": int(r.integers(2))}
        return OneOp(op, [x, np.array(axis, I64)], attributes, (1,), quantizable=False)
    depth = int(r.integers(2, 6))
    index = r.integers(0, depth, shape).astype(I64)
    inputs: list[np.ndarray | None] = [index, np.array(depth, I64), np.array([0, 1], F)]
    return OneOp(op, inputs, {"axis": int(r.integers(-1, len(shape) + 1))}, (1, 2))


_CODES = {F: 1, I32: 6, I64: 7, B: 9, np.uint8: 2}


def casts(r: Rng) -> OneOp:
    source, to = _pick(r, *_CODES), _pick(r, *_CODES)
    x = np.abs(_x(r, _shape(r), 0, 90)).astype(source)
    return OneOp("Cast", [x], {"to": _CODES[to]}, outputs=(to,))


def conv(r: Rng) -> OneOp:
    spatial = _pick(r, 1, 2, 2, 2, 3)
    group = _pick(r, 1, 1, 1, 2, 4)
    per, out = int(r.integers(1, 4)), int(r.integers(1, 4)) * group
    kernel = [int(k) for k in r.integers(1, 4, spatial)]
    dilations = [_pick(r, 1, 1, 2) for _ in range(spatial)]
    room = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [n + int(r.integers(0, 6)) for n in room]
    attributes: dict[str, Any] = {"group": group, "dilations": dilations, "kernel_shape": kernel,
                                  "strides": [_pick(r, 1, 1, 2) for _ in kernel]}  # fmt: skip
    if r.random() < 0.25:
        attributes["auto_pad"] = _pick(r, "SAME_UPPER", "SAME_LOWER", "VALID")
        attributes["dilations"] = [1] * spatial
    else:
        attributes["pads"] = [int(p) for p in r.integers(0, 2, 2 * spatial)]
    inputs: list[np.ndarray | None] = [
        _x(r, (int(r.integers(1, 3)), per * group, *sizes)), _x(r, (out, per, *kernel), -1, 1)
    ]  # fmt: skip
    if r.random() < 0.6:
        inputs.append(_x(r, (out,), -1, 1))
    return OneOp("Conv", inputs, attributes, (1, 2), quantizable=True)


def conv_transpose(r: Rng) -> OneOp:
    spatial = _pick(r, 1, 2, 2, 3)
    group = _pick(r, 1, 1, 2)
    cin, out = int(r.integers(1, 4)) * group, int(r.integers(1, 4))
    kernel = [int(k) for k in r.integers(2, 4, spatial)]
    strides = [_pick(r, 1, 2, 2) for _ in kernel]
    sizes = [int(n) for n in r.integers(2, 6, spatial)]
    attributes: dict[str, Any] = {"group": group, "strides": strides, "kernel_shape": kernel}
    form = r.random()
    if form < 0.3:
        attributes["output_shape"] = [
            n * s + int(r.integers(0, 2)) * (s > 1) for n, s in zip(sizes, strides, strict=True)
        ]
    elif form < 0.6:
        attributes["output_padding"] = [s - 1 for s in strides]
    if form >= 0.3:
        attributes["pads"] = [int(p) for p in r.integers(0, 2, 2 * spatial)]
    inputs: list[np.ndarray | None] = [_x(r, (1, cin, *sizes)), _x(r, (cin, out, *kernel), -1, 1)]
    if r.random() < 0.6:
        inputs.append(_x(r, (out * group,), -1, 1))
    return OneOp("ConvTranspose", inputs, attributes, (1, 2), quantizable=True)


def pools(r: Rng) -> OneOp:
    spatial = _pick(r, 1, 2, 2, 2, 3)
    sizes = [int(n) for n in r.integers(3, 9, spatial)]
    x = _x(r, (int(r.integers(1, 3)), int(r.integers(1, 6)), *sizes))
    op = _pick(r, "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    if op.startswith("Global"):
        return OneOp(op, [x], quantizable=True)
    kernel = [int(k) for k in r.integers(2, 4, spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": int(r.random() < 0.25),
                                  "strides": [_pick(r, 1, 2, 3) for _ in kernel]}  # fmt: skip
    attributes["pads"] = [int(p) for p in r.integers(0, 2, 2 * spatial)]
    if op == "AveragePool":
        attributes["count_include_pad"] = int(r.integers(2))
    return OneOp(op, [x], attributes, quantizable=True)


def products(r: Rng) -> OneOp:
    m, k, n = (int(v) for v in r.integers(1, 9, 3))
    constant = _pick(r, (1, 2), (1, 2), ())
    if r.random() < 0.5:
        ta, tb = int(r.integers(2)), int(r.integers(2))
        attributes = {"transA": ta, "transB": tb}
        if r.random() < 0.4:
            attributes |= {"alpha": _real(r, 0.3, 2), "beta": _real(r, 0.3, 2)}
        inputs: list[np.ndarray | None] = [_x(r, (k, m) if ta else (m, k)),
                                           _x(r, (n, k) if tb else (k, n), -1, 1)]  # fmt: skip
        if r.random() < 0.7:
            inputs.append(_x(r, _pick(r, (n,), (1, n), (m, n)), -1, 1))
        return OneOp("Gemm", inputs, attributes, constant, quantizable=True)
    batch = _shape(r, 1, 2)
    form = r.integers(4)
    sa, sb = [((m, k), (k, n)), ((*batch, m, k), (k, n)), ((*batch, m, k), (*batch, k, n)),
              ((k,), (k, n))][form]  # fmt: skip
    return OneOp("MatMul", [_x(r, sa), _x(r, sb, -1, 1)], {}, constant, quantizable=True)


def norms(r: Rng) -> OneOp:
    op = _pick(r, "BatchNormalization", "InstanceNormalization", "LayerNormalization",
               "GroupNormalization", "LRN")  # fmt: skip
    c = 4 if op == "GroupNormalization" else int(r.integers(1, 7))
    rank = _pick(r, 3, 4, 4)
    shape = (int(r.integers(1, 3)), c, *(int(n) for n in r.integers(2, 7, rank - 2)))
    x = _x(r, shape)
    if op == "LRN":
        x = _x(r, (1, c, 4, 5))
        return OneOp(op, [x], {"size": _pick(r, 3, 5), "alpha": 0.01, "beta": 0.75, "bias": 1.0})
    if op == "LayerNormalization":
        axis = _pick(r, -1, -1, -2)
        sizes = shape[axis:]
        return OneOp(op, [x, _x(r, sizes, 0.5, 2), _x(r, sizes, -1, 1)], {"axis": axis}, (1, 2),
                     quantizable=True)  # fmt: skip
    each: list[np.ndarray | None] = [_x(r, (c,), 0.5, 2), _x(r, (c,), -1, 1)]
    if op == "BatchNormalization":
        each += [_x(r, (c,), -1, 1), _x(r, (c,), 0.5, 2)]
    attributes = {"num_groups": 2} if op == "GroupNormalization" else {}
    return OneOp(op, [x, *each], attributes, tuple(range(1, 1 + len(each))),
                 quantizable=op != "GroupNormalization")  # fmt: skip


def resize(r: Rng) -> OneOp:
    shape = (1, int(r.integers(1, 5)), *(int(n) for n in r.integers(2, 7, 2)))
    sizes = np.array([*shape[:2], *(int(n) for n in r.integers(2, 14, 2))], I64)
    mode = _pick(r, "nearest", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": _pick(
        r, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}  # fmt: skip
    if mode == "nearest":
        attributes["nearest_mode"] = _pick(r, "floor", "round_prefer_floor", "ceil",
                                           "round_prefer_ceil")  # fmt: skip
    return OneOp("Resize", [_x(r, shape), None, None, sizes], attributes, (3,),
                 quantizable=mode != "cubic")  # fmt: skip


def recurrent(r: Rng) -> OneOp:
    t, n, i, h = (int(v) for v in (r.integers(1, 4), 1, r.integers(2, 9), r.integers(2, 9)))
    op, gates = _pick(r, ("LSTM", 4), ("GRU", 3))
    inputs: list[np.ndarray | None] = [_x(r, (t, n, i)), _x(r, (1, gates * h, i), -1, 1),
                                       _x(r, (1, gates * h, h), -1, 1)]  # fmt: skip
    if r.random() < 0.7:
        inputs.append(_x(r, (1, 2 * gates * h), -0.5, 0.5))
    attributes = {"hidden_size": h, "direction": _pick(r, "forward", "reverse")}
    if op == "GRU":
        attributes["linear_before_reset"] = int(r.integers(2))
    return OneOp(op, inputs, attributes, (1, 2, 3), (F,) * (3 if op == "LSTM" else 2))


def samples(r: Rng) -> OneOp:
    x, grid = _x(r, (1, int(r.integers(1, 5)), 5, 6)), _x(r, (1, 3, 4, 2), -1.1, 1.1)
    attributes = {"mode": _pick(r, "linear", "nearest"), "align_corners": int(r.integers(2)),
                  "padding_mode": _pick(r, "zeros", "border", "reflection")}  # fmt: skip
    return OneOp("GridSample", [x, grid], attributes)


FAMILIES: tuple[Callable[[Rng], OneOp], ...] = (
    unary, unary, with_attributes, clip, binary, binary, compare, logic, reduce, arg, softmax,
    shapes, shapes, joins, slices, pad, gathers, gathers, blocks, choices, casts, conv, conv,
    conv_transpose, pools, pools, products, products, norms, resize, recurrent, samples,
)  # fmt: skip


def one_op(seed: int, number: int) -> OneOp:
    """The node with this number, of the families in turn."""
    return FAMILIES[number % len(FAMILIES)](np.random.default_rng([seed, number]))
