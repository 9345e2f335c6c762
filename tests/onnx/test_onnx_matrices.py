"""Determinants, inverses, distances, and what ONNX Runtime had before ONNX, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 5, 5), (2, 3, 4, 4), (20, 20)])
def test_matrices_of_any_size(shape: tuple[int, ...]) -> None:
    check("Det", [values(*shape)], domain="")
    check("Inverse", [values(*shape)])


def test_pivots_may_lie_anywhere_or_nowhere() -> None:
    x = np.eye(4, dtype=np.float32)[[2, 0, 3, 1]]
    check("Det", [x], domain="")
    check("Inverse", [x])
    same = values(3, 3)
    same[1] = same[0]
    for singular in (np.zeros((2, 3, 3), np.float32), same):
        check("Det", [singular], domain="")
    proto, _ = model_of("Det", [values(100, 100)], domain="")
    with pytest.raises(UnsupportedOpError, match="100 rows"):
        importer.load(proto)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_determinants_in_16_bits(precision: str) -> None:
    x = values(6, 3, 3)
    proto, feeds = model_of("Det", [x], domain="")
    with qnnrt.Session(importer.load(proto), "htp", precision=precision) as session:
        (found,) = session.run(feeds).values()
    np.testing.assert_allclose(found, np.linalg.det(x), atol=0.15, rtol=0.05)


def test_operators_by_other_names() -> None:
    x = values(3, 4)
    for metric in ("euclidean", "sqeuclidean"):
        check("CDist", [x, values(5, 4)], metric=metric)
    for axis in (-1, 1):
        check("ExpandDims", [x, np.array(axis, np.int32)], static=(1,))
    check("Trilu", [x, np.array(1)], static=(1,), upper=0)
    pads = np.array([1, 0, 0, 2])
    check("Pad", [x, pads, np.array(2, np.float32)], static=(1, 2))
    check("Pad", [x, pads[None]], static=(1,), mode="reflect")
    check("GatherND", [x, np.array([[0, 1], [2, 3]], np.int32)])
    image, grid = values(1, 2, 4, 5), values(1, 3, 3, 2)
    check("GridSample", [image, grid], align_corners=1, padding_mode="border", mode="bilinear")
    check("UnfoldTensor", [values(3, 7, 4)], dim=1, size=3, step=2)
    check("UnfoldTensor", [values(3, 7)], size=3)


def test_slopes_that_are_larger_than_what_they_slope() -> None:
    for x, slope in ((values(3, 1), values(2, 3, 4)), (values(1), values(5))):
        check("PRelu", [x, slope], domain="")
        check("PRelu", [x, slope], static=(1,), domain="")
