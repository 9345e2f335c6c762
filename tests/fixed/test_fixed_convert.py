"""Quantize, Dequantize, Convert and Cast on fixed-point tensors, bit for bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from qnnrt import Session
from qnnrt.model import Model, Node, Quantization, Tensor
from support.fixed import S8, S16, S32, TYPES, U8, U16, Fixed, run_fixed, within
from support.one_node import KERNELS, run_op
from support.toy import tensors

INTEGERS = ("uint8", "int8", "uint16", "int16")


def values(of: Fixed, rng: np.random.Generator, count: int = 4099) -> np.ndarray:
    """Real numbers in and around the range of a type, with ties and what is no number."""
    low, high = (np.float32(of.scale) * (np.float32(n) + of.offset) for n in of.limits)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, low, high]
    codes = np.linspace(*of.limits, 501).round()
    ties = np.float32(of.scale) * (codes.astype(np.float32) + of.offset + np.float32(0.5))
    near = np.concatenate([np.nextafter(ties, to) for to in np.float32([-np.inf, np.inf])])
    rest = rng.uniform(low - 0.3 * (high - low), high + 0.3 * (high - low), count)
    parts = [np.array(special, np.float32), ties, near, rest]
    return np.concatenate([np.asarray(p, np.float32) for p in parts])[:count]


def test_the_reference_is_what_the_definition_says() -> None:
    of = Fixed("int8", 0.5, 3)
    np.testing.assert_array_equal(of.dequantize(np.int8([-128, 0, 127])), [-62.5, 1.5, 65.0])
    reals = np.float32([0.25, 0.75, -0.25, 1e9, -1e9, np.nan])
    np.testing.assert_array_equal(of.quantize(reals), [-3, -1, -3, 127, -128, -3])


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of.dtype)
@pytest.mark.parametrize("op", ["Quantize", "Convert"])
def test_quantize(op: str, of: Fixed) -> None:
    x = values(of, np.random.default_rng(3))
    with np.errstate(over="ignore"):
        for real in (x, x.astype(np.float16)):
            [got] = run_fixed(op, [real], [(real.shape, of)])
            within(got, of.quantize(real.astype(np.float32)))


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of.dtype)
@pytest.mark.parametrize("op", ["Dequantize", "Convert"])
def test_dequantize_all_codes(op: str, of: Fixed) -> None:
    x = of.codes()
    [got] = run_fixed(op, [(x, of)], [(x.shape, np.float32)])
    np.testing.assert_array_equal(got, of.dequantize(x))
    [got] = run_fixed(op, [(x, of)], [(x.shape, np.float16)])
    np.testing.assert_array_equal(got, of.dequantize(x).astype(np.float16))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("channels", [3, 7, 100, 1001])
def test_every_channel_has_its_scale_wherever_a_piece_begins(
    dtype: type, channels: int, threads: int
) -> None:
    rng = np.random.default_rng(channels)
    scales = np.exp2(rng.integers(-6, 3, channels)).astype(np.float32)
    of = Fixed(dtype, scales, np.zeros(channels, np.int32), 2)
    x = rng.integers(-120, 121, (9, 1000 // channels * 5 + 3, channels)).astype(dtype)
    [got] = run_fixed("Dequantize", [(x, of)], [(x.shape, np.float32)], threads=threads)
    np.testing.assert_array_equal(got, x * scales)
    back = run_fixed("Quantize", [got], [(x.shape, of)], threads=threads)
    np.testing.assert_array_equal(back[0], x)


@pytest.mark.parametrize(
    ("given", "wanted"), list(product(INTEGERS, INTEGERS)), ids=lambda name: name.replace("int", "")
)
def test_convert_every_pair_of_types(given: str, wanted: str) -> None:
    source = Fixed.covering(given, -3.0, 5.0)
    x = source.codes()
    info = np.iinfo(wanted)
    zero = int(np.clip(-source.offset, info.min, info.max))
    for target in (
        Fixed.covering(wanted, -3.0, 5.0),
        Fixed.covering(wanted, -1.0, 2.0),  # saturates at both ends
        Fixed(wanted, source.scale * 2, 1 if wanted.startswith("i") else -1),  # ties
        Fixed(wanted, source.scale, -zero),
    ):
        [got] = run_fixed("Convert", [(x, source)], [(x.shape, target)])
        within(got, target.quantize(source.dequantize(x)))


@pytest.mark.parametrize("of", [*TYPES, S32], ids=lambda of: of.dtype)
def test_one_encoding_is_a_copy(of: Fixed) -> None:
    x = of.random(np.random.default_rng(5), (3, 1001))
    [got] = run_fixed("Convert", [(x, of)], [(x.shape, of)])
    within(got, x)


def test_thirty_two_bits() -> None:
    x = values(S32, np.random.default_rng(1))
    [got] = run_fixed("Quantize", [x], [(x.shape, S32)])
    within(got, S32.quantize(x))
    [back] = run_fixed("Dequantize", [(got, S32)], [(x.shape, np.float32)])
    np.testing.assert_array_equal(back, S32.dequantize(got))
    [narrow] = run_fixed("Convert", [(got, S32)], [(x.shape, S16)])
    within(narrow, S16.quantize(S32.dequantize(got)))


@pytest.mark.parametrize("scale", [1e-38, 1e-35, 3e30, 3e38])
def test_scales_at_the_ends_of_what_floats_hold(scale: float) -> None:
    of = Fixed("uint8", scale, -100)
    with np.errstate(over="ignore"):
        x = (np.linspace(-120, 170, 997) * scale).astype(np.float32)
    [got] = run_fixed("Quantize", [x], [(x.shape, of)])
    within(got, of.quantize(x))


@pytest.mark.parametrize(("axis", "name"), list(product(range(3), ("uint8", "int16"))))
def test_along_an_axis(axis: int, name: str) -> None:
    rng = np.random.default_rng(axis)
    shape = (5, 7, 19)
    n = shape[axis]
    of = Fixed(name, rng.uniform(0.01, 0.2, n).astype(np.float32), rng.integers(-90, 1, n), axis)
    x = rng.normal(0, 4, shape).astype(np.float32)
    [codes] = run_fixed("Quantize", [x], [(shape, of)])
    within(codes, of.quantize(x))
    [back] = run_fixed("Dequantize", [(codes, of)], [(shape, np.float32)])
    np.testing.assert_array_equal(back, of.dequantize(codes))
    whole = Fixed("int8", 0.05, 3)
    [got] = run_fixed("Convert", [(codes, of)], [(shape, whole)])
    within(got, whole.quantize(of.dequantize(codes)))
    [got] = run_fixed("Convert", [(codes, of)], [(shape, of)])
    within(got, codes)


@pytest.mark.parametrize("of", [Fixed("int8", 0.1, 0, None, 4), Fixed("uint8", 0.1, -8, None, 4)])
def test_fewer_bits_saturate_sooner(of: Fixed) -> None:
    x = np.linspace(-2, 2, 401, dtype=np.float32)
    [got] = run_fixed("Quantize", [x], [(x.shape, of)])
    within(got, of.quantize(x))
    assert (got.min(), got.max()) == of.limits
    wide = Fixed(of.dtype, of.scale, of.offset)
    codes = wide.codes()
    [got] = run_fixed("Convert", [(codes, wide)], [(codes.shape, of)])
    within(got, of.quantize(wide.dequantize(codes)))


@pytest.mark.parametrize("count", [1, 2, 15, 17, 63, 65, 1023, 1025, 40001, 200003])
def test_lengths_and_what_lies_behind(count: int) -> None:
    rng = np.random.default_rng(count)
    x = rng.normal(0, 1, count).astype(np.float32)
    [got] = run_fixed("Quantize", [x], [(x.shape, U8)])
    within(got, U8.quantize(x))
    [got] = run_fixed("Convert", [(got, U8)], [(x.shape, U16)])
    within(got, U16.quantize(U8.dequantize(U8.quantize(x))))
    [got] = run_fixed("Dequantize", [(got, U16)], [(x.shape, np.float32)])
    np.testing.assert_array_equal(got, U16.dequantize(U16.quantize(U8.dequantize(U8.quantize(x)))))


@pytest.mark.parametrize("other", ["int32", "uint64", "uint8", "bool", "float64"])
def test_cast_takes_the_integers_as_they_are(other: str) -> None:
    codes = S8.codes()
    [got] = run_fixed("Cast", [(codes, S8)], [(codes.shape, other)])
    expected: Any = codes.astype(other)
    np.testing.assert_array_equal(got, expected)
    [plain] = run_op("Cast", [codes], [codes.shape], dtype=other)
    np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_cast_from_and_to_64_bits_has_the_real_numbers(dtype: Any, kernels: str) -> None:
    """As clients have them for torch's integers; others are the stored ones."""
    codes = np.array([20, 40, 50, 63, 90, 120], dtype)
    q = Quantization(0.1, -50)
    args: Any = [codes], [codes.shape]
    for to, wanted in ((np.int64, [-3, -1, 0, 1, 4, 7]), (np.int32, codes.tolist())):
        (y,) = run_op("Cast", *args, dtype=to, encodings={"in0": q}, kernels=kernels)
        assert y.tolist() == wanted
    whole = np.array([-3, 0, 4, 1000])
    most = min(1000 * 10 + 50, np.iinfo(dtype).max)
    stored = whole.astype(dtype).tolist()
    for source, wanted in ((np.int64, [20, 50, 90, most]), (np.int32, stored)):
        (y,) = run_op(
            "Cast",
            [whole.astype(source)],
            [whole.shape],
            dtype=dtype,
            encodings={"out0": q},
            kernels=kernels,
        )
        assert y.tolist() == wanted


