"""Operations on single elements give on OpenCL devices what the cpu backend gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu.ops.broadcast import element_index, magic
from qnnrt.gpu.ops.formulas import literal
from qnnrt.model import Quantization
from support.gpu.cases import against_cpu, launches, normal, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case, case
from support.toy import add_model

pytestmark = [
    pytest.mark.foreign,  # OpenCL drivers are
    pytest.mark.filterwarnings("ignore:overflow encountered in cast"),  # to 16-bit floats
]

ARITHMETIC = ("Add", "Subtract", "Multiply", "Divide", "FloorDiv", "Mod", "Maximum", "Minimum",
              "Power", "SquaredDifference")  # fmt: skip
COMPARE = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
LOGIC = ("And", "Or", "Xor", "Equal", "NotEqual")
UNARY = ("Abs", "Asin", "Atan", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Round", "Rsqrt",
         "Sign", "Sin", "SquareRoot")  # fmt: skip
FMOD, RECIPROCAL = 5, 10
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: Of floats: ends of their range, what rounds, what is no number.
EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.0, 6.0, 1e-30, 1e30, -1e30, 88.0, -87.0, np.inf,
         -np.inf, np.nan]  # fmt: skip
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((5,), ()),
    ((), (2, 4)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (2, 1, 1)),
    ((3,), (5, 7, 3)),
    ((10, 17), (10, 1)),
    ((2, 3, 4, 8), (3, 1, 1)),
    ((2, 3, 5), (3, 1)),
    ((2, 1, 4, 1), (1, 3, 1, 5)),
    ((2, 3, 1, 2, 1, 3, 1, 2), (1, 3, 2, 1, 2, 1, 2, 2)),
    ((7, 100), (7, 100)),
]


def binary(op: str, a: np.ndarray, b: np.ndarray, **more: Any) -> Case:
    return case(op, [a, b], [np.broadcast_shapes(a.shape, b.shape)], **more)


def pairs(values: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Every value with every other one."""
    a, b = np.meshgrid(values, values)
    return a.astype(np.float32).ravel(), b.astype(np.float32).ravel()


@pytest.mark.slow
def test_operands_are_broadcast() -> None:
    cases = []
    for i, (a, b) in enumerate(SHAPES):
        x, y = normal(*a, seed=i), normal(*b, seed=i + 100)
        cases += [binary("ElementWiseSubtract", x, y), binary("ElementWiseSubtract", y, x)]
    against_cpu(*cases, rtol=0)


