"""What the sanitizers see of the tests: nothing is left out for good."""

from __future__ import annotations

import pytest

from support.sampling import FEW, ONE_OF, in_sample

MANY = [
    f"tests/ops/test_ops_pool.py::test_pooling[{a}-{b}]" for a in range(30) for b in range(ONE_OF)
]


def test_about_a_third_of_many_cases_is_kept() -> None:
    kept = in_sample(MANY, "a commit")
    assert len(MANY) / (2 * ONE_OF) < len(kept) < 2 * len(MANY) / ONE_OF
    inner = {name.rpartition("-")[2] for name in kept}
    assert len(inner) == ONE_OF, "every value of an inner parameter comes"


def test_other_commits_take_other_cases_and_all_of_them_come() -> None:
    assert in_sample(MANY, "a commit") == in_sample(MANY[::-1], "a commit")
    assert set().union(*(in_sample(MANY, str(seed)) for seed in range(30))) == set(MANY)


@pytest.mark.parametrize(
    "test",
    [
        "tests/memory/test_tcm.py::test_pool",
        "tests/tflite/test_tflite_damage.py::test_a_damaged_file_is_refused",
        "tests/onnx/test_onnx_hostile_nodes.py::test_a_bad_node_is_one_error",
    ],
)
def test_what_owns_memory_or_comes_from_outside_is_whole(test: str) -> None:
    cases = {f"{test}[{i}]" for i in range(100)}
    assert in_sample(sorted(cases), "a commit") == cases


def test_few_cases_are_whole() -> None:
    assert set(MANY[:FEW]) == in_sample(MANY[:FEW], "a commit")
