"""Attention in the forms that TFLite files have is one step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from support.tflite.blocks import Blocks, steps

pytestmark = pytest.mark.foreign

ROWS, WIDTH, HEADS = 400, 32, 4
INNER = WIDTH // HEADS
PRODUCTS = ["FullyConnected"] * 3


def _heads(g: Blocks, x: int) -> int:
    return g.transpose(g.reshape(x, 1, ROWS, HEADS, INNER), 0, 2, 1, 3)


def _apart(g: Blocks, x: int) -> list[int]:
    return [_heads(g, g.dense(x, WIDTH, WIDTH)) for _ in range(3)]


def _split(g: Blocks, x: int) -> list[int]:
    y = g.dense(x, WIDTH, 3 * WIDTH)
    parts = g.parts("SPLIT", 3, g.const(2, np.int32), y, options="SplitOptions", numSplits=3)
    return [_heads(g, part) for part in parts]


def _gathered(g: Blocks, x: int) -> list[int]:
    y = g.reshape(g.dense(x, WIDTH, 3 * WIDTH), 1, ROWS, 3, HEADS, INNER)
    y = g.transpose(y, 2, 0, 3, 1, 4)
    return [g("GATHER", y, g.const(i, np.int32), options="GatherOptions") for i in range(3)]


def _softmax(g: Blocks, x: int) -> int:
    """As it comes from StableHLO."""
    most = g.reshape(g.reduce("REDUCE_MAX", x, 3, keep=False), 1, HEADS, ROWS, 1)
    y = g("EXP", g.sub(x, most))
    return g.div(y, g.reduce("SUM", y, 3))


def _causal() -> np.ndarray:
    return np.tril(np.ones((1, 1, ROWS, ROWS), bool))


MASKS: dict[str, Callable[[Blocks, int], int]] = {
    "none": lambda g, x: x,
    "added": lambda g, x: g.add(x, g.const(np.where(_causal(), 0, -1e9))),
    "taken": lambda g, x: g.sub(x, g.const(np.where(_causal(), 0, 1e9))),
    "chosen": lambda g, x: g("SELECT_V2", g.const(_causal(), bool), x, g.const(-1e30)),
    "chosen of a tensor": lambda g, x: g(
        "SELECT_V2", g.const(_causal(), bool), x, g.const(np.full((1, 1, ROWS, ROWS), -1e30))
    ),
}


def _attention(
    g: Blocks, parts: list[int], *, mask: str = "none", turned: bool = False, spelled: bool = False
) -> int:
    q, k, v = parts
    if turned:  # keys times queries, transposed: Keras' MultiHeadAttention
        q = g.transpose(g.times(q, INNER**-0.5), 0, 1, 3, 2)
        scores = g.transpose(g.product(k, q), 0, 1, 3, 2)
    else:
        scores = g.times(g.product(q, k, adj_y=True), INNER**-0.5)
    scores = MASKS[mask](g, scores)
    y = g.product(_softmax(g, scores) if spelled else g.softmax(scores), v)
    y = g.reshape(g.transpose(y, 0, 2, 1, 3), 1, ROWS, WIDTH)
    return g.dense(y, WIDTH, WIDTH)


@pytest.mark.parametrize("mask", MASKS)
def test_with_every_mask(mask: str) -> None:
    g = Blocks((1, ROWS, WIDTH))
    y = _attention(g, _apart(g, *g.inputs), mask=mask)
    assert steps(*g.finish(y)) == [*PRODUCTS, "Attention", "MatMul"]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spelled", [False, True])
def test_with_scores_that_are_turned_and_a_softmax_that_is_spelled_out(
    turned: bool, spelled: bool
) -> None:
    g = Blocks((1, ROWS, WIDTH))
    y = _attention(g, _apart(g, *g.inputs), turned=turned, spelled=spelled)
    assert steps(*g.finish(y)) == [*PRODUCTS, "Attention", "MatMul"]


def test_of_one_product_that_is_split() -> None:
    g = Blocks((1, ROWS, WIDTH))
    found = steps(*g.finish(_attention(g, _split(g, *g.inputs))))
    assert found == ["MatMul"] * 3 + ["Attention", "MatMul"]


def test_what_is_gathered_of_one_product_is_not_copied() -> None:
    g = Blocks((1, ROWS, WIDTH))
    found = steps(*g.finish(_attention(g, _gathered(g, *g.inputs))))
    assert found == ["FullyConnected", "Transpose", "Attention", "MatMul"]


@pytest.mark.parametrize("mask", ["none", "added"])
def test_of_heads_that_are_joined_with_the_batch(mask: str) -> None:
    g = Blocks((2, ROWS, WIDTH))

    def heads(x: int) -> int:
        y = g.transpose(g.reshape(g.dense(x, WIDTH, WIDTH), 2, ROWS, HEADS, INNER), 0, 2, 1, 3)
        return g.reshape(y, 2 * HEADS, ROWS, INNER)

    q, k, v = (heads(*g.inputs) for _ in range(3))
    scores = g.times(g.product(q, k, adj_y=True), INNER**-0.5)
    if mask == "added":
        scores = g.add(scores, g.const(np.where(_causal()[0], 0, -1e9)))
    y = g.reshape(g.product(g.softmax(scores), v), 2, HEADS, ROWS, INNER)
    y = g.dense(g.reshape(g.transpose(y, 0, 2, 1, 3), 2, ROWS, WIDTH), WIDTH, WIDTH)
    assert steps(*g.finish(y)) == [*PRODUCTS, "Attention", "MatMul"]


@pytest.mark.parametrize("what", ["sum", "exponential", "axis"])
def test_what_is_no_softmax_stays_arithmetic(what: str) -> None:
    g = Blocks((2, 5, 7))
    (x,) = g.inputs
    y = g("EXP", g.sub(x, g.reduce("REDUCE_MAX", x, 2)))
    total = g.reduce("SUM", y, 1 if what == "axis" else 2)
    outputs = {"sum": [total], "exponential": [y], "axis": []}[what]
    assert "Softmax" not in steps(*g.finish(g.div(y, total), *outputs))
