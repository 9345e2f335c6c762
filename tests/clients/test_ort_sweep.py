"""What the sweep through ONNX Runtime's provider (ort_sweep.py) says of its cases."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime_qnn", reason="the wheel is for x86_64")

import ort_sweep
from ort_sweep import Answer, Pair

from support.onnx.single_op_models import case, expected_of

pytestmark = pytest.mark.foreign

SEED = 2


def test_what_is_refused_or_wrong_is_listed() -> None:
    case_ = next(c for c in (case(SEED, n) for n in range(99)) if c.kind == "f32")
    expected, _ = expected_of([case_])
    want = expected[case_.number]
    right, refused = Answer("ran", values=want.values), Answer("left")
    wrong = Answer("ran", values=[np.asarray(v + np.float32(1)) for v in want.values])
    for theirs, ours, lines in (
        (right, right, 0), (right, refused, 1), (right, wrong, 1), (wrong, wrong, 0),
        (refused, wrong, 1), (refused, refused, 0),
    ):  # fmt: skip
        apart = [ort_sweep.distance(a, want) if a.taken else 0.0 for a in (theirs, ours)]
        pair = Pair(case_, theirs, ours, (apart[0], apart[1]))
        listed = [line for line in ort_sweep.lists([pair]) if line.startswith("- ")]
        assert len(listed) == lines, (theirs.stage, ours.stage)
