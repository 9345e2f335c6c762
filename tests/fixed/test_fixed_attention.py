"""Attention in fixed point is one step, whose scores and weights are rounded as those of nodes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support.fixed import Fixed, within
from support.outside import PATHS, printed

#: Batches, heads, queries, keys, depth.
SIZES = ((1, 6, 300, 310, 64), (2, 3, 257, 401, 24), (1, 1, 1030, 513, 9))
TYPES = ("uint16", "int16", "uint8")


class Attention:
    """Heads lie beside each other, [batch, position, head, number], as in most models."""

    def __init__(self, size: tuple[int, ...], dtype: str, *, seen: bool = False, **changed: Fixed):
        batch, heads, rows, keys, depth = size
        self.types = {
            "q": Fixed.covering(dtype, -3, 3.5),
            "k": Fixed.covering(dtype, -4, 3),
            "v": Fixed.covering(dtype, -2, 1),
            "scores": Fixed.covering(dtype, -9, 8),
            "weights": Fixed.covering(dtype, 0, 0.3),
            "y": Fixed.covering(dtype, -0.5, 0.5),
        } | changed
        inputs = {
            "q": (batch, rows, heads, depth),
            "k": (batch, keys, heads, depth),
            "v": (batch, keys, heads, depth),
        }
        matrices = {
            "tq": ("q", (batch, heads, rows, depth), (0, 2, 1, 3)),
            "tk": ("k", (batch, heads, depth, keys), (0, 2, 3, 1)),
            "tv": ("v", (batch, heads, keys, depth), (0, 2, 1, 3)),
            "out": ("y", (batch, rows, heads, depth), (0, 2, 1, 3)),
        }
        shapes = inputs | {name: shape for name, (_, shape, _) in matrices.items()}
        shapes |= {"scores": (batch, heads, rows, keys), "weights": (batch, heads, rows, keys)}
        shapes["y"] = (batch, heads, rows, depth)
        types = self.types | {name: self.types[of] for name, (of, _, _) in matrices.items()}
        tensors = {
            name: Tensor(name, shape, np.dtype(types[name].dtype), None, types[name].quantization)
            for name, shape in shapes.items()
        }

        def turn(name: str) -> Node:
            perm = np.array(matrices[name][2], np.uint32)
            return Node(name, "Transpose", [matrices[name][0]], [name], {"perm": perm})

        nodes = [
            *map(turn, ("tq", "tk", "tv")),
            Node("product", "MatMul", ["tq", "tk"], ["scores"]),
            Node("softmax", "Softmax", ["scores"], ["weights"], {"axis": np.uint32(3)}),
            Node("sum", "MatMul", ["weights", "tv"], ["y"]),
            turn("out"),
        ]
        outputs = ["out", "scores", "weights"] if seen else ["out"]
        self.model = Model("attention", tensors, nodes, list("qkv"), outputs)
        rng = np.random.default_rng(depth)
        spread = {"q": 0.5, "k": 0.7, "v": 1.0}
        self.feeds = {
            name: self.types[name].quantize(spread[name] * rng.standard_normal(shape))
            for name, shape in inputs.items()
        }

    def run(self, threads: int = 1) -> tuple[dict[str, np.ndarray], list[str]]:
        """The outputs, and the ops that are run."""
        with qnnrt.Session(self.model, threads=threads) as session:
            ops = [step["op"] for step in json.loads(session.graph.describe() or "")["steps"]]
            return {k: x.copy() for k, x in session.run(self.feeds).items()}, ops

    @property
    def slack(self) -> int:
        """Steps that a result moves by where a sum near a tie rounds a score the other way, whose
        weight is the greatest; and one more."""
        of = self.types
        most = {n: of[n].scale * max(abs(x + of[n].offset) for x in of[n].limits) for n in of}
        moved = of["scores"].scale * most["weights"] + of["weights"].scale
        return 1 + int(np.ceil(moved * most["v"] / of["y"].scale))

    def exact(self) -> np.ndarray:
        """In double precision, rounded where the nodes store."""

        def stored(name: str, real: np.ndarray) -> np.ndarray:
            of = self.types[name]
            codes = np.clip(np.rint(real / np.float32(of.scale)) - of.offset, *of.limits)
            return np.asarray(np.float32(of.scale) * (codes + of.offset))

        q, k, v = (
            self.types[n].dequantize(self.feeds[n]).astype(np.float64).transpose(0, 2, 1, 3)
            for n in "qkv"
        )
        scores = stored("scores", q @ k.swapaxes(-1, -2))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = stored("weights", weights / weights.sum(-1, keepdims=True))
        of = self.types["y"]
        y = np.clip(np.rint(weights @ v / np.float32(of.scale)) - of.offset, *of.limits)
        return np.asarray(y.transpose(0, 2, 1, 3).astype(of.dtype))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_it_is_one_step_that_rounds_as_the_nodes(
    size: tuple[int, ...], dtype: str, threads: int
) -> None:
    case = Attention(size, dtype)
    outputs, ops = case.run(threads)
    assert ops == ["Attention"]
    exact = case.exact()
    assert np.ptp(exact.astype(np.int64)) > np.ptp([np.iinfo(dtype).min, np.iinfo(dtype).max]) / 8
    within(outputs["out"], exact, case.slack)
    rounded_apart = (outputs["out"] != exact).mean()
    assert rounded_apart < 0.03
    apart, nodes = Attention(size, dtype, seen=True).run()
    assert nodes.count("MatMul") == 2
    within(outputs["out"], apart["out"], case.slack)
    # Sums of floats in another order, which lie no further from the exact ones.
    assert rounded_apart < (apart["out"] != exact).mean() + 0.002


def test_types_may_differ() -> None:
    case = Attention(
        SIZES[1], "uint16", k=Fixed.covering("int8", -4, 3), weights=Fixed.covering("uint8", 0, 0.1)
    )
    outputs, ops = case.run(2)
    assert ops == ["Attention"]
    within(outputs["out"], case.exact(), case.slack)


def test_weights_that_are_cut_off() -> None:
    """Rounding to steps, not only the softmax, makes the result."""
    case = Attention(SIZES[1], "uint16", weights=Fixed.covering("uint16", 0, 0.004))
    whole = Attention(SIZES[1], "uint16")
    found, expected = case.run()[0]["out"], whole.run()[0]["out"]
    within(found, case.exact(), case.slack)
    assert abs(found.astype(int) - expected).max() > 100


@pytest.mark.parametrize("what", ["few scores", "tiny steps", "seen"])
def test_others_stay_nodes(what: str) -> None:
    size = (1, 2, 100, 100, 16) if what == "few scores" else SIZES[1]
    case = Attention(size, "uint16", seen=what == "seen")
    if what == "tiny steps":
        case.model.tensors["scores"].quantization = Fixed("uint16", 1e-31, -30000).quantization
    assert case.run()[1].count("MatMul") == 2


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
def test_every_set_of_instructions(isa: str) -> None:
    code = "from fixed import test_fixed_attention as t\n"
    code += "case = t.Attention(t.SIZES[1], 'int16')\n"
    code += "t.within(case.run()[0]['out'], case.exact(), case.slack)\nprint('right')\n"
    assert printed(code, QNNRT_ISA=isa, PYTHONPATH=PATHS) == "right\n"
