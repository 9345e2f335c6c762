"""How far a result may lie from what it should be.

The truth is an evaluation of the model in float64, each tensor stored in its own type. How much of
a difference rounding explains depends on the model: behind a floor, a comparison or a difference of
large numbers it may be everything. So the model is evaluated again with every operand and result
disturbed by a few roundings of its type, and an element may be off by a few times what it moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qnnrt.dtypes import is_float
from qnnrt.model import Model, Node, Tensor
from support import reference

#: Of one rounding, relative, by element type.
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
#: Roundings by which values are disturbed: sums of many products are not added up in one.
ROUNDINGS = 6.0

#: Ops with larger values inside than they give, which round those: absolute errors, and why.
INSIDE = {
    "LogSoftmax": 8e-6,  # the sum's logarithm, a polynomial in oneDNN's kernels
    "Gru": 3e-7,  # gates of about 1, whatever the state is
    "Lstm": 3e-7,
    # Merged into a oneDNN product: x / 2 * (1 + erf), exp - 1 and so on, not their exact forms.
    "Gelu": 1e-6,
    "Elu": 3e-7,
    "Tanh": 3e-7,
    "ElementWiseNeuron": 1e-6,
}
#: Ops that round more often than others between operand and result: cells, step by step.
STEPS = {"Gru": 3, "Lstm": 3}
#: Of Lstm's gates when they are normalized: over two units that are close their mean, rounded once,
#: moves them apart by more than that.
NORMALIZED = 2e-5


@dataclass
class Truth:
    """The outputs as they should be, and how far each element may be off."""

    values: dict[str, np.ndarray]
    allowed: dict[str, np.ndarray]


def evaluate(
    model: Model, feeds: Mapping[str, np.ndarray], rng: np.random.Generator | None = None,
    least: float = 0.0,
) -> dict[str, np.ndarray]:  # fmt: skip
    """All tensors; with `rng` disturbed, relative to themselves by `least` or more."""
    values: dict[str, np.ndarray] = {
        t.name: t.data for t in model.constants() if t.data is not None
    }
    values |= {n: np.asarray(feeds[n], model.tensors[n].dtype) for n in model.inputs}
    for node in model.nodes:
        inputs = [_operand(model.tensors[n], values[n], node, rng, least) if n else None
                  for n in node.inputs]  # fmt: skip
        found = reference.results(node, inputs, model.tensors[node.outputs[0]].shape)
        for name, y in zip(node.outputs, found, strict=False):
            if name:
                t = model.tensors[name]
                values[name] = _result(t, y.reshape(t.shape), node, rng, least)
    return values


def _inside(node: Node) -> float:
    if node.type == "Lstm" and any(node.inputs[12:16]):
        return NORMALIZED
    return INSIDE.get(node.type, 0.0)


def _noise(x: np.ndarray, rng: np.random.Generator | None, relative: float) -> np.ndarray:
    if rng is None or not is_float(x.dtype):
        return x
    return np.asarray(x * (1 + relative * ROUNDINGS * rng.uniform(-1, 1, x.shape)))


def _operand(
    t: Tensor, x: np.ndarray, node: Node, rng: np.random.Generator | None, least: float
) -> np.ndarray:
    real = reference.real(t, x, node)
    if rng is None or not is_float(real.dtype):
        return real
    return _noise(
        np.asarray(real, np.float64), rng, max(least, EPSILON.get(t.dtype.name, 2.0**-24))
    )


def _result(
    t: Tensor, y: np.ndarray, node: Node, rng: np.random.Generator | None, least: float
) -> np.ndarray:
    noisy = _noise(y, rng, max(least, EPSILON.get(t.dtype.name, 2.0**-24)))
    if rng is not None and (inside := _inside(node)):
        noisy = noisy + inside * rng.uniform(-1, 1, y.shape)
    with np.errstate(all="ignore"):
        stored = reference.stored(t, noisy, node)
    # Disturbed floats stay as they are: to the next float they would not move at all.
    return stored if rng is None or not is_float(t.dtype) else np.asarray(noisy, np.float64)


def truth(
    model: Model, feeds: Mapping[str, np.ndarray], *, samples: int = 5, seed: int = 0,
    least: float = 0.0,
) -> Truth:  # fmt: skip
    exact = evaluate(model, feeds)
    values = {n: exact[n] for n in model.outputs}
    moved = {n: np.zeros(x.shape) for n, x in values.items()}
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        other = evaluate(model, feeds, rng, least)
        for n, far in moved.items():
            with np.errstate(all="ignore"):
                apart = np.abs(wide(other[n]) - wide(values[n]))
            np.fmax(far, np.where(np.isnan(apart), np.inf, apart), out=far)
    allowed = {}
    for n, far in moved.items():
        t = model.tensors[n]
        one = max(least, EPSILON.get(t.dtype.name, 0.0))
        base = 4 * one * np.abs(wide(values[n])) + (1e-30 if is_float(t.dtype) else 0)
        if t.dtype == np.float16:
            base = base + 2.0**-24  # the steps of the smallest ones
        if t.quantization is not None:
            base = base + 1
        # Where one element of a tensor turns out to move, its neighbours move for the same reason.
        allowed[n] = base + 4 * far
    return Truth(values, allowed)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if not is_float(x.dtype) or x.dtype.itemsize < 8 else x


def difference(
    name: str, got: np.ndarray, expected: np.ndarray, allowed: np.ndarray | float = 0.0
) -> str | None:
    """What is wrong with a result, in a line; None: nothing."""
    if got.shape != expected.shape:
        return f"{name}: shape {got.shape}, expected {expected.shape}"
    if got.dtype != expected.dtype:
        return f"{name}: type {got.dtype}, expected {expected.dtype}"
    a, b = wide(got), wide(expected)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
    over = ~same & ~(apart <= allowed)
    if not over.any():
        return None
    ratio = np.where(over, apart, -1.0)
    worst = np.unravel_index(int(ratio.argmax()), apart.shape)
    bound = np.broadcast_to(allowed, apart.shape)[worst]
    return (
        f"{name}{list(map(int, worst))}: {got[worst]!r}, expected {expected[worst]!r} within "
        f"{bound:.3g}; {int(over.sum())} of {over.size} elements"
    )
