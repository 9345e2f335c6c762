"""The ONNX backend node test cases on the gpu backend, at their own tolerances.

Every case that the cpu backend passes is run, or refused for a reason that is listed here with the
cases that it is for: neither set can shrink or hide something. The cases of an operator are one
graph, since building programs is what takes the time.
"""

from __future__ import annotations

import fnmatch
import functools
from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.model import Model
from support.gpu.cases import joined, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import Case
from support.onnx import cases as onnx_cases

pytestmark = pytest.mark.foreign  # OpenCL drivers are

#: Operators of different families, whose kernels are soon compiled; the others are marked slow.
COMMON = ("Add", "Conv", "Gather", "MatMul", "ReduceSum", "Softmax")
#: Inputs and outputs of a graph, and cases of an operator that are not marked slow, at most.
_IO, _FEW = 60, 6
_NONE, _DOUBLE = "the gpu backend has no such operation", "float64"
_BRAIN = "BFLOAT_16, which no kernel of gpu takes"
#: Cases that are refused -> what the error says of their nodes.
REFUSED = {
    **dict.fromkeys(
        (
            "test_nonmaxsuppression_*",
            "test_nonzero_*",
            "test_unique_*sorted_with*_axis*",
        ),
        _NONE,
    ),
    **dict.fromkeys(
        (
            "test_ai_onnx_ml_tree_ensemble_single_tree",
            "test_cumprod_1d",
            "test_cumprod_1d_[er]*",
            "test_cumprod_2d_[an]*",
            "test_cumsum_1d",
            "test_cumsum_1d_[er]*",
            "test_cumsum_2d_[an]*",
            "test_einsum_sum",
            "test_flexattention_double*",
            "test_m[ai][xn]_float64",
            "test_mod_*float64*",
            "test_reduce_log_sum_exp_[!e]*",
        ),
        _DOUBLE,
    ),
    **dict.fromkeys(("test_*_bfloat16*", "test_cast*BFLOAT16*"), _BRAIN),
}
#: How many cases pass and are refused with the release of onnx that this was checked with.
CHECKED = {"1.23.2": (1538, 72)}


class _Collected(Exception):
    """The model of a case is known: it is not run yet."""


@functools.cache
def operators() -> dict[str, list[onnx_cases.Case]]:
    """Cases that the cpu backend passes, by operator."""
    found: dict[str, list[onnx_cases.Case]] = {}
    for case in onnx_cases.cases().values():
        if onnx_cases.reason(case) is None:
            found.setdefault(case.op, []).append(case)
    return found


def few(op: str) -> list[onnx_cases.Case]:
    """Some of an operator's cases, from all over them."""
    cases = operators()[op]
    return cases[:: -(-len(cases) // _FEW)]


def reason(case: onnx_cases.Case) -> str | None:
    """Why a case is refused; None when it has to pass."""
    return next((why for p, why in REFUSED.items() if fnmatch.fnmatchcase(case.name, p)), None)


def models(cases: list[onnx_cases.Case]) -> list[Case]:
    """What the importer makes of cases."""
    found: list[Case] = []

    def collect(model: Model, feeds: dict[str, np.ndarray]) -> Any:
        found.append(Case(model, feeds))
        raise _Collected

    for case in cases:
        with pytest.raises(_Collected):
            onnx_cases.run(case, collect)
    return found


def groups(parts: list[Case]) -> list[list[int]]:
    """Numbers of those that a graph may have the inputs and outputs of."""
    found: list[list[int]] = []
    count = _IO
    for i, part in enumerate(parts):
        needed = len(part.model.inputs) + len(part.model.outputs)
        if count + needed > _IO:
            found.append([])
            count = 0
        found[-1].append(i)
        count += needed
    return found


def run(parts: list[Case]) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Outputs of all in one graph but those that are refused; why these are, by number."""
    refused: dict[int, str] = {}
    while left := [i for i in range(len(parts)) if i not in refused]:
        whole = joined([parts[i] for i in left], 1)
        try:
            with qnnrt.Session(whole.model, "gpu") as s:
                got = s.run(whole.feeds)
        except qnnrt.UnsupportedOpError as e:
            for node in e.nodes:
                number = left[int(node.name.partition(".")[0]) - 1]
                refused[number] = f"{refused.get(number, '')} {node.op}: {node.reason}"
            continue
        names = {f"{k}.": f"{i}." for k, i in enumerate(left, 1)}
        return {names[(p := k.partition("."))[0] + "."] + p[2]: v for k, v in got.items()}, refused
    return {}, refused


def wrong(cases: list[onnx_cases.Case]) -> list[str]:
    """What is not as it has to be: a line for each case."""
    lines: list[str] = []
    parts = models(cases)
    for numbers in groups(parts):
        got, refused = run([parts[i] for i in numbers])
        for i, case in enumerate(cases[k] for k in numbers):
            why, found = reason(case), refused.get(i)
            if why is not None or found is not None:
                if why is None or found is None or why not in found:
                    lines.append(f"{case.name}: refused as {found!r}, expected {why!r}")
                continue

            own = {k.removeprefix(f"{i}."): v for k, v in got.items() if k.startswith(f"{i}.")}
            try:
                onnx_cases.run(case, lambda model, feeds, own=own: own)
            except Exception as e:
                lines.append(f"{case.name}: {type(e).__name__}: {e}")
    return lines


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=() if op in COMMON else pytest.mark.slow)
        for op in sorted(operators())
    ],
)
def test_cases_of_an_operator_pass_or_are_refused_as_listed(op: str) -> None:
    lines = wrong(few(op))
    assert not lines, f"{len(lines)} cases\n" + "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(op for op in operators() if few(op) != operators()[op]))
def test_the_other_cases_of_an_operator(op: str) -> None:
    lines = wrong([case for case in operators()[op] if case not in few(op)])
    assert not lines, f"{len(lines)} cases\n" + "\n".join(lines)


def test_the_set_of_cases_does_not_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for of_op in operators().values() for case in of_op]
    refused = Counter(reason(case) for case in cases)
    passed = refused.pop(None)
    with capsys.disabled():
        print(f"\nONNX {onnx.__version__} node cases on gpu: {passed} have to pass, refused:")
        for why, count in refused.most_common():
            print(f"  {count:4} {why}")
    expected = CHECKED.get(onnx.__version__)
    assert expected is None or (passed, refused.total()) == expected
    for pattern in REFUSED:  # none is left over
        assert any(fnmatch.fnmatchcase(case.name, pattern) for case in cases), pattern