@pytest.mark.slow
def test_the_place_of_an_operand_is_found_without_division() -> None:
    numbers = np.append(np.arange(0, 2**31, 999_983, np.uint64), np.uint64(2**31 - 1))
    for divisor in (1, 2, 3, 7, 96, 1000, 65537, 2**31 - 1):
        factor, shift = magic(divisor)
        high = numbers * np.uint64(factor % 2**32) >> np.uint64(32)
        np.testing.assert_array_equal(high + numbers >> np.uint64(shift), numbers // divisor)
    # neighbours that lie together are read as a vector
    for a, out, together in [
        ((8,), (3, 8), "vector"),
        ((3, 1), (3, 8), "same"),
        ((6,), (2, 6), "apart"),
        ((3, 1), (3, 6), "apart"),
        ((2, 1, 4), (2, 3, 4), "vector"),
    ]:
        assert element_index(a, out).together == together
    # shapes are arguments: of the same kind of broadcast they share kernels
    assert element_index((8,), (3, 8)).body == element_index((16,), (5, 16)).body
    assert element_index((8,), (3, 8)).args != element_index((16,), (3, 16)).args


@pytest.mark.slow
def test_arithmetic_on_floats() -> None:
    x, y = normal(3, 40), normal(3, 40, seed=1)
    y = np.where(np.abs(y) < 0.25, np.float32(0.25), y)
    cases = []
    for op in ARITHMETIC:
        a = np.abs(x) if op == "Power" else x
        cases.append(binary(f"ElementWise{op}", a, y))
        cases.append(binary(f"ElementWise{op}", a.astype("f2"), y.astype("f2")))
    cases.append(case("ElementWiseBinary", [x, y], [x.shape], {"operation": FMOD}))
    cases.append(binary("Prelu", x, normal(40, seed=2), static=(1,)))
    against_cpu(*cases)


@pytest.mark.slow
def test_arithmetic_on_what_is_no_number() -> None:
    a, b = pairs(EDGES)
    names = [op for op in ARITHMETIC if op not in ("Power", "FloorDiv", "Mod")]
    against_cpu(*(binary(f"ElementWise{op}", a, b) for op in names))
    # whole numbers: quotients that a device may miss by a unit of the last place
    a, b = pairs([*range(-9, 10), 100, 255, 1000])
    against_cpu(*(binary(f"ElementWise{op}", a, b) for op in ("FloorDiv", "Mod")), rtol=0)


def integers(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every one of a few, the ends among them, with every other one."""
    ends = np.iinfo(dtype)
    few = np.array([ends.min, ends.max, 0, 1, 2, 7, 100, ends.max // 3], dtype)
    few = np.append(few, -few) if dtype[0] == "i" else few
    a, b = (v.ravel() for v in np.meshgrid(few, few))
    return a, b


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_arithmetic_on_integers(dtype: str) -> None:
    a, b = integers(dtype)
    cases = [binary(f"ElementWise{op}", a, b) for op in ARITHMETIC]
    cases.append(case("ElementWiseBinary", [a, b], [a.shape], {"operation": FMOD}))
    if dtype in ("int8", "int64"):
        cases += [case(f"ElementWise{op}", [a], [a.shape]) for op in ("Abs", "Neg", "Sign")]
        cases.append(case("Relu", [a], [a.shape]))
    against_cpu(*cases)


@pytest.mark.slow
def test_integers_of_every_width() -> None:
    cases = []
    for dtype in INTEGERS:
        a, b = integers(dtype)
        cases += [
            binary(f"ElementWise{op}", a, b) for op in ("Multiply", "FloorDiv", "And", "Or", "Xor")
        ]
        if dtype in ("int32", "uint64"):
            cases += [binary(f"ElementWise{op}", a, b, dtype=bool) for op in COMPARE]
    against_cpu(*cases)


@pytest.mark.slow
def test_comparisons_and_logic() -> None:
    a, b = pairs(EDGES)
    p, q = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    against_cpu(
        *(binary(f"ElementWise{op}", a, b, dtype=bool) for op in COMPARE),
        *(binary(f"ElementWise{op}", p, q, dtype=bool) for op in LOGIC),
        binary("ElementWiseLess", a.astype("f2"), b.astype("f2"), dtype=bool),
        case("ElementWiseNot", [p], [p.shape]),
        case("IsNan", [a], [a.shape], dtype=bool),
        case("IsInf", [a], [a.shape], dtype=bool),
        case("IsInf", [a], [a.shape], {"detect_negative": False}, dtype=bool),
        case("IsInf", [a], [a.shape], {"detect_positive": False}, dtype=bool),
    )


@pytest.mark.slow
def test_functions_of_one_float() -> None:
    x = np.append(np.linspace(-9, 9, 183), EDGES).astype(np.float32)
    one = np.clip(x, -1, 1)
    cases = [case(f"ElementWise{op}", [one if op == "Asin" else x], [x.shape]) for op in UNARY]
    cases.append(case("ElementWiseUnary", [x], [x.shape], {"operation": RECIPROCAL}))
    cases.append(case("Logit", [np.abs(one)], [x.shape]))
    cases.append(case("ElementWiseExp", [x.astype("f2")], [x.shape]))
    against_cpu(*cases)


@pytest.mark.slow
def test_activations() -> None:
    x = np.append(np.linspace(-9, 9, 183), [*EDGES, 100, -100]).astype(np.float32)
    given: list[tuple[str, dict[str, Any]]] = [
        ("Relu", {}),
        ("Relu1", {}),
        ("Relu6", {}),
        ("ReluMinMax", {"min_value": -2.5, "max_value": 3.0}),
        ("Elu", {"alpha": 0.5}),
        ("Gelu", {}),
        ("HardSwish", {}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        *(("ElementWiseNeuron", {"operation": n}) for n in range(9)),
        ("ElementWiseNeuron", {"operation": 2, "alpha": 0.25, "beta": 0.75}),
        ("ElementWiseNeuron", {"operation": 5, "max_value": 1.0}),
        ("ElementWiseNeuron", {"operation": 7, "beta": 2.0, "threshold": 3.0}),
    ]
    cases = [case(op, [x], [x.shape], params) for op, params in given]
    # the cpu's Softplus and Elu round elsewhere where they are nearly 0
    against_cpu(*cases, atol=1e-7)
    half = x[np.abs(x) < 60000].astype("f2")
    against_cpu(*(case(op, [half], [half.shape], {}) for op in ("Relu6", "Gelu")), atol=1e-4)


@pytest.mark.slow
def test_selection() -> None:
    c = normal(4, 1, 6) > 0
    cases = []
    for dtype in ("float32", "float16", "float64", "int64", "uint8", "bool"):
        a, b = (normal(3, 6, seed=n) * 9 for n in (1, 2))
        a, b = a.astype(dtype), b.astype(dtype)
        cases.append(case("ElementWiseSelect", [c, a, b], [(4, 3, 6)], dtype=a.dtype))
    against_cpu(*cases)


FROM_TO = [
    *(("float32", t) for t in ("float16", "bool", *INTEGERS)),
    *((t, "float32") for t in ("float16", "bool", *INTEGERS)),
    ("int64", "int32"), ("int32", "int64"), ("int32", "int8"), ("uint8", "int64"),
    ("int8", "uint16"), ("bool", "int64"), ("int64", "bool"), ("int32", "float16"),
    ("float16", "int32"), ("float16", "float16"),
]  # fmt: skip


def sample(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([0, 1, 1, 0], bool)
    if dtype[0] == "f":
        return np.array([0, 0.4, -0.6, 7.9, -8.5, 300, -40000, 1e10, np.nan, np.inf, -np.inf, 1],
                        dtype)  # fmt: skip
    ends = np.iinfo(dtype)
    return np.array([0, 1, 100, ends.max, ends.min, ends.max // 2, ends.min // 3, 17], dtype)


@pytest.mark.slow
def test_casts() -> None:
    cases = []
    for x, y in FROM_TO:
        given = sample(x)
        cases.append(case("Cast", [given], [given.shape], dtype=y))
    against_cpu(*cases)


@pytest.mark.slow
def test_casts_of_64_bit_floats(one_backend: qnnrt.qnn.Backend) -> None:  # noqa: F811
    given = sample("float64")
    cases = [case("Cast", [given], [given.shape], dtype=y) for y in ("float32", "int32", "bool")]
    cases.append(case("Cast", [sample("float32")], [(12,)], dtype="float64"))
    if one_backend.library.device.raw.double_fp_config:
        against_cpu(*cases)
        return
    with pytest.raises(qnnrt.UnsupportedOpError, match="is float64, which"):
        against_cpu(cases[0])


@pytest.mark.slow
def test_quantization() -> None:
    x = np.append(np.linspace(-4, 4, 121), [1e9, -1e9, np.nan]).astype(np.float32)
    u8, s8 = Quantization(0.03, -128), Quantization(0.02, 5)
    s16, u4 = Quantization(0.001, 0), Quantization(0.5, -8, bitwidth=4)
    cases = []
    for dtype, q in (("uint8", u8), ("int8", s8), ("int16", s16), ("uint8", u4)):
        code = np.arange(-8 if dtype[0] == "i" else 0, 8).astype(dtype)
        cases.append(case("Quantize", [x], [x.shape], dtype=dtype, encodings={"out0": q}))
        cases.append(case("Convert", [x.astype("f2")], [x.shape], dtype=dtype,
                          encodings={"out0": q}))  # fmt: skip
        cases.append(case("Dequantize", [code], [code.shape], dtype="float32",
                          encodings={"in0": q}))  # fmt: skip
        cases.append(case("Convert", [code], [code.shape], dtype="uint8",
                          encodings={"in0": q, "out0": u8}))  # fmt: skip
    with np.errstate(invalid="ignore"):
        against_cpu(*cases)


def test_a_model_with_two_outputs() -> None:
    against_cpu(add_model())
    assert launches(add_model()) == 1


def test_equal_operations_share_a_kernel(one_backend: qnnrt.qnn.Backend) -> None:  # noqa: F811
    from qnnrt.gpu import ir
    from qnnrt.gpu.ops import table
    from qnnrt.gpu.programs import source
    from qnnrt.gpu.target import Target

    target = Target(one_backend.library.device)
    f32 = np.dtype(np.float32)

    def value(n: int, shape: tuple[int, ...]) -> ir.Value:
        return ir.Value(f"v{n}", n, shape, f32, 0x0232, "native")

    made = []
    for shape in ((3, 8), (5, 16), (2, 4)):
        ins = [value(0, shape), value(1, shape[1:])]
        node = ir.Node("n", "ElementWiseAdd", ins, [value(2, shape)], {})
        made += table()["ElementWiseAdd"](node, target)
    assert len({source(launch) for launch in made}) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (case("ElementWiseAdd", [np.zeros(2), np.zeros(2)], [(2,)]), "of Add for float64|float64"),
    ],
)
def test_types_without_a_kernel_are_refused_by_name(given: Case, message: str) -> None:
    with pytest.raises(qnnrt.UnsupportedOpError, match=message):
        qnnrt.Session(given.model, "gpu")


def test_numbers_in_kernels_are_exact() -> None:
    given = {0.1: "0.1f", 3: "3.0f", -2.5: "(-2.5f)", 1e-9: "1e-09f", np.inf: "INFINITY"}
    for number, text in given.items():
        assert literal(number) == text
    assert literal(np.nan) == "NAN"
    assert literal(-np.inf) == "(-INFINITY)"
