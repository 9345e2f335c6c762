"""A power of fixed-point numbers, whose exponent may be a plain number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt import dequantize, quantize
from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support.htp.process import run_cases
from support.htp.sweep import DEVICE
from support.one_node import KERNELS, Case, case, run_op
from support.vendor import vendor_library

STEPS = {
    np.dtype(np.uint8): (Quantization(1 / 64, -3), Quantization(1 / 32, 0)),
    np.dtype(np.uint16): (Quantization(1 / 16384, -9), Quantization(1 / 8192, 0)),
}
#: Of the base and of the exponent: one value, one for each channel, all, and one that repeats.
SHAPES = [((2, 24, 24), (1,)), ((4, 8, 48), (48,)), ((3, 5), (3, 5)), ((4, 3, 7), (4, 1, 1))]


def power(dtype: Any, exponent: Any, shapes: Any, **more: Any) -> tuple[list[Any], dict[str, Any]]:
    rng = np.random.default_rng(8)
    x = rng.integers(3, np.iinfo(dtype).max, shapes[0], dtype, endpoint=True)
    y = rng.choice([0, 1, 2, 3], shapes[1]).astype(exponent)
    if np.issubdtype(exponent, np.floating):
        y /= 2
    base, result = STEPS[np.dtype(dtype)]
    more["encodings"] = {"in0": base, "out0": result}
    return ["ElementWisePower", [x, y], [shapes[0]]], more


def expected(inputs: list[np.ndarray]) -> np.ndarray:
    base, result = STEPS[inputs[0].dtype]
    real = dequantize(inputs[0], base) ** inputs[1].astype(np.float32)
    return quantize(real, result, inputs[0].dtype)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("static", [(), (1,)], ids=["exponent-input", "exponent-constant"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("exponent", [np.float32, np.int32])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_exponent_is_a_plain_number(dtype, exponent, shapes, static, kernels) -> None:
    args, more = power(dtype, exponent, shapes, static=static, kernels=kernels)
    (got,) = run_op(*args, **more)
    wanted = expected(args[1])
    np.testing.assert_allclose(got.astype(int), wanted.astype(int), atol=1)
    assert len(np.unique(wanted)) > 8


def test_it_is_one_table_with_what_follows() -> None:
    args, more = power(np.uint8, np.float32, SHAPES[0], static=(1,))
    more["encodings"]["then0"] = more["encodings"]["out0"]
    (got,) = run_op(*args, then=[("Relu", {})], **more)
    np.testing.assert_allclose(got.astype(int), expected(args[1]).astype(int), atol=1)


@pytest.mark.parametrize(
    ("x", "y", "result", "encoded", "text"),
    [
        (np.uint8, np.float16, np.uint8, "in0 out0", "input 1 'in1' has type FLOAT_16"),
        (np.uint8, np.int16, np.uint8, "in0 out0", "input 1 'in1' has type INT_16"),
        (np.uint8, np.float32, np.float32, "in0", "output 0 'out0' has type FLOAT_32"),
        (np.float32, np.int32, np.float32, "", "in1.*type INT_32; it must be FLOAT_32"),
        (np.float32, np.uint8, np.float32, "in1", "in1.*it must be FLOAT_32"),
    ],
)
def test_other_types_are_refused(x, y, result, encoded, text) -> None:
    encodings = dict.fromkeys(encoded.split(), Quantization(0.5, 0))
    inputs = [np.ones((2, 2), x), np.ones(2, y)]
    with pytest.raises(QnnError, match=text):
        run_op("ElementWisePower", inputs, [(2, 2)], dtype=result, encodings=encodings)


@pytest.mark.foreign
def test_the_simulator_computes_the_same() -> None:
    cases: list[Case] = []
    for dtype in STEPS:
        for exponent in (np.float32, np.int32):
            for static in ((), (1,)):
                args, more = power(dtype, exponent, SHAPES[3], static=static)
                cases.append(case(*args, **more))
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    ours = run_cases("htp", cases)
    assert {o.stage for o in (*theirs, *ours)} == {"ran"}
    for a, b, c in zip(theirs, ours, cases, strict=True):
        steps = 1 if a.outputs[0].dtype == np.uint8 else 16
        difference = a.outputs[0].astype(int) - b.outputs[0].astype(int)
        assert abs(difference).max() <= steps, c.feeds
