"""Elementwise ops, select and batchnorm on fixed-point tensors: float results, encoded."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from support import reference
from support.fixed import (
    S8,
    S16,
    S32,
    TYPES,
    U8,
    U16,
    Fixed,
    run_fixed,
    via_float,
    within,
)
from support.one_node import graph_options
from support.outside import printed
from support.reference.elementwise import ARITHMETIC, COMPARE, NUMBER, UNARY, UNARY_OPS

UNARY_CASES: list[tuple[str, dict[str, Any]]] = [
    *((f"ElementWise{name}", {}) for name in UNARY_OPS),
    *(
        (name, {})
        for name in ["Gelu", "HardSwish", "Logit", "Relu", "Relu1", "Relu6", "Sigmoid", "Tanh"]
    ),
    ("Elu", {"alpha": 0.7}),
    ("ReluMinMax", {"min_value": -0.31, "max_value": 1.7}),
    *(("ElementWiseNeuron", {"operation": n}) for n in range(9) if n != 5),
    ("ElementWiseNeuron", {"operation": 5, "min_value": -0.2, "max_value": 0.9}),
    *(("ElementWiseUnary", {"operation": n}) for n, name in enumerate(UNARY) if name != "Not"),
]


def names(case: Any) -> str | None:
    if isinstance(case, Fixed):
        return str(case.dtype)
    return "-".join(map(str, case.values())) if isinstance(case, dict) else None


def check(
    op: str,
    inputs: list[Any],
    outputs: list[Any],
    params: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """A node gives what the float op gives."""
    with np.errstate(all="ignore"):
        expected = via_float(op, inputs, outputs, params, **options)
    got = run_fixed(op, inputs, outputs, params, **options)
    for mine, right in zip(got, expected, strict=True):
        within(mine, right)


def every_pair(a: Fixed, b: Fixed, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of 8-bit codes, or as many of wider ones."""
    n = 65536
    if a.codes().size == 256 and b.codes().size == 256:
        x, y = np.meshgrid(a.codes(), b.codes())
        return x.ravel(), y.ravel()
    return a.random(rng, (n,)), b.random(rng, (n,))


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [(U8, U8, U8), (S8, U8, S8), (U8, S16, U16), (S16, U16, S16), (U16, S8, U8)],
    ids=names,
)
def test_binary(op: str, a: Fixed, b: Fixed, out: Fixed) -> None:
    x, y = every_pair(a, b, np.random.default_rng(1))
    params = {"operation": NUMBER[op]}
    check("ElementWiseBinary", [(x, a), (y, b)], [(x.shape, out)], params)
    if op != "Fmod":
        check("ElementWise" + op, [(x, a), (y, b)], [(x.shape, out)])


@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize("of", TYPES, ids=names)
def test_compare(op: str, of: Fixed) -> None:
    x, y = every_pair(of, of, np.random.default_rng(2))
    [got] = run_fixed("ElementWise" + op, [(x, of), (y, of)], [(x.shape, np.bool_)])
    np.testing.assert_array_equal(got, reference.of("ElementWise" + op, [x, y]))
    for other in (U8, S16):
        y = other.random(np.random.default_rng(3), x.shape)
        check("ElementWise" + op, [(x, of), (y, other)], [(x.shape, np.bool_)])
        params = {"operation": NUMBER[op]}
        check("ElementWiseBinary", [(x, of), (y, other)], [(x.shape, np.bool_)], params)


def test_compare_tells_neighbours_of_32_bits_apart() -> None:
    x = np.int32([2**30, 2**30 + 1, -(2**31), 5])
    y = np.int32([2**30 + 1, 2**30 + 1, 2**31 - 1, 4])
    [got] = run_fixed("ElementWiseLess", [(x, S32), (y, S32)], [((4,), np.bool_)])
    np.testing.assert_array_equal(got, x < y)


