"""Sums of products in 8 bits for tests: a node, its model, and its result in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from qnnrt.model import Model
from support import one_node, reference
from support.fixed import Fixed
from support.one_node import u32

Shape = tuple[int, ...]
U8, S8 = np.dtype(np.uint8), np.dtype(np.int8)


@dataclass
class Case:
    """One node on 8-bit numbers. The values of its weights may reach every integer."""

    name: str
    op: str
    input: Shape
    weight: Shape
    output: Shape
    params: dict[str, object] = field(default_factory=dict)
    bias: bool = True
    types: tuple[np.dtype, np.dtype, np.dtype] = (U8, S8, U8)  # input, weights, output
    zero: int | None = None  # the integer of the input that stands for 0; None: off center
    weight_offset: int | None = None  # None: weights are symmetric
    axis: int | None = None  # of the weights, with a scale for each index
    bitwidth: int | None = None  # of the weights
    computed: bool = False  # whether the weights are an input of the graph
    fast: bool = True  # whether oneDNN's integer kernels serve it
    width: int | None = None  # bits of the output

    def __str__(self) -> str:
        return f"{self.op} {self.name}"

    @property
    def fixed(self) -> dict[str, Fixed]:
        """The encodings of input, weights and output, by their tensors."""
        kind, weight_kind, out_kind = self.types
        zero = self.zero
        if zero is None:
            zero = 117 if kind == U8 else -9
        offset = self.weight_offset
        if offset is None:
            bits = self.bitwidth or 8
            offset = -(1 << (bits - 1)) if weight_kind == U8 else 0
        scale, offsets = 0.0071, offset
        if self.axis is not None:
            rng = np.random.default_rng(5)
            count = self.weight[self.axis]
            scale = rng.uniform(0.002, 0.012, count).astype(np.float32)
            offsets = np.full(count, offset)
        weights = Fixed(weight_kind, scale, offsets, self.axis, self.bitwidth)
        out_zero = -3 if self.width is not None else -101 if out_kind == U8 else 13
        return {
            "in0": Fixed(kind, 0.0173, -zero),
            "in1": weights,
            "out0": Fixed(out_kind, self.output_scale(), out_zero, None, self.width),
        }

    def output_scale(self) -> float:
        """So that about one result in a hundred saturates."""
        depth = np.prod(self.weight) / self.output[-1]
        if self.op == "MatMul":
            depth = self.input[-1]
        elif self.op == "TransposeConv2d":
            depth /= 4
        codes = 256 if self.width is None else 1 << self.width
        return float(np.float32(np.sqrt(depth) * 0.0173 * 90 * 0.0071 * 74 * 5 / codes))

    def arrays(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(len(self.name) + len(self.op))
        fixed = self.fixed
        arrays = {
            "in0": fixed["in0"].random(rng, self.input),
            "in1": fixed["in1"].random(rng, self.weight),
        }
        if self.bias:
            arrays["in2"] = rng.integers(-30000, 30000, self.output[-1]).astype(np.int32)
        return arrays

    def bias_fixed(self) -> Fixed:
        fixed = self.fixed
        scale = np.float32(0.0173) * np.asarray(fixed["in1"].scale, np.float32)
        if self.axis is None:
            return Fixed(np.int32, float(scale))
        per_channel = np.resize(scale, self.output[-1])
        return Fixed(np.int32, per_channel, np.zeros(self.output[-1], np.int32), 0)

    def model(self) -> Model:
        fixed, arrays = self.fixed, self.arrays()
        types = [fixed["in0"], fixed["in1"], self.bias_fixed()]
        encodings = {f"in{i}": of.quantization for i, of in enumerate(types)}
        return one_node.case(
            self.op,
            list(arrays.values()),
            [self.output],
            self.params,
            static=[2] if self.computed else [1, 2],
            dtype=fixed["out0"].dtype,
            encodings=encodings | {"out0": fixed["out0"].quantization},
        ).model

    def exact(self) -> np.ndarray:
        """The result in steps of the output, not rounded, limited to what the output holds."""
        fixed, arrays = self.fixed, self.arrays()
        x = arrays["in0"].astype(np.float64) + fixed["in0"].offset
        weights = fixed["in1"]
        w = arrays["in1"].astype(np.float64)
        w = w + weights._along(weights.offset, np.float64, w.ndim)
        w = w * weights._along(weights.scale, np.float32, w.ndim).astype(np.float64)
        real = np.float64(np.float32(0.0173)) * reference.of(self.op, [x, w], self.params)
        if self.bias:
            of = self.bias_fixed()
            real = real + np.asarray(of.scale, np.float32).astype(np.float64) * arrays["in2"]
        out = fixed["out0"]
        low, high = out.limits
        return np.clip(real / np.float64(np.float32(out.scale)) - out.offset, low, high)


def conv(
    name: str,
    size: Shape,
    channels: tuple[int, int],
    kernel: Shape,
    *,
    stride: int = 1,
    pads: tuple[tuple[int, int], ...] | None = None,
    dilation: int = 1,
    group: int = 1,
    batch: int = 1,
    depthwise: bool = False,
    **more: object,
) -> Case:
    rank = len(size)
    pads = pads or ((0, 0),) * rank
    spatial = tuple(
        (n + sum(p) - dilation * (k - 1) - 1) // stride + 1
        for n, p, k in zip(size, pads, kernel, strict=True)
    )
    cin, cout = channels
    single = rank == 1
    params: dict[str, object] = {
        "stride": np.uint32(stride) if single else u32(*[stride] * rank),
        "pad_amount": u32(*pads[0]) if single else u32(*pads),
        "dilation": np.uint32(dilation) if single else u32(*[dilation] * rank),
    }
    if depthwise:
        group = cin
    else:
        params["group"] = np.uint32(group)
    op = f"DepthWiseConv{rank}d" if depthwise else f"Conv{rank}d"
    return Case(
        name,
        op,
        (batch, *size, cin),
        (*kernel, cin // group, cout),
        (batch, *spatial, cout),
        params,
        **more,  # type: ignore[arg-type]
    )


def transposed(
    name: str, channels: tuple[int, int], kernel: int, group: int = 1, **more: object
) -> Case:
    cin, cout = channels
    side = 8 * 2 + kernel - 2
    params: dict[str, object] = {
        "stride": u32(2, 2),
        "pad_amount": u32((1, 1), (1, 1)),
        "group": np.uint32(group),
    }
    return Case(
        name,
        "TransposeConv2d",
        (1, 9, 9, cin),
        (kernel, kernel, cin, cout // group),
        (1, side, side, cout),
        params,
        **more,  # type: ignore[arg-type]
    )


def dense(name: str, rows: int, depth: int, columns: int, **more: object) -> Case:
    shapes = (rows, depth), (columns, depth), (rows, columns)
    return Case(name, "FullyConnected", *shapes, **more)  # type: ignore[arg-type]


def matmul(name: str, a: Shape, b: Shape, out: Shape, tb: bool = False, **more: object) -> Case:
    params: dict[str, object] = {"transpose_in0": False, "transpose_in1": tb}
    more.setdefault("bias", False)
    return Case(name, "MatMul", a, b, out, params, **more)  # type: ignore[arg-type]
