"""Conv1d and Conv2d on the gpu backend give what the cpu gives, for any geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.model import Model, Node, Tensor
from support.gpu.cases import against_cpu, normal, one_backend  # noqa: F401
from support.gpu.opencl import opencl_is_up  # noqa: F401
from support.one_node import Case, case, pairs, u32

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def convolution(seed: int, dtype: Any = np.float32) -> Case:
    """Of any kernel, stride, dilation, pads, groups and channels."""
    r = np.random.default_rng(seed)
    spatial = 1 if seed % 6 == 0 else 2
    group = int(r.choice([1, 1, 2, 3]))
    cin, cout = int(r.choice([1, 3, 5, 8, 16])), int(r.choice([1, 4, 7, 16, 33]))
    kernel = r.integers(1, 5, spatial)
    stride, dilation = r.integers(1, 4, spatial), r.integers(1, 3, spatial)
    before, after = r.integers(0, 3, spatial), r.integers(0, 3, spatial)
    if seed % 4 == 0:  # pixel by pixel, as a product of matrices
        kernel[:] = stride[:] = dilation[:] = 1
        before[:] = after[:] = 0
    span = dilation * (kernel - 1) + 1
    size = np.maximum(span - before - after, 1) + r.integers(0, 9, spatial)
    out = (size + before + after - span) // stride + 1
    x = normal(int(r.integers(1, 3)), *size, cin * group, seed=seed, dtype=dtype)
    w = normal(*kernel, cin, cout * group, seed=seed + 1, dtype=dtype)
    bias = normal(cout * group, dtype=dtype) if r.random() < 0.7 else None
    params: dict[str, Any] = {"group": group}
    if spatial == 1:
        params |= {"stride": int(stride[0]), "dilation": int(dilation[0])}
        params["pad_amount"] = pairs(before, after).reshape(2)
    else:
        params |= {"stride": u32(*stride), "dilation": u32(*dilation)}
        params["pad_amount"] = pairs(before, after)
    return case(
        f"Conv{spatial}d",
        [x, w, bias],
        [(x.shape[0], *map(int, out), cout * group)],
        params,
        static=(1, 2) if r.random() < 0.7 else (),
        name="c",
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 12])
def test_convolutions_of_any_geometry(first: int) -> None:
    against_cpu(*(convolution(seed) for seed in range(first, first + 12)), terms=100)


@pytest.mark.slow
def test_convolutions_of_16_bit_floats() -> None:
    against_cpu(*(convolution(seed, np.float16) for seed in range(60, 66)), terms=100)


@pytest.mark.slow
def test_infinities_behind_the_edge_are_not_read() -> None:
    """Pads are zeros, not a product of zero and what lies elsewhere."""
    x, w = normal(1, 4, 5, 3), normal(3, 3, 3, 4)
    x[0, 0, 0, 0] = np.inf
    params = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    got = against_cpu(case("Conv2d", [x, w], [(1, 4, 5, 4)], params, static=[1]), terms=27)
    assert np.isfinite(got["out0"][0, 2:]).all()


def residual() -> Model:
    """relu(conv(x) + bias + x)."""
    f32 = np.dtype(np.float32)
    tensors = [
        Tensor("x", (1, 6, 7, 8), f32),
        Tensor("w", (3, 3, 8, 8), f32, normal(3, 3, 8, 8)),
        Tensor("b", (8,), f32, normal(8)),
        *(Tensor(n, (1, 6, 7, 8), f32) for n in ("conv", "sum", "y")),
    ]
    params = {"stride": u32(1, 1), "pad_amount": pairs((1, 1), (1, 1))}
    return Model(
        "residual",
        {t.name: t for t in tensors},
        [
            Node("conv", "Conv2d", ["x", "w", "b"], ["conv"], params),
            Node("add", "ElementWiseAdd", ["conv", "x"], ["sum"]),
            Node("relu", "Relu", ["sum"], ["y"]),
        ],
        ["x"],
        ["y"],
    )


def test_a_residual_block_gives_what_the_cpu_gives() -> None:
    against_cpu(residual(), terms=72)
