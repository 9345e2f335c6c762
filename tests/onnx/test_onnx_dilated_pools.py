"""Dilated pools: each phase of the pixels is an image that a pool without dilation reads."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

#: Size of the image, kernel, strides, dilations, pads; whether it becomes a pool without dilation.
CASES = [
    ((14, 14), (3, 3), (2, 2), (2, 2), (2, 2, 2, 2), True),
    ((14, 14), (3, 3), (1, 1), (2, 2), (2, 2, 2, 2), True),
    ((13, 15), (3, 2), (2, 3), (2, 3), (1, 1, 2, 0), True),
    ((12, 9), (2, 3), (4, 1), (2, 1), (0, 1, 1, 0), True),
    ((12, 8), (3, 3), (1, 1), (3, 1), (0, 1, 0, 2), True),
    ((11, 10), (3, 3), (1, 1), (2, 2), (1, 1, 1, 1), False),
    ((9, 9), (2, 2), (3, 3), (2, 2), (0, 0, 0, 0), False),
    ((20,), (3,), (2,), (2,), (2, 1), True),
    ((9, 8, 10), (2, 2, 2), (2, 2, 2), (2, 2, 2), (1, 0, 1, 1, 1, 0), True),
]


@pytest.mark.parametrize("count_include_pad", [None, 0, 1])
@pytest.mark.parametrize(("size", "kernel", "strides", "dilations", "pads", "plain"), CASES)
def test_a_dilated_pool_is_one_of_its_phases(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    plain: bool,
    count_include_pad: int | None,
) -> None:
    maximum = count_include_pad is None
    how = {} if count_include_pad is None else {"count_include_pad": count_include_pad}
    pool = node(
        "MaxPool" if maximum else "AveragePool", ["x"], ["y"], kernel_shape=kernel,
        strides=strides, dilations=dilations, pads=pads, **how,
    )  # fmt: skip
    shape = (2, 5, *size)
    proto = make([pool], {"x": shape}, ["y"], opset=19)
    x = random(3, *shape)
    if maximum:
        x -= 10  # the padding is no maximum
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    model = importer.load(proto)
    assert (("PoolMax2d" if maximum else "PoolAvg2d") in model.op_counts()) == plain
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run({"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
