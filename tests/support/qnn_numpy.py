"""QNN's operations in numpy, written from their definitions alone: an oracle for importers.

Slow and plain on purpose. It shares no code with the runtime, so that a wrong layout in an importer
and the same mistake in a kernel cannot cancel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from qnnrt.model import Model, Node, Tensor

Arrays = list[np.ndarray | None]
OPS: dict[str, Callable[..., object]] = {}


def run(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of `model` for `feeds`, every shape compared with what the model declares."""
    values = {t.name: t.data for t in model.constants()}
    for name in model.inputs:
        tensor = model.tensors[name]
        values[name] = np.asarray(feeds[name], tensor.dtype).reshape(tensor.shape)
    last = {name: i for i, node in enumerate(model.nodes) for name in node.inputs if name}
    with np.errstate(all="ignore"):
        for i, node in enumerate(model.nodes):
            inputs = [
                _real(model.tensors[name], values[name], node) if name else None
                for name in node.inputs
            ]
            if node.type.startswith(
                ("Resize", "RoiAlign")
            ):  # the output's shape is the client's choice
                inputs.append(np.array(model.tensors[node.outputs[0]].shape))
            found = OPS[node.type](node, *inputs)
            for name, y in zip(
                node.outputs, found if isinstance(found, list) else [found], strict=False
            ):
                if not name:
                    continue
                tensor = model.tensors[name]
                y = np.asarray(y)
                if node.type in ("Reshape", "Lstm", "Gru", "Gather", "MatMul"):
                    y = y.reshape(tensor.shape)
                assert y.shape == tensor.shape, f"{node.type} {node.name}: {y.shape} {tensor}"
                values[name] = _stored(tensor, y, node)
            for name in node.inputs:
                if name and last[name] == i and name not in model.outputs:
                    values.pop(name, None)
    return {name: values[name] for name in model.outputs}


