"""Products of 16-bit activations are the same on any number of threads and tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

I8 = np.dtype(np.int8)
U32 = np.dtype(np.uint32)


def activation(name: str, shape: tuple[int, ...], dtype: Any, span: float) -> Tensor:
    """Numbers from -span to span."""
    dtype = np.dtype(dtype)
    levels = int(np.iinfo(dtype).max) - int(np.iinfo(dtype).min)
    offset = -(levels // 2) if dtype.kind == "u" else 0
    return Tensor(name, shape, dtype, None, Quantization(2 * span / levels, offset))


def product(rows: int, depth: int, channels: int, into: Any, zero: int) -> Model:
    r = np.random.default_rng(rows)
    weights = r.integers(-127, 128, (channels, depth)).astype(np.int8)
    tensors = {
        "x": activation("x", (rows, depth), np.uint16, 4),
        "w": Tensor("w", weights.shape, I8, weights, Quantization(0.01, zero)),
        "y": activation("y", (rows, channels), into, 40),
    }
    return Model("fc", tensors, [Node("fc", "FullyConnected", ["x", "w"], ["y"])], ["x"], ["y"])


def window(
    images: int, side: int, channels: tuple[int, int], kernel: int, stride: int, pad: int
) -> Model:
    r = np.random.default_rng(side)
    cin, cout = channels
    weights = r.integers(-127, 128, (kernel, kernel, cin, cout)).astype(np.int8)
    after = (side + 2 * pad - kernel) // stride + 1
    tensors = {
        "x": activation("x", (images, side, side, cin), np.int16, 4),
        "w": Tensor("w", weights.shape, I8, weights, Quantization(0.01, 0)),
        "y": activation("y", (images, after, after, cout), np.int16, 60),
    }
    params = {
        "stride": np.array([stride, stride], U32),
        "pad_amount": np.array([[pad, pad], [pad, pad]], U32),
    }
    return Model("conv", tensors, [Node("c", "Conv2d", ["x", "w"], ["y"], params)], ["x"], ["y"])


def on(model: Model, threads: int, x: np.ndarray) -> np.ndarray:
    with qnnrt.Session(model, threads=threads) as session:
        return np.array(session.run({"x": x})["y"])


def same_on_all(model: Model) -> None:
    t = model.tensors["x"]
    info = np.iinfo(t.dtype)
    x = np.random.default_rng(1).integers(info.min, info.max + 1, t.shape).astype(t.dtype)
    alone = on(model, 1, x)
    assert len(np.unique(alone)) > 64
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(on(model, threads, x), alone, str(threads))


@pytest.mark.parametrize("into", [np.uint16, np.uint8])
@pytest.mark.parametrize("rows", [1, 47, 49, 72, 500, 1501])
def test_rows_of_a_matrix(rows: int, into: Any) -> None:
    same_on_all(product(rows, 128, 384, into, 0))


def test_weights_that_stand_around_another_number_than_zero() -> None:
    same_on_all(product(301, 128, 256, np.uint16, 5))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 2, 0)])
def test_rows_of_images(images: int, kernel: int, stride: int, pad: int) -> None:
    same_on_all(window(images, 29, (64, 96), kernel, stride, pad))
