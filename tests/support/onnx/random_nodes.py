"""Nodes of ONNX operators with random attributes, for what ONNX Runtime makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.onnx.contrib import MICROSOFT, model_of

Random = np.random.Generator


@dataclass
class RandomNode:
    """A node, its inputs, and which of them are constants."""

    op: str
    inputs: list[np.ndarray | None]
    static: Sequence[int] = ()
    outputs: Sequence[str] = ("y",)
    domain: str = MICROSOFT
    opset: int = 20
    attrs: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-4
    #: Of outputs that have room for more, how many rows along axis 2 each batch has.
    rows: Sequence[int] | None = None

    def model(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        return model_of(
            self.op, self.inputs, self.outputs, self.static, self.domain, self.opset, **self.attrs
        )

    def __str__(self) -> str:
        given = [None if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs]
        return f"{self.op} {given} static {list(self.static)} opset {self.opset} {self.attrs}"


def floats(r: Random, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def maybe(r: Random, x: Any, share: float = 0.5) -> Any:
    return x if r.random() < share else None


def some(r: Random, **given: Any) -> dict[str, Any]:
    """About half of the attributes."""
    return {name: value for name, value in given.items() if r.random() < 0.5}


def one_of(r: Random, *values: Any) -> Any:
    return values[int(r.integers(len(values)))]


def sizes(r: Random, rank: int, low: int = 1, high: int = 6) -> list[int]:
    return [int(n) for n in r.integers(low, high + 1, rank)]


# ---- ONNX's own ----------------------------------------------------------------------------------


def pad(r: Random) -> RandomNode:
    """Also negative: less than there is."""
    rank = int(r.integers(1, 6))
    shape = sizes(r, rank, 2, 6)
    mode = one_of(r, "constant", "reflect", "edge", "wrap")
    opset = 19 if mode == "wrap" else one_of(r, 13, 18, 21)
    axes = sorted(r.permutation(rank)[: int(r.integers(1, rank + 1))].tolist())
    if opset < 18 or r.random() < 0.5:
        axes = list(range(rank))
    ends = []
    for _ in range(2):
        ends += [int(r.integers(-((shape[a] - 1) // 2), shape[a])) for a in axes]
    for i, a in enumerate(axes):  # a part that is left can only be mirrored in itself
        left = shape[a] + min(ends[i], 0) + min(ends[len(axes) + i], 0)
        for at in (i, len(axes) + i):
            ends[at] = min(ends[at], left - 1)
    kind = one_of(r, np.float32, np.float32, np.int32)
    x = (10 * floats(r, *shape)).astype(kind)
    value = np.array(7, kind) if mode == "constant" and r.random() < 0.5 else None
    inputs: list[Any] = [x, np.array(ends, np.int64), value]
    if len(axes) < rank:
        signed = [a - rank if r.random() < 0.3 else a for a in axes]
        inputs.append(np.array(signed, np.int64))
    while inputs[-1] is None:
        inputs.pop()
    static = [i for i in range(1, len(inputs)) if inputs[i] is not None]
    return RandomNode("Pad", inputs, static, domain="", opset=opset, attrs={"mode": mode})


def stft(r: Random) -> RandomNode:
    frame = int(r.integers(2, 20))
    length = frame + int(r.integers(0, 30))
    real = r.random() < 0.7
    signal = floats(r, int(r.integers(1, 3)), length, 1 if real else 2)
    step = np.array(int(r.integers(1, 9)), np.int64)
    window = maybe(r, floats(r, frame))
    attrs = {"onesided": int(real and r.random() < 0.5)}
    inputs = [signal, step, window, np.array(frame, np.int64)]
    static = [1, 3] if window is None or r.random() < 0.5 else [1, 2, 3]
    return RandomNode("STFT", inputs, static, domain="", opset=17, attrs=attrs, tolerance=1e-3)


def deform_conv(r: Random) -> RandomNode:
    groups, offsets = one_of(r, 1, 2), one_of(r, 1, 2)
    channels, results = 4, 2 * int(r.integers(1, 4))
    kernel, strides, dilations = sizes(r, 2, 1, 3), sizes(r, 2, 1, 2), sizes(r, 2, 1, 2)
    pads = sizes(r, 4, 0, 2)
    image = sizes(r, 2, 6, 9)
    out = [
        (image[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]
    taps = offsets * math.prod(kernel)
    inputs = [
        floats(r, 2, channels, *image),
        floats(r, results, channels // groups, *kernel),
        floats(r, 2, 2 * taps, *out),
        maybe(r, floats(r, results)),
        maybe(r, floats(r, 2, taps, *out)),
    ]
    while inputs[-1] is None:
        inputs.pop()
    attrs = {"group": groups, "offset_group": offsets, "kernel_shape": kernel, "pads": pads}
    attrs |= {"strides": strides, "dilations": dilations}
    return RandomNode("DeformConv", inputs, (1,), domain="", opset=19, attrs=attrs, tolerance=1e-3)


def loop(r: Random) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Turns that carry one or two values, and may collect some; an end that turns decide."""
    turns, size, two = int(r.integers(0, 6)), int(r.integers(1, 5)), r.random() < 0.5
    collects = r.random() < 0.6
    info = helper.make_tensor_value_info
    carried = ["a", "b"] if two else ["a"]
    body: list[onnx.NodeProto] = [
        helper.make_node("Cast", ["turn"], ["t"], to=TensorProto.FLOAT),
    ]
    last = carried[-1]
    for i in range(int(r.integers(1, 4))):
        op = one_of(r, "Add", "Mul", "Sub", "Max")
        other = one_of(r, "t", "x", "a", last)
        body.append(helper.make_node(op, [last, other], [f"s{i}"]))
        last = f"s{i}"
    body.append(helper.make_node("Tanh", [last], ["a2"]))
    if two:
        body.append(helper.make_node("Sub", ["a", "t"], ["b2"]))
    most = int(r.integers(0, 6)) if r.random() < 0.5 else 99
    body.append(helper.make_node("Constant", [], ["most"], value_int=most))
    body.append(helper.make_node("Less", ["turn", "most"], ["on2"]))
    outputs = [info("on2", TensorProto.BOOL, [])]
    outputs += [info(f"{name}2", TensorProto.FLOAT, [size]) for name in carried]
    if collects:
        body.append(helper.make_node("ReduceSum", ["a2"], ["r"], keepdims=one_of(r, 0, 1)))
        outputs.append(onnx.ValueInfoProto(name="r"))
    inputs = [info("turn", TensorProto.INT64, []), info("on", TensorProto.BOOL, [])]
    inputs += [info(name, TensorProto.FLOAT, [size]) for name in carried]
    results = [f"{name}_end" for name in carried] + ["all"] * collects
    node = helper.make_node(
        "Loop",
        ["turns", one_of(r, "", "yes"), *[f"{name}0" for name in carried]],
        results,
        body=helper.make_graph(body, "body", inputs, outputs),
    )
    given = ["x", *[f"{name}0" for name in carried]]
    graph = helper.make_graph(
        [node],
        "g",
        [info(name, TensorProto.FLOAT, [size]) for name in given],
        [onnx.ValueInfoProto(name=name) for name in results],
        [
            numpy_helper.from_array(np.array(turns, np.int64), "turns"),
            numpy_helper.from_array(np.array(True), "yes"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return proto, {name: floats(r, size) for name in given}


# ---- ONNX Runtime's ------------------------------------------------------------------------------


def _activation(r: Random) -> dict[str, Any]:
    name, params = one_of(
        r, ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 1.0]), ("HardSigmoid", [0.3, 0.4]),
    )  # fmt: skip
    return {"activation": name} | ({"activation_params": params} if params else {})


def fused_conv(r: Random) -> RandomNode:
    rank, groups = int(r.integers(1, 3)), one_of(r, 1, 2, 4)
    kernel, strides, dilations = sizes(r, rank, 1, 3), sizes(r, rank, 1, 2), sizes(r, rank, 1, 2)
    image = sizes(r, rank, 6, 9)
    pads = sizes(r, 2 * rank, 0, 2)
    results = groups * int(r.integers(1, 4))
    out = [
        (image[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    inputs = [floats(r, 2, 4, *image), floats(r, results, 4 // groups, *kernel)]
    inputs += [maybe(r, floats(r, results)), maybe(r, floats(r, 2, results, *out))]
    while inputs[-1] is None:
        inputs.pop()
    static = (1, 2) if len(inputs) > 2 and inputs[2] is not None else (1,)
    attrs = {"group": groups, "kernel_shape": kernel, "pads": pads, "strides": strides}
    attrs |= {"dilations": dilations, **_activation(r)}
    return RandomNode("FusedConv", inputs, static, attrs=attrs)


def fused_matmul(r: Random) -> RandomNode:
    rank, (m, k, n) = int(r.integers(2, 5)), sizes(r, 3)
    batch = sizes(r, rank - 2, 1, 3)
    attrs = some(r, alpha=float(r.normal()), transA=1, transB=1)
    a = floats(r, *batch, *((k, m) if "transA" in attrs else (m, k)))
    b = floats(r, *batch, *((n, k) if "transB" in attrs else (k, n)))
    if rank > 2:
        for name in ("A", "B"):
            if r.random() < 0.3:
                attrs[f"transBatch{name}"] = 1
        a, b = (
            np.ascontiguousarray(np.moveaxis(x, rank - 2, 0)) if f"transBatch{name}" in attrs else x
            for name, x in (("A", a), ("B", b))
        )
    return RandomNode("FusedMatMul", [a, b], maybe(r, (1,)) or (), attrs=attrs)


def fused_gemm(r: Random) -> RandomNode:
    m, k, n = sizes(r, 3)
    attrs = some(r, alpha=float(r.normal()), beta=float(r.normal()), transA=1, transB=1)
    a = floats(r, *((k, m) if "transA" in attrs else (m, k)))
    b = floats(r, *((n, k) if "transB" in attrs else (k, n)))
    c = floats(r, *one_of(r, (n,), (1, n), (m, n), (m, 1), (1,)))
    name, more = one_of(r, ("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.3}))
    attrs |= {"activation": name, **more}
    return RandomNode("FusedGemm", [a, b, c], attrs=attrs)


def _mask(r: Random, batch: int, queries: int, keys: int) -> np.ndarray | None:
    """Keys of each batch, as bits or how many; the first is always seen."""
    some_keys = r.integers(0, 2, (batch, keys)).astype(np.int32)
    some_keys[:, 0] = 1
    return one_of(r, None, some_keys, r.integers(1, keys + 1, batch).astype(np.int32))


def attention(r: Random) -> RandomNode:
    batch, length, heads, size = [*sizes(r, 3, 1, 4), 4 * int(r.integers(1, 3))]
    kept = one_of(r, 0, 0, 3)
    width = heads * size
    inputs: list[Any] = [floats(r, batch, length, 12), floats(r, 12, 3 * width)]
    inputs += [floats(r, 3 * width), _mask(r, batch, length, kept + length)]
    past = floats(r, 2, batch, heads, kept, size) if kept else None
    inputs += [past, maybe(r, floats(r, batch, heads, length, kept + length), 0.3)]
    while inputs[-1] is None:
        inputs.pop()
    attrs = {"num_heads": heads} | some(r, unidirectional=1, scale=0.4)
    outputs = ("y", "present") if kept or r.random() < 0.3 else ("y",)
    return RandomNode("Attention", inputs, (1, 2), outputs, attrs=attrs)


def multi_head_attention(r: Random) -> RandomNode:
    batch, queries, keys, heads = sizes(r, 4, 1, 4)
    size, value = 4 * int(r.integers(1, 3)), 4 * int(r.integers(1, 3))
    width = heads * size
    kept = one_of(r, 0, 0, 3)
    attrs = {"num_heads": heads} | some(r, scale=0.4)
    if kept:
        keys, value = queries, size
    if keys == queries and r.random() < 0.5:
        attrs["unidirectional"] = 1
    inputs: list[Any] = [floats(r, batch, queries, width), floats(r, batch, keys, width)]
    inputs += [floats(r, batch, keys, heads * value)]
    inputs += [maybe(r, floats(r, 2 * width + heads * value))]
    mask = _mask(r, batch, queries, kept + keys)
    inputs += [mask if mask is None or mask.ndim == 2 or not kept else None]
    inputs += [maybe(r, floats(r, one_of(r, 1, batch), heads, queries, kept + keys), 0.3)]
    inputs += [floats(r, batch, heads, kept, size) if kept else None for _ in range(2)]
    while inputs[-1] is None:
        inputs.pop()
    static = (3,) if len(inputs) > 3 and inputs[3] is not None else ()
    outputs = ("y", "keys", "values") if kept else ("y",)
    return RandomNode("MultiHeadAttention", inputs, static, outputs, attrs=attrs)


def group_query_attention(r: Random) -> RandomNode:
    batch, groups = sizes(r, 2, 1, 3)
    heads, size = groups * int(r.integers(1, 4)), 8 * int(r.integers(1, 3))
    first = r.random() < 0.4
    length = int(r.integers(2, 6)) if first else one_of(r, 1, 1, 3)
    if length > 1:
        batch = 1
    room = 0 if first else int(r.integers(length, 12))
    ends = [length - 1] * batch
    if not first:
        ends = [int(n) for n in r.integers(length - 1, room, batch)]
    total = max(ends) + 1
    packed = r.random() < 0.3
    if packed:
        rows: list[Any] = [floats(r, batch, length, (heads + 2 * groups) * size), None, None]
    else:
        rows = [floats(r, batch, length, n * size) for n in (heads, groups, groups)]
    past = [None if first else floats(r, batch, groups, room, size) for _ in range(2)]
    angles = floats(r, 20, size // 2)
    attrs = {"num_heads": heads, "kv_num_heads": groups}
    attrs |= some(r, scale=0.3, local_window_size=int(r.integers(1, 6)), softcap=2.0)
    caches: list[Any] = [None, None]
    if r.random() < 0.5:
        attrs["do_rotary"] = 1
        attrs |= some(r, rotary_interleaved=1)
        caches = [np.cos(angles), np.sin(angles)]
    counts = [np.array(ends, np.int32), np.array([total], np.int32)]
    bias = maybe(r, floats(r, one_of(r, 1, batch), one_of(r, 1, heads), length, total), 0.2)
    inputs = [*rows, *past, *counts, *caches, None, bias]
    while inputs[-1] is None:
        inputs.pop()
    outputs = ("y", "keys", "values")
    node = RandomNode("GroupQueryAttention", inputs, (6,), outputs, attrs=attrs)
    node.rows = [end + 1 for end in ends]
    return node


def rotary_embedding(r: Random) -> RandomNode:
    batch, length, heads = sizes(r, 3, 1, 4)
    size = 4 * int(r.integers(1, 4))
    turned = one_of(r, 0, 0, size // 2)
    attrs = some(r, interleaved=1)
    shape = (batch, heads, length, size) if r.random() < 0.5 else (batch, length, heads * size)
    if turned:
        attrs |= {"rotary_embedding_dim": turned, "num_heads": heads}
    angles = floats(r, 20, (turned or size) // 2)
    places = one_of(r, np.array([3], np.int64), r.integers(0, 20, (batch, length)))
    inputs = [floats(r, *shape), places, np.cos(angles), np.sin(angles)]
    return RandomNode("RotaryEmbedding", inputs, (2, 3), attrs=attrs)


def skip_norm(r: Random) -> RandomNode:
    simple = r.random() < 0.5
    shape = sizes(r, one_of(r, 2, 3, 3), 1, 4)
    shape[-1] = 4 * int(r.integers(1, 6))
    x, skip = floats(r, *shape), floats(r, *shape)
    if len(shape) == 3 and r.random() < 0.4:
        skip = one_of(r, skip[:1], skip[0])
    scale, shift, bias = (floats(r, shape[-1]) for _ in range(3))
    inputs = [x, skip, scale, *([] if simple else [maybe(r, shift)]), maybe(r, bias)]
    while inputs[-1] is None:
        inputs.pop()
    static = [i for i in range(2, len(inputs)) if inputs[i] is not None]
    outputs = ("y", "", "", "sum") if r.random() < 0.5 else ("y",)
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    return RandomNode(op, inputs, static, outputs, attrs=some(r, epsilon=1e-3))


def embed_norm(r: Random) -> RandomNode:
    batch, length = sizes(r, 2, 1, 5)
    size = 4 * int(r.integers(1, 5))
    segments = r.random() < 0.5

    def ids(count: int) -> np.ndarray:
        return r.integers(0, count, (batch, length)).astype(np.int32)

    inputs = [ids(20), ids(2) if segments else None, floats(r, 20, size), floats(r, 8, size)]
    inputs += [floats(r, 2, size) if segments else None, floats(r, size), floats(r, size)]
    inputs += [maybe(r, ids(2)), maybe(r, ids(8))]
    while inputs[-1] is None:
        inputs.pop()
    static = [i for i in (2, 3, 4, 5, 6) if inputs[i] is not None]
    outputs = one_of(r, ("y", "mask"), ("y", "mask", "sum"))
    op, attrs = "EmbedLayerNormalization", some(r, epsilon=1e-3)
    return RandomNode(op, inputs, static, outputs, attrs=attrs)


def gelu(r: Random) -> RandomNode:
    op = one_of(r, "BiasGelu", "FastGelu", "QuickGelu", "Gelu")
    shape = sizes(r, int(r.integers(1, 4)))
    inputs: list[Any] = [3 * floats(r, *shape)]
    if op == "BiasGelu" or (op == "FastGelu" and r.random() < 0.5):
        inputs.append(floats(r, shape[-1]))
    return RandomNode(op, inputs, attrs=some(r, alpha=1.3) if op == "QuickGelu" else {})


def matmul_nbits(r: Random) -> RandomNode:
    bits, block = one_of(r, 4, 4, 8), one_of(r, 16, 32, 64, 128)
    k, n = int(r.integers(1, 300)), int(r.integers(1, 40))
    blocks = -(-k // block)
    codes = r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = r.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
    zeros = one_of(
        r, None, r.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8),
        r.uniform(0, 1 << bits, (n, blocks)).astype(np.float32),
    )  # fmt: skip
    rows = [*sizes(r, int(r.integers(0, 2)), 1, 3), int(r.integers(1, 12))]
    inputs: list[Any] = [floats(r, *rows, k), codes, scales, zeros, None, maybe(r, floats(r, n))]
    while inputs[-1] is None:
        inputs.pop()
    static = [i for i in range(1, len(inputs)) if inputs[i] is not None]
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
    return RandomNode("MatMulNBits", inputs, static, attrs=attrs, tolerance=1e-3)


def quantized_attention(r: Random) -> RandomNode:
    batch, length, heads = sizes(r, 3, 1, 4)
    width = 4 * heads
    x = r.integers(0, 255, (batch, length, 12)).astype(np.uint8)
    weights = r.integers(-127, 127, (12, 3 * width)).astype(np.int8)
    scales = np.full(one_of(r, (), (3 * width,)), 0.01, np.float32)
    mask = _mask(r, batch, length, length)
    inputs = [x, weights, floats(r, 3 * width), np.float32(0.02), scales, mask]
    inputs += [np.uint8(120), np.zeros_like(scales, np.int8)]
    arrays = [None if y is None else np.asarray(y) for y in inputs]
    attrs = {"num_heads": heads} | some(r, unidirectional=1)
    return RandomNode("QAttention", arrays, (1, 2, 3, 4, 6, 7), attrs=attrs, tolerance=1e-3)


def quantized_lstm(r: Random) -> RandomNode:
    steps, batch, width, hidden = sizes(r, 4, 1, 5)
    direction = one_of(r, "forward", "reverse", "bidirectional")
    count = 2 if direction == "bidirectional" else 1
    each = r.random() < 0.5

    def quantized(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w = r.integers(-127, 127, (count, rows, 4 * hidden)).astype(np.int8)
        shape = (count, 4 * hidden) if each else (count,)
        return w, r.uniform(0.005, 0.02, shape).astype(np.float32), np.zeros(shape, np.int8)

    w, w_scale, w_zero = quantized(width)
    u, u_scale, u_zero = quantized(hidden)
    state = [maybe(r, floats(r, count, batch, hidden)) for _ in range(2)]
    inputs = [floats(r, steps, batch, width), w, u, maybe(r, floats(r, count, 8 * hidden))]
    inputs += [None, *state, None, w_scale, w_zero, u_scale, u_zero]
    static = [i for i in (1, 2, 3, 8, 9, 10, 11) if inputs[i] is not None]
    outputs = ("y", "h", "c")
    attrs = {"direction": direction, "hidden_size": hidden}
    # Steps of eight bits: where a number falls on the border of two of them, either is right.
    return RandomNode("DynamicQuantizeLSTM", inputs, static, outputs, attrs=attrs, tolerance=0.02)


def quantized_gemm(r: Random) -> RandomNode:
    m, k, n = sizes(r, 3, 1, 9)
    attrs = some(r, alpha=0.5, transA=1, transB=1)
    a = r.integers(0, 255, (k, m) if "transA" in attrs else (m, k)).astype(np.uint8)
    b = r.integers(-127, 127, (n, k) if "transB" in attrs else (k, n)).astype(np.int8)
    c = maybe(r, r.integers(-999, 999, one_of(r, (n,), (1, n))).astype(np.int32))
    inputs = [a, np.float32(0.02), np.uint8(120), b, np.float32(0.01), np.int8(0), c]
    if r.random() < 0.5:
        inputs += [np.float32(0.1), np.uint8(100)]
    arrays = [None if y is None else np.asarray(y) for y in inputs]
    while arrays[-1] is None:
        arrays.pop()
    static = [i for i in range(1, len(arrays)) if arrays[i] is not None]
    return RandomNode("QGemm", arrays, static, attrs=attrs)


#: What gives a node; a model and its feeds where one node is not enough.
NODES: Final[dict[str, Callable[[Random], Any]]] = {
    f.__name__: f
    for f in (
        pad, stft, deform_conv, loop, fused_conv, fused_matmul, fused_gemm, attention,
        multi_head_attention, group_query_attention, rotary_embedding, skip_norm, embed_norm, gelu,
        matmul_nbits, quantized_attention, quantized_lstm, quantized_gemm,
    )
}  # fmt: skip
