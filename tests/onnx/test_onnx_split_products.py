"""A product whose columns are taken apart is a product for each part, with nothing to copy."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.one_node import KERNELS
from support.onnx.agreement import random
from support.onnx.models import GraphMaker

FLOAT = onnx.TensorProto.FLOAT
ROWS, DEPTH, WIDTH = 7, 24, 40


def _steps(session: qnnrt.Session) -> list[str]:
    assert session.graph is not None
    steps = json.loads(session.graph.describe() or "")["steps"]
    return ["+".join([s["op"], *s["fused"]]) for s in steps]


def _halves(g: GraphMaker, x: str, how: str) -> tuple[str, str]:
    if how == "split":
        first = g("Split", x, g.const(np.array([WIDTH, WIDTH])), outputs=2, axis=-1)
        return first, first + ".1"
    ends = ((0, WIDTH), (WIDTH, 2 * WIDTH))
    return tuple(g("Slice", x, g.const(np.array([a])), g.const(np.array([b])),
                   g.const(np.array([2]))) for a, b in ends)  # type: ignore[return-value]  # fmt: skip


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("product", ["matrix", "matrix and bias", "gemm between reshapes"])
@pytest.mark.parametrize("how", ["split", "slices"])
def test_a_gated_layer_is_two_products_and_a_factor(how: str, product: str, kernels: str) -> None:
    """x silu(gate) as transformers write it, the two in one matrix."""
    g = GraphMaker(1)
    w, b = random(1, DEPTH, 2 * WIDTH), random(2, 2 * WIDTH)
    if product == "gemm between reshapes":
        flat = g("Reshape", "x", g.const(np.array([2 * ROWS, DEPTH])))
        y = g("Gemm", flat, g.const(w), g.const(b))
        y = g("Reshape", y, g.const(np.array([2, ROWS, 2 * WIDTH])))
    else:
        y = g("MatMul", "x", g.const(w))
        b = b if product == "matrix and bias" else 0 * b
        y = g("Add", y, g.const(b)) if product == "matrix and bias" else y
    left, gate = _halves(g, y, how)
    proto = g.model({"x": (FLOAT, (2, ROWS, DEPTH))},
                    {"y": g("Mul", left, g("Mul", gate, g("Sigmoid", gate)))}, 17)  # fmt: skip
    model = importer.load(proto)
    x = random(3, 2, ROWS, DEPTH)
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        steps = _steps(session)
        found = session.run({"x": x})["y"]
    assert sorted(step for step in steps if "MatMul" in step) == ["MatMul", "MatMul+Swish"]
    assert not {"Split", "StridedSlice"} & set(steps)
    exact = x.astype(np.float64) @ w + b
    left64, gate64 = exact[..., :WIDTH], exact[..., WIDTH:]
    wanted = left64 * gate64 / (1 + np.exp(-gate64))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["whole is an output", "overlap", "rows", "computed weights"])
def test_what_would_be_computed_twice_or_is_not_columns_stays(case: str) -> None:
    g = GraphMaker(1)
    inputs: dict[str, tuple[int, tuple[object, ...]]] = {"x": (FLOAT, (2, ROWS, DEPTH))}
    feeds = {"x": random(3, 2, ROWS, DEPTH)}
    w = random(1, DEPTH, 2 * WIDTH)
    if case == "computed weights":
        inputs["w"], feeds["w"] = (FLOAT, w.shape), w
    y = g("MatMul", "x", "w" if case == "computed weights" else g.const(w))
    axis, ends = (1, (3, ROWS)) if case == "rows" else (2, (WIDTH, 2 * WIDTH))
    begin = ends[0] - 1 if case == "overlap" else ends[0]
    parts = [g("Slice", y, *(g.const(np.array([n])) for n in (a, b, axis)))
             for a, b in ((0, ends[0]), (begin, ends[1]))]  # fmt: skip
    outputs = {f"y{i}": p for i, p in enumerate(parts)}
    if case == "whole is an output":
        outputs["whole"] = y
    with qnnrt.Session(importer.load(g.model(inputs, outputs, 17)), backend="cpu") as session:
        assert _steps(session).count("MatMul") == 1
        found = session.run(feeds)
    exact = feeds["x"].astype(np.float64) @ w
    wanted = exact[:, begin:] if case == "rows" else exact[..., begin:]
    np.testing.assert_allclose(found["y1"], wanted, rtol=1e-4, atol=1e-5)


def _heads(g: GraphMaker, how: str, heads: int, scale: float | None) -> str:
    """Attention of packed queries, keys and values, with the factor at one place or at two."""
    width = WIDTH // heads
    x = g("MatMul", "x", g.const(random(1, DEPTH, 3 * WIDTH)))
    x = g("Add", x, g.const(random(2, 3 * WIDTH)))
    if how == "gather":  # as nn.MultiheadAttention is exported
        x = g("Reshape", x, g.const(np.array([2, ROWS, 3, WIDTH])))
        x = g("Unsqueeze", x, g.const(np.array([0])))
        x = g("Squeeze", g("Transpose", x, perm=[3, 1, 2, 0, 4]), g.const(np.array([3])))
        parts = [g("Gather", x, g.const(np.array(i)), axis=0) for i in range(3)]
    else:
        x = g("Reshape", x, g.const(np.array([2, ROWS, 3, heads, width])))
        first = g("Split", x, g.const(np.array([1, 1, 1])), outputs=3, axis=2)
        parts = [g("Squeeze", part, g.const(np.array([2]))) for part in (
            first, first + ".1", first + ".2")]  # fmt: skip
    q, k, v = (g("Transpose", g("Reshape", part, g.const(np.array([2, ROWS, heads, width]))),
                 perm=[0, 2, 1, 3]) for part in parts)  # fmt: skip
    if scale is not None:
        q = g("Mul", q, g.const(scale))
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    if scale is None:
        scores = g("Div", scores, g.const(4.0))
    y = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return g("Reshape", y, g.const(np.array([2, ROWS, WIDTH])))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("scale", [0.25, None])
@pytest.mark.parametrize("how", ["gather", "split"])
def test_packed_queries_keys_and_values_are_products_that_take_the_factor(
    how: str, scale: float | None, kernels: str
) -> None:
    g, heads = GraphMaker(1), 4
    proto = g.model({"x": (FLOAT, (2, ROWS, DEPTH))}, {"y": _heads(g, how, heads, scale)}, 17)
    x = random(3, 2, ROWS, DEPTH) / 4
    options = {"kernels": kernels}
    with qnnrt.Session(importer.load(proto), backend="cpu", options=options) as session:
        steps = _steps(session)
        found = session.run({"x": x})["y"]
    assert steps.count("MatMul") == 5
    assert set(steps) <= {"MatMul", "Softmax", "Transpose"}
    packed = x.astype(np.float64) @ random(1, DEPTH, 3 * WIDTH) + random(2, 3 * WIDTH)
    q, k, v = np.moveaxis(packed.reshape(2, ROWS, 3, heads, WIDTH // heads), (2, 3), (0, 2))
    scores = np.exp(q @ np.swapaxes(k, -1, -2) / 4)
    wanted = np.moveaxis(scores / scores.sum(-1, keepdims=True) @ v, 1, 2).reshape(2, ROWS, WIDTH)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["read twice", "an output", "for each head", "behind a bias"])
def test_a_factor_that_others_must_not_see_stays(case: str) -> None:
    """x w, transposed, times a factor, where the product cannot take it."""
    g = GraphMaker(1)
    y = g("MatMul", "x", g.const(random(1, DEPTH, WIDTH)))
    turned = g("Transpose", g("Reshape", y, g.const(np.array([2, ROWS, 4, WIDTH // 4]))),
               perm=[0, 2, 1, 3])  # fmt: skip
    if case == "behind a bias":
        turned = g("Add", turned, g.const(random(5, 1, 4, 1, WIDTH // 4)))
    factor = random(4, 1, 4, 1, 1) if case == "for each head" else 0.3
    z = g("Mul", turned, g.const(factor))
    outputs = {"z": z}
    if case == "an output":
        outputs["turned"] = turned
    if case == "read twice":
        outputs["z"] = g("Add", z, g("Exp", turned))
    proto = g.model({"x": (FLOAT, (2, ROWS, DEPTH))}, outputs, 17)
    x = random(3, 2, ROWS, DEPTH) / 4
    with qnnrt.Session(importer.load(proto), backend="cpu") as session:
        found = session.run({"x": x})["z"]
    turned = x.astype(np.float64) @ random(1, DEPTH, WIDTH)
    turned = np.moveaxis(turned.reshape(2, ROWS, 4, WIDTH // 4), 2, 1)
    if case == "behind a bias":
        turned = turned + random(5, 1, 4, 1, WIDTH // 4)
    wanted = turned * factor + (np.exp(turned) if case == "read twice" else 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
