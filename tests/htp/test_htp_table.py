"""Our htp backend beside the vendor's HTP simulator: no worse than docs/htp-fixed-point.md says."""

from __future__ import annotations

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt._native.op_table import op_table
from qnnrt.model import Quantization
from support.htp import page as htp_page
from support.htp.nodes import Operand, case_of
from support.htp.process import run_cases
from support.htp.spec import Act, Spec, Weight
from support.htp.sweep import DEVICE, Cell, sweep, trial_of, trials
from support.one_node import outcome, pairs, u32
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign


@pytest.mark.slow
def test_one_form_of_every_op_is_as_near_to_the_simulator_as_the_page_says():
    table = sweep(trials(quick=True))
    assert not htp_page.worse(table)
    assert not htp_page.unexplained(table)
    # Ours is the exact result, rounded: half a step, and what a float leaves of 16 bits.
    assert {k: c.ours for k, c in table.items() if c.ours > 0.55} == {}


def test_every_op_that_takes_fixed_point_numbers_is_compared():
    ops = {
        name
        for name, op in op_table().items()
        if any("FIXED" in t for port in (*op["inputs"], *op["outputs"]) for t in port["types"])
    }
    # Buffer's frames come over several executions: test_state_simulator.py. Random numbers are
    # those of the generator: test_random_numbers_come_as_the_simulator_takes_them.
    ops -= {"Buffer", "RandomUniformLike", "RandomNormalLike"}
    assert {t.case.model.nodes[0].type for t in trials(quick=True)} == ops


@pytest.mark.parametrize("type", ["u8", "s8", "u16"])
def test_the_simulator_takes_no_values_of_a_one_hot_to_fixed_point(type):
    index = Operand("i32", (2,), None, np.array([2, 0], np.int32), True)
    out = Operand(type, (2, 3), Quantization(0.5, -10))
    depth = {"depth": np.uint32(3), "axis": np.uint32(1)}
    values = [
        {"on_value": kind(4), "off_value": kind(2)}
        for kind in (np.int32, np.uint32, np.uint8, np.float32)
    ]
    cases = [case_of("OneHot", [index], [out], {**depth, **given}) for given in ({}, *values)]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    assert [(o.stage, o.code) for o in theirs] == [("ran", 0), *[("validate", 3110)] * 4]
    with qnn.Backend.open("htp") as backend:
        ours = [outcome(backend, case).outputs[0].tolist() for case in cases]
    assert ours[0] == theirs[0].outputs[0].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert ours[1:4] == [[[2, 2, 4], [4, 2, 2]]] * 3  # integers of the output's encoding
    assert ours[4] == [[14, 14, 18], [18, 14, 14]]  # real numbers


def test_boxes_are_suppressed_as_by_the_simulator():
    """The same rows, of which the simulator leaves those that hold nothing as they were."""
    rng = np.random.default_rng(3)
    corners = rng.integers(0, 180, (1, 40, 2))
    sides = np.concatenate([corners, corners + rng.integers(5, 70, (1, 40, 2))], 2)
    scores = np.stack([[rng.permutation(40) * 6 for _ in range(3)]])  # no two of a class are equal
    boxes = Operand("u8", (1, 40, 4), Quantization(0.125, 0), sides.astype(np.uint8))
    marks = Operand("u8", (1, 3, 40), Quantization(1 / 256, 0), scores.astype(np.uint8))
    outs = [Operand("i32", (120, 3)), Operand("ui32", (1,))]
    given = {"iou_threshold": np.float32(0.3), "max_boxes_selected": np.uint32(40)}
    cases = [
        case_of("NonMaxSuppression", [boxes, marks], outs, given | more)
        for more in ({}, {"score_threshold": np.float32(0.6)})
    ]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    with qnn.Backend.open("htp") as backend:
        for case, their in zip(cases, theirs, strict=True):
            rows, (count,) = outcome(backend, case).outputs
            assert 10 < count == their.outputs[1] < 120
            np.testing.assert_array_equal(rows[:count], their.outputs[0][:count])


def test_regions_are_the_simulators():
    rng = np.random.default_rng(0)
    q, sides = Quantization(0.03, -128), np.array([[1, 2, 9, 11], [0, 0, 15, 15], [4, 4, 12, 6]])
    x = Operand("u8", (1, 8, 8, 16), q, rng.integers(0, 256, (1, 8, 8, 16)).astype(np.uint8))
    boxes = Operand("u16", (3, 4), Quantization(0.125, 0), (sides * 8).astype(np.uint16))
    images = Operand("i32", (3,), None, np.zeros(3, np.int32), True)
    params = {"num_samples_y": np.int32(2), "num_samples_x": np.int32(2)}
    cases = [
        case_of("RoiAlign", [x, boxes, images], [Operand("u8", (3, 2, 2, 16), q)], params | ratio)
        for ratio in ({"img_size_ratio": np.array(r, np.float32)} for r in ([2, 2], [1, 2]))
    ]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    with qnn.Backend.open("htp") as backend:
        for case, their in zip(cases, theirs, strict=True):
            got = outcome(backend, case).outputs[0].astype(int)
            assert abs(got - their.outputs[0]).max() <= 1


