"""The ONNX backend node test cases: imported, and run at their own tolerances.

Every case passes or is listed with its reason in `onnx_cases`; a listed case that passes is an
error as well, so the set can neither shrink nor hide something.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.model import Model
from support.onnx import cases as onnx_cases
from support.reference import run as run_in_numpy

#: How many cases have to pass with the newest release of onnx that this was checked with.
CHECKED = {"1.23.2": 1575}

#: Operators of which at least one case has to pass.
OPS = sorted({case.op for case in onnx_cases.cases().values() if not onnx_cases.reason(case)})


def on_cpu(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with qnnrt.Session(model, backend="cpu", threads=1) as session:
        return session.run(feeds)


def on_portable_kernels(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with qnnrt.Session(model, "cpu", threads=1, options={"kernels": "portable"}) as session:
        return session.run(feeds)


def in_numpy(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return run_in_numpy(model, feeds)


RUNNERS = (on_cpu, on_portable_kernels, in_numpy)


@pytest.mark.parametrize("op", OPS)
def test_the_cases_of_an_operator_pass(op: str) -> None:
    failed = []
    for case in onnx_cases.cases().values():
        if case.op != op or onnx_cases.reason(case) is not None:
            continue
        for runner in RUNNERS:
            try:
                onnx_cases.run(case, runner)
            except Exception as exc:
                failed.append(f"{case.name} {runner.__name__}: {type(exc).__name__}: {exc}")
    assert not failed, f"{len(failed)} failed\n" + "\n".join(failed)


def test_every_excluded_case_is_refused() -> None:
    wrong = []
    for case in onnx_cases.cases().values():
        why = onnx_cases.reason(case)
        if why is None:
            continue
        try:
            onnx_cases.run(case, on_cpu)
        except Exception:
            continue
        wrong.append(f"{case.name}: passes, but is excluded ({why})")
    assert not wrong, "\n".join(wrong)


def test_the_set_of_cases_does_not_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = Counter(onnx_cases.reason(case) for case in onnx_cases.cases().values())
    with capsys.disabled():
        print(f"\nONNX {onnx.__version__} node cases: {reasons.pop(None)} have to pass, excluded:")
        for why, count in reasons.most_common():
            print(f"  {count:4} {why}")
    total = len(onnx_cases.cases()) - reasons.total()
    assert total >= CHECKED.get(onnx.__version__, 1000)
