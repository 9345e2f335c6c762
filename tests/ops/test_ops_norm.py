"""Normalizations follow their formulas, evaluated here in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support.one_node import KERNELS, close, run_op, u32

CHANNELS = (1, 5, 19, 64, 100, 130)


def image(channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(channels)
    x = r.standard_normal((2, 9, 7, channels), np.float32) * 3 + 5
    return x, *r.standard_normal((2, channels), np.float32)


def on_axes(vector: np.ndarray, axes: tuple[int, ...], rank: int) -> np.ndarray:
    """A tensor over `axes`, in their order, made to broadcast over `rank` dimensions."""
    order = np.argsort(axes)
    shape = [1] * rank
    for axis, n in zip(np.sort(axes), vector.transpose(order).shape, strict=True):
        shape[axis] = n
    return vector.transpose(order).reshape(shape)


@pytest.mark.parametrize("channels", CHANNELS)
def test_batchnorm_scales_and_shifts_each_channel(channels: int) -> None:
    x, w, b = image(channels)
    (got,) = run_op("Batchnorm", [x, w, b], [x.shape], static=[1, 2])
    close(got, x.astype(np.float64) * w + b)
    (got,) = run_op("Batchnorm", [x, w], [x.shape])
    close(got, x.astype(np.float64) * w)
    (got,) = run_op("Batchnorm", [x, w, b], [x.shape], static=[1, 2], then=[("Relu", {})])
    close(got, np.maximum(x.astype(np.float64) * w + b, 0))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("axes", [(3,), (2, 3), (1, 2, 3), (1,), (0, 2), (3, 1)])
@pytest.mark.parametrize("channels", CHANNELS)
def test_norms_along_axes(channels: int, axes: tuple[int, ...], kernels: str) -> None:
    x, _, _ = image(channels)
    wide = x.astype(np.float64)
    r = np.random.default_rng(1)
    w, b = r.standard_normal((2, *(x.shape[a] for a in axes)), np.float32)
    scale, shift = on_axes(w, axes, 4), on_axes(b, axes, 4)
    run: dict[str, Any] = {"kernels": kernels, "static": (1, 2)}
    layer = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-3)
    params: dict[str, Any] = {"axes": u32(*axes)}
    close(run_op("LayerNorm", [x, w, b], [x.shape], params, **run)[0], layer * scale + shift)
    close(run_op("LayerNorm", [x], [x.shape], params, **run)[0], layer)
    rms = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-6) * scale
    close(run_op("RmsNorm", [x, w], [x.shape], params | {"epsilon": 1e-6}, **run)[0], rms)
    norm = np.sqrt((wide**2).sum(axes, keepdims=True))
    close(run_op("L2Norm", [x], [x.shape], params, **run)[0], wide / norm)
    if len(axes) == 1:
        close(run_op("L2Norm", [x], [x.shape], {"axis": axes[0]}, **run)[0], wide / norm)
    half = [v.astype(np.float16) for v in (x, w, b)]
    close(run_op("LayerNorm", half, [x.shape], params, **run)[0], layer * scale + shift, 2e-2)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("region", [0, 1, 2])
@pytest.mark.parametrize("mode", ["mean and variance", "mean", "rms"])
def test_instance_norm_in_every_mode_and_region(mode: str, region: int, channels: int) -> None:
    x, w, b = image(channels)
    axes = ((1, 2), (3,), (1, 2, 3))[region]
    wide = x.astype(np.float64)
    centred = wide if mode == "rms" else wide - wide.mean(axes, keepdims=True)
    factor = 1.0 if mode == "mean" else 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-3)
    params = {
        "epsilon": 1e-3, "mode": int(mode == "rms"), "normalize_variance": mode != "mean",
        "region": region,
    }  # fmt: skip
    (got,) = run_op("InstanceNorm", [x, w, b], [x.shape], params, static=[1, 2])
    close(got, centred * factor * w + b)


@pytest.mark.parametrize(
    ("channels", "group"), [(1, 1), (5, 1), (5, 5), (100, 4), (64, 32), (130, 2)]
)
def test_group_norm(channels: int, group: int) -> None:
    x, w, b = image(channels)
    grouped = x.astype(np.float64).reshape(2, 63, group, -1)
    centred = grouped - grouped.mean((1, 3), keepdims=True)
    y = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)
    params = {"epsilon": 1e-5, "group": group}
    (got,) = run_op("GroupNorm", [x, w, b], [x.shape], params)
    close(got, y.reshape(x.shape) * w + b)
    (got,) = run_op("GroupNorm", [x], [x.shape], params)
    close(got, y.reshape(x.shape))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.0, 0.6])
@pytest.mark.parametrize("radius", [0, 1, 2, 200])
@pytest.mark.parametrize("region", [0, 1])
def test_lrn_multiplies_the_plain_sum_by_alpha(
    region: int, radius: int, beta: float, kernels: str
) -> None:
    for channels in (5, 19, 64):
        x, _, _ = image(channels)
        squares = x.astype(np.float64) ** 2
        total = np.zeros_like(squares)
        if region == 0:
            for c in range(channels):
                window = slice(max(0, c - radius), c + radius + 1)
                total[..., c] = squares[..., window].sum(-1)
        else:
            for h in range(x.shape[1]):
                for w in range(x.shape[2]):
                    rows = slice(max(0, h - radius), h + radius + 1)
                    columns = slice(max(0, w - radius), w + radius + 1)
                    total[:, h, w] = squares[:, rows, columns].sum((1, 2))
        params = {
            "radius": np.int32(radius), "alpha": 0.01, "beta": beta, "bias": 2.0, "region": region
        }  # fmt: skip
        (got,) = run_op("Lrn", [x], [x.shape], params, kernels=kernels)
        close(got, x / (2 + 0.01 * total) ** beta)


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
