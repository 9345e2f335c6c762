"""Convolutions in bfloat16 whose windows do not overlap, with channels that end within a tile."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor

F32 = np.dtype(np.float32)


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("channels", [40, 48, 64, 72, 80, 100, 112, 160])
def test_windows_side_by_side_are_convolved_in_bfloat16(channels: int, window: int) -> None:
    rng = np.random.default_rng(channels)
    side, outputs = 12, 160
    weights = rng.standard_normal((window, window, channels, outputs)).astype(np.float32)
    tensors = {
        "x": Tensor("x", (1, side, side, channels), F32),
        "w": Tensor("w", weights.shape, F32, weights),
        "y": Tensor("y", (1, side // window, side // window, outputs), F32),
    }
    params = {"stride": np.full(2, window, np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    nodes = [Node("conv", "Conv2d", ["x", "w"], ["y"], params)]
    x = rng.standard_normal((1, side, side, channels)).astype(np.float32)
    results = []
    for precision in ("float32", "bfloat16"):
        model = Model("apart", tensors, nodes, ["x"], ["y"])
        with qnnrt.Session(model, threads=1, precision=precision) as session:
            results.append(session.run({"x": x})["y"])
    exact, found = results
    assert np.abs(found - exact).max() <= 0.02 * np.abs(exact).max()