@pytest.mark.parametrize(
    ("op", "params", "mean", "deviation"),
    [
        ("RandomUniformLike", {"low": -1.0, "high": 2.0}, 0.5, 3 / 12**0.5),
        ("RandomNormalLike", {"mean": 0.5, "scale": 0.25}, 0.5, 0.25),
    ],
)
def test_random_numbers_come_as_the_simulator_takes_them(
    op: str, params: dict[str, float], mean: float, deviation: float
) -> None:
    """The form that ONNX Runtime's provider sends, and moments of what comes."""
    shape = Operand("ui32", (4,), None, np.array([1, 16, 16, 64], np.uint32), True)
    seed = Operand("f32", (1,), None, np.array([3], np.float32), True)
    out = Operand("u8", (1, 16, 16, 64), Quantization(3 / 255, -85))
    cases = [case_of(op, inputs, [out], params) for inputs in ([shape], [shape, seed])]
    theirs = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    for found in (*theirs, *run_cases("htp", cases)):
        assert found.stage == "ran", found
        x = (found.outputs[0].astype(np.float64) - 85) * 3 / 255
        assert abs(x.mean() - mean) < 0.02
        assert abs(x.std() - deviation) < 0.02


@pytest.mark.parametrize("limits", [(-1.5, 2.5), (1.5, 3.5), (-np.inf, 2.0), (-2.0, 1e20)])
def test_limits_of_integers_are_the_simulators(limits: tuple[float, float]) -> None:
    x = Operand("i32", (1, 9), None, np.arange(-3, 6, dtype=np.int32)[None])
    params = dict(zip(("min_value", "max_value"), map(np.float32, limits), strict=True))
    cases = [case_of("ReluMinMax", [x], [Operand("i32", (1, 9))], params)]
    (theirs,) = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    (ours,) = run_cases("htp", cases)
    np.testing.assert_array_equal(theirs.outputs[0], ours.outputs[0])


def test_an_output_shape_says_the_padding_as_it_does_to_the_simulator() -> None:
    """The form that ONNX Runtime's provider sends where a model has the attribute output_shape."""
    rng = np.random.default_rng(0)
    x = Operand("f32", (1, 5, 5, 4), None, rng.normal(size=(1, 5, 5, 4)).astype(np.float32))
    w = Operand("f32", (3, 3, 4, 6), None, rng.normal(size=(3, 3, 4, 6)).astype(np.float32), True)
    none = {"pad_amount": pairs((0, 0), (0, 0)), "output_padding": u32(0, 0)}
    out = Operand("f32", (1, 12, 12, 6))
    cases = [case_of("TransposeConv2d", [x, w], [out], {"stride": u32(2, 2), **none})]
    (theirs,) = run_cases(vendor_library("libQnnHtp.so"), cases, **DEVICE)
    (ours,) = run_cases("htp", cases)
    np.testing.assert_allclose(ours.outputs[0], theirs.outputs[0], atol=0.02)


@pytest.mark.slow
def test_every_form_of_every_op_is_as_near_to_the_simulator_as_the_page_says():
    table = sweep(trials())
    assert not htp_page.worse(table)
    assert set(htp_page.read(htp_page.PAGE.read_text())) == set(table)


def test_the_page_reads_back_as_the_table_that_it_was_written_from():
    table = {
        ("Relu", "", "u8"): Cell("exact"),
        ("Relu", "", "s16"): Cell("not taken", code="validate 3110"),
        ("Conv2d", "s4 per channel", "u16"): Cell("differs", 13.0, 0.5, 13.2, 0.5),
        ("Conv2d", "s8", "u16"): Cell("within 1", 1.0),
        ("Cast", "", "u8 to s8"): Cell("differs", 128.0, 1.0),
    }
    text = htp_page.page(table)
    read = htp_page.read(text)
    assert {k: (c.verdict, c.worst) for k, c in read.items()} == {
        k: (c.verdict, c.worst) for k, c in table.items()
    }
    assert not htp_page.worse(table, text)
    nearer = {**table, ("Conv2d", "s4 per channel", "u16"): Cell("exact")}
    assert not htp_page.worse(nearer, text)
    further = {**table, ("Relu", "", "u8"): Cell("within 1", 1.0)}
    assert htp_page.worse(further, text) == ["Relu, u8: 1 (), the page says exact"]
    assert htp_page.unexplained({("Relu", "", "u8"): Cell("differs", 9.0)}) == ["Relu, u8: 9 "]


def test_a_node_that_crashes_the_simulator_costs_only_itself():
    x = Operand("f32", (1, 4), None, np.ones((1, 4), np.float32))
    fine = case_of("Relu", [x], [Operand("f32", (1, 4))])
    spec = Spec("MatMul", [Act((2, 8, 32)), Weight((32, 16), axis=1)], [(2, 8, 16)])
    with qnn.Backend.open("cpu") as cpu:
        crash = trial_of(cpu, spec, 0, "u8", "s8 per channel").case
    outcomes = run_cases(vendor_library("libQnnHtp.so"), [fine, crash, fine])
    assert [o.stage for o in outcomes] == ["ran", "crash", "ran"]


def test_a_library_that_does_not_open_is_an_error():
    with pytest.raises(RuntimeError, match="does not open"):
        run_cases("/nowhere/libQnnHtp.so", [case_of("Relu", [], [])])
