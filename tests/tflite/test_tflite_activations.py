"""Activations in every form that TFLite files have belong to the operator before them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from support.tflite.blocks import Blocks, steps
from support.tflite.case import RELU6
from support.tflite.quantizer import quantized_network

pytestmark = pytest.mark.foreign

ROOT = math.sqrt(2 / math.pi)
SHAPE = (1, 8, 8, 16)
Build = Callable[[Blocks, int], int]


def _gelu_tanh(g: Blocks, x: int) -> int:
    cube = g("POW", x, g.const(3))
    bent = g("TANH", g.times(g.add(x, g.times(cube, 0.044715)), ROOT))
    return g.mul(g.times(x, 0.5), g.add(g.const(1), bent))


def _erf(g: Blocks, x: int) -> int:
    """A quotient of polynomials of what is clamped, with which converters from StableHLO replace
    erf."""
    above = [-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
             -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
             -1.60960333262415e-02]  # fmt: skip
    below = [-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
             -7.37332916720468e-03, -1.42647390514189e-02]  # fmt: skip
    x = g("MINIMUM", g("MAXIMUM", x, g.const(-4)), g.const(4))
    square = g.mul(x, x)

    def polynomial(factors: list[float]) -> int:
        y = g.const(factors[0])
        for factor in factors[1:]:
            y = g.add(g.mul(y, square), g.const(factor))
        return y

    return g.div(g.mul(x, polynomial(above)), polynomial(below))


def _gelu_erf(g: Blocks, x: int) -> int:
    return g.mul(g.times(x, 0.5), g.add(g.const(1), _erf(g, g.times(x, math.sqrt(0.5)))))


def _clipped(g: Blocks, x: int, low: float, high: float) -> int:
    return g("MINIMUM", g("MAXIMUM", x, g.const(low)), g.const(high))


#: What is written -> the nodes behind x, and the post op that they become.
FORMS: dict[str, tuple[Build, str]] = {
    "gelu": (lambda g, x: g("GELU", x, options="GeluOptions", approximate=False), "Gelu"),
    "gelu by erf": (_gelu_erf, "Gelu"),
    "gelu by tanh": (lambda g, x: g("GELU", x, options="GeluOptions", approximate=True),
                     "GeluTanh"),
    "gelu by tanh, spelled out": (_gelu_tanh, "GeluTanh"),
    "silu": (lambda g, x: g.mul(x, g("LOGISTIC", x)), "Swish"),
    "silu by exp": (lambda g, x: g.div(x, g.add(g.const(1), g("EXP", g("NEG", x)))), "Swish"),
    "quick gelu": (lambda g, x: g.mul(x, g("LOGISTIC", g.times(x, 1.702))), "Swish"),
    "hard swish": (lambda g, x: g("HARD_SWISH", x, options="HardSwishOptions"), "HardSwish"),
    "hard swish by relu6": (
        lambda g, x: g.mul(x, g.times(g("RELU6", g.add(x, g.const(3))), 1 / 6)), "HardSwish"),
    "hard swish by a sum": (
        lambda g, x: g.times(g.mul(x, g.add(x, g.const(3), RELU6)), 1 / 6), "HardSwish"),
    "hard swish by limits": (
        lambda g, x: g.mul(x, g.div(_clipped(g, g.add(x, g.const(3)), 0, 6), g.const(6))),
        "HardSwish"),
    "hard sigmoid": (
        lambda g, x: g.times(g("RELU6", g.add(x, g.const(3))), 1 / 6), "HardSigmoid"),
    "hard sigmoid by limits": (
        lambda g, x: _clipped(g, g.add(g.times(x, 0.2), g.const(0.5)), 0, 1), "ReluMinMax"),
    "limits": (lambda g, x: _clipped(g, x, -0.5, 1.5), "ReluMinMax"),
    "mish": (
        lambda g, x: g.mul(x, g("TANH", g("LOG", g.add(g("EXP", x), g.const(1))))), "Mish"),
}  # fmt: skip

PRODUCTS: dict[str, tuple[Build, str]] = {
    "convolution": (lambda g, x: g.conv(x, 16, 16, 3), "Conv2d"),
    "depthwise": (lambda g, x: g.depthwise(x, 16, 3), "DepthWiseConv2d"),
    "dense": (lambda g, x: g.dense(x, 16, 16), "FullyConnected"),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("form", FORMS)
def test_it_is_part_of_the_product(form: str, product: str) -> None:
    (build, activation), (before, op) = FORMS[form], PRODUCTS[product]
    shape = SHAPE if product != "dense" else (40, 16)
    g = Blocks(shape)
    assert steps(*g.finish(build(g, before(g, *g.inputs)))) == [f"{op}+{activation}"]


def test_one_of_an_input_is_one_step() -> None:
    for form, (build, activation) in FORMS.items():
        g = Blocks(SHAPE)
        alone = "ElementWiseNeuron" if form.startswith("hard sigmoid") else activation
        assert steps(*g.finish(build(g, *g.inputs))) == [alone], form


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("form", FORMS)
def test_of_fixed_point_numbers_it_is_one_table(form: str, dtype: type) -> None:
    if "spelled" in form:
        pytest.skip("TFLite has no power of fixed-point numbers")
    if form in ("silu by exp", "mish"):
        pytest.skip("a step of the exponential is many of the result")
    g = Blocks((1, 64, 64, 16) if dtype is np.int16 else SHAPE)
    made = g.finish(FORMS[form][0](g, g.conv(*g.inputs, 16, 16, 3)))
    try:
        data, feeds = quantized_network(*made, dtype)
        found = steps(data, feeds, exact=False)
    except RuntimeError as refused:  # by TFLite's own kernels
        pytest.skip(str(refused)[:100])
    assert len(found) <= 2
    assert found[0].startswith("Conv2d")


@pytest.mark.parametrize("what", ["two inputs", "an output between", "another constant"])
def test_what_is_no_activation_stays_arithmetic(what: str) -> None:
    g = Blocks(SHAPE, SHAPE)
    x, other = (g.conv(v, 16, 16) for v in g.inputs)
    gate = g("LOGISTIC", other if what == "two inputs" else x)
    y = g.mul(x, g.add(gate, g.const(0.1)) if what == "another constant" else gate)
    outputs = {"two inputs": [y], "an output between": [y, gate, other]}.get(what, [y, other])
    assert not any("Swish" in step for step in steps(*g.finish(*outputs)))
