"""A scalar may be declared with the shape [1], as clients do that have no tensors of rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support.htp.process import run_cases
from support.htp.sweep import DEVICE
from support.one_node import KERNELS, Case, case, run_op
from support.vendor import vendor_library

X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
LINE = X.ravel()
THIRD = np.array(3, np.int32)
STEP = Quantization(0.5, 0)

#: Op, inputs, params, result, constant inputs.
SCALARS: list[tuple[str, list[np.ndarray], dict[str, Any], Any, tuple[int, ...]]] = [
    ("ReduceSum", [X], {"axes": np.array([0, 1], np.uint32)}, X.sum(), ()),
    ("ReduceMean", [LINE], {"axes": np.array([0], np.uint32)}, X.mean(), ()),
    ("ReduceMax", [X], {"axes": np.array([1, 0], np.uint32)}, X.max(), ()),
    ("ReduceMin", [X], {"axes": np.array([0, 1], np.uint32)}, X.min(), ()),
    ("ReduceProd", [LINE], {"axes": np.array([0], np.uint32)}, X.prod(), ()),
    ("Argmax", [LINE], {"axis": np.uint32(0)}, LINE.argmax().astype(np.int32), ()),
    ("Argmin", [LINE], {"axis": np.uint32(0)}, LINE.argmin().astype(np.int32), ()),
    ("Gather", [LINE, THIRD], {"axis": np.int32(0)}, LINE[3], (1,)),
    ("GatherNd", [LINE, THIRD[None]], {}, LINE[3], (1,)),
    ("Squeeze", [LINE[:1]], {"axes": np.array([0], np.uint32)}, LINE[0], ()),
]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: s[0])
def test_a_scalar_has_rank_0_or_the_shape_1(scalar, shape, kernels) -> None:
    op, inputs, params, result, static = scalar
    dtype = np.asarray(result).dtype
    more = {"static": static, "dtype": dtype, "kernels": kernels}
    (got,) = run_op(op, inputs, [shape], params, **more)
    assert got.shape == shape
    np.testing.assert_allclose(got.item(), result, 1e-5)
    if dtype == np.float32:
        (after,) = run_op(op, inputs, [shape], params, then=[("ElementWiseNeg", {})], **more)
        assert after.item() == -got.item()


#: Op, input, encodings, result.
CONVERSIONS: list[tuple[str, Any, dict[str, Quantization], Any]] = [
    ("Cast", np.int32([7]), {}, np.int64(7)),
    ("Cast", LINE[:1], {}, np.float16(LINE[0])),
    ("Convert", LINE[:1], {}, np.float16(LINE[0])),
    ("Convert", np.uint8([3]), {"in0": STEP, "out0": Quantization(0.25, 0)}, np.int16(6)),
    ("Quantize", np.float32([2.5]), {"out0": STEP}, np.uint8(5)),
    ("Dequantize", np.uint8([5]), {"in0": STEP}, np.float32(2.5)),
]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda c: c[0])
def test_a_conversion_goes_from_the_shape_1_to_rank_0(conversion, kernels) -> None:
    op, value, encodings, result = conversion
    more = {"dtype": result.dtype, "encodings": encodings, "kernels": kernels}
    (got,) = run_op(op, [value], [()], **more)
    assert (got.shape, got.item()) == ((), result.item())


@pytest.mark.parametrize("shape", [(2,), (1, 1)], ids=str)
def test_a_scalar_has_no_other_shape(shape) -> None:
    with pytest.raises(QnnError, match=r"comes out as \[\]"):
        run_op("ReduceSum", [X], [shape], SCALARS[0][2])


def _reductions() -> Iterator[Case]:
    for op, inputs, params, result, static in SCALARS[:7]:
        if op != "ReduceProd":
            yield case(op, inputs, [(1,)], params, static=static, dtype=np.asarray(result).dtype)


@pytest.mark.foreign
def test_the_simulator_takes_reductions_to_that_shape() -> None:
    cases = list(_reductions())
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    ours = run_cases("htp", cases)
    assert {o.stage for o in (*theirs, *ours)} == {"ran"}
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(a.outputs[0], b.outputs[0], 1e-2)
