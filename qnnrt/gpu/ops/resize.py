"""Resizing of images and volumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..ir import Launch, Node, Value
from ..passes.aliases import same_encoding
from ..target import Target
from .common import Refused, fused, reals
from .spatial import Arg, flat, launch, three, width

TAKES_POST: Final = frozenset({"ResizeBilinear"})
_MOVED: Final = {16: "uint4", 8: "uint2", 4: "uint", 2: "ushort", 1: "uchar"}
#: ``nearest_mode``: ties down, ties up, down, up; away from zero is ResizeNearestNeighbor's
_ROUND: Final[tuple[Callable[[np.ndarray], np.ndarray], ...]] = (
    lambda x: np.ceil(x - 0.5),
    lambda x: np.floor(x + 0.5),
    np.floor,
    np.ceil,
    lambda x: np.floor(x + 0.5),  # no coordinate is negative
)


@dataclass(frozen=True)
class _Rule:
    transform: str  # "half_pixel", "pytorch", "align_corners", "asymmetric" or "centre"
    taps: int  # 1 nearest, 2 linear, 4 cubic
    nearest: int = 0
    exclude_outside: bool = False
    cubic: float = -0.75


def _rule(node: Node) -> _Rule:
    p = node.params
    if node.type == "Resize":
        transforms = ("half_pixel", "pytorch", "align_corners", "asymmetric")
        return _Rule(
            transforms[int(p["transformation_mode"])],
            (1, 2, 4)[int(p["interpolation_mode"])],
            int(p["nearest_mode"]),
            bool(p["exclude_outside"]),
            float(np.float32(p["cubic_coeff"])),
        )
    align, half = bool(p["align_corners"]), bool(p["half_pixel_centers"])
    nearest = node.type == "ResizeNearestNeighbor"
    transform = "asymmetric"
    if align:
        transform = "align_corners"
    elif half:
        transform = "centre" if nearest else "half_pixel"
    return _Rule(transform, 1 if nearest else 2, 4 if align else 2)


def _coordinates(rule: _Rule, size: int, out: int) -> np.ndarray:
    """Where the output's coordinates lie in the input: doubles, by the cpu's expressions."""
    x = np.arange(out, dtype=np.float64)
    if rule.transform == "pytorch" and out == 1:
        return x * 0.0
    if rule.transform in ("pytorch", "half_pixel"):
        return (x + 0.5) * (size / out) - 0.5
    if rule.transform == "centre":
        return (x + 0.5) * size / out
    if rule.transform == "align_corners":
        return x * (size - 1) / (out - 1) if out > 1 else x * 0.0
    return x * size / out


def _taps(rule: _Rule, size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """Input coordinates and their weights, [out, taps]."""
    x = _coordinates(rule, size, out)
    last = size - 1
    if rule.taps == 1:
        at = np.clip(_ROUND[rule.nearest](x), 0, last)[:, None]
        return at.astype(np.int32), np.ones((out, 1), np.float32)
    if rule.taps == 2:
        x = np.clip(x, 0, last)
        low = np.floor(x)
        at = np.stack([low, np.minimum(low + 1, last)], 1)
        weights = np.stack([1.0 - (x - low), x - low], 1)
        return at.astype(np.int32), weights.astype(np.float32)
    low = np.floor(x)
    at = low[:, None] + np.arange(-1, 3)
    weights = _cubic(rule.cubic, x - low)
    if rule.exclude_outside:
        weights = np.where((at < 0) | (at > last), 0.0, weights)
        weights /= weights.sum(1, keepdims=True)
    return np.clip(at, 0, last).astype(np.int32), weights.astype(np.float32)


def _cubic(a: float, t: np.ndarray) -> np.ndarray:
    """Keys' kernel at the four neighbours of points ``t`` behind the second one."""
    near = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (t, 1 - t)]
    far = [((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a for s in (t, 1 - t)]
    return np.stack([far[0], near[0], near[1], far[1]], 1)


def _resize(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if y.size == 0:
        return []
    rule = _rule(node)
    inner, outer = three(x.shape[1:-1]), three(y.shape[1:-1])
    tables = [_taps(rule, n, m) for n, m in zip(inner, outer, strict=True)]
    if len(x.shape) < 5:  # no depth: one tap, whatever the others have
        tables[0] = np.zeros((1, rule.taps), np.int32), np.ones((1, rule.taps), np.float32)
    indices = target.constant(np.concatenate([t[0] for t in tables]), f"{node.name}.indices")
    if rule.taps == 1:
        return _nearest(x, y, indices, inner, outer, target)
    channels = x.shape[-1]
    vector = width(channels, x.dtype, target)
    post = fused(node)
    defines = (*reals(x, y, *post.args), ("WIDTH", str(vector)), ("TAPS", str(rule.taps)))
    weights = target.constant(np.concatenate([t[1] for t in tables]), f"{node.name}.weights")
    deep = rule.taps if len(x.shape) == 5 else 1
    items = y.size // vector
    args: tuple[Arg, ...] = (x, y, indices, weights, items, channels, *inner, *outer, deep)
    return [launch("resize", "blend", defines, flat(items, target), args, post)]


def _nearest(
    x: Value,
    y: Value,
    indices: Value,
    inner: tuple[int, ...],
    outer: tuple[int, ...],
    target: Target,
) -> list[Launch]:
    """Pixels move as bytes, whatever their type."""
    if x.code != y.code or not same_encoding(x, y):
        raise Refused("there is no kernel that resizes and changes an encoding at once")
    pixel = x.shape[-1] * x.dtype.itemsize
    size = next(n for n in _MOVED if pixel % n == 0)
    items = y.nbytes // size
    args: tuple[Arg, ...] = (x, y, indices, items, pixel // size, *inner, *outer)
    return [launch("resize", "nearest", [("ELEMENT", _MOVED[size])], flat(items, target), args)]


OPS: Final = {
    "Resize": _resize,
    "ResizeBilinear": _resize,
    "ResizeNearestNeighbor": _resize,
}
MOVES_INTEGERS: Final = frozenset({"ResizeNearestNeighbor"})
