"""MatMul and FullyConnected on the gpu backend give what the cpu gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.model import Quantization
from support.gpu.cases import against_cpu, normal, one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.one_node import Case, case

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def product(seed: int, dtype: Any = np.float32) -> Case:
    """Of any sizes, batches that broadcast, and layouts."""
    r = np.random.default_rng(seed)
    m, n, k = (int(v) for v in r.choice([1, 3, 7, 16, 17, 33, 70], 3))
    batch = r.integers(1, 4, seed % 4)
    shapes = []
    for _ in range(2):
        mine = np.where(r.random(len(batch)) < 0.7, batch, 1)
        shapes.append(tuple(int(v) for v in mine[int(r.integers(0, len(batch) + 1)) :]))
    a = normal(*shapes[0], m, k, seed=seed, dtype=dtype)
    b = normal(*shapes[1], k, n, seed=seed + 1, dtype=dtype)
    bias = normal(n, dtype=dtype) if r.random() < 0.5 else None
    flip = r.random(2) < 0.4
    return case(
        "MatMul",
        [a.swapaxes(-1, -2) if flip[0] else a, b.swapaxes(-1, -2) if flip[1] else b, bias],
        [(*np.broadcast_shapes(*shapes), m, n)],
        {"transpose_in0": bool(flip[0]), "transpose_in1": bool(flip[1])},
        static=[(), (1,), (1, 2), (0,)][int(r.integers(0, 4))],
        name="p",
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 10])
def test_products_broadcast_and_turn_as_on_the_cpu(first: int) -> None:
    against_cpu(*(product(seed) for seed in range(first, first + 10)), terms=70)


@pytest.mark.slow
def test_products_of_16_bit_floats() -> None:
    against_cpu(*(product(seed, np.float16) for seed in range(4, 10)), terms=70)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_fully_connected_layers(dtype: Any) -> None:
    cases = []
    w, bias = normal(45, 37, dtype=dtype), normal(45, dtype=dtype)
    for rows in (1, 13):
        x = normal(rows, 3, 37, dtype=dtype)
        for static in ((), (1, 2)):
            cases += [
                case("FullyConnected", [x, w, bias], [(rows * 3, 45)], static=static, name="f"),
                case("FullyConnected", [x.reshape(-1), w], [(rows * 3, 45)], static=static),
            ]
        params = {"keep_dims": True}
        cases.append(case("FullyConnected", [x, w, bias], [(rows, 3, 45)], params, static=[1]))
    against_cpu(*cases, terms=37)


def test_a_long_inner_dimension_loses_nothing() -> None:
    w = normal(70, 6000)
    cases = [
        case("FullyConnected", [normal(rows, 6000), w], [(rows, 70)], static=[1])
        for rows in (1, 5, 40)
    ]
    against_cpu(*cases, terms=6000)


def test_what_is_behind_a_product_is_done_by_its_kernel() -> None:
    x, w, bias = normal(9, 33), normal(50, 33, seed=1), normal(50)
    static = (1, 2)
    cases = [
        case("FullyConnected", [x, w, bias], [(9, 50)], static=static, then=[(op, {})])
        for op in ("Relu", "Tanh", "Sigmoid")
    ]
    against_cpu(*cases, terms=33)


def test_weights_in_fixed_point_are_the_numbers_that_they_stand_for() -> None:
    codes = np.arange(-40, 40, dtype=np.int8).reshape(5, 16)
    scales = Quantization(np.geomspace(0.01, 0.1, 5).astype(np.float32), np.zeros(5, int), axis=0)
    for dtype in (np.float32, np.float16):
        args: Any = [normal(3, 16, dtype=dtype), codes], [(3, 5)]
        against_cpu(case("FullyConnected", *args, static=(1,), encodings={"in1": scales}), terms=16)
