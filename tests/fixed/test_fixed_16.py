"""16-bit activations, also beside 8-bit ones: exact on 8-bit matrix units, one step from it where
they run in float."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model
from support import one_node, reference
from support.fixed import Fixed, integer_products, within
from support.outside import printed
from support.processor import FORCED, processor_has

Shape = tuple[int, ...]
U16, S16, U8, S8 = np.uint16, np.int16, np.uint8, np.int8


@dataclass
class Case:
    """One node: activations, weights and a bias, all of fixed point."""

    name: str
    op: str
    shape: Shape
    weights: Shape
    output: Shape
    params: dict[str, object] = field(default_factory=dict)
    axis: int | None = None  # of the weights' scales
    kinds: tuple[type, type] = (U16, U16)
    zero: int = 30000  # the input's number for 0
    weight_type: type = np.int8
    weight_zero: int = 0
    bias: bool = True
    split: bool = True  # whether it runs on bytes
    short: bool = False  # only in vectors

    @property
    def narrow(self) -> int:
        """How many times smaller the input's integers are than those of 16 bits."""
        return 256 if np.dtype(self.kinds[0]).itemsize == 1 else 1

    def parts(self) -> tuple[Fixed, Fixed, Fixed, Fixed]:
        """Types of the activations, the weights, the bias, the output."""
        rng = np.random.default_rng(len(self.name))
        x = Fixed(self.kinds[0], 3.1e-4, -self.zero)
        channels = self.output[-1]
        if self.axis is None:
            w = Fixed(self.weight_type, 0.0021, -self.weight_zero)
        else:
            scales = rng.uniform(1e-3, 3e-3, channels).astype(np.float32)
            offsets = np.full(channels, -self.weight_zero, np.int32)
            w = Fixed(self.weight_type, scales, offsets, self.axis)
        scale = np.float32(x.scale) * np.asarray(w.scale, np.float32)
        many = None if self.axis is None else 0
        b = Fixed(np.int32, scale, np.zeros_like(np.asarray(w.offset)), many)
        if self.axis is None:
            b = Fixed(np.int32, float(scale), 0)
        deep = np.prod(self.weights) / channels
        weight_range = float(np.iinfo(self.weight_type).max)
        spread = 3.1e-4 * 0.002 * 20000 / self.narrow * weight_range / 1.7 * np.sqrt(deep)
        y = Fixed.covering(self.kinds[1], -3 * spread, 4 * spread)
        return x, w, b, y

    def values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(7)
        x, w, _, _ = self.parts()
        limit = 10**7 // self.narrow
        bias = rng.integers(-limit, limit, self.output[-1]).astype(np.int32)
        return x.random(rng, self.shape), w.random(rng, self.weights), bias * self.bias

    def model(self) -> Model:
        types = dict(zip(("in0", "in1", "in2", "out0"), self.parts(), strict=True))
        return one_node.case(
            self.op,
            self.values()[: 2 + self.bias],
            [self.output],
            self.params,
            static=(1, 2),
            dtype=types["out0"].dtype,
            encodings={name: of.quantization for name, of in types.items()},
        ).model

    def exact(self) -> np.ndarray:
        """Sums of integers, scaled and rounded once in double precision."""
        (x, w, _, y), (q, weights, bias) = self.parts(), self.values()
        real, factors = q.astype(np.int64) - self.zero, weights.astype(np.int64) - self.weight_zero
        # Products and sums of integers stay below 2^53.
        sums = (
            reference.of(self.op, [real.astype(float), factors.astype(float)], self.params) + bias
        )
        scales = np.float64(np.float32(x.scale)) * np.asarray(w.scale, np.float32)
        steps = sums * (scales / np.float64(np.float32(y.scale)))
        low, high = y.limits
        return np.clip(np.rint(steps) - y.offset, low, high).astype(y.dtype)


