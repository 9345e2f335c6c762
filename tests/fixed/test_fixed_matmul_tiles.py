"""Products of two activations too large for the caches are done in tiles, and are as exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor

Shape = tuple[int, ...]


def activation(name: str, shape: Shape, dtype: Any, span: float) -> Tensor:
    """Numbers from -span to span."""
    info = np.iinfo(np.dtype(dtype))
    levels = int(info.max) - int(info.min)
    offset = -(levels // 2) if info.min == 0 else 0
    return Tensor(name, shape, np.dtype(dtype), None, Quantization(2 * span / levels, offset))


def codes(tensor: Tensor, seed: int) -> np.ndarray:
    info = np.iinfo(tensor.dtype)
    return (
        np.random.default_rng(seed)
        .integers(info.min, info.max + 1, tensor.shape)
        .astype(tensor.dtype)
    )


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    encoding: Any = tensor.quantization
    return encoding.scale * (values.astype(np.float64) + encoding.offset)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("a", "b", "transposed"),
    [
        ((5, 700, 64), (5, 64, 701), False),  # scores: one batch for each matrix
        ((2, 3, 401, 700), (2, 3, 700, 64), False),  # their product with the values
        ((6, 320, 33), (6, 1000, 33), True),
        ((3, 1, 500, 40), (1, 2, 40, 700), False),  # batches that broadcast
        ((4, 900, 64), (64, 300), False),  # one matrix for all of them
        ((1, 2111, 300), (300, 17), False),
    ],
)
def test_they_are_within_a_step_of_the_exact_product(
    a: Shape, b: Shape, transposed: bool, threads: int
) -> None:
    second = np.empty((*b[:-2], b[-1], b[-2]) if transposed else b, bool)
    shape = np.matmul(np.empty(a, bool), second).shape
    for dtype in (np.uint16, np.int16):
        tensors = {
            "a": activation("a", a, dtype, 2),
            "b": activation("b", b, dtype, 2),
            "y": activation("y", shape, dtype, 5 * a[-1] ** 0.5),
        }
        params = {"transpose_in1": transposed}
        node = Node("n", "MatMul", ["a", "b"], ["y"], params)
        given = {name: codes(tensors[name], i) for i, name in enumerate("ab")}
        with qnnrt.Session(
            Model("m", tensors, [node], ["a", "b"], ["y"]), threads=threads
        ) as session:
            got = session.run(given)["y"]
        x, w = (real(tensors[name], given[name]) for name in "ab")
        expected = x @ (w.swapaxes(-1, -2) if transposed else w)
        step = tensors["y"].quantization.scale
        limit = 5 * a[-1] ** 0.5
        np.testing.assert_allclose(
            real(tensors["y"], got), expected.clip(-limit, limit), rtol=0, atol=1.01 * step
        )
