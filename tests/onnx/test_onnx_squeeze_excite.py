"""Squeeze-and-excite is a pool, two products with their activations, and one pass that scales."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import random
from support.onnx.models import GraphMaker

CHANNELS, INNER, SIDE = 24, 8, 9
ONE = {"kernel_shape": [1, 1]}


#: As networks have them: pool, activation between, gate.
FORMS = {
    "mobilenet v3": (
        lambda g, x: g("GlobalAveragePool", x),
        lambda g, x: g("Relu", x),
        lambda g, x: g("HardSigmoid", x, alpha=1 / 6, beta=0.5),
        ["Relu", "HardSigmoid"],
    ),
    "efficientnet": (
        lambda g, x: g("ReduceMean", x, axes=[2, 3], keepdims=1),
        lambda g, x: g("Mul", x, g("Sigmoid", x)),
        lambda g, x: g("Sigmoid", x),
        ["Swish", "Sigmoid"],
    ),
    "regnet": (
        lambda g, x: g("GlobalAveragePool", x),
        lambda g, x: g("Relu", x),
        lambda g, x: g("Sigmoid", x),
        ["Relu", "Sigmoid"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_takes_four_steps(form: str) -> None:
    pool, between, gate, fused = FORMS[form]
    g = GraphMaker(1)
    x = g("Relu", "x")
    y = g("Conv", pool(g, x), g.weight(INNER, CHANNELS, 1, 1), g.weight(INNER), **ONE)
    y = g("Conv", between(g, y), g.weight(CHANNELS, INNER, 1, 1), g.weight(CHANNELS), **ONE)
    scaled = g("Mul", x, gate(g, y))
    z = g("Conv", scaled, g.weight(16, CHANNELS, 1, 1), **ONE)
    shape = (1, CHANNELS, SIDE, SIDE)
    proto = g.model({"x": (onnx.TensorProto.FLOAT, shape)}, {"z": z}, 17)
    feeds = {"x": random(2, *shape)}
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        steps = json.loads(session.graph.describe())["steps"]
        found = session.run(feeds)["z"]
    inside = [s for s in steps if s["op"] not in ("Transpose", "Relu")]
    ops = [s["op"] for s in inside]
    assert ops[0] in ("PoolAvg2d", "ReduceMean")
    assert ops[1:] == ["Conv2d", "Conv2d", "ElementWiseMultiply", "Conv2d"]
    assert [s["fused"] for s in inside[1:3]] == [[name] for name in fused]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
