"""Normalizations follow their formulas, evaluated here in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import KERNELS, close, run_op, u32

CHANNELS = (1, 5, 19, 64, 100, 130)


def image(channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(channels)
    x = r.standard_normal((2, 9, 7, channels), np.float32) * 3 + 5
    return x, *r.standard_normal((2, channels), np.float32)


def check(
    op: str,
    inputs: list[np.ndarray],
    params: dict[str, Any] | None = None,
    tolerance: float = 1e-4,
    **run: Any,
) -> None:
    expected = reference.of(op, inputs, params)
    close(run_op(op, inputs, [inputs[0].shape], params, **run)[0], expected, tolerance)


@pytest.mark.parametrize("channels", CHANNELS)
def test_batchnorm_scales_and_shifts_each_channel(channels: int) -> None:
    x, w, b = image(channels)
    check("Batchnorm", [x, w, b], static=[1, 2])
    check("Batchnorm", [x, w])
    (got,) = run_op("Batchnorm", [x, w, b], [x.shape], static=[1, 2], then=[("Relu", {})])
    close(got, np.maximum(reference.of("Batchnorm", [x, w, b]), 0))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("axes", [(3,), (2, 3), (1, 2, 3), (1,), (0, 2), (3, 1)])
@pytest.mark.parametrize("channels", CHANNELS)
def test_norms_along_axes(channels: int, axes: tuple[int, ...], kernels: str) -> None:
    x, _, _ = image(channels)
    r = np.random.default_rng(1)
    w, b = r.standard_normal((2, *(x.shape[a] for a in axes)), np.float32)
    run: dict[str, Any] = {"kernels": kernels, "static": (1, 2)}
    params: dict[str, Any] = {"axes": u32(*axes)}
    check("LayerNorm", [x, w, b], params, **run)
    check("LayerNorm", [x], params, **run)
    check("RmsNorm", [x, w], params | {"epsilon": 1e-6}, **run)
    check("L2Norm", [x], params, **run)
    if len(axes) == 1:
        check("L2Norm", [x], {"axis": axes[0]}, **run)
    half = [v.astype(np.float16) for v in (x, w, b)]
    check("LayerNorm", half, params, 2e-2, **run)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("region", [0, 1, 2])
@pytest.mark.parametrize("mode", ["mean and variance", "mean", "rms"])
def test_instance_norm_in_every_mode_and_region(mode: str, region: int, channels: int) -> None:
    params = {
        "epsilon": 1e-3, "mode": int(mode == "rms"), "normalize_variance": mode != "mean",
        "region": region,
    }  # fmt: skip
    check("InstanceNorm", [*image(channels)], params, static=[1, 2])


@pytest.mark.parametrize(
    ("channels", "group"), [(1, 1), (5, 1), (5, 5), (100, 4), (64, 32), (130, 2)]
)
def test_group_norm(channels: int, group: int) -> None:
    x, w, b = image(channels)
    params = {"epsilon": 1e-5, "group": group}
    check("GroupNorm", [x, w, b], params)
    check("GroupNorm", [x], params)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.0, 0.6])
@pytest.mark.parametrize("radius", [0, 1, 2, 200])
@pytest.mark.parametrize("region", [0, 1])
def test_lrn_multiplies_the_plain_sum_by_alpha(
    region: int, radius: int, beta: float, kernels: str
) -> None:
    params = {
        "radius": np.int32(radius), "alpha": 0.01, "beta": beta, "bias": 2.0, "region": region
    }  # fmt: skip
    for channels in (5, 19, 64):
        check("Lrn", [image(channels)[0]], params, kernels=kernels)


def test_a_bad_norm_is_refused_with_the_rule_it_breaks() -> None:
    x, w, _ = image(5)
    short = w[:4]
    refused: list[tuple[str, list[Any], dict[str, Any], str]] = [
        ("Batchnorm", [x, short], {}, "weight"),
        ("Batchnorm", [x], {}, "weight"),
        ("LayerNorm", [x], {}, "axes"),
        ("LayerNorm", [x], {"axes": u32(4)}, "axis 4"),
        ("LayerNorm", [x], {"axes": u32(1, 1)}, "axis 1"),
        ("LayerNorm", [x, short], {"axes": u32(3)}, "[5]"),
        ("InstanceNorm", [x, w], {"mode": 2}, "mode"),
        ("GroupNorm", [x], {"epsilon": 1e-5, "group": 2}, "group"),
        ("Lrn", [x], {}, "radius"),
        ("Lrn", [x[0]], {"radius": 1, "region": 1}, "rank 4"),
    ]
    for op, inputs, params, word in refused:
        with pytest.raises(QnnError) as error:
            run_op(op, inputs, [inputs[0].shape], params)
        assert word in str(error.value)


@pytest.mark.parametrize("shape", [(1, 60, 50, 24), (3, 700, 16), (2, 5, 3), (1, 40, 40, 3)])
@pytest.mark.parametrize("op", ["GroupNorm", "InstanceNorm"])
def test_norms_over_pixels_hold_far_from_zero(op: str, shape: tuple[int, ...]) -> None:
    """Many chunks of pixels, each with a mean of its own; a mean of a thousand deviations."""
    r = np.random.default_rng(3)
    x = r.standard_normal(shape, np.float32)
    x += np.linspace(990, 1010, shape[1], dtype=np.float32).reshape(-1, *[1] * (len(shape) - 2))
    w, b = r.standard_normal((2, shape[-1]), np.float32)
    params: dict[str, Any] = {"epsilon": 1e-5}
    if op == "GroupNorm":
        params["group"] = 3 if shape[-1] % 3 == 0 else 4
    then: list[Any] = [("Relu", {})]
    wide = [v.astype(np.float64) for v in (x, w, b)]
    (got,) = run_op(op, [x, w, b], [shape], params, static=[1, 2], then=then)
    close(got, np.maximum(reference.of(op, wide, params), 0), 1e-3)
