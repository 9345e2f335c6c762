"""Attention over many keys is one step, which reads and writes transposed tensors in place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.importers import onnx as importer
from support.one_node import KERNELS
from support.onnx.agreement import random
from support.onnx.models import GraphMaker

HEADS, ROWS, KEYS, DEPTH = 4, 390, 401, 12
ATTENTION = "Attention"
Feeds = dict[str, np.ndarray]


def _exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: object) -> np.ndarray:
    """Of [.., heads, positions, depth], in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * q @ np.swapaxes(k, -1, -2) + np.asarray(mask, np.float64)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ v


def _load(g: GraphMaker, feeds: Feeds, outputs: dict[str, str]) -> qnnrt.model.Model:
    given = {k: (onnx.TensorProto.FLOAT, v.shape) for k, v in feeds.items()}
    return importer.load(g.model(given, outputs, 17))


def _steps(session: qnnrt.Session) -> list[str]:
    assert session.graph is not None
    return [s["op"] for s in json.loads(session.graph.describe() or "")["steps"]]


def _feeds(*, rows: int = ROWS, keys: int = KEYS, heads: int = HEADS, batch: int = 1) -> Feeds:
    """As products leave them: [batch, positions, heads, depth]."""
    return {
        "q": random(1, batch, rows, heads, DEPTH),
        "k": random(2, batch, keys, heads, DEPTH),
        "v": random(3, batch, keys, heads, DEPTH),
    }


def _turned(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 1, 3)


Scores = Callable[[GraphMaker, str, str], str]
FACTOR = 0.3

