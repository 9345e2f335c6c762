"""Infinities, numbers at the end of their type and what is no number: each stays where it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

ODD = [np.nan, np.inf, -np.inf]


def run(proto: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    with qnnrt.Session(importer.load(proto)) as session:
        return np.asarray(session.run(feeds)["y"])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("shape", "scales", "mode"),
    [
        ((1, 2, 9, 12), [1, 1, 2, 1.5], "cubic"),
        ((2, 3, 16), [1, 1, 2], "linear"),
        ((2, 3, 16), [1, 1, 0.5], "cubic"),
        ((1, 2, 6, 7, 9), [1, 1, 2, 2, 2], "linear"),
        ((1, 9, 12, 5), [1, 2, 2, 1], "linear"),
        ((9, 5, 12, 3), [2, 1, 2, 1], "cubic"),
        ((12,), [3], "linear"),
    ],
)
def test_a_resize_reads_the_pixels_around_a_place(
    shape: tuple[int, ...], scales: list[float], mode: str, odd: float
) -> None:
    """All others are as without it, and those around it are not finite."""
    nodes = [node("Resize", ["x", "", "s"], ["y"], mode=mode)]
    proto = make(nodes, {"x": shape}, ["y"], {"s": np.array(scales, np.float32)})
    x = random(1, *shape)
    wanted = run(proto, x=x)
    (defined,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(wanted, defined, rtol=1e-4, atol=1e-5)
    x[(0,) * len(shape)] = odd
    y = run(proto, x=x)
    kept = np.isfinite(y)
    np.testing.assert_array_equal(y[kept], wanted[kept])
    reach = 1 if mode == "linear" else 2
    places = [min(int(np.ceil((reach + 0.5) * s)), d) if s != 1 else 1
              for s, d in zip(scales, y.shape, strict=True)]  # fmt: skip
    assert 0 < (~kept).sum() <= np.prod(places)


def test_an_antialiased_resize_keeps_what_is_no_number_near_its_place() -> None:
    x = random(1, 1, 2, 400, 300)
    how = {"mode": "linear", "antialias": 1}
    proto = make([node("Resize", ["x", "", "", "s"], ["y"], **how)], {"x": x.shape}, ["y"],
                 {"s": np.array([1, 2, 100, 130])}, opset=19)  # fmt: skip
    wanted = run(proto, x=x)
    x[0, 1, 200, 150] = np.nan
    y = run(proto, x=x)
    lost = np.argwhere(np.isnan(y))
    assert len(lost)
    assert (lost[:, 1] == 1).all()
    assert (np.abs(lost[:, 2:] - [50, 65]) < 64).all()
    kept = ~np.isnan(y)
    np.testing.assert_allclose(y[kept], wanted[kept], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("odd", ODD)
def test_an_einsum_takes_the_diagonal_alone(odd: float) -> None:
    for equation, shape in (("ii->i", (5, 5)), ("ii->", (5, 5)), ("aibi->bia", (2, 5, 3, 5))):
        x = random(1, *shape)
        off = x.copy()
        axes = tuple(i for i, ch in enumerate(equation.split("->")[0]) if ch == "i")
        off[tuple([1, 3][axes.index(i)] if i in axes else 0 for i in range(x.ndim))] = odd
        proto = make([node("Einsum", ["x"], ["y"], equation=equation)], {"x": shape}, ["y"])
        wanted = np.einsum(equation, x)
        np.testing.assert_allclose(run(proto, x=off).reshape(wanted.shape), wanted, rtol=1e-5)


@pytest.mark.parametrize("op", ["Acosh", "Asinh", "Atanh"])
def test_inverse_hyperbolic_functions_keep_their_digits(op: str) -> None:
    """Near 0 and 1, and where the square is no finite number."""
    r = np.random.default_rng(0)
    sizes = [10 ** r.uniform(-30, 38, 200), r.uniform(0, 1, 100), 1 + 10 ** r.uniform(-7, 2, 100)]
    ends = [0, 1, 3e38, np.inf, np.nan]
    x = np.concatenate([*sizes, ends]).astype(np.float32)
    x = np.concatenate([x, -x])
    proto = make([node(op, ["x"], ["y"])], {"x": x.shape}, ["y"])
    with np.errstate(all="ignore"):
        wanted = getattr(np, "arc" + op[1:].lower())(x.astype(np.float64))
    np.testing.assert_allclose(run(proto, x=x), wanted, rtol=3e-7)


def test_the_logarithm_of_a_sum_of_large_exponentials() -> None:
    rows = [[np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [-np.inf, 1, 1], [3.4e38, 1, -3.4e38],
            [np.nan, 1, np.inf], [-3.4e38, -3.4e38, -3.4e38], [200, 0, 200]]  # fmt: skip
    x = np.array(rows, np.float32)
    for more in ({}, {"keepdims": 0}):
        proto = make([node("ReduceLogSumExp", ["x", "a"], ["y"], **more)], {"x": x.shape}, ["y"],
                     {"a": np.array([1])}, opset=18)  # fmt: skip
        with np.errstate(invalid="ignore"):
            wanted = np.logaddexp.reduce(x.astype(np.float64), 1).astype(np.float32)
        np.testing.assert_allclose(run(proto, x=x).ravel(), wanted, rtol=1e-6)


def test_hard_swish_of_the_largest_numbers() -> None:
    x = np.array([3.4e38, -3.4e38, 1e38, np.inf, 3, 0, -3, 4.5, -1.5], np.float32)
    y = run(make([node("HardSwish", ["x"], ["y"])], {"x": x.shape}, ["y"], opset=14), x=x)
    wanted = [3.4e38, 0, 1e38, np.inf, 3, 0, 0, 4.5, -0.375]
    np.testing.assert_allclose(y, np.array(wanted, np.float32), rtol=1e-6)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_by_what_is_cropped_first(mode: str) -> None:
    def proto(*pads: int) -> onnx.ModelProto:
        shape = {"x": (6, 7)}
        constants = {"p": np.array(pads)}
        return make([node("Pad", ["x", "p"], ["y"], mode=mode)], shape, ["y"], constants, opset=19)

    x = random(1, 6, 7)
    for pads in ([-1, 0, 0, 2], [-2, 1, 1, -3], [-1, -1, -1, -1], [3, -2, -1, 4]):
        agree(proto(*pads), {"x": x})
    with pytest.raises(ModelError, match=rf"mode '{mode}' has nothing to repeat: .* of \[0, 7\]"):
        importer.load(proto(-6, 0, 2, 0))


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("channels", [1, 3, 16, 33])
def test_a_maximum_over_windows_leaves_out_what_is_no_number(kernels: str, channels: int) -> None:
    """Wherever in a window it is, as in oneDNN and TFLite; ONNX Runtime's depends on the place."""
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    shape = (1, channels, 6, 6)
    proto = make([node("MaxPool", ["x"], ["y"], **attrs)], {"x": shape}, ["y"])
    x = random(1, *shape)
    x[0, 0, 2:4, 2] = np.nan
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    with qnnrt.Session(importer.load(proto), options={"kernels": kernels}) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.nanmax(windows, (-1, -2)))
