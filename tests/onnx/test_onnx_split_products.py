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