def conv(name: str, size: Shape, channels: Shape, kernel: Shape, **more: object) -> Case:
    stride, dilation = int(more.pop("stride", 1)), int(more.pop("dilation", 1))  # type: ignore[call-overload]
    pads, group = np.array(more.pop("pads", [[0, 0], [0, 0]])), int(more.pop("group", 1))  # type: ignore[call-overload]
    batch = int(more.pop("batch", 1))  # type: ignore[call-overload]
    out = [
        (n + sum(p) - dilation * (k - 1) - 1) // stride + 1
        for n, p, k in zip(size, pads, kernel, strict=True)
    ]
    params = {
        "stride": np.array([stride] * 2, np.uint32),
        "pad_amount": pads.astype(np.uint32),
        "dilation": np.array([dilation] * 2, np.uint32),
        "group": np.uint32(group),
    }
    weights = (*kernel, channels[0] // group, channels[1])
    shape, output = (batch, *size, channels[0]), (batch, *out, channels[1])
    return Case(name, "Conv2d", shape, weights, output, params, **{"axis": 3, **more})  # type: ignore[arg-type]


def depthwise(name: str, size: Shape, channels: int, kernel: Shape, **more: object) -> Case:
    case = conv(name, size, (channels, channels), kernel, group=channels, **more)
    case.op = "DepthWiseConv2d"
    del case.params["group"]
    return case


def fully(name: str, rows: int, depth: int, columns: int, **more: object) -> Case:
    weights, output = (columns, depth), (rows, columns)
    return Case(name, "FullyConnected", (rows, depth), weights, output, **{"axis": 0, **more})  # type: ignore[arg-type]


def matmul(name: str, a: Shape, b: Shape, turned: bool = False, **more: object) -> Case:
    columns = bool(more.pop("columns", False))
    params = {"transpose_in0": columns, "transpose_in1": turned}
    rows = a[-1] if columns else a[-2]
    output = (*a[:-2], rows, b[-2] if turned else b[-1])
    return Case(name, "MatMul", a, b, output, params, **{"bias": False, **more})  # type: ignore[arg-type]


SAME = [[1, 1], [1, 1]]
CASES = [
    conv("3x3", (15, 14), (32, 48), (3, 3), pads=SAME),
    conv("signed", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(S16, S16), zero=0),
    conv("signed, uneven", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(S16, U16), zero=-11),
    conv("to signed", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(U16, S16)),
    conv("one scale, no bias", (15, 14), (32, 48), (3, 3), pads=SAME, axis=None, bias=False),
    conv(
        "unsigned weights",
        (15, 14),
        (32, 48),
        (3, 3),
        axis=None,
        weight_type=np.uint8,
        weight_zero=128,
    ),
    conv("uneven pads", (17, 14), (33, 35), (3, 2), pads=[[0, 2], [1, 0]]),
    conv("stride 2", (30, 29), (24, 40), (3, 3), stride=2, pads=[[1, 0], [2, 1]]),
    conv("windows side by side", (28, 28), (96, 192), (2, 2), stride=2),
    conv("no more than pads in front", (32, 8), (64, 128), (2, 2), stride=2, pads=[[1, 0], [1, 0]]),
    conv("7x7 stride 2", (33, 31), (3, 32), (7, 7), stride=2, pads=[[3, 2], [2, 3]]),
    conv("pixels left over", (30, 30), (24, 40), (3, 3), stride=2),
    conv("dilated", (20, 19), (16, 24), (3, 3), dilation=2, pads=[[2, 2], [1, 3]]),
    conv("grouped", (15, 14), (48, 36), (3, 3), group=3, pads=SAME),
    conv("1x1, two images", (14, 13), (96, 160), (1, 1), batch=2),
    conv("tiles that do not divide the rows", (61, 60), (64, 256), (1, 1)),
    fully("rows", 40, 200, 300),
    conv("1x1, signed, no multiples", (31, 17), (99, 53), (1, 1), kinds=(S16, U8), zero=-321),
    conv("1x1 with pads", (14, 13), (96, 160), (1, 1), pads=SAME),
    conv("1x1, stride 2", (29, 27), (96, 160), (1, 1), stride=2),
    fully("a few rows and columns", 17, 777, 19, kinds=(S16, S16), zero=12),
    fully("deep rows in blocks", 300, 2051, 40, kinds=(U16, S16)),
    # Short sums, which are on bytes where a processor has AVX512-VNNI and no matrix units.
    conv("1x1 of few channels", (56, 55), (16, 96), (1, 1), short=True),
    conv("1x1 to few channels", (112, 111), (32, 16), (1, 1), kinds=(U16, S16), short=True),
    conv("first layer of an image", (112, 61), (3, 24), (3, 3), stride=2, pads=SAME, short=True),
    conv("groups of 34", (29, 28), (136, 136), (1, 1), group=4, kinds=(S16, S16), short=True),
    conv("groups of six to 14", (57, 56), (24, 56), (1, 1), group=4, short=True),
    # Windows in vectors: lines and columns of pixels, lines in parts, weights that threads share.
    conv("a column", (400, 1), (32, 64), (3, 1), dilation=4, pads=[[8, 0], [0, 0]]),
    conv("a line", (1, 400), (64, 33), (1, 3), dilation=7, pads=[[0, 0], [14, 0]], kinds=(S16, U8)),
    conv("a long line", (1, 9000), (32, 8), (1, 3), pads=[[0, 0], [2, 0]], zero=0, batch=2),
    conv("more weights than pixels", (7, 7), (256, 200), (3, 3), pads=SAME, kinds=(U16, S16)),
    conv("groups, dilated", (21, 17), (96, 64), (3, 2), dilation=3, group=2, pads=SAME, zero=65535),
    fully("one row", 1, 1024, 1000),
    fully("rows in tiles", 300, 70, 1024, axis=None),
    matmul("static", (2, 90, 64), (64, 96)),
    matmul("transposed", (2, 90, 64), (1, 96, 64), turned=True, kinds=(S16, S16), zero=5),
    conv("weights around 3", (15, 14), (32, 48), (3, 3), axis=None, weight_zero=3),
    conv(
        "unsigned weights around 99",
        (30, 28),
        (64, 48),
        (3, 4),
        group=2,
        stride=2,
        dilation=1,
        batch=2,
        pads=[[1, 0], [2, 1]],
        kinds=(S16, S16),
        zero=-3,
        weight_type=np.uint8,
        weight_zero=99,
    ),
    conv("in tiles, around 99", (64, 60), (64, 64), (3, 3), weight_type=np.uint8, weight_zero=99),
    fully("unsigned weights around 0", 90, 70, 300, weight_type=np.uint8, axis=None),
    fully("unsigned weights around 255", 300, 70, 128, weight_type=np.uint8, weight_zero=255),
    matmul("of columns", (1, 200, 37), (1, 200, 96), columns=True),
    matmul("of columns, in tiles", (2, 96, 210), (1024, 96), turned=True, columns=True),
    # 8 bits to 16.
    conv("bytes", (15, 14), (32, 48), (3, 3), kinds=(U8, U16), zero=117),
    conv("bytes, padded", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(U8, U16), zero=117),
    conv(
        "bytes, pads in front",
        (32, 8),
        (64, 128),
        (2, 2),
        stride=2,
        pads=[[1, 0], [1, 0]],
        kinds=(U8, U16),
        zero=117,
    ),
    conv("signed bytes", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(S8, S16), zero=-9),
    conv("bytes, symmetric", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(S8, U16), zero=0),
    conv(
        "bytes, stride 2",
        (30, 29),
        (24, 40),
        (3, 3),
        stride=2,
        pads=[[1, 0], [2, 1]],
        kinds=(U8, S16),
        zero=255,
    ),
    conv("bytes left over", (30, 30), (24, 40), (3, 3), stride=2, kinds=(S8, U16), zero=3),
    conv("bytes, 1x1 in tiles", (61, 60), (64, 256), (1, 1), batch=2, kinds=(U8, U16), zero=99),
    conv(
        "bytes, weights around 99",
        (30, 28),
        (64, 48),
        (3, 2),
        group=2,
        dilation=2,
        batch=2,
        pads=[[1, 0], [2, 1]],
        kinds=(S8, U16),
        zero=-3,
        weight_type=np.uint8,
        weight_zero=99,
    ),
    conv(
        "bytes, no pads, weights around 0",
        (60, 58),
        (64, 64),
        (3, 3),
        kinds=(U8, U16),
        zero=128,
        weight_type=np.uint8,
        axis=None,
    ),
    fully("bytes", 40, 200, 300, kinds=(U8, U16), zero=130),
    fully("signed bytes", 40, 200, 300, kinds=(S8, S16), zero=0, axis=None),
    fully("one row of bytes", 1, 1024, 1000, kinds=(U8, S16), zero=0),
    fully(
        "bytes in tiles, around 255",
        700,
        70,
        512,
        kinds=(S8, U16),
        zero=-1,
        weight_type=np.uint8,
        weight_zero=255,
    ),
    matmul("bytes", (2, 90, 64), (64, 96), kinds=(U8, U16), zero=7),
    matmul("columns of bytes", (2, 96, 90), (96, 80), columns=True, kinds=(U8, U16), zero=7),
    matmul(
        "columns of signed bytes, around 9",
        (1, 96, 90),
        (1, 80, 96),
        turned=True,
        columns=True,
        kinds=(S8, S16),
        zero=-7,
        weight_type=np.uint8,
        weight_zero=9,
    ),
    # 16 bits to 8, and bytes that are transposed.
    conv("to bytes", (15, 14), (32, 48), (3, 3), pads=SAME, kinds=(U16, U8)),
    conv(
        "to signed bytes, around 3",
        (15, 14),
        (32, 48),
        (3, 3),
        kinds=(S16, S8),
        zero=-500,
        axis=None,
        weight_zero=3,
    ),
    fully("to bytes", 40, 200, 300, kinds=(U16, S8)),
    matmul("to bytes", (1, 90, 96), (1, 96, 80), kinds=(U16, U8)),
    matmul("from columns to bytes", (1, 96, 90), (96, 80), columns=True, kinds=(U8, S8), zero=7),
    # What stays in float.
    conv("few products of bytes", (61, 60), (3, 16), (3, 3), kinds=(U8, U16), zero=9, split=False),
    fully("few bytes", 3, 64, 48, kinds=(U8, U16), zero=9, split=False),
    conv("first layer", (33, 31), (3, 16), (3, 3), split=False),
    conv("wide weights", (9, 8), (16, 24), (3, 3), axis=None, weight_type=S16, split=False),
    fully("small", 3, 64, 48, split=False),
]

# By pairs of products of 16 bits, where a processor has AVX512-VNNI; elsewhere in float.
DEPTHWISE = [
    depthwise("3x3", (15, 14), 96, (3, 3), pads=SAME),
    depthwise("channels left over", (15, 13), 45, (3, 3), pads=SAME, kinds=(S16, S16), zero=-700),
    depthwise("fewer channels than a vector", (16, 15), 24, (3, 3), pads=SAME, stride=2),
    depthwise("5x5", (9, 14), 72, (5, 5), pads=[[2, 2], [2, 2]], batch=2, kinds=(S16, U16), zero=5),
    depthwise("5x5, stride 2", (15, 14), 40, (5, 5), pads=[[1, 2], [2, 2]], stride=2),
    depthwise("7x7", (14, 9), 33, (7, 7), pads=[[3, 3], [3, 3]], kinds=(U16, S16), zero=65535),
    depthwise("3x4, dilated", (15, 14), 64, (3, 4), pads=[[2, 0], [1, 3]], dilation=2, axis=None),
    depthwise("dilated 3x3, stride 2", (17, 15), 40, (3, 3), pads=SAME, dilation=2, stride=2),
    depthwise("three columns of pixels", (40, 5), 64, (3, 3), zero=0),
    depthwise("one row and column", (7, 3), 320, (7, 3), kinds=(S16, S16), zero=32767),
    depthwise("no bias", (15, 14), 32, (1, 3), bias=False, pads=[[0, 0], [1, 1]]),
    depthwise(
        "unsigned weights around 99",
        (12, 11),
        70,
        (3, 3),
        pads=SAME,
        weight_type=np.uint8,
        weight_zero=99,
    ),
    depthwise("weights around 3", (12, 11), 70, (2, 5), stride=3, weight_zero=3),
    conv("one channel a group", (15, 14), (48, 48), (3, 3), pads=SAME, group=48),
]


def word_vectors(tiles: bool = True) -> bool:
    """Whether there is AVX512-VNNI, for all; without matrix units, if `tiles` is false."""
    there = processor_has("avx512_vnni") and not FORCED
    return there and (tiles or not processor_has("amx_int8"))


def run(case: Case, kernels: str, threads: int) -> tuple[np.ndarray, str]:
    """The output, and the name of the kernel."""
    with qnnrt.Session(case.model(), threads=threads, options={"kernels": kernels}) as session:
        session.inputs["in0"].array[...] = case.values()[0]
        session.run()
        session.run()
        (step,) = json.loads(session.graph.describe() or "")["steps"]
        return session.outputs["out0"].array.copy(), step["kernel"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op} {c.name}")
def test_sums_are_exact_or_rounded_in_float(case: Case, threads: int) -> None:
    got, kernel = run(case, "auto", threads)
    expected = case.exact()
    assert np.ptp(expected.astype(np.int64)) > (80 if expected.dtype.itemsize == 1 else 20000)
    bytes_ = case.split and integer_products() and (word_vectors(tiles=False) or not case.short)
    assert kernel.endswith("on bytes") == bytes_, kernel
    within(got, expected, 0 if kernel.endswith("on bytes") else 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", DEPTHWISE, ids=lambda c: f"{c.op} {c.name}")
def test_depthwise_sums_are_exact_or_rounded_in_float(case: Case, threads: int) -> None:
    got, kernel = run(case, "auto", threads)
    assert (kernel == "vectors on words") == (word_vectors() and integer_products()), kernel
    expected = case.exact()
    assert np.ptp(expected.astype(np.int64)) > 20000
    within(got, expected, 0 if kernel == "vectors on words" else 1)


def test_depthwise_results_saturate() -> None:
    case = depthwise("saturates", (9, 8), 40, (3, 3), kinds=(U16, S16))
    model = case.model()
    _, _, _, of = case.parts()
    for fewer in (50, 1e9):  # steps beyond 32 bits
        narrow = Fixed(of.dtype, of.scale / fewer, of.offset)
        model.tensors["out0"].quantization = narrow.quantization
        with qnnrt.Session(model, threads=1) as session:
            session.inputs["in0"].array[...] = case.values()[0]
            session.run()
            got = session.outputs["out0"].array.copy()
        wide = case.exact().astype(np.int64) + of.offset
        assert (got[wide > 2000] == 32767).all()
        assert (got[wide < -2000] == -32768).all()
        assert {-32768, 32767} <= set(got.ravel())


@pytest.mark.parametrize("case", CASES + DEPTHWISE, ids=lambda c: f"{c.op} {c.name}")
def test_the_portable_kernel_is_one_step_away_at_most(case: Case) -> None:
    within(run(case, "portable", 1)[0], case.exact(), 1)


def test_results_saturate() -> None:
    case = fully("saturates", 16, 256, 300)
    model = case.model()
    y = model.tensors["out0"]
    _, _, _, of = case.parts()
    narrow = Fixed(of.dtype, of.scale / 50, of.offset)
    y.quantization = narrow.quantization
    with qnnrt.Session(model, threads=1) as session:
        session.inputs["in0"].array[...] = case.values()[0]
        session.run()
        got = session.outputs["out0"].array.copy()
    wide = case.exact().astype(np.int64) + of.offset
    assert (got[wide > 40000 // 50 * 2] == 65535).all()
    assert (got[wide < -40000 // 50 * 2] == 0).all()
    assert {0, 65535} <= set(got.ravel())


VECTORS = (
    fully("short", 200, 40, 72),
    fully("long", 40, 700, 72, kinds=(S16, S16), zero=9),
    depthwise("3x3", (15, 14), 72, (3, 3), pads=SAME),
    conv("3x3 in groups", (15, 14), (64, 72), (3, 3), pads=SAME, group=2),
)


@pytest.mark.parametrize("case", VECTORS, ids=lambda c: f"{c.op} {c.name}")
def test_results_far_beyond_the_codes_saturate(case: Case) -> None:
    model = case.model()
    _, _, _, of = case.parts()
    fine = Fixed(of.dtype, of.scale / 1e9, of.offset)
    model.tensors["out0"].quantization = fine.quantization
    with qnnrt.Session(model, threads=1) as session:
        session.inputs["in0"].array[...] = case.values()[0]
        session.run()
        got = session.outputs["out0"].array.copy()
    wide = case.exact().astype(np.int64) + of.offset
    low, high = of.limits
    assert (got[wide > 1] == high).all()
    assert (got[wide < -1] == low).all()


@pytest.mark.parametrize("case", VECTORS, ids=lambda c: f"{c.op} {c.name}")
def test_a_bias_in_steps_of_its_own(case: Case) -> None:
    model, factor = case.model(), np.float32(1.37)
    x, w, b, y = case.parts()
    scales = np.asarray(b.scale, np.float32) * factor
    model.tensors["in2"].quantization = Fixed(np.int32, scales, b.offset, b.axis).quantization
    with qnnrt.Session(model, threads=1) as session:
        session.inputs["in0"].array[...] = case.values()[0]
        session.run()
        got = session.outputs["out0"].array.copy()
    q, weights, bias = case.values()
    real = q.astype(np.int64) - case.zero
    sums = reference.of(case.op, [real.astype(float), weights.astype(float)], case.params)
    scale = np.float64(np.float32(x.scale)) * np.asarray(w.scale, np.float32)
    steps = (sums + bias * (scales / scale)) * (scale / np.float64(np.float32(y.scale)))
    low, high = y.limits
    within(
        got,
        np.clip(np.rint(steps) - y.offset, low, high).astype(y.dtype),
        0 if word_vectors(tiles=False) else 1,
    )


KEPT = (
    "3x3",
    "1x1, two images",
    "rows",
    "bytes, padded",
    "bytes, weights around 99",
    "columns of bytes",
    "to bytes",
)


@pytest.mark.parametrize(
    "case", [c for c in CASES + DEPTHWISE[:3] if c.name in KEPT], ids=lambda c: f"{c.op} {c.name}"
)
def test_a_context_binary_brings_the_packed_weights(case: Case, tmp_path: Path) -> None:
    expected, _ = run(case, "auto", 1)
    with qnnrt.Session(case.model(), threads=1) as session:
        session.save_binary(tmp_path / "net.bin")
    with qnnrt.Session(tmp_path / "net.bin") as session:
        session.inputs["in0"].array[...] = case.values()[0]
        session.run()
        within(session.outputs["out0"].array.copy(), expected)


PROBE = """
import sys
from fixed import test_fixed_16 as t
for case in (t.CASES + t.DEPTHWISE)[::2]:
    got, kernel = t.run(case, "auto", 1)
    exact = kernel.endswith("on bytes")
    assert not exact or sys.argv[1].endswith("VNNI"), (case.name, kernel)
    t.within(got, case.exact(), 0 if exact else 1)
print("right")
"""


@pytest.mark.parametrize("isa", ["AVX512_CORE_VNNI", "AVX512_CORE", "AVX2_VNNI", "AVX2"])
def test_lesser_processors_are_exact_or_round_in_float(isa: str) -> None:
    assert printed(PROBE, isa, ONEDNN_MAX_CPU_ISA=isa) == "right\n"