#: How the scores come of q and k, [batch, positions, heads, depth].
SCORES: dict[str, Scores] = {
    "product, factor": lambda g, q, k: g("Mul", g(
        "MatMul", g("Transpose", q, perm=[0, 2, 1, 3]), g("Transpose", k, perm=[0, 2, 3, 1])),
        g.const(FACTOR)),
    "product, divisor": lambda g, q, k: g("Div", g(
        "MatMul", g("Transpose", q, perm=[0, 2, 1, 3]), g("Transpose", k, perm=[0, 2, 3, 1])),
        g.const(1 / FACTOR)),
    "keys turned twice": lambda g, q, k: g("Mul", g.const(FACTOR), g(
        "MatMul", g("Transpose", q, perm=[0, 2, 1, 3]),
        g("Transpose", g("Transpose", k, perm=[0, 2, 1, 3]), perm=[0, 1, 3, 2]))),
}  # fmt: skip


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("masked", ["no mask", "for all", "for each head", "for each row"])
@pytest.mark.parametrize("form", SCORES)
def test_it_is_one_step_and_exact(form: str, masked: str, kernels: str) -> None:
    g, feeds = GraphMaker(1), _feeds(batch=2)
    scores, mask = SCORES[form](g, "q", "k"), np.zeros((), np.float32)
    shapes = {
        "for all": (KEYS,),
        "for each head": (1, HEADS, 1, KEYS),
        "for each row": (ROWS, KEYS),
    }
    if masked in shapes:
        mask = np.where(random(9, *shapes[masked]) > 0, 0, -3e38).astype(np.float32)
        feeds["mask"] = mask
        scores = g("Add", "mask", scores)
    values = g("Transpose", "v", perm=[0, 2, 1, 3])
    y = g("MatMul", g("Softmax", scores, axis=-1), values)
    y = g("Transpose", y, perm=[0, 2, 1, 3])
    model = _load(g, feeds, {"y": y})
    with qnnrt.Session(model, backend="cpu", options={"kernels": kernels}) as session:
        assert _steps(session) == [ATTENTION]
        found = session.run(feeds)["y"]
    wanted = _exact(*(_turned(feeds[n]) for n in "qkv"), FACTOR, mask)
    np.testing.assert_allclose(found, _turned(wanted), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shared", ["keys for all heads", "queries for all batches"])
def test_what_is_one_for_all_is_read_for_each(shared: str, threads: int) -> None:
    q, k, v = (random(i, 3, 4, n, DEPTH) for i, n in ((1, ROWS), (2, KEYS), (3, KEYS)))
    if shared == "keys for all heads":
        k, v = k[:, :1], v[:, :1]
    else:
        q = q[:1]
    g, feeds = GraphMaker(1), {"q": q, "k": k, "v": v}
    scores = g("MatMul", "q", g("Transpose", "k", perm=[0, 1, 3, 2]))
    y = g("MatMul", g("Softmax", scores, axis=3), "v")
    with qnnrt.Session(_load(g, feeds, {"y": y}), backend="cpu", threads=threads) as session:
        assert _steps(session) == [ATTENTION]
        found = session.run(feeds)["y"]
    np.testing.assert_allclose(found, _exact(q, k, v, 1, 0), rtol=2e-5, atol=2e-6)


def test_matrices_of_rank_3_whose_positions_lie_last() -> None:
    """As convolutions over flattened images give them: [heads, depth, positions]."""
    q, k, v = (random(i, HEADS, DEPTH, n) for i, n in ((1, ROWS), (2, KEYS), (3, KEYS)))
    g, feeds = GraphMaker(1), {"q": q, "k": k, "v": v}
    scores = g("MatMul", g("Transpose", "q", perm=[0, 2, 1]), "k")
    y = g("MatMul", g("Softmax", scores, axis=2), g("Transpose", "v", perm=[0, 2, 1]))
    with qnnrt.Session(_load(g, feeds, {"y": y}), backend="cpu") as session:
        assert _steps(session) == [ATTENTION]
        found = session.run(feeds)["y"]
    wanted = _exact(*(x.transpose(0, 2, 1) for x in (q, k, v)), 1, 0)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_one_whose_result_is_transposed() -> None:
    """As Whisper's exporter writes it: positions last, for a product with weights on the left."""
    g, feeds = GraphMaker(1), _feeds()
    _, outputs = _ordinary(g)
    y = g("Transpose", outputs["y"], perm=[0, 1, 3, 2])
    with qnnrt.Session(_load(g, feeds, {"y": y}), backend="cpu") as session:
        assert _steps(session) == [ATTENTION, "Transpose"]
        found = session.run(feeds)["y"]
    wanted = _exact(*(_turned(feeds[n]) for n in "qkv"), FACTOR, 0)
    np.testing.assert_allclose(found, np.swapaxes(wanted, 2, 3), rtol=1e-4, atol=1e-5)


def _ordinary(g: GraphMaker, **changed: str) -> tuple[dict[str, str], dict[str, str]]:
    """The nodes by what they are, and the output."""
    q, k, v = (g("Transpose", n, perm=[0, 2, 1, 3]) for n in "qkv")
    product = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = g("Mul", product, changed.get("factor", g.const(FACTOR)))
    weights = g("Softmax", scaled, axis=int(changed.get("axis", "-1")))
    return {"scores": scaled, "weights": weights}, {"y": g("MatMul", weights, v)}


@pytest.mark.parametrize("case", ["scores", "weights", "axis", "factor", "few keys", "few rows"])
def test_what_is_needed_or_is_another_thing_stays(case: str) -> None:
    sizes = {"few keys": {"keys": 77, "rows": 3000}, "few rows": {"rows": 1, "keys": 200_000}}
    g, feeds = GraphMaker(1), _feeds(**sizes.get(case, {}))
    changed = {"axis": {"axis": "1"}, "factor": {"factor": "factors"}}.get(case, {})
    if case == "factor":
        feeds["factors"] = random(7, 1, HEADS, 1, 1)
    inner, outputs = _ordinary(g, **changed)
    if case in inner:
        outputs["also"] = inner[case]
    with qnnrt.Session(_load(g, feeds, outputs), backend="cpu") as session:
        steps = _steps(session)
        assert ATTENTION not in steps
        assert steps.count("MatMul") == 2
        found = session.run(feeds)["y"]
    if case not in ("axis", "factor"):
        wanted = _exact(*(_turned(feeds[n]) for n in "qkv"), FACTOR, 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_saved_graph_keeps_it(tmp_path: Path) -> None:
    g, feeds = GraphMaker(1), _feeds()
    _, outputs = _ordinary(g)
    path = tmp_path / "net.bin"
    with qnnrt.Session(_load(g, feeds, outputs), backend="cpu") as session:
        assert ATTENTION in _steps(session)
        wanted = session.run(feeds)["y"].copy()
        session.save_binary(path)
    with qnnrt.Session(qnnrt.load(path), backend="cpu") as session:
        np.testing.assert_array_equal(session.run(feeds)["y"], wanted)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("number", [-np.inf, -3.4e38, -10.0])
def test_scores_that_a_constant_chooses_are_masked(number: float, keeps: bool) -> None:
    g, feeds = GraphMaker(1), _feeds()
    inner, _ = _ordinary(g)
    chosen = np.tri(ROWS, KEYS, dtype=bool)
    given = [inner["scores"], g.const(np.float32(number))]
    scores = g("Where", g.const(chosen == keeps), *(given if keeps else given[::-1]))
    y = g("MatMul", g("Softmax", scores, axis=-1), g("Transpose", "v", perm=[0, 2, 1, 3]))
    with qnnrt.Session(_load(g, feeds, {"y": y}), backend="cpu") as session:
        assert (_steps(session) == [ATTENTION]) == (number < -1e30)
        found = session.run(feeds)["y"]
    q, k, v = (_turned(feeds[n]).astype(np.float64) for n in "qkv")
    scores = np.where(chosen, FACTOR * q @ np.swapaxes(k, -1, -2), number)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
