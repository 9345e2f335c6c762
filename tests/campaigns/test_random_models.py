"""Random models give the same everywhere; `random_models.py` beside this does thousands."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from qnnrt._native.op_table import op_table
from qnnrt.importers.onnx.fold import RANDOM
from qnnrt.importers.onnx.nodes import TABLE
from support.one_node import case
from support.outside import PATHS, run_script
from support.random_models import checks, onnx_checks
from support.random_models.compare import truth
from support.random_models.generate import generate
from support.random_models.growing import RULES
from support.random_models.onnx_reference import OWN
from support.random_models.shrink import shrink

SEED = 20261122
#: Models of each ONNX operator with operands in other orders.
ORDERS = 3


def test_every_op_has_a_rule() -> None:
    assert set(RULES) == set(op_table())


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_models_give_what_float64_says_and_the_same_in_every_way(first: int) -> None:
    """Ten models: kernels, threads, memory, executions and backends."""
    wrong = []
    for number in range(first, first + 10):
        made = generate(SEED, number)
        it = checks.Case(made.model, made.feeds, SEED)
        for name in checks.USUAL:
            try:
                wrong += [f"model {number}, {name}: {line}" for line in checks.check(it, name)]
            except checks.Refused:
                continue
    assert not wrong, f"seed {SEED}: " + "\n".join(wrong)


@pytest.mark.parametrize("op", sorted(RULES))
def test_a_node_of_every_op_gives_what_float64_says(op: str) -> None:
    made = generate(SEED, 0, only=[op])
    assert made.taken, made.refused
    it = checks.Case(made.model, made.feeds, SEED)
    for name in ("float64", "portable"):
        assert not checks.check(it, name), f"seed {SEED}: {made.model}"


def test_a_wrong_element_is_found_and_the_model_made_small() -> None:
    """The comparison is no guard that cannot fail: one element off by 1e-5 of itself."""
    made = next(m for m in (generate(SEED, i) for i in range(100)) if len(m.model.nodes) > 4)
    it = checks.Case(made.model, made.feeds)
    kind = made.model.nodes[2].type

    def shows(other: checks.Case) -> bool:
        return any(n.type == kind for n in other.model.nodes)

    small = shrink(it, shows)
    assert [n.type for n in small.model.nodes] == [kind]
    x = np.linspace(-2, 2, 12, dtype=np.float32)
    one = case("Tanh", [x], [x.shape])
    known = truth(one.model, one.feeds)
    got = known.values["out0"].copy()
    single = checks.Case(one.model, one.feeds)
    assert not checks.true(single, {"out0": got})
    got[3] *= 1 + 1e-5
    assert checks.true(single, {"out0": got})


def test_every_onnx_operator_has_a_rule() -> None:
    assert set(onnx_checks.RULES) == set(TABLE) - RANDOM


@pytest.mark.foreign
def test_random_onnx_models_give_what_float64_says() -> None:
    """The campaign compares them with ONNX Runtime, too."""
    wrong = []
    for number in range(25):
        found = onnx_checks.check(onnx_checks.generate(SEED, number), with_ort=False)
        wrong += [f"model {number}: {line}" for line in found.wrong]
    assert not wrong, f"seed {SEED}: " + "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.foreign
@pytest.mark.parametrize("op", sorted(onnx_checks.RULES))
def test_an_onnx_operator_takes_operands_in_any_order_of_dimensions(op: str) -> None:
    """Scales and biases, too: of a shape with equal sizes nothing else would tell the orders."""
    wrong, done = [], 0
    for number in range(200):
        case = onnx_checks.generate(SEED, number, only=[op])
        if not case.outputs:  # not in this opset, or the like
            continue
        if done == ORDERS:
            break
        done += 1
        wrong += [f"model {number}: {line}" for line in onnx_checks.in_other_orders(case)]
    assert done == ORDERS
    assert not wrong, f"seed {SEED}: " + "\n".join(wrong)


@pytest.mark.foreign
def test_an_lp_pool_with_partial_windows_is_no_finding() -> None:
    """onnx's evaluator multiplies the mean of what a window holds by all of its size."""
    assert not onnx_checks.check(onnx_checks.generate(91, 179), with_ort=False).wrong
    x = np.arange(1.0, 16.0).reshape(1, 1, 3, 5)
    attrs = {"kernel_shape": [2, 2], "strides": [2, 3], "p": 1, "ceil_mode": 1}
    np.testing.assert_allclose(
        OWN["LpPool"](attrs, [x]), [[[[1 + 2 + 6 + 7, 4 + 5 + 9 + 10], [11 + 12, 14 + 15]]]]
    )


@pytest.mark.slow
def test_a_hundred_random_models_in_child_processes() -> None:
    script = Path(__file__).with_name("random_models.py")
    done = run_script(
        script, "--count", 100, "--first", 100, "--seed", SEED, PYTHONPATH=PATHS, timeout=900
    )
    print(done.stdout[-3000:], done.stderr[-2000:], file=sys.stderr)
    assert done.returncode == 0, done.stdout
