"""A sample of the sweep through ONNX Runtime's provider, and what ort_sweep.py says of cases."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

import ort_sweep

from support.onnx.one_op import OneOp
from support.onnx.provider_sweep import Answer, Pair, answers, distance, own, sweep, vendor
from support.onnx.single_op_models import FLOATS, Case, Expected, case, expected_of

pytestmark = pytest.mark.foreign

SEED, COUNT = 2, 111  # three of each family


def test_what_is_refused_or_wrong_is_listed(monkeypatch) -> None:
    case_ = next(c for c in (case(SEED, n) for n in range(99)) if c.kind == "f32")
    expected, _ = expected_of([case_])
    want = expected[case_.number]
    right, refused = Answer("ran", values=want.values), Answer("left")
    wrong = Answer("ran", values=[np.asarray(v + np.float32(1)) for v in want.values])
    ends, fails = Answer("crash"), Answer("failed")
    because = ort_sweep.Reason("a reason", lambda pair: True)
    lower = Answer("ran", values=[np.asarray(v - np.float32(1)) for v in want.values])
    for theirs, ours, listed in (
        (right, right, 0), (right, refused, 1), (right, wrong, 1), (wrong, wrong, 0),
        (wrong, lower, 1), (refused, wrong, 1), (refused, refused, 0), (right, ends, 1),
        (fails, ends, 1), (fails, refused, 0), (ends, right, 0),
    ):  # fmt: skip
        apart = [distance(a, want) if a.taken else 0.0 for a in (theirs, ours)]
        both = theirs.taken and ours.taken
        between = distance(ours, Expected(theirs.values, want.steps)) if both else 0.0
        pair = Pair(case_, theirs, ours, (apart[0], apart[1]), between)
        monkeypatch.setattr(ort_sweep, "REASONS", ())
        assert len(ort_sweep.unexplained([pair])) == listed, (theirs.stage, ours.stage)
        monkeypatch.setattr(ort_sweep, "REASONS", (because,))
        assert ort_sweep.unexplained([pair]) == []
        assert ort_sweep.unused([pair]) == [because.text] * (1 - listed)
        text = "\n".join(ort_sweep.lists([pair]))
        assert text.count(because.text) == text.count("\n- ") == listed


def test_a_sample_differs_only_where_a_reason_is_known() -> None:
    print("seed", SEED)
    pairs = sweep((vendor(), own()), COUNT, SEED, jobs=2)
    assert ort_sweep.unexplained(pairs) == []
    both = [p for p in pairs if p.theirs.taken and p.ours.taken]
    assert len(both) > COUNT / 2, "a sweep of what is refused shows nothing"
    assert {p.case.kind in FLOATS for p in both} == {True, False}


def test_a_float_under_the_type_of_a_half_is_refused_as_by_the_vendor() -> None:
    """The provider stores the values of OneHot so: their lower 16 bits would be another number."""
    values = [np.array([2, 0, 1]), np.array(3), np.array([0, 1], np.float32)]
    one_hot = OneOp("OneHot", [*values], {"axis": -1}, (1, 2))
    for kind, taken in (("f32", True), ("f16", False)):
        _, batch = expected_of([Case(0, one_hot, kind, SEED)])
        stages = [answers(library, [batch])[0].taken for library in (vendor(), own())]
        assert stages == [taken, taken], kind
