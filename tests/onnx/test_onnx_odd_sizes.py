"""Sizes and bounds that scales and indices give beyond what is usual, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1.15, 2.0), (2.0, 1.1), (1.1, 0.5)])
@pytest.mark.parametrize(
    "transform", ["half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]
)
def test_a_scale_that_leaves_a_size_moves_its_pixels(
    transform: str, scales: tuple[float, float], mode: str
) -> None:
    """Such an axis was left as it is."""
    how = {"mode": mode, "coordinate_transformation_mode": transform}
    x = random(1, 1, 2, 5, 6)
    constants = {"s": np.array([1, 1, *scales], np.float32)}
    resize = node("Resize", ["x", "", "s"], ["y"], **how)
    agree(make([resize], {"x": x.shape}, ["y"], constants, opset=19), {"x": x})


def test_an_aspect_ratio_that_leaves_a_size_moves_its_pixels() -> None:
    x = random(1, 1, 2, 7, 3, 4)
    how = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    resize = node("Resize", ["x", "", "", "s"], ["y"], axes=[2, 3, 4],
                  keep_aspect_ratio_policy="not_larger", **how)  # fmt: skip
    proto = make([resize], {"x": x.shape}, ["y"], {"s": np.array([6, 9, 9])}, opset=19)
    agree(proto, {"x": x})
    with qnnrt.Session(importer.load(proto)) as session:
        found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, ReferenceEvaluator(proto).run(None, {"x": x})[0], atol=1e-5)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("start", [-5, -9, -(2**31), -(2**63) + 1])
def test_backwards_from_before_the_first_element_is_from_the_first(
    start: int, constant: bool
) -> None:
    """ONNX clamps it to 0, and Python to nothing."""
    x = random(1, 4, 3)
    constants = {"a": np.array([start]), "e": np.array([-(2**63) + 1]), "i": np.array([0]),
                 "s": np.array([-1])}  # fmt: skip
    if constant:
        constants["c"] = x
    nodes = [node("Slice", ["c" if constant else "x", "a", "e", "i", "s"], ["t"]),
             node("Add", ["t", "x"], ["y"])]  # fmt: skip
    agree(make(nodes, {"x": x.shape}, ["y"], constants), {"x": x})


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("size", [(6, 6), (7, 8), (9, 6)])
def test_maxima_go_back_to_the_size_they_came_from(size: tuple[int, int], padding: int) -> None:
    """That of a pool's input need not be the one that the other sizes give: places lay beyond."""
    x = random(1, 2, 3, *size)
    how = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [padding] * 4}
    nodes = [node("MaxPool", ["x"], ["p", "i"], **how),
             node("MaxUnpool", ["p", "i", "s"], ["y"], **how)]  # fmt: skip
    proto = make(nodes, {"x": x.shape}, ["y"], {"s": np.array(x.shape)})
    agree(proto, {"x": x})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(0.6, 0.6), (1.6, 0.7), (1.0, 0.4), (2.0, 0.5)])
def test_pixels_of_the_resize_of_opset_10(scales: tuple[float, float], mode: str) -> None:
    """Where an image shrinks it takes the pixel above the place, as its own test case says."""
    resize = node("Resize", ["x", "s"], ["y"], mode=mode)
    x, constants = random(1, 1, 2, 4, 5), {"s": np.array([1, 1, *scales], np.float32)}
    agree(make([resize], {"x": x.shape}, ["y"], constants, opset=10), {"x": x})
    if scales == (0.6, 0.6) and mode == "nearest":
        proto = make([resize], {"x": (1, 1, 2, 4)}, ["y"], constants, opset=10)
        with qnnrt.Session(importer.load(proto)) as session:
            y = session.run({"x": np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)})["y"]
        np.testing.assert_array_equal(y, [[[[1, 3]]]])
