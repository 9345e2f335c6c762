"""Blocks with a residual in 8 bits: a convolution, a sum with what came before, a clamp."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Quantization, Tensor
from support.fixed import Fixed, within
from support.one_node import u32

CLAMPS: list[tuple[str, dict[str, Any], float, float]] = [
    ("Relu", {}, 0.0, np.inf),
    ("Relu6", {}, 0.0, 6.0),
    ("ReluMinMax", {"min_value": np.float32(-0.71), "max_value": np.float32(1.3)}, -0.71, 1.3),
]
OPS = ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply")


def tensor(name: str, shape: tuple[int, ...], of: Fixed) -> Tensor:
    return Tensor(name, shape, of.dtype, None, of.quantization)


def run(
    model: Model, feeds: dict[str, np.ndarray], **options: Any
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The outputs, and which nodes are steps of their own."""
    with qnnrt.Session(model, "cpu", **options) as session:
        found = session.run(feeds)
        steps = json.loads(session.graph.describe() or "")["steps"]
    return found, [step["name"] for step in steps]


def middle_of(dtype: str) -> int:
    return int(np.iinfo(dtype).min) + 128


def result_of(dtype: str) -> Fixed:
    return Fixed(dtype, 0.0317, -middle_of(dtype) - 11)


def block(
    dtype: str, shape: tuple[int, ...], op: str, turned: bool, clamp: tuple[str, dict[str, Any]]
) -> Model:
    rng = np.random.default_rng(3)
    middle, result = middle_of(dtype), result_of(dtype)
    x, residual = Fixed(dtype, 0.021, -middle - 5), Fixed(dtype, 0.0173, -middle + 30)
    product = Fixed(dtype, 0.0291, -middle + 7)
    outs = (*shape[:-1], 24)
    weights = rng.integers(-127, 128, (1, 1, shape[-1], 24)).astype(np.int8)
    scales = rng.uniform(2e-4, 9e-4, 24).astype(np.float32).astype(np.float64)
    tensors = {
        t.name: t
        for t in (
            tensor("x", shape, x),
            tensor("residual", outs, residual),
            tensor("product", outs, product),
            tensor("sum", outs, result),
            tensor("y", outs, result),
        )
    }
    encoding = Quantization(scales, np.zeros(24, np.int32), 3)
    tensors["w"] = Tensor("w", weights.shape, weights.dtype, weights, encoding)
    spatial = {"stride": u32(1, 1), "pad_amount": np.zeros((2, 2), np.uint32)}
    operands = ["residual", "product"] if turned else ["product", "residual"]
    nodes = [
        Node("convolution", "Conv2d", ["x", "w"], ["product"], spatial),
        Node("sum", op, operands, ["sum"], {}),
        Node("clamp", clamp[0], ["sum"], ["y"], dict(clamp[1])),
    ]
    return Model("block", tensors, nodes, ["x", "residual"], ["y"])


@pytest.mark.parametrize("kernels", ["auto", "portable"])
@pytest.mark.parametrize("clamp", CLAMPS, ids=lambda c: c[0])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_clamp_behind_a_residual_is_merged_and_changes_no_other_bit(
    dtype: str, turned: bool, clamp: tuple[str, dict[str, Any], float, float], kernels: str
) -> None:
    name, params, low, high = clamp
    rng = np.random.default_rng(4)
    limits = np.iinfo(dtype)
    for op, shape, threads in zip(
        OPS, [(1, 7, 5, 16), (2, 3, 3, 33), (1, 110, 110, 8)], [1, 1, 2], strict=True
    ):
        model = block(dtype, shape, op, turned, (name, params))
        feeds = {
            n: rng.integers(limits.min, limits.max + 1, model.tensors[n].shape).astype(dtype)
            for n in model.inputs
        }
        options: dict[str, Any] = {"threads": threads, "options": {"kernels": kernels}}
        got, steps = run(model, feeds, **options)
        assert steps == ["convolution", "sum"]
        # What the application reads stays a tensor of its own.
        model.outputs = ["sum", "product", "y"]
        apart, steps = run(model, feeds, **options)
        assert steps == ["convolution", "sum", "clamp"]
        np.testing.assert_array_equal(got["y"], apart["y"])
        ends = result_of(dtype).quantize(np.array([low, high], np.float32))
        np.testing.assert_array_equal(got["y"], np.clip(apart["sum"], ends[0], ends[1]))
        assert (got["y"] != apart["sum"]).any()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(8))
def test_every_pair_of_codes_is_clamped(op: str, seed: int) -> None:
    """Also where a sum needs the longer loops: equal scales, scales that are far apart."""
    rng = np.random.default_rng(seed)
    dtype = ("uint8", "int8")[seed % 2]
    scales = ([1.0, 1.0, 2.0], [0.5, 0.25, 1.0], np.exp(rng.normal(0, 0.3, 3)))[seed % 3]
    least = np.iinfo(dtype).min
    a, b, out = (Fixed(dtype, np.float32(s), -int(rng.integers(256)) - least) for s in scales)
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(a.codes(), b.codes()))
    codes = np.sort(rng.choice(out.codes(), 2, replace=False))
    low, high = (np.float32(v) for v in out.dequantize(codes))
    tensors = {t.name: t for t in (tensor("x", x.shape, a), tensor("y", x.shape, b))}
    tensors |= {n: tensor(n, x.shape, out) for n in ("result", "clamped")}
    nodes = [Node("op", op, ["x", "y"], ["result"], {})]
    plain, _ = run(Model("plain", dict(tensors), nodes, ["x", "y"], ["result"]), {"x": x, "y": y})
    limits = {"min_value": low, "max_value": high}
    nodes = [*nodes, Node("clamp", "ReluMinMax", ["result"], ["clamped"], limits)]
    got, steps = run(Model("clamped", tensors, nodes, ["x", "y"], ["clamped"]), {"x": x, "y": y})
    assert steps == ["op"]
    np.testing.assert_array_equal(got["clamped"], np.clip(plain["result"], *codes))


def test_what_is_no_sum_of_two_whole_tensors_keeps_its_clamp() -> None:
    """A broadcast, another type for the result."""
    of, wide = Fixed("uint8", 0.03, -120), Fixed("uint16", 0.001, -3000)
    for shape, result in (((24,), of), ((4, 24), wide)):
        tensors = {
            t.name: t
            for t in (
                tensor("x", (4, 24), of),
                tensor("y", shape, of),
                tensor("sum", (4, 24), result),
                tensor("clamped", (4, 24), result),
            )
        }
        nodes = [
            Node("sum", "ElementWiseAdd", ["x", "y"], ["sum"], {}),
            Node("clamp", "Relu", ["sum"], ["clamped"], {}),
        ]
        rng = np.random.default_rng(5)
        x, y = (rng.integers(0, 256, s).astype(np.uint8) for s in ((4, 24), shape))
        model = Model("g", tensors, nodes, ["x", "y"], ["clamped"])
        got, steps = run(model, {"x": x, "y": y})
        assert steps == ["sum", "clamp"]
        real = np.maximum(of.dequantize(x) + of.dequantize(y), 0)
        within(got["clamped"], result.quantize(real), 1)
