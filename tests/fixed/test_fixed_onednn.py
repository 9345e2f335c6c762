"""Convolutions and matrix products in 8 bits, against exact arithmetic on the integers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node
from support.fixed import Fixed, integer_products, run_fixed
from support.fixed_products import S8, U8, Case, conv, dense, matmul, transposed
from support.one_node import pairs, u32
from support.outside import printed

# How far from half a step a rounded result may be: factors and sums are floats.
ROUNDING = 0.5 + 2e-3

SAME = ((1, 1), (1, 1))
UNEVEN = ((0, 1), (2, 0))
CASES = [
    conv("3x3", (14, 13), (16, 32), (3, 3), pads=SAME),
    conv("3x3, zero is 0", (14, 13), (64, 64), (3, 3), pads=SAME, zero=0),
    conv("3x3, zero is 255", (9, 8), (16, 16), (3, 3), pads=SAME, zero=255),
    conv("1x1, per channel", (14, 13), (24, 40), (1, 1), axis=3),
    conv("1x1 stride 2", (15, 14), (32, 16), (1, 1), stride=2, batch=3),
    conv("7x7 first", (33, 31), (3, 64), (7, 7), stride=2, pads=((3, 2), (2, 3)), axis=3),
    conv("odd channels", (15, 14), (17, 33), (3, 4), pads=UNEVEN, batch=2),
    conv("one channel", (35, 14), (1, 1), (5, 5)),
    conv("too small", (7, 7), (4, 8), (1, 1), fast=False),
    conv("dilated", (20, 19), (8, 12), (3, 3), dilation=2, pads=((2, 2), (1, 3))),
    conv("windows side by side", (28, 28), (96, 192), (2, 2), stride=2, batch=2),
    conv("windows side by side, zero is 0", (32, 33), (3, 40), (4, 4), stride=4, zero=0, axis=3),
    conv("rows left out", (21, 22), (96, 64), (1, 3), stride=2),
    conv("grouped", (14, 13), (24, 36), (3, 3), group=3, pads=SAME, axis=3),
    conv("1x1 in groups", (9, 13), (204, 111), (1, 1), group=3, axis=3, types=(U8, U8, S8)),
    conv("1x1 in groups, s8", (9, 13), (68, 272), (1, 1), group=4, types=(S8, S8, U8)),
    conv("no bias", (14, 13), (70, 130), (3, 3), pads=SAME, bias=False),
    conv("s8", (14, 13), (16, 32), (3, 3), pads=SAME, types=(S8, S8, S8)),
    conv("s8 odd, per channel", (9, 8), (19, 21), (3, 3), pads=UNEVEN, types=(S8, S8, S8), axis=3),
    conv("s8 to u8, zero is 0", (9, 8), (32, 48), (3, 3), pads=SAME, types=(S8, S8, U8), zero=0),
    conv("mostly padding", (2, 3), (32, 32), (3, 3), pads=((30, 20), (9, 14)), fast=False),
    conv("u8 weights", (14, 13), (16, 32), (3, 3), pads=SAME, types=(U8, U8, U8)),
    conv("u8 weights, s8 out", (9, 8), (16, 32), (1, 1), types=(U8, U8, S8), axis=3),
    conv("4-bit weights", (9, 8), (32, 32), (3, 3), pads=SAME, bitwidth=4, axis=3),
    conv("u4 weights", (9, 8), (32, 32), (3, 3), types=(U8, U8, U8), bitwidth=4),
    conv("u8 weights, any zero", (14, 13), (17, 32), (3, 4), pads=UNEVEN, types=(U8, U8, U8),
         weight_offset=-77, batch=2),
    conv("u8 weights, any zero, s8", (9, 8), (24, 36), (3, 3), pads=SAME, types=(S8, U8, S8),
         weight_offset=-140, axis=3, group=3, stride=2),
    conv("u8 weights, any zero", (14, 13), (24, 24), (3, 3), depthwise=True, types=(U8, U8, U8),
         weight_offset=-140, fast=False),
    conv("s8 weights, any zero", (19,), (24, 36), (3,), types=(U8, S8, U8), weight_offset=9,
         dilation=2, pads=((1, 2),), zero=0),
    conv("3 bits out", (9, 8), (32, 32), (3, 3), width=3),
    conv("1d", (40,), (16, 24), (5,), stride=2, pads=((2, 1),)),
    conv("1d, zero is 0", (70,), (40, 24), (3,), dilation=4, pads=((8, 0),), zero=0, axis=2),
    conv("1d in one piece", (61,), (3, 80), (5,), stride=2, batch=2, types=(U8, U8, S8)),
    conv("1d in groups", (61,), (96, 144), (3,), group=3, pads=((1, 1),), types=(S8, U8, S8)),
    conv("1d, one channel", (400,), (1, 40), (10,), stride=5, types=(S8, S8, S8), axis=2),
    conv("1d, longer than its input", (9,), (20, 48), (21,), pads=((10, 10),), types=(U8, U8, U8)),
    conv("one line, zero is 0", (1, 45), (32, 48), (1, 3), pads=((0, 0), (1, 2)), zero=0, batch=2,
         types=(S8, S8, U8)),
    conv("3d", (5, 6, 7), (8, 16), (2, 3, 3), pads=((1, 0), (1, 1), (0, 2)), axis=4),
    conv("3d, zero is 0", (5, 6, 7), (8, 16), (2, 3, 3), pads=((1, 0), (1, 1), (0, 2)), zero=0),
    conv("1d", (60,), (16, 16), (5,), depthwise=True, pads=((2, 2),)),
    conv("3x3", (14, 13), (40, 40), (3, 3), depthwise=True, pads=SAME, axis=3),
    conv("3x3 stride 2", (14, 13), (96, 96), (3, 3), depthwise=True, pads=SAME, stride=2, zero=0),
    conv("multiplier", (14, 13), (16, 32), (3, 3), depthwise=True, pads=SAME),
    conv("s8", (14, 13), (33, 33), (3, 3), depthwise=True, pads=SAME, types=(S8, S8, S8)),
    conv("s8 to u8, zero is 0", (9, 17), (70, 70), (3, 3), depthwise=True, pads=UNEVEN,
         types=(S8, S8, U8), zero=0, batch=2, axis=3),
    conv("u8 to s8, zero is 255", (11, 10), (130, 130), (3, 3), depthwise=True, pads=SAME,
         types=(U8, S8, S8), zero=255, stride=2),
    conv("5x5", (12, 15), (24, 24), (5, 5), depthwise=True, pads=((2, 2), (2, 2)), axis=3),
    conv("5x5 stride 2", (15, 13), (112, 112), (5, 5), depthwise=True, pads=((1, 2), (2, 2)),
         stride=2, types=(S8, S8, S8)),
    conv("7x7", (14, 14), (96, 96), (7, 7), depthwise=True, pads=((3, 3), (3, 3)), axis=3),
    conv("9x2", (15, 8), (50, 50), (9, 2), depthwise=True, pads=((4, 4), (1, 0))),
    conv("dilated", (17, 15), (40, 40), (3, 3), depthwise=True, pads=((2, 2), (1, 3)), dilation=2),
    conv("stride 3", (20, 19), (16, 16), (3, 4), depthwise=True, stride=3),
    conv("three columns of pixels", (40, 5), (64, 64), (3, 3), depthwise=True),
    conv("wide padding", (8, 4), (65, 65), (5, 5), depthwise=True, pads=((4, 3), (2, 4))),
    conv("u8 weights", (14, 13), (24, 24), (3, 3), depthwise=True, types=(U8, U8, U8), width=3),
    transposed("upsample", (64, 32), 4, zero=0),
    transposed("upsample, zero in the middle", (64, 32), 4, axis=3),
    transposed("upsample, kernel no multiple", (24, 20), 3, types=(S8, S8, S8)),
    transposed("grouped upsample", (32, 24), 4, 4, axis=3),
    transposed("grouped upsample, zero is 0", (64, 32), 3, 4, axis=3, zero=0),
    dense("batch", 9, 200, 300),
    dense("per channel", 9, 201, 30, axis=0),
    dense("one row", 1, 700, 1000),
    dense("too small", 3, 64, 64, fast=False),
    dense("s8", 5, 123, 77, types=(S8, S8, S8)),
    dense("u8 weights", 5, 123, 77, types=(U8, U8, U8), axis=0),
    dense("u8 weights, any zero", 5, 123, 77, types=(U8, U8, U8), weight_offset=-77),
    dense("u8 weights, any zero, per channel", 45, 123, 77, types=(S8, U8, U8), weight_offset=-77,
          axis=0),
    matmul("u8 weights, any zero, per channel", (3, 15, 63), (63, 97), (3, 15, 97), axis=1,
           types=(U8, U8, S8), weight_offset=-255, bias=True),
    matmul("static", (2, 40, 64), (64, 96), (2, 40, 96)),
    matmul("static, per channel", (2, 40, 63), (63, 97), (2, 40, 97), axis=1, bias=True),
    matmul("static, transposed", (40, 63), (97, 63), (40, 97), tb=True, axis=0),
    matmul("static batch", (3, 20, 63), (3, 63, 33), (3, 20, 33), types=(U8, U8, S8)),
    matmul("u8 x u8", (2, 3, 40, 64), (2, 3, 64, 48), (2, 3, 40, 48), types=(U8, U8, U8),
           computed=True, weight_offset=-131),
    matmul("u8 x u8, transposed", (2, 37, 30), (2, 41, 30), (2, 37, 41), True,
           types=(U8, U8, U8), computed=True, weight_offset=-99),
    matmul("s8 x s8", (2, 37, 30), (2, 30, 41), (2, 37, 41), types=(S8, S8, S8), computed=True,
           weight_offset=7),
    matmul("one row", (1, 300), (300, 70), (1, 70), types=(U8, U8, U8), computed=True),
]  # fmt: skip


def run(
    model: Model, kernels: str, threads: int, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, str]]:
    """The output, and the kernel of every step."""
    with qnnrt.Session(model, threads=threads, options={"kernels": kernels}) as session:
        return execute(session, arrays)


def execute(
    session: qnnrt.Session, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, str]]:
    for name, tensor in session.inputs.items():
        tensor.array[...] = arrays[name]
    session.run()
    session.run()  # with every pointer bound already
    steps = json.loads(session.graph.describe() or "")["steps"]
    output = next(iter(session.outputs.values())).array.copy()
    return output, {step["name"]: step["kernel"] for step in steps}


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_rounded_exact_sums(case: Case, threads: int, kernels: str) -> None:
    got, steps = run(case.model(), kernels, threads, case.arrays())
    exact = case.exact()
    assert got.dtype == case.types[2]
    assert np.ptp(got.astype(int)) > 0
    assert np.abs(got - exact).max() <= ROUNDING
    if kernels == "auto" and integer_products():
        # The float kernels behind a conversion would be called "avx512_core" without more.
        kernel = steps["node"]
        assert kernel.endswith(("amx", "vnni")) == case.fast, kernel


#: Enough work for several threads, and few weights: each has pixels or rows of its own.
SHARED = [
    conv("1x1", (31, 33), (64, 96), (1, 1), axis=3),
    conv("1x1, images", (15, 17), (96, 64), (1, 1), batch=3, bias=False),
    conv("1x1 stride 2", (57, 58), (48, 64), (1, 1), stride=2),
    conv("3x3", (29, 31), (40, 48), (3, 3), pads=UNEVEN, axis=3),
    conv("7x7 stride 2", (113, 90), (3, 32), (7, 7), stride=2, pads=((3, 2), (2, 3))),
    conv("3x3 in groups", (31, 28), (64, 64), (3, 3), group=8, pads=SAME),
    conv("3x3 dilated", (33, 31), (32, 32), (3, 3), dilation=2, pads=((2, 1), (0, 3))),
    conv("u8 weights, any zero", (34, 31), (32, 40), (3, 3), pads=SAME, types=(U8, U8, U8),
         weight_offset=-77),
    conv("1d", (2000,), (48, 64), (1,)),
    dense("rows", 301, 256, 384, axis=0),
    dense("few rows, many columns", 13, 256, 1000),
    dense("u8 weights, any zero", 301, 256, 192, types=(U8, U8, U8), axis=0, weight_offset=-77),
    dense("sums that end within a tile", 361, 96, 384, axis=0),
    dense("sums that end within a tile, u8 weights", 145, 72, 192, types=(U8, U8, U8), axis=0,
          weight_offset=-77),
    dense("s8 in few tiles", 49, 70, 96, types=(S8, S8, S8)),
    matmul("many times as many columns", (3, 50, 32), (32, 600), (3, 50, 600)),
    matmul("rows of images", (2, 3, 60, 256), (256, 192), (2, 3, 60, 192)),
]  # fmt: skip


@pytest.mark.parametrize("case", SHARED, ids=str)
def test_pixels_that_threads_share_are_those_of_one_thread(case: Case) -> None:
    expected, _ = run(case.model(), "auto", 1, case.arrays())
    assert np.abs(expected - case.exact()).max() <= ROUNDING
    for threads in (2, 3, 5):
        got, kernels = run(case.model(), "auto", threads, case.arrays())
        assert len(kernels) == 1
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_context_binary_computes_the_same_bytes(case: Case, tmp_path: Path) -> None:
    """Nothing that a kernel packed depends on data that is not there any more."""
    with qnnrt.Session(case.model(), "htp", threads=1) as session:
        expected, kernels = execute(session, case.arrays())
        session.save_binary(tmp_path / "case.bin")
    with qnnrt.Session(tmp_path / "case.bin", "htp") as session:
        got, loaded_kernels = execute(session, case.arrays())
    np.testing.assert_array_equal(got, expected)
    assert loaded_kernels == kernels


CLAMPS: list[tuple[str, dict[str, object], float, float]] = [
    ("Relu", {}, 0.0, np.inf),
    ("Relu6", {}, 0.0, 6.0),
    ("Relu1", {}, -1.0, 1.0),
    ("ReluMinMax", {"min_value": np.float32(-1.23), "max_value": np.float32(2.34)}, -1.23, 2.34),
]
CLAMPED = [c for c in CASES if c.name in ("3x3", "3 bits out", "s8 odd, per channel", "batch")]


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("clamp", CLAMPS, ids=lambda c: c[0])
@pytest.mark.parametrize("case", CLAMPED, ids=str)
def test_clamps_are_merged_and_change_no_other_bit(
    case: Case, clamp: tuple[str, dict[str, object], float, float], kernels: str, tmp_path: Path
) -> None:
    op, params, low, high = clamp
    plain, _ = run(case.model(), kernels, 1, case.arrays())
    out = case.fixed["out0"]
    ends = out.quantize(np.array([low, high], np.float32))
    model = case.model()
    model.tensors["clamped"] = replace(model.tensors["out0"], name="clamped")
    model.outputs = ["clamped"]
    model.nodes.append(Node("clamp", op, ["out0"], ["clamped"], dict(params)))
    options = {"kernels": kernels}
    with qnnrt.Session(model, "htp", threads=1, options=options) as session:
        got, steps = execute(session, case.arrays())
        session.save_binary(tmp_path / "case.bin")
    assert len(steps) == 1
    np.testing.assert_array_equal(got, np.clip(plain, ends[0], ends[1]))
    with qnnrt.Session(tmp_path / "case.bin", "htp") as session:
        np.testing.assert_array_equal(execute(session, case.arrays())[0], got)


def test_an_activation_with_another_encoding_is_left_alone() -> None:
    case = next(c for c in CASES if c.name == "3x3")
    model = case.model()
    wider = replace(case.fixed["out0"], scale=case.fixed["out0"].scale * 1.5)
    model.tensors["wider"] = replace(
        model.tensors["out0"], name="wider", quantization=wider.quantization
    )
    model.outputs = ["wider"]
    model.nodes.append(Node("relu", "Relu", ["out0"], ["wider"], {}))
    got, steps = run(model, "auto", 1, case.arrays())
    assert set(steps) == {"node", "relu"}
    plain, _ = run(case.model(), "auto", 1, case.arrays())
    real = np.maximum(case.fixed["out0"].dequantize(plain), 0)
    np.testing.assert_array_equal(got, wider.quantize(real))


@pytest.mark.parametrize("static", [[], [1]])
@pytest.mark.parametrize("zero", [0, 128, 255])
def test_sums_that_32_bits_do_not_hold_are_right(zero: int, static: list[int]) -> None:
    depth = 60000
    x, w = Fixed(U8, 1e-3, 0), Fixed(U8, 1e-3, -zero)
    values, weights = (
        np.full((1, depth), 255, U8),
        np.full((16, depth), 255 if zero == 0 else 0, U8),
    )
    real = depth * 0.255 * (1e-3 * (int(weights[0, 0]) - zero))
    to = Fixed(np.dtype(np.int8), 40.0, 0)
    inputs = [(values, x), (weights, w)]
    (got,) = run_fixed("FullyConnected", inputs, [((1, 16), to)], kernels="auto", static=static)
    np.testing.assert_array_equal(got, np.full((1, 16), round(real / 40), np.int8))


@pytest.mark.parametrize("scales", [(1e15, 1e10, 1e-13), (1e5, 1e5, 1.0), (1e30, 1e-30, 1e-6)])
@pytest.mark.parametrize("value", [3, 10])
def test_scales_far_from_that_of_the_output_saturate_or_give_zero(
    value: int, scales: tuple[float, float, float]
) -> None:
    x, w, to = (Fixed(U8, scales[0], -3), Fixed(S8, scales[1]), Fixed(U8, scales[2], -5))
    rows = np.full((8, 128), value, U8)
    weights = np.random.default_rng(3).integers(-128, 128, (64, 128)).astype(S8)
    sums = (rows.astype(np.int64) - 3) @ weights.T.astype(np.int64)
    expected = np.where(sums == 0, 5, np.where(sums > 0, 255, 0)).astype(U8)
    inputs = [(rows, x), (weights, w)]
    (got,) = run_fixed("FullyConnected", inputs, [((8, 64), to)], kernels="auto", static=[1])
    np.testing.assert_array_equal(got, expected)
    inputs = [(rows.reshape(1, 2, 4, 128), x), (weights.T.reshape(1, 1, 128, 64), w)]
    params = {"stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    out = [((1, 2, 4, 64), to)]
    (got,) = run_fixed("Conv2d", inputs, out, params, kernels="auto", static=[1])
    np.testing.assert_array_equal(got.reshape(8, 64), expected)


PROBE = """
import numpy as np
from fixed import test_fixed_onednn as t
for case in t.CASES[::3]:
    got, kernels = t.run(case.model(), "auto", 1, case.arrays())
    assert np.abs(got - case.exact()).max() <= t.ROUNDING, (str(case), kernels)
print("right")
"""


@pytest.mark.parametrize("isa", ["AVX512_CORE_VNNI", "AVX512_CORE", "AVX2_VNNI", "AVX2"])
def test_lesser_processors_round_the_same_sums(isa: str) -> None:
    """Some would saturate in between: there the sums are taken in another way."""
    assert printed(PROBE, ONEDNN_MAX_CPU_ISA=isa) == "right\n"
