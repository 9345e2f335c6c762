"""Operators of the TFLite importer, each in several configurations, as one-operator models."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np

from qnnrt.importers.tflite.schema import read
from support.tflite import detection, mediapipe, sparse, spectrum, stablehlo, suppression
from support.tflite import recurrent as tflite_recurrent
from support.tflite.case import (
    BOOL,
    F32,
    I32,
    I64,
    NONE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    VALID,
    Case,
    Given,
    k,
    v,
    w,
    x,
)
from support.tflite.quantized import KINDS
from support.tflite.shape_cases import gather_cases, resize_cases, shape_cases


def conv_cases() -> Iterator[Case]:
    grid = itertools.product((SAME, VALID), (1, 2, 3), (1, 2), (1, 2, 3, 5))
    for padding, stride, dilation, kernel in grid:
        if stride > 1 and dilation > 1:
            continue
        yield Case(
            "CONV_2D",
            [x(2, 11, 13, 3), w(4, kernel, kernel, 3), w(4)],
            "Conv2DOptions",
            {
                "padding": padding,
                "strideH": stride,
                "strideW": stride,
                "dilationHFactor": dilation,
                "dilationWFactor": dilation,
            },
        )
        for multiplier in (1, 3):
            yield Case(
                "DEPTHWISE_CONV_2D",
                [x(1, 11, 13, 4), w(1, kernel, kernel, 4 * multiplier), w(4 * multiplier)],
                "DepthwiseConv2DOptions",
                {
                    "padding": padding,
                    "strideH": stride,
                    "strideW": stride,
                    "dilationHFactor": dilation,
                    "dilationWFactor": dilation,
                    "depthMultiplier": multiplier,
                },
            )
    for act in (NONE, RELU, RELU_N1_TO_1, RELU6):
        one = {"strideH": 2, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        one["fusedActivationFunction"] = act
        yield Case(
            "CONV_2D", [x(1, 8, 9, 3), w(5, 3, 2, 3, low=-5, high=5), w(5)], "Conv2DOptions", one
        )
        yield Case("CONV_2D", [x(1, 8, 9, 4), w(6, 3, 3, 2), w(6)], "Conv2DOptions", one)
        square = one | {"strideW": 2}
        yield Case(
            "DEPTHWISE_CONV_2D",
            [x(1, 8, 9, 2), w(1, 3, 2, 2, low=-5, high=5), w(2)],
            "DepthwiseConv2DOptions",
            square | {"depthMultiplier": 1},
        )
    for padding, stride in itertools.product((SAME, VALID), (1, 2)):
        yield Case(
            "CONV_3D",
            [x(1, 5, 6, 7, 2), w(3, 2, 3, 2, 4), w(4)],
            "Conv3DOptions",
            {
                "padding": padding,
                "strideD": stride,
                "strideH": stride,
                "strideW": 1,
                "dilationDFactor": 1,
                "dilationHFactor": 1,
                "dilationWFactor": 1,
            },
        )


def transpose_conv_3d_cases() -> Iterator[Case]:
    for stride, kernel, padding in itertools.product((1, 2), (1, 2, 3), (SAME, VALID)):
        size = 3 * stride if padding == SAME else 2 * stride + max(kernel, stride)
        if padding == VALID and kernel < stride:
            size = 2 * stride + kernel
        steps = {f"stride{axis}": stride for axis in "DHW"}
        spread = {f"dilation{axis}Factor": 1 for axis in "DHW"}
        shape = k([1, size, size, size, 4])
        yield Case(
            "CONV_3D_TRANSPOSE",
            [shape, w(kernel, kernel, kernel, 4, 2), x(1, 3, 3, 3, 2)],
            "Conv3DOptions",
            {"padding": padding, **steps, **spread},
        )
    apart = {"dilationDFactor": 2, "dilationHFactor": 1, "dilationWFactor": 3}
    for padding, sizes in ((SAME, [6, 6, 6]), (VALID, [7, 6, 8])):
        yield Case(
            "CONV_3D_TRANSPOSE",
            [k([1, *sizes, 4]), w(2, 2, 2, 4, 2), x(1, 3, 3, 3, 2)],
            "Conv3DOptions",
            {"padding": padding, "strideD": 2, "strideH": 2, "strideW": 2, **apart},
        )


def transpose_conv_cases() -> Iterator[Case]:
    for stride, kernel, bias in itertools.product((1, 2, 3), (1, 2, 3, 4, 5), (False, True)):
        for padding in (SAME, VALID):
            size = 4 * stride if padding == SAME else 3 * stride + max(kernel, stride)
            if padding == VALID and kernel < stride:
                size = 3 * stride + kernel
            inputs: list[Given] = [k([1, size, size, 5]), w(5, kernel, kernel, 3), x(1, 4, 4, 3)]
            yield Case(
                "TRANSPOSE_CONV",
                [*inputs, *([w(5)] if bias else [])],
                "TransposeConvOptions",
                {"padding": padding, "strideH": stride, "strideW": stride},
                version=3 if bias else 1,
            )
    # An odd size with the same number of inputs: SAME of a smaller image.
    yield Case(
        "TRANSPOSE_CONV",
        [k([1, 7, 7, 2]), w(2, 3, 3, 3), x(1, 4, 4, 3)],
        "TransposeConvOptions",
        {"padding": SAME, "strideH": 2, "strideW": 2},
    )


def pool_cases() -> Iterator[Case]:
    for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding, stride, kernel in itertools.product((SAME, VALID), (1, 2, 3), (1, 2, 3, 5)):
            yield Case(
                op,
                [x(2, 10, 7, 3)],
                "Pool2DOptions",
                {
                    "padding": padding,
                    "strideH": stride,
                    "strideW": stride,
                    "filterHeight": kernel,
                    "filterWidth": min(kernel, 4),
                },
            )
        yield Case(
            op,
            [x(1, 6, 6, 4, low=-9, high=9)],
            "Pool2DOptions",
            {
                "strideH": 2,
                "strideW": 1,
                "filterHeight": 2,
                "filterWidth": 3,
                "fusedActivationFunction": RELU6,
            },
        )


def matmul_cases() -> Iterator[Case]:
    for act, bias in itertools.product((NONE, RELU, RELU6, RELU_N1_TO_1), (False, True)):
        yield Case(
            "FULLY_CONNECTED",
            [x(3, 8), w(5, 8), w(5) if bias else None],
            "FullyConnectedOptions",
            {"fusedActivationFunction": act},
        )
    for keep, shape in itertools.product((False, True), ((8,), (2, 8), (2, 3, 8), (2, 1, 3, 8))):
        if keep and len(shape) == 1:
            continue
        yield Case(
            "FULLY_CONNECTED",
            [x(*shape), w(5, 8), w(5)],
            "FullyConnectedOptions",
            {"keepNumDims": keep},
            version=5 if keep else 1,
        )
    yield Case("FULLY_CONNECTED", [x(2, 2, 4), w(5, 8), w(5)], "FullyConnectedOptions")
    for adj_x, adj_y in itertools.product((False, True), repeat=2):
        left, right = ((4, 3) if adj_x else (3, 4)), ((5, 4) if adj_y else (4, 5))
        for a, b in (((), ()), ((2,), (2,)), ((2, 1), (1, 3)), ((3,), ())):
            yield Case(
                "BATCH_MATMUL",
                [x(*a, *left), x(*b, *right)],
                "BatchMatMulOptions",
                {"adjX": adj_x, "adjY": adj_y},
            )
        yield Case(
            "BATCH_MATMUL",
            [x(2, *left), w(*right)],
            "BatchMatMulOptions",
            {"adjX": adj_x, "adjY": adj_y},
        )
    yield Case("EMBEDDING_LOOKUP", [v([2, 0, 1, 2]), w(3, 4)])


_SHAPES = (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((5,), (1,)))


def binary_cases() -> Iterator[Case]:
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
    for op, table in options.items():
        for a, b in _SHAPES:
            low = 0.5 if op == "DIV" else -2
            yield Case(op, [x(*a), x(*b, low=low)], table)
            yield Case(op, [w(*a), x(*b, low=low)], table)
        for act in (RELU, RELU6, RELU_N1_TO_1):
            yield Case(
                op,
                [x(3, 4, low=-9, high=9), x(3, 4, low=0.5)],
                table,
                {"fusedActivationFunction": act},
            )
        ints = [x(3, 4, dtype=I32, low=-50, high=50), x(4, dtype=I32, low=1, high=7)]
        yield Case(op, ints, table, outputs=(I32,))
    floats = ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")
    for op in floats:
        for a, b in _SHAPES:
            yield Case(op, [x(*a), x(*b, low=0.5)])
        ints = [x(3, 4, dtype=I32, low=-50, high=50), x(3, 4, dtype=I32, low=1, high=7)]
        yield Case(op, ints, outputs=(I32,))
        if op in ("FLOOR_DIV", "FLOOR_MOD"):
            yield Case(op, [ints[0], x(3, 4, dtype=I32, low=-7, high=-1)], outputs=(I32,))
            yield Case(op, [x(3, 4), x(3, 4, low=-3, high=-0.5)])
    for op in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):  # without broadcasting
        yield Case(f"STABLEHLO_{op}", [x(3, 4), x(3, 4)])
        ints = [x(3, 4, dtype=I32, low=-50, high=50), x(3, 4, dtype=I32, low=1, high=7)]
        yield Case(f"STABLEHLO_{op}", ints, outputs=(I32,))
    for a, b in _SHAPES:
        yield Case("POW", [x(*a, low=0.1), x(*b)])
    yield Case("POW", [x(3, 4, low=0.1), k(2, F32)])
    yield Case("ATAN2", [x(7, 9), x(7, 9)])
    yield Case("ATAN2", [v([0, 0, 1, -1, 0], F32), v([1, -1, 0, 0, 0], F32)])
    for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        for a, b in _SHAPES:
            for kind in (F32, I32, I64):
                yield Case(
                    op,
                    [x(*a, dtype=kind, low=-1, high=1), x(*b, dtype=kind, low=-1, high=1)],
                    outputs=(BOOL,),
                )
    for op in ("LOGICAL_AND", "LOGICAL_OR"):
        for a, b in _SHAPES:
            yield Case(op, [x(*a, dtype=BOOL), x(*b, dtype=BOOL)], outputs=(BOOL,))
    pair = [x(3, 4, dtype=BOOL), x(3, 4, dtype=BOOL)]
    yield Case("STABLEHLO_AND", pair, outputs=(BOOL,))
    yield Case("STABLEHLO_AND", [x(3, 4, dtype=I32), x(3, 4, dtype=I32)], outputs=(I32,))
    for kind in (np.int8, np.uint8, I32):
        pair = [x(3, 4, dtype=kind, high=100), x(1, 4, dtype=kind, high=100)]
        yield Case("BITWISE_XOR", pair, outputs=(kind,))
    yield Case("ADD_N", [x(3, 4), x(3, 4), x(3, 4)])
    for a in ((3, 4), (2, 3, 4)):
        yield Case("SELECT", [x(*a, dtype=BOOL), x(*a), x(*a)])
        yield Case("SELECT", [x(a[0], dtype=BOOL), x(*a), x(*a)])
        yield Case("SELECT_V2", [x(*a, dtype=BOOL), x(*a), x(*a)])
        yield Case("SELECT_V2", [x(a[-1], dtype=BOOL), x(*a), x(1)])
        yield Case(
            "SELECT_V2", [x(*a, dtype=BOOL), x(*a, dtype=I32), x(*a, dtype=I32)], outputs=(I32,)
        )


def unary_cases() -> Iterator[Case]:
    for op in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIN", "SQUARE", "SIGN"):
        yield Case(op, [x(3, 17, low=-4, high=4)])
    yield Case("ROUND", [v([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], F32)])
    for op in ("LOG", "RSQRT", "SQRT"):
        yield Case(op, [x(3, 17, low=0.1, high=9)])
    for op in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC", "TANH", "HARD_SWISH"):
        yield Case(op, [x(2, 3, 17, low=-9, high=9)])
    yield Case("ELU", [x(3, 17, low=-4)])
    yield Case("ABS", [x(9, dtype=I32, low=-9, high=9)], outputs=(I32,))
    yield Case("NEG", [x(9, dtype=I32, low=-9, high=9)], outputs=(I32,))
    yield Case("LOGICAL_NOT", [x(9, dtype=BOOL)], outputs=(BOOL,))
    for alpha in (0.0, 0.01, 0.3):
        yield Case("LEAKY_RELU", [x(3, 17)], "LeakyReluOptions", {"alpha": alpha})
    yield Case("PRELU", [x(1, 4, 5, 3), w(1, 1, 3)])
    yield Case("PRELU", [x(1, 4, 5, 3), w(4, 5, 3)])
    for approximate in (False, True):
        yield Case("GELU", [x(3, 17, low=-4)], "GeluOptions", {"approximate": approximate})
    for a in ((7,), (3, 5), (2, 3, 5), (2, 2, 3, 5)):
        for beta in (1.0, 0.5):
            yield Case("SOFTMAX", [x(*a)], "SoftmaxOptions", {"beta": beta})
        yield Case("LOG_SOFTMAX", [x(*a)])
    for a in ((3, 5), (2, 3, 4, 5)):
        yield Case("L2_NORMALIZATION", [x(*a)], "L2NormOptions")
    near_zero = v([[3e-7, 0, 4e-7], [0, 0, 0]], F32)
    yield Case("L2_NORMALIZATION", [near_zero], "L2NormOptions")
    for radius, beta in ((1, 0.5), (2, 0.75), (5, 1.0)):
        yield Case(
            "LOCAL_RESPONSE_NORMALIZATION",
            [x(1, 3, 4, 9)],
            "LocalResponseNormalizationOptions",
            {"radius": radius, "bias": 1.5, "alpha": 0.3, "beta": beta},
        )
    kinds = (F32, I32, I64, BOOL, np.uint8, np.int8, np.int16, np.float16)
    for a, b in itertools.permutations(kinds, 2):
        low = 0 if b == np.uint8 else -3
        yield Case("CAST", [x(3, 5, dtype=a, low=low, high=3)], outputs=(b,))
    yield Case("ZEROS_LIKE", [x(2, 3)])
    yield Case("DEQUANTIZE", [x(2, 3, dtype=np.float16)], "DequantizeOptions", version=3)
    yield Case("DEQUANTIZE", [w(2, 3, dtype=np.float16)], "DequantizeOptions", version=3)
    bounds = {"boundaries": [-1.0, 0.0, 0.5]}
    yield Case("BUCKETIZE", [x(3, 9)], "BucketizeOptions", bounds, outputs=(I32,))
    for bits, low in itertools.product((4, 8), (-1.1, 0.0)):
        fields = {"min": low, "max": 1.7, "numBits": bits}
        yield Case("FAKE_QUANT", [x(3, 31)], "FakeQuantOptions", fields)


def reduce_cases() -> Iterator[Case]:
    for op in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for axes in ([0], [-1], [1, 2], [0, 1, 2, 3], [2, 0]):
            for keep in (False, True):
                yield Case(op, [x(2, 3, 4, 5), k(axes)], "ReducerOptions", {"keepDims": keep})
    for op in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        ints = [x(3, 4, dtype=I32, low=-3, high=3), k([1])]
        yield Case(op, ints, "ReducerOptions", outputs=(I32,))
    for op in ("REDUCE_ANY", "REDUCE_ALL"):
        for axes in ([0], [1, 2], [0, 1, 2]):
            yield Case(op, [x(2, 3, 2, dtype=BOOL), k(axes)], "ReducerOptions", outputs=(BOOL,))
    for op, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        for axis, kind in itertools.product((0, 1, -1), (I32, I64)):
            code = {"outputType": 2 if kind is I32 else 4}
            yield Case(op, [x(3, 4, 5), k([axis])], table, code, outputs=(kind,))
        yield Case(op, [x(7), k([0])], table, {"outputType": 2}, outputs=(I32,))
        yield Case(op, [x(3, 7, dtype=BOOL), k([1])], table, {"outputType": 2}, outputs=(I32,))
    for axis, exclusive, reverse in itertools.product((0, 1, -1), (False, True), (False, True)):
        fields = {"exclusive": exclusive, "reverse": reverse}
        yield Case("CUMSUM", [x(3, 4, 5), k(axis)], "CumsumOptions", fields)
    for count in (1, 3, 7):
        yield Case("TOPK_V2", [x(2, 3, 7), k(count)], outputs=(F32, I32))


def cases() -> list[Case]:
    """All of them, with a label each."""
    found: list[Case] = []
    for group in (
        conv_cases,
        transpose_conv_cases,
        transpose_conv_3d_cases,
        pool_cases,
        matmul_cases,
        binary_cases,
        unary_cases,
        reduce_cases,
        shape_cases,
        gather_cases,
        resize_cases,
    ):
        found += group()
    counts: dict[str, int] = {}
    for case in found:
        counts[case.op] = counts.get(case.op, 0) + 1
        case.label = str(counts[case.op])
    return found


def tried() -> Counter[str]:
    """Operator -> how many one-operator models the tests have of it."""
    found = Counter(case.op for case in cases())
    for data in (tflite_recurrent.STATEFUL | tflite_recurrent.FILTERS).values():
        found[read(data).subgraphs[0].operators[0].op] += 1
    found["QUANTIZE"] += len(KINDS) * (1 + len(KINDS))  # from floats and from each other
    found["DEQUANTIZE"] += len(KINDS)
    found[detection.NAME] += len(detection.FORMS)
    found["DENSIFY"] += len(sparse.FORMS)
    for made in (mediapipe, stablehlo, suppression):
        found.update(made.COUNTS)
    found["RFFT2D"] += len(spectrum.FORMS) * len(spectrum.READERS)
    for reader in spectrum.READERS:
        found[reader] += len(spectrum.FORMS)
    return found