def _encoding(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    q = tensor.quantization
    if q.block is not None:
        ones = [np.ones(b) for b in q.block]
        one = functools.reduce(np.multiply.outer, ones)
        grid = [d // b for d, b in zip(tensor.shape, q.block, strict=True)]
        return np.kron(q.scale, one), np.kron(np.broadcast_to(q.offset, grid), one)
    shape = [-1 if i == q.axis else 1 for i in range(len(tensor.shape))]
    return np.reshape(q.scale, shape), np.reshape(q.offset, shape)


def _real(tensor: Tensor, x: np.ndarray, node: Node) -> np.ndarray:
    """What the elements of a fixed-point tensor stand for; a Cast takes them as integers."""
    if tensor.quantization is None or node.type == "Cast":
        return x
    scale, offset = _encoding(tensor)
    return (scale * (x.astype(np.float64) + offset)).astype(np.float32)


def _stored(tensor: Tensor, y: np.ndarray, node: Node) -> np.ndarray:
    if tensor.quantization is None or node.type == "Cast":
        return y.astype(tensor.dtype)
    scale, offset = _encoding(tensor)
    codes = np.rint(y.astype(np.float32) / scale.astype(np.float32)).astype(np.float64) - offset
    bits = tensor.quantization.bitwidth or 8 * tensor.dtype.itemsize
    low = -(2 ** (bits - 1)) if tensor.dtype.kind == "i" else 0
    return np.clip(codes, low, low + 2**bits - 1).astype(tensor.dtype)


def op(*names: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    def register(fn: Callable[..., object]) -> Callable[..., object]:
        for name in names:
            OPS[name] = fn
        return fn

    return register


def _p(n: Node, name: str, default: object = None) -> np.ndarray:
    return np.asarray(n.params.get(name, default)).astype(np.int64)


def _f(n: Node, name: str, default: float) -> float:
    return float(n.params.get(name, default))


def _b(n: Node, name: str, default: bool = False) -> bool:
    return bool(n.params.get(name, default))


# ---- elementwise -----------------------------------------------------------------------------


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a / b if a.dtype.kind == "f" else np.trunc(a / b)


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Abs": np.abs, "Asin": np.arcsin, "Atan": np.arctan, "Ceil": np.ceil, "Cos": np.cos,
    "Exp": np.exp, "Floor": np.floor, "Log": np.log, "Neg": np.negative, "Not": np.logical_not,
    "Round": np.rint, "Rsqrt": lambda x: 1 / np.sqrt(x), "Sign": np.sign, "Sin": np.sin,
    "SquareRoot": np.sqrt,
}  # fmt: skip
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add, "And": np.logical_and, "Divide": _divide, "Equal": np.equal,
    "Greater": np.greater, "GreaterEqual": np.greater_equal, "Less": np.less,
    "LessEqual": np.less_equal, "Maximum": np.maximum, "Minimum": np.minimum,
    "Multiply": np.multiply, "NotEqual": np.not_equal, "Or": np.logical_or,
    "Power": np.power, "Subtract": np.subtract, "Xor": np.logical_xor,
}  # fmt: skip
for _name, _fn in UNARY.items():
    OPS["ElementWise" + _name] = lambda n, x, fn=_fn: fn(x)
for _name, _fn2 in BINARY.items():
    OPS["ElementWise" + _name] = lambda n, a, b, fn=_fn2: fn(a, b)

OPS |= {
    "Relu": lambda n, x: np.maximum(x, 0),
    "Sigmoid": lambda n, x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "Tanh": lambda n, x: np.tanh(x),
    "Elu": lambda n, x: np.where(x > 0, x, _f(n, "alpha", 1) * np.expm1(np.minimum(x, 0))),
    "Gelu": lambda n, x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "HardSwish": lambda n, x: x * np.clip(x + 3, 0, 6) / 6,
    "ReluMinMax": lambda n, x: np.clip(x, n.params["min_value"], n.params["max_value"]),
    "Prelu": lambda n, x, s: np.where(x > 0, x, x * s),
    "ElementWiseSelect": lambda n, c, a, b: np.where(c, a, b),
    "IsNan": lambda n, x: np.isnan(x),
    "IsInf": lambda n, x: (
        (np.isposinf(x) & _b(n, "detect_positive", True))
        | (np.isneginf(x) & _b(n, "detect_negative", True))
    ),
    **dict.fromkeys(("Cast", "Convert", "Dequantize", "Quantize"), lambda n, x: x),
}


@op("ElementWiseBinary")
def _binary(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return {5: np.fmod, 12: np.mod}[int(n.params["operation"])](a, b)


@op("ElementWiseNeuron")
def _neuron(n: Node, x: np.ndarray) -> np.ndarray:
    if int(n.params["operation"]) == 7:
        return np.logaddexp(0, x)
    return np.clip(_f(n, "alpha", 1) * x + _f(n, "beta", 0.5), 0, 1)


# ---- convolution and pooling -----------------------------------------------------------------


def _windows(
    x: np.ndarray,
    kernel: np.ndarray,
    stride: np.ndarray,
    dilation: np.ndarray,
    pads: np.ndarray,
    fill: float = 0.0,
) -> np.ndarray:
    """[N, out.., C, kernel..] of x [N, spatial.., C]."""
    rank = len(kernel)
    x = np.pad(x, [(0, 0), *[tuple(p) for p in pads], (0, 0)], constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(1, rank + 1)))
    picks = (slice(None), *(slice(None, None, s) for s in stride), slice(None))
    return view[(*picks, *(slice(None, None, d) for d in dilation))]


@op("Conv2d", "DepthWiseConv2d", "Conv3d")
def _conv(n: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    rank = x.ndim - 2
    stride, pads = _p(n, "stride"), _p(n, "pad_amount")
    dilation = _p(n, "dilation", [1] * rank)
    group = x.shape[-1] if n.type == "DepthWiseConv2d" else int(_p(n, "group", 1))
    view = _windows(x, np.array(w.shape[:rank]), stride, dilation, pads)
    each_in, each_out = x.shape[-1] // group, w.shape[-1] // group
    assert w.shape[-2] == each_in
    parts = []
    taps = list(range(rank + 2, 2 * rank + 2))
    for g in range(group):
        part = view[(..., slice(g * each_in, (g + 1) * each_in), *[slice(None)] * rank)]
        weights = w[..., g * each_out : (g + 1) * each_out]
        parts.append(np.tensordot(part, weights, ([*taps, rank + 1], list(range(rank + 1)))))
    y = np.concatenate(parts, -1)
    return y if bias is None else y + bias


@op("TransposeConv2d")
def _conv_transpose(
    n: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    stride, pads = _p(n, "stride"), _p(n, "pad_amount")
    extra, group = _p(n, "output_padding", [0, 0]), int(_p(n, "group", 1))
    batch, height, width, channels = x.shape
    full = [(s - 1) * st + k for s, st, k in zip((height, width), stride, w.shape, strict=False)]
    y = np.zeros((batch, full[0] + extra[0], full[1] + extra[1], w.shape[3] * group), x.dtype)
    cin, cout = channels // group, w.shape[3]
    for i, j in np.ndindex(height, width):
        for g in range(group):
            patch = np.einsum(
                "nc,hwcd->nhwd",
                x[:, i, j, g * cin : (g + 1) * cin],
                w[:, :, g * cin : (g + 1) * cin],
            )
            y[
                :,
                i * stride[0] : i * stride[0] + w.shape[0],
                j * stride[1] : j * stride[1] + w.shape[1],
                g * cout : (g + 1) * cout,
            ] += patch
    y = y[:, pads[0][0] : y.shape[1] - pads[0][1], pads[1][0] : y.shape[2] - pads[1][1]]
    return y if bias is None else y + bias


@op("PoolMax2d", "PoolAvg2d")
def _pool(n: Node, x: np.ndarray) -> np.ndarray:
    kernel, stride, pads = _p(n, "filter_size"), _p(n, "stride"), _p(n, "pad_amount")
    ones = np.array([1, 1])
    if n.type == "PoolMax2d":
        low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return _windows(x, kernel, stride, ones, pads, low).max((-1, -2))
    total = _windows(x, kernel, stride, ones, pads).sum((-1, -2))
    if _b(n, "count_pad_for_edges"):
        return total / np.prod(kernel)
    return total / _windows(np.ones_like(x), kernel, stride, ones, pads).sum((-1, -2))


# ---- normalization, softmax, reductions ------------------------------------------------------


@op("Batchnorm")
def _batchnorm(n: Node, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    return x * w + (0 if b is None else b)


def _standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _affine(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    x = x if w is None else x * w
    return x if b is None else x + b


@op("InstanceNorm")
def _instance_norm(n: Node, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    axes = tuple(range(1, x.ndim - 1))
    return _affine(_standard(x, axes, _f(n, "epsilon", 1e-12)), w, b)


@op("LayerNorm")
def _layer_norm(
    n: Node, x: np.ndarray, w: np.ndarray | None = None, b: np.ndarray | None = None
) -> np.ndarray:
    axes = tuple(_p(n, "axes").tolist())
    return _affine(_standard(x, axes, _f(n, "epsilon", 1e-3)), w, b)


@op("RmsNorm")
def _rms_norm(n: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    axes = tuple(_p(n, "axes").tolist())
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + _f(n, "epsilon", 1e-6)) * w


@op("GroupNorm")
def _group_norm(n: Node, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    group = int(n.params["group"])
    split = x.reshape(*x.shape[:-1], group, x.shape[-1] // group)
    axes = (*range(1, x.ndim - 1), x.ndim)
    return _affine(_standard(split, axes, _f(n, "epsilon", 1e-5)).reshape(x.shape), w, b)


@op("L2Norm")
def _l2_norm(n: Node, x: np.ndarray) -> np.ndarray:
    norm = np.sqrt((x * x).sum(int(n.params["axis"]), keepdims=True))
    return x / np.maximum(norm, _f(n, "epsilon", 1e-12))


@op("Lrn")
def _lrn(n: Node, x: np.ndarray) -> np.ndarray:
    radius, channels = int(n.params["radius"]), x.shape[-1]
    total = np.zeros_like(x)
    for c in range(channels):
        total[..., c] = (x[..., max(c - radius, 0) : c + radius + 1] ** 2).sum(-1)
    return x / (_f(n, "bias", 1) + _f(n, "alpha", 1) * total) ** _f(n, "beta", 0.5)


@op("Softmax", "LogSoftmax")
def _softmax(n: Node, x: np.ndarray) -> np.ndarray:
    axis = int(n.params["axis"])
    x = x.astype(np.float64)
    x = x - x.max(axis, keepdims=True)
    logs = x - np.log(np.exp(x).sum(axis, keepdims=True))
    return logs if n.type == "LogSoftmax" else np.exp(logs)


def _reducer(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda n, x: fn(x, axis=tuple(_p(n, "axes").tolist()), keepdims=_b(n, "keep_dims"))


OPS |= {
    "ReduceMax": _reducer(np.max), "ReduceMean": _reducer(np.mean), "ReduceMin": _reducer(np.min),
    "ReduceProd": _reducer(np.prod), "ReduceSum": _reducer(np.sum),
}  # fmt: skip
OPS["Argmax"] = lambda n, x: np.argmax(x, int(n.params["axis"]), keepdims=_b(n, "keep_dims"))
OPS["Argmin"] = lambda n, x: np.argmin(x, int(n.params["axis"]), keepdims=_b(n, "keep_dims"))


@op("TopK")
def _top_k(n: Node, x: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(x.max() - x if _b(n, "largest", True) else x, -1, kind="stable")
    order = order[..., : int(n.params["k"])]
    return [np.take_along_axis(x, order, -1), order]


@op("CumulativeSum")
def _cumulative(n: Node, x: np.ndarray) -> np.ndarray:
    axis = int(n.params["axis"])
    y = np.flip(x, axis) if _b(n, "reverse") else x
    total = np.cumsum(y, axis)
    total = total - y if _b(n, "exclusive") else total
    return np.flip(total, axis) if _b(n, "reverse") else total


# ---- products --------------------------------------------------------------------------------


@op("MatMul")
def _matmul(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a = a.swapaxes(-1, -2) if _b(n, "transpose_in0") else a
    return a @ (b.swapaxes(-1, -2) if _b(n, "transpose_in1") else b)


@op("FullyConnected")
def _fully(n: Node, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    y = x.reshape(-1, w.shape[1]) @ w.T
    return y if b is None else y + b


# ---- shapes ----------------------------------------------------------------------------------

OPS |= {
    "Reshape": lambda n, x: x,
    "Transpose": lambda n, x: x.transpose(_p(n, "perm")),
    "Concat": lambda n, *xs: np.concatenate(xs, int(n.params["axis"])),
    "Split": lambda n, x: np.split(x, _p(n, "split_index"), int(n.params["axis"])),
    "Tile": lambda n, x: np.tile(x, _p(n, "multiples")),
    "Gather": lambda n, x, i: np.take(x, i, int(n.params["axis"])),
    "GatherElements": lambda n, x, i: np.take_along_axis(x, i, int(n.params["axis"])),
}


@op("StridedSlice")
def _strided(n: Node, x: np.ndarray) -> np.ndarray:
    return x[tuple(slice(*map(int, row)) for row in n.params["ranges"])]


@op("Pad")
def _pad(n: Node, x: np.ndarray) -> np.ndarray:
    scheme = int(n.params["scheme"])
    if scheme == 0:
        return np.pad(x, _p(n, "pad_amount"), constant_values=n.params["pad_constant_value"])
    return np.pad(x, _p(n, "pad_amount"), mode={2: "reflect", 3: "edge"}[scheme])


@op("ChannelShuffle")
def _shuffle(n: Node, x: np.ndarray) -> np.ndarray:
    groups = int(n.params["num_groups"])
    assert int(n.params["axis"]) == x.ndim - 1
    split = x.reshape(*x.shape[:-1], groups, -1)
    return split.swapaxes(-1, -2).reshape(x.shape)


@op("DepthToSpace")
def _depth_to_space(n: Node, x: np.ndarray) -> np.ndarray:
    (batch, height, width, depth), block = x.shape, int(_p(n, "block_size")[0])
    each = depth // block**2
    if int(n.params["mode"]) == 0:
        y = x.reshape(batch, height, width, block, block, each).transpose(0, 1, 3, 2, 4, 5)
    else:
        y = x.reshape(batch, height, width, each, block, block).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(batch, height * block, width * block, each)


@op("SpaceToDepth")
def _space_to_depth(n: Node, x: np.ndarray) -> np.ndarray:
    (batch, height, width, depth), block = x.shape, int(_p(n, "block_size")[0])
    y = x.reshape(batch, height // block, block, width // block, block, depth)
    order = (0, 1, 3, 2, 4, 5) if int(n.params["mode"]) == 0 else (0, 1, 3, 5, 2, 4)
    return y.transpose(order).reshape(batch, height // block, width // block, depth * block**2)


# ---- indices ---------------------------------------------------------------------------------


@op("GatherNd")
def _gather_nd(n: Node, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    batch = int(n.params["batch_dims"])
    lead = x.shape[:batch]
    rows = [x[b][tuple(np.moveaxis(index[b], -1, 0))] for b in np.ndindex(*lead)]
    return np.stack(rows).reshape(*lead, *rows[0].shape)


_SCATTER = {
    0: lambda a, i, v: a.__setitem__(i, v),
    1: np.add.at,
    2: np.multiply.at,
    3: np.maximum.at,
}


@op("ScatterElements")
def _scatter(n: Node, x: np.ndarray, index: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y, where = x.copy(), list(np.indices(index.shape))
    where[int(n.params["axis"])] = index
    _SCATTER[int(n.params["reduction"])](y, tuple(where), updates)
    return y


@op("ScatterNd")
def _scatter_nd(n: Node, x: np.ndarray, index: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = x.copy()
    _SCATTER[int(n.params["reduction"])](y, tuple(np.moveaxis(index, -1, 0)), updates)
    return y


@op("OneHot")
def _one_hot(n: Node, index: np.ndarray) -> np.ndarray:
    depth, axis = int(n.params["depth"]), int(n.params["axis"])
    hot = np.expand_dims(index, axis) == np.arange(depth).reshape(
        [-1 if i == axis else 1 for i in range(index.ndim + 1)]
    )
    return np.where(hot, n.params["on_value"], n.params["off_value"])


@op("ResizeNearestNeighbor", "ResizeBilinear")
def _resize(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    align, half = _b(n, "align_corners"), _b(n, "half_pixel_centers")
    for axis in (1, 2):
        size, out = x.shape[axis], int(shape[axis])
        scale = (size - 1) / (out - 1) if align and out > 1 else size / out
        at = np.arange(out) * scale
        if n.type == "ResizeNearestNeighbor":
            at = at + scale / 2 if half else at + 0.5 if align else at
            x = np.take(x, np.clip(np.floor(at).astype(int), 0, size - 1), axis)
            continue
        at = np.clip(at + scale / 2 - 0.5 if half else at, 0, size - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        high = np.minimum(low + 1, size - 1)
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


# ---- recurrent -------------------------------------------------------------------------------


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@op("Lstm")
def _lstm(n: Node, *a: np.ndarray | None) -> list[np.ndarray]:
    x, h, c = a[0], a[10], a[11]
    order = range(len(x))
    ys: dict[int, np.ndarray] = {}
    peep = [0 if p is None else p for p in a[18:21]]
    for t in reversed(order) if int(n.params["direction"]) else order:
        gate = [
            x[t] @ w.T + h @ u.T + b
            for w, u, b in ((a[16], a[17], a[21]), (a[1], a[4], a[7]), (a[2], a[5], a[8]))
        ]
        i, f = _sigmoid(gate[0] + peep[0] * c), _sigmoid(gate[1] + peep[1] * c)
        c = f * c + i * np.tanh(gate[2])
        h = _sigmoid(x[t] @ a[3].T + h @ a[6].T + a[9] + peep[2] * c) * np.tanh(c)
        ys[t] = h
    return [np.stack([ys[t] for t in order]), c, h]


@op("Gru")
def _gru(n: Node, x: np.ndarray, *a: np.ndarray) -> list[np.ndarray]:
    w, u, wb, rb, h = a[0:3], a[3:6], a[6:9], a[9:12], a[12][0]
    order = range(len(x))
    ys: dict[int, np.ndarray] = {}
    for t in reversed(order) if int(n.params["direction"]) else order:
        z, r = (_sigmoid(x[t] @ w[k].T + wb[k] + h @ u[k].T + rb[k]) for k in (0, 1))
        if int(n.params["linear_before_reset"]):
            new = np.tanh(x[t] @ w[2].T + wb[2] + r * (h @ u[2].T + rb[2]))
        else:
            new = np.tanh(x[t] @ w[2].T + wb[2] + (r * h) @ u[2].T + rb[2])
        h = (1 - z) * new + z * h
        ys[t] = h
    return [np.stack([ys[t] for t in order]), h[None]]


# ---- sampling --------------------------------------------------------------------------------


def _reflect(at: np.ndarray, size: int, align: bool) -> np.ndarray:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return np.zeros_like(at)
    at = np.abs(at - low) % (2 * span)
    return np.where(at > span, 2 * span - at, at) + low


@op("GridSample")
def _grid_sample(n: Node, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    align, padding = _b(n, "align_corners"), int(n.params.get("padding_mode", 0))
    sizes = x.shape[1:-1]
    where = []
    for axis, size in enumerate(sizes):
        g = grid[..., len(sizes) - 1 - axis].astype(np.float64)  # x comes first in the grid
        at = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
        if padding == 2:
            at = _reflect(at, size, align)
        where.append(np.clip(at, 0, size - 1) if padding else at)
    if int(n.params.get("mode", 0)) == 1:
        corners = [([np.rint(at) for at in where], np.ones(grid.shape[:-1]))]
    else:
        corners = []
        for steps in np.ndindex(*[2] * len(sizes)):
            low = [np.floor(at) for at in where]
            share = [
                at - f if s else 1 - (at - f) for at, f, s in zip(where, low, steps, strict=True)
            ]
            corners.append(
                ([f + s for f, s in zip(low, steps, strict=True)], np.prod(share, axis=0))
            )
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * len(sizes))
    total = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at, share in corners:
        inside = np.ones(grid.shape[:-1], bool)
        index = []
        for i, size in zip(at, sizes, strict=True):
            inside &= (i >= 0) & (i <= size - 1)
            index.append(np.clip(i, 0, size - 1).astype(int))
        total += (share * inside)[..., None] * x[(batch, *index)]
    return total


@op("RoiAlign")
def _roi_align(
    n: Node, x: np.ndarray, boxes: np.ndarray, images: np.ndarray, shape: np.ndarray
) -> np.ndarray:
    aligned = _b(n, "aligned")
    total = np.zeros(shape)
    for out, box, image in zip(total, boxes.astype(np.float64), images, strict=True):
        rows = []  # of each dim: what share every bin has of every coordinate
        for d, param in enumerate(("num_samples_y", "num_samples_x")):
            size = x.shape[1 + d]
            ends = box[[1 - d, 3 - d]] / n.params["img_size_ratio"][d] - 0.5 * aligned
            length = ends[1] - ends[0] if aligned else max(ends[1] - ends[0], 1)
            step = length / shape[1 + d]
            count = int(n.params.get(param, -1))
            count = count if count > 0 else max(0, int(np.ceil(step)))
            share = np.zeros((shape[1 + d], size))
            for i, k in np.ndindex(shape[1 + d], count):
                at = ends[0] + (i + (k + 0.5) / count) * step
                if -1 <= at <= size:
                    at = np.clip(at, 0, size - 1)
                    low = int(at)
                    share[i, low] += (1 - at + low) / count
                    share[i, min(low + 1, size - 1)] += (at - low) / count
            rows.append(share)
        out[:] = np.einsum("ah,bw,hwc->abc", *rows, x[int(image)])
    return total
