"""Quantized TFLite operators on OpenCL devices: a step from the cpu backend's at most."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.importers import tflite as importer
from support.gpu.cases import joined, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case
from support.tflite import cases as tflite_cases
from support.tflite.case import Case as Operator
from support.tflite.quantized import F32, quantize

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

#: Constants make no operator of CONV_3D's, RANGE's and ZEROS_LIKE's in one type; of FAKE_QUANT
#: LiteRT, which says what an operator's numbers are, writes beyond its memory.
LEFT_OUT = {"CONV_3D", "FAKE_QUANT", "RANGE", "ZEROS_LIKE"}
_FEW = 3  # cases of an operator


def operators() -> dict[str, list[Operator]]:
    found: dict[str, list[Operator]] = {}
    for case in tflite_cases.cases():
        types = [g.dtype if g.values is None else g.values.dtype for g in case.inputs if g]
        if case.op not in LEFT_OUT and F32 in map(np.dtype, types):
            found.setdefault(case.op, []).append(case)
    return {op: cases[:_FEW] for op, cases in found.items()}


OPERATORS = operators()


def quantized(case: Operator, kind: str) -> Case | None:
    """A graph of the operator; None where it has an input without dimensions, as arrays here."""
    made = quantize(case, kind)
    model = importer.load(made.data)
    feeds = dict(zip(model.inputs, map(np.asarray, made.feeds), strict=True))
    return Case(model, feeds) if all(feed.shape for feed in feeds.values()) else None


@pytest.mark.parametrize("kind", ["int8", "int16"])
@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_an_operator_is_within_a_step_of_the_cpus(op: str, kind: str) -> None:
    cases = [case for case in (quantized(c, kind) for c in OPERATORS[op]) if case is not None]
    assert cases, "all its inputs are without dimensions"
    whole = joined(cases)
    with qnnrt.Session(whole.model, "cpu") as s:
        expected = s.run(whole.feeds)
    with qnnrt.Session(whole.model, "gpu") as s:
        got = s.run(whole.feeds)
    for name, wanted in expected.items():
        apart = np.abs(got[name].astype(np.float64) - wanted.astype(np.float64))
        assert apart.max(initial=0) <= 1, name
