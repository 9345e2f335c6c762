"""Attention stored in 16 bits: as near as they allow, with every set of instructions."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.onnx.agreement import random
from support.onnx.models import GraphMaker
from support.outside import PATHS, printed

SIZES = ((390, 410, 24), (33, 47, 70), (17, 16, 32), (64, 1, 8), (2, 333, 5))
MASKS = ("none", "for each row", "for each key")
FACTOR = 0.3
Feeds = dict[str, np.ndarray]


def attention(
    rows: int, keys: int, depth: int, masked: str, *, last: bool = False
) -> tuple[qnnrt.model.Model, Feeds]:
    """Between tensors that are stored in 16 bits, the queries scaled before."""
    g, heads, batch = GraphMaker(1), 3, 2
    feeds = {
        "q": 2 * random(1, batch, rows, heads, depth),
        "k": 2 * random(2, batch, keys, heads, depth),
        "v": random(3, batch, keys, heads, depth),
    }
    q, k, v = (g("Tanh", n) for n in "qkv")
    q = g("Mul", g("Transpose", q, perm=[0, 2, 1, 3]), g.const(FACTOR))
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 2, 3, 1]))
    if masked == "for each row":
        feeds["mask"] = np.where(random(9, rows, keys) > 0, 0, -3e38).astype(np.float32)
        feeds["mask"][0] = -3e38  # where nothing is left, all are alike
    elif masked == "for each key":
        feeds["mask"] = 10 * random(9, batch, 1, 1, keys)
    if "mask" in feeds:
        scores = g("Add", scores, "mask")
    y = g("MatMul", g("Softmax", scores, axis=-1), g("Transpose", v, perm=[0, 2, 1, 3]))
    y = g("Transpose", y, perm=[0, 2, 1, 3])
    given = {n: (onnx.TensorProto.FLOAT, x.shape) for n, x in feeds.items()}
    return importer.load(g.model(given, {"y": y if last else g("Tanh", y)}, 17)), feeds


def exact(feeds: Feeds, *, last: bool = False) -> np.ndarray:
    q, k, v = (np.tanh(feeds[n].astype(np.float64)).transpose(0, 2, 1, 3) for n in "qkv")
    mask = feeds.get("mask", np.zeros(())).astype(np.float64)
    scores = FACTOR * q @ np.swapaxes(k, -1, -2) + mask
    if mask.ndim == 2:
        scores[:, :, 0] = 0
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
    return y if last else np.tanh(y)


def largest_errors() -> dict[str, float]:
    found = {}
    for size in SIZES:
        for masked in MASKS:
            for last in (False, True):
                model, feeds = attention(*size, masked, last=last)
                with qnnrt.Session(model, threads=2, precision="bfloat16") as s:
                    y = s.run(feeds)["y"]
                error = abs(y - exact(feeds, last=last)).max()
                found[f"{size} {masked} {last}"] = float(error)
    return found


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_it_is_as_near_as_16_bits_allow(isa: str | None) -> None:
    """Without a name, on matrix tiles where there are some."""
    code = "import json\nfrom session import test_precision_attention as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.largest_errors()))", **sets))
    assert len(found) == 2 * len(SIZES) * len(MASKS)
    for case, error in found.items():
        # Of values up to 1: keys, queries, values and the result are rounded to 8 bits.
        assert error < 3 * 2**-8, case


def test_large_attention_stores_no_scores() -> None:
    model, feeds = attention(*SIZES[0], "for each row")
    with qnnrt.Session(model, precision="bfloat16") as s:
        s.run(feeds)
        assert s.graph is not None
        steps = [step["op"] for step in json.loads(s.graph.describe() or "")["steps"]]
    assert "Attention" in steps
    assert not {"MatMul", "Softmax", "ElementWiseMultiply"} & set(steps)


@pytest.mark.parametrize("rows", [4, 33])
def test_half_precision_rounds_what_the_nodes_would(rows: int) -> None:
    """Behind a mask that is computed: scores, masked scores and weights. Without one they are
    nodes."""
    model, feeds = attention(rows, 130, 16, "for each row")
    feeds["mask"][0] = 0
    with qnnrt.Session(model, precision="float16") as s:
        got = s.run(feeds)["y"].astype(np.float64)
        assert s.graph is not None
        steps = [step["op"] for step in json.loads(s.graph.describe() or "")["steps"]]
    assert "Attention" in steps
    assert not {"MatMul", "Softmax", "ElementWiseAdd"} & set(steps)

    def half(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)

    q, k, v = (half(np.tanh(half(feeds[n]))).transpose(0, 2, 1, 3) for n in "qkv")
    scores = half(half(half(np.float32(FACTOR)) * q) @ np.swapaxes(k, -1, -2))
    masked = half(scores + half(feeds["mask"]))
    weights = np.exp(masked - masked.max(-1, keepdims=True))
    y = half(half(weights / weights.sum(-1, keepdims=True)) @ v).transpose(0, 2, 1, 3)
    wanted = half(np.tanh(y))
    off = np.abs(got - wanted)
    assert off.max() <= 2**-11  # a step of the largest results
    assert (off == 0).mean() > 0.6
    plain, _ = attention(rows, 130, 16, "none")
    with qnnrt.Session(plain, precision="float16") as s:
        assert s.graph is not None
        assert "Softmax" in [step["op"] for step in json.loads(s.graph.describe() or "")["steps"]]


def test_a_node_that_is_kept_stays_with_its_tensors() -> None:
    model, feeds = attention(*SIZES[0], "none")
    softmax = next(n.name for n in model.nodes if n.type == "Softmax")
    with qnnrt.Session(model, precision="bfloat16", options={"float32_nodes": [softmax]}) as s:
        s.run(feeds)
        assert s.graph is not None
        steps = {x["name"]: x["op"] for x in json.loads(s.graph.describe() or "")["steps"]}
    assert steps[softmax] == "Softmax"