SHAPES = [
    ((1,), (1,)),
    ((3, 5, 7), (3, 5, 7)),
    ((2, 3, 1025), (1,)),
    ((1, 1), (4, 1023)),
    ((3, 37, 3), (3,)),
    ((5,), (700, 5)),
    ((3, 1500), (1500,)),
    ((4, 1, 33), (1, 9, 33)),
    ((4, 6, 1), (4, 1, 50)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((257, 129), (257, 1)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("op", ["ElementWiseSubtract", "ElementWiseGreater", "ElementWiseMaximum"])
def test_broadcast(op: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    shape = np.broadcast_shapes(left, right)
    out: Any = np.bool_ if op == "ElementWiseGreater" else U16
    for a, b in ((U8, U8), (U8, S16), (S16, S8)):
        x, y = a.random(rng, left), b.random(rng, right)
        check(op, [(x, a), (y, b)], [(shape, out)])
        check(op, [(x, a), (y, b)], [(shape, out)], static=(1,), threads=1)


def random_encodings(seed: int) -> list[Fixed]:
    """Of two numbers and a result: ties in great numbers, saturation, sums that nothing
    survives, and scales of one size as in networks."""
    rng = np.random.default_rng(seed)
    ratios = ([1.0, 1.0, 2.0], [0.5, 0.25, 1.0], [1.0, 1.0, 1e-7], [1e-6, 1e5, 1.0])
    scales = ratios[seed // 2] if seed < 8 else np.exp(rng.normal(0, 2, 3))
    if 8 <= seed < 24:
        scales = np.exp(rng.normal(0, 0.3, 3))
    name = ("uint8", "int8")[seed % 2]
    low = np.iinfo(name).min
    return [Fixed(name, np.float32(s), -int(rng.integers(256)) - low) for s in scales]


@pytest.mark.parametrize("seed", range(40))
def test_every_pair_of_8_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, out = random_encodings(seed)
    x, y = every_pair(a, b, rng)
    for op in ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"):
        check(op, [(x[:-7], a), (y[:-7], b)], [((x.size - 7,), out)])


@pytest.mark.parametrize("of", TYPES, ids=names)
@pytest.mark.parametrize("channels", [3, 64, 129, 1030])
def test_rows(of: Fixed, channels: int) -> None:
    """One value for each channel, before and behind the operator."""
    rng = np.random.default_rng(channels)
    x = of.random(rng, (2, 35, channels))
    other = Fixed(of.dtype, of.scale * 1.37, of.offset)
    for row_type in (of, other, U8, S32):
        row = row_type.random(rng, (channels,))
        for op in ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"):
            check(op, [(x, of), (row, row_type)], [(x.shape, other)])
            check(op, [(row, row_type), (x, of)], [(x.shape, of)], static=(0,))


def all_codes(of: Fixed, channels: int) -> np.ndarray:
    """Every code in every channel."""
    return np.ascontiguousarray(np.broadcast_to(of.codes()[:, None], (256, channels)))


@pytest.mark.parametrize("seed", range(24))
def test_constant_rows(seed: int) -> None:
    """What is tried out on all codes of a channel when the graph is finalized."""
    rng = np.random.default_rng(seed)
    of, out, row_type = random_encodings(seed)
    channels = int(rng.choice([1, 3, 64, 67, 200, 1030]))
    x = (all_codes(of, channels), of)
    for row_of in (row_type, Fixed("int32", row_type.scale / 9e6, 0)):
        codes = row_type.random(rng, (channels,)).astype(np.int64)
        if row_of.dtype == np.int32:
            codes = (codes + row_type.offset) * 9_000_000 + rng.integers(-(10**6), 10**6, channels)
        row = (codes.astype(row_of.dtype), row_of)
        for op in ("Add", "Subtract", "Multiply", "Divide"):
            check(f"ElementWise{op}", [x, row], [(x[0].shape, out)], static=(1,))
            check(f"ElementWise{op}", [row, x], [(x[0].shape, out)], static=(0,))
        check("Batchnorm", [x, row, row], [(x[0].shape, out)], static=(1, 2))


@pytest.mark.parametrize("op", ["Add", "Subtract", "Multiply", "Divide"])
@pytest.mark.parametrize("shape", [(3, 8), (1, 3, 8), (3, 1, 8), (8, 1), (1, 3, 1)])
def test_constants_of_several_dims(op: str, shape: tuple[int, ...]) -> None:
    """Not one for each channel, also where they are as a row to what they are combined with."""
    rng = np.random.default_rng(len(shape))
    x, constants = (U8.random(rng, (64, 3, 8)), U8), (U8.random(rng, shape), U8)
    if shape == (8, 1):
        x = (U8.random(rng, (64, 8, 1)), U8)
    if shape == (3, 1, 8):
        x = (U8.random(rng, (64, 3, 4, 8)), U8)
    out = [(x[0].shape, Fixed("uint8", 0.05, -120))]
    check(f"ElementWise{op}", [x, constants], out, static=(1,))
    check(f"ElementWise{op}", [constants, x], out, static=(0,))


@pytest.mark.parametrize("op", ["ElementWiseMultiply", "Batchnorm"])
@pytest.mark.parametrize("channels", [67, 1500])
def test_constant_rows_on_two_threads(op: str, channels: int) -> None:
    """A thread starts at any channel."""
    rng = np.random.default_rng(channels)
    x = U8.random(rng, (300_001 // channels, channels))
    row = (U8.random(rng, (channels,)), U8)
    check(op, [(x, U8), row], [(x.shape, U8)], static=(1,), threads=2)


@pytest.mark.parametrize("op", ["ElementWiseMaximum", "ElementWiseMinimum"])
@pytest.mark.parametrize("of", TYPES, ids=names)
def test_one_encoding_picks_integers(op: str, of: Fixed) -> None:
    x, y = every_pair(of, of, np.random.default_rng(4))
    [got] = run_fixed(op, [(x, of), (y, of)], [(x.shape, of)])
    within(got, np.maximum(x, y) if op.endswith("Maximum") else np.minimum(x, y))


@pytest.mark.parametrize("shape", [(1,), (5, 6), (2, 7, 19)])
def test_prelu(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    for of, slopes in ((U8, S8), (S16, U16), (S8, S8)):
        x, slope = of.random(rng, shape), slopes.random(rng, shape[-1:])
        check("Prelu", [(x, of), (slope, slopes)], [(shape, of)])
        check("Prelu", [(x, of), (slope, slopes)], [(shape, U8)], static=(1,))


@pytest.mark.parametrize(("op", "params"), UNARY_CASES, ids=names)
def test_unary_all_codes(op: str, params: dict[str, Any]) -> None:
    for of, out in product((U8, S8), (U8, S8, U16, S16)):
        x = np.concatenate([of.codes(), of.codes()[::-1][:77]])
        check(op, [(x, of)], [(x.shape, out)], params)
    for of, out in ((U16, S16), (S16, S16), (U16, U8)):
        x = of.codes()[: 65536 - 13]
        check(op, [(x, of)], [(x.shape, out)], params)


@pytest.mark.parametrize("op", ["Relu", "Relu6", "Relu1"])
@pytest.mark.parametrize("of", TYPES, ids=names)
def test_limits_with_one_encoding(op: str, of: Fixed) -> None:
    x = of.random(np.random.default_rng(6), (40009,))
    low, high = {"Relu": (0, np.inf), "Relu6": (0, 6), "Relu1": (-1, 1)}[op]
    [got] = run_fixed(op, [(x, of)], [(x.shape, of)])
    within(got, of.quantize(np.clip(of.dequantize(x), low, high)))


def test_nan_and_infinity_are_no_fixed_point_numbers() -> None:
    for op, of in product(("IsNan", "IsInf"), (U8, S16)):
        x = of.random(np.random.default_rng(0), (3000,))
        [got] = run_fixed(op, [(x, of)], [(x.shape, np.bool_)])
        assert not got.any()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 129, 1000, 140001])
def test_tables_of_any_length(count: int) -> None:
    for of, out in ((U8, S8), (S8, U16)):
        x = of.random(np.random.default_rng(count), (count,))
        check("Tanh", [(x, of)], [(x.shape, out)])


def test_along_an_axis() -> None:
    rng = np.random.default_rng(5)
    shape = (3, 5, 11)
    for axis in range(3):
        n = shape[axis]
        scale = rng.uniform(0.01, 0.05, n).astype(np.float32)
        of = Fixed("int8", scale, rng.integers(-9, 9, n), axis)
        x, y = of.random(rng, shape), U8.random(rng, shape)
        check("ElementWiseAdd", [(x, of), (y, U8)], [(shape, S16)])
        check("ElementWiseMaximum", [(x, of), (x[::-1].copy(), of)], [(shape, of)])
        check("Sigmoid", [(x, of)], [(shape, U8)])
        check("Sigmoid", [(y, U8)], [(shape, of)])


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_select(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(9)
    shape = np.broadcast_shapes(left, right)
    for condition in (left, right, shape, (1,)):
        truth = rng.random(condition) < 0.4
        for a, b, out in ((U8, S8, U8), (S16, U8, U16), (U8, U8, U8)):
            x, y = a.random(rng, left), b.random(rng, right)
            check("ElementWiseSelect", [truth, (x, a), (y, b)], [(shape, out)])


@pytest.mark.parametrize("channels", [1, 3, 64, 1000, 1025])
def test_batchnorm(channels: int) -> None:
    rng = np.random.default_rng(channels)
    shape = (2, 9, channels)
    weight = rng.normal(1, 0.5, channels).astype(np.float32)
    bias = rng.normal(0, 0.5, channels).astype(np.float32)
    w8, b32 = Fixed.covering("uint8", -1, 3), Fixed("int32", 1e-6, 0)
    for of, out in ((U8, U8), (S16, U16), (U16, S8)):
        x = (of.random(rng, shape), of)
        fixed = [(w8.quantize(weight), w8), (b32.quantize(bias), b32)]
        for static in ((1, 2), ()):
            check("Batchnorm", [x, *fixed], [(shape, out)], static=static)
        check("Batchnorm", [x, fixed[0]], [(shape, out)])


def test_a_result_is_never_written_over_elements_of_another_size() -> None:
    """A row of floats has as many bytes as four rows of truth values: it must outlive them."""
    n = 4000
    rng = np.random.default_rng(11)
    x, y = (rng.normal(0, 1, (rows, n)).astype(np.float32) for rows in (1, 4))
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g", custom=graph_options("portable", 1))
        a = graph.add_tensor("a", (1, n), "float32", type="app_write")
        b = graph.add_tensor("b", (4, n), "float32", type="app_write")
        row = graph.add_tensor("row", (1, n), "float32")
        less = graph.add_tensor("less", (4, n), "bool")
        out = graph.add_tensor("out", (4, n), "bool", type="app_read")
        graph.add_node("0", "ElementWiseNeg", [a], [row])
        graph.add_node("1", "ElementWiseLess", [b, row], [less])
        graph.add_node("2", "ElementWiseNot", [less], [out])
        graph.finalize()
        got = np.zeros((4, n), np.bool_)
        graph.execute([x, y], [got])
    np.testing.assert_array_equal(got, y >= -x)


def digest() -> str:
    """Of what the kernels with loops of their own give."""
    rng = np.random.default_rng(12)
    seen = hashlib.sha256()
    for a, b in product((U8, S8, U16, S16), (U8, U16)):
        x, y = (a.random(rng, (3001,)), a), (b.random(rng, (3001,)), b)
        one = (b.random(rng, (1,)), b)
        for op, inputs in (
            ("Convert", [x]),
            ("Relu", [x]),
            ("ElementWiseAdd", [x, y]),
            ("ElementWiseAdd", [x, x]),
            ("ElementWiseSubtract", [x, one]),
            ("ElementWiseMultiply", [x, x]),
            ("ElementWiseDivide", [x, y]),
        ):
            for out in (a, b):
                seen.update(run_fixed(op, inputs, [((3001,), out)])[0].tobytes())
        real = rng.normal(0, 3, 3001).astype(np.float32)
        seen.update(run_fixed("Quantize", [real], [((3001,), a)])[0].tobytes())
        seen.update(run_fixed("Dequantize", [x], [((3001,), np.float32)])[0].tobytes())
    for seed in range(40):
        a, b, out = random_encodings(seed)
        codes = every_pair(a, b, rng)
        pairs = list(zip(codes, (a, b), strict=True))
        for op in ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"):
            seen.update(run_fixed(op, pairs, [((65536,), out)])[0].tobytes())
        x, row = (all_codes(a, 64), a), (b.random(rng, (64,)), b)
        for op, static in (("ElementWiseSubtract", [x, row]), ("Batchnorm", [x, row, row])):
            seen.update(run_fixed(op, static, [((256, 64), out)], static=(1, 2))[0].tobytes())
    return seen.hexdigest()


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_every_instruction_set_gives_the_same_integers(isa: str) -> None:
    """On a machine that has only the named one there is nothing to tell apart."""
    code = "from fixed import test_fixed_elementwise as t; print(t.digest())"
    assert printed(code, QNNRT_ISA=isa).strip() == digest()
