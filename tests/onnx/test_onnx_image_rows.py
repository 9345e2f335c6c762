"""A convolution of an image of few channels is the same whatever threads share its rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import random
from support.onnx.models import GraphMaker

#: Size, taps, strides, pads (ONNX's order), dilations.
WINDOWS = {
    "a first convolution": ((64, 48), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "padded behind alone": ((63, 48), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    "large": ((65, 47), (7, 7), (2, 2), (3, 3, 3, 3), (1, 1)),
    "steps beyond the window": ((99, 48), (2, 2), (3, 3), (0, 0, 0, 0), (1, 1)),
    "dilated": ((40, 41), (3, 3), (1, 1), (4, 4, 4, 4), (4, 4)),
    "rows that end within a step": ((66, 40), (3, 1), (2, 1), (1, 0, 0, 0), (1, 1)),
}


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("tail", ["alone", "activation", "residual"])
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_of_an_image_are_shared_by_threads(window: str, tail: str, threads: int) -> None:
    size, taps, strides, pads, dilations = WINDOWS[window]
    g = GraphMaker(1)
    y = g(
        "Conv", "x", g.weight(32, 3, *taps), g.weight(32), kernel_shape=taps, strides=strides,
        pads=pads, dilations=dilations,
    )  # fmt: skip
    shapes = {"x": (onnx.TensorProto.FLOAT, (1, 3, *size))}
    feeds = {"x": random(1, 1, 3, *size)}
    if tail == "residual":
        rows, columns = (
            (n + pads[i] + pads[i + 2] - dilations[i] * (taps[i] - 1) - 1) // strides[i] + 1
            for i, n in enumerate(size)
        )
        shapes["r"] = (onnx.TensorProto.FLOAT, (1, 32, rows, columns))
        feeds["r"] = random(2, 1, 32, rows, columns)
        y = g("Add", y, "r")
    if tail != "alone":
        y = g("Relu", y)
    proto = g.model(shapes, {"y": y}, 17)
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    with qnnrt.Session(importer.load(proto), backend="cpu", threads=threads) as session:
        for _ in range(2):
            np.testing.assert_allclose(session.run(feeds)["y"], expected, rtol=1e-4, atol=1e-4)
