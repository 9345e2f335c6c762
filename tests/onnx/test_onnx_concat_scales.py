"""Norms and activations behind a concatenation go to the convolutions whose channels it joins."""

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

CHANNELS = (12, 5, 16)


def outcome(g: GraphMaker, y: str) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
    shape = (onnx.TensorProto.FLOAT, (1, 8, 9, 7))
    proto = g.model({"x": shape}, {"y": y}, 17)
    x = random(1, *shape[1])
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        assert session.graph is not None
        steps = json.loads(session.graph.describe() or "")["steps"]
        found = session.run({"x": x})["y"]
    return [[s["op"], *s["fused"]] for s in steps], found, expected


def joined(g: GraphMaker, axis: int = 1, seen: bool = False) -> str:
    parts = []
    for i, channels in enumerate(CHANNELS if axis == 1 else [max(CHANNELS)] * 2):
        taps = 1 + 2 * (i % 2)
        w = g.weight(channels, 8, taps, taps)
        parts.append(g("Conv", "x", w, kernel_shape=[taps, taps], pads=[i % 2] * 4))
    y = g("Concat", *parts, axis=axis)
    total = sum(CHANNELS) if axis == 1 else max(CHANNELS)
    scale, shift, mean = (g.weight(total) for _ in range(3))
    variance = g.const(np.linspace(0.5, 2, total, dtype=np.float32))
    y = g("Relu", g("BatchNormalization", y, scale, shift, mean, variance))
    return g("Concat", y, parts[0], axis=1) if seen else y


@pytest.mark.parametrize("axis", [1, 2])
def test_channels_side_by_side_are_scaled_where_they_are_made(axis: int) -> None:
    g = GraphMaker(1)
    steps, found, expected = outcome(g, joined(g, axis))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    convolutions = [s for s in steps if s[0] == "Conv2d"]
    if axis == 1:
        assert convolutions == [["Conv2d", "Relu"]] * len(CHANNELS)
        assert not [s for s in steps if s[0] in ("Batchnorm", "Relu")]
    else:  # beside each other lie pixels
        assert [s for s in steps if s[0] == "Batchnorm"]


def test_what_another_node_reads_stays_as_it_is() -> None:
    g = GraphMaker(1)
    steps, found, expected = outcome(g, joined(g, seen=True))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert [s for s in steps if s[0] == "Batchnorm"]


def test_an_activation_behind_another_shape_goes_to_the_convolution() -> None:
    g = GraphMaker(1)
    y = g("Conv", "x", g.weight(8, 1, 3, 3), kernel_shape=[3, 3], pads=[1] * 4, group=8)
    y = g("Transpose", g("Reshape", y, g.const([1, 8, 63])), perm=[0, 2, 1])  # pixels, as tokens
    y = g("Mul", y, g("Sigmoid", y))
    steps, found, expected = outcome(g, g("MatMul", y, g.weight(8, 20)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert ["DepthWiseConv2d", "Swish"] in steps, steps
