"""BFLOAT_16 wherever ops take floats: inputs, constants and outputs that a client declares so.

Each op gives what it gives in FLOAT_32 for the same numbers, rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt._native.op_table import op_table
from support.htp.half import trials
from support.one_node import KERNELS, Case, graph_options, outcome, run_op

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)


def stored_as(case: Case, dtype: np.dtype[Any]) -> Case:
    """A case of FLOAT_32 and BFLOAT_16 with one of them for both."""

    def of(data: np.ndarray) -> np.ndarray:
        return data.astype(dtype) if data.dtype in (BF16, F32) else data

    tensors = {
        name: replace(
            t,
            dtype=dtype if t.dtype in (BF16, F32) else t.dtype,
            data=None if t.data is None else of(t.data),
        )
        for name, t in case.model.tensors.items()
    }
    feeds = {name: of(values) for name, values in case.feeds.items()}
    return Case(replace(case.model, tensors=tensors), feeds)


def units(got: np.ndarray, right: np.ndarray) -> float:
    """How far a result is from the right one, in units of BFLOAT_16 at the largest number."""
    if right.dtype != F32:
        return float(not np.array_equal(got, right))
    assert got.dtype == BF16
    rounded, values = right.astype(BF16).astype(F32), got.astype(F32)
    same = (values == rounded) | (np.isnan(values) & np.isnan(rounded))
    size = np.abs(rounded[np.isfinite(rounded)]).max(initial=1e-30)
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0, np.abs(values - rounded))
    return float(distance.max(initial=0) / 2.0 ** (np.floor(np.log2(size)) - 7))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_every_op_gives_its_result_rounded_once(backend: str, kernels: str) -> None:
    far: dict[str, float] = {}
    seen = set()
    options = graph_options(kernels, 2)
    with qnn.Backend.open(backend) as opened:
        for label, case in trials():
            narrow = stored_as(case, BF16)
            got = outcome(opened, narrow, options)
            right = outcome(opened, stored_as(narrow, F32), options)
            assert (got.stage, right.stage) == ("ran", "ran"), (label, got.text)
            for one, other in zip(got.outputs, right.outputs, strict=True):
                far[label] = max(far.get(label, 0.0), units(one, other))
            seen |= {node.type for node in case.model.nodes}
    assert {label: by for label, by in far.items() if by > 0.5} == {}
    takes = {
        op
        for op, record in op_table().items()
        if any("BFLOAT_16" in port["types"] for port in record["inputs"])
    }
    # Quantize and Dequantize have a fixed-point side; the others are a matter of random models.
    assert len(takes - seen) < 10, takes - seen
    wide = {
        op
        for op, record in op_table().items()
        for port in (*record["inputs"], *record["outputs"])
        if ("FLOAT_16" in port["types"]) != ("BFLOAT_16" in port["types"])
    }
    assert wide == set()


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_depthwise_convolution_of_one_channel_is_converted(
    kernels: str, dtype: np.dtype[Any]
) -> None:
    r = np.random.default_rng(3)
    x, w, b = (
        r.standard_normal(shape).astype(dtype) for shape in ((1, 8, 8, 1), (3, 3, 1, 1), (1,))
    )
    params = {"stride": np.array([1, 1], np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    for given in ([x, w, b], [x, w]):
        static = range(1, len(given))
        wide = [v.astype(F32) for v in given]
        run = [
            run_op("DepthWiseConv2d", v, [(1, 6, 6, 1)], params, static=static, kernels=kernels)[0]
            for v in (given, wide)
        ]
        step = 2.0**-8 if dtype == BF16 else 2.0**-11
        np.testing.assert_allclose(run[0].astype(F32), run[1], rtol=step, atol=1e-5)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_rows_by_weights_that_are_no_constants_are_rounded_once(
    rows: int, turned: bool, kernels: str
) -> None:
    r = np.random.default_rng(rows)
    a, b = (r.standard_normal(shape).astype(BF16) for shape in ((3, rows, 512), (3, 512, 300)))
    given = [a, np.ascontiguousarray(b.swapaxes(1, 2)) if turned else b]
    params = {"transpose_in0": False, "transpose_in1": turned}
    (got,) = run_op("MatMul", given, [(3, rows, 300)], params, static=(), kernels=kernels)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=2.0**-8, atol=1e-4)