def test_casts_by_way_of_32_bits_that_nobody_sees_are_those_of_64() -> None:
    codes, q = np.array([20, 63, 90], np.uint8), Quantization(0.1, -50)
    int32, int64, uint8 = (np.dtype(d) for d in (np.int32, np.int64, np.uint8))
    model = Model(
        "casts",
        tensors(
            Tensor("x", (3,), uint8, quantization=q),
            Tensor("n", (3,), int64),
            Tensor("x32", (3,), int32),
            Tensor("n32", (3,), int32),
            Tensor("shown", (3,), int32),
            Tensor("x64", (3,), int64),
            Tensor("n8", (3,), uint8, quantization=q),
            Tensor("shown64", (3,), int64),
        ),
        [
            Node("a", "Cast", ["x"], ["x32"]),
            Node("b", "Cast", ["x32"], ["x64"]),
            Node("c", "Cast", ["n"], ["n32"]),
            Node("d", "Cast", ["n32"], ["n8"]),
            Node("e", "Cast", ["x"], ["shown"]),
            Node("f", "Cast", ["shown"], ["shown64"]),
        ],
        ["x", "n"],
        ["x64", "n8", "shown", "shown64"],
    )
    for backend in ("cpu", "htp"):
        with Session(model, backend) as s:
            found = s.run({"x": codes, "n": np.array([-3, 0, 4])})
            assert found["x64"].tolist() == [-3, 1, 4]
            assert found["n8"].tolist() == [20, 50, 90]
            # What the client sees is the stored integers, as by the vendor's library.
            assert found["shown"].tolist() == found["shown64"].tolist() == codes.tolist()
