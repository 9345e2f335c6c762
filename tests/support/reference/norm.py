"""Normalizations and softmax."""

from __future__ import annotations

import numpy as np

from qnnrt.model import Node

from .registry import flag, integer, ints, number, op


@op("Batchnorm")
def batchnorm(n: Node, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    return _affine(x, w, b)


def _standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _affine(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    x = x if w is None else x * w
    return x if b is None else x + b


def _axes(n: Node) -> tuple[int, ...]:
    return tuple(ints(n, "axes").tolist())


def _along(v: np.ndarray | None, axes: tuple[int, ...], rank: int) -> np.ndarray | None:
    """A tensor over `axes`, in their order, made to broadcast over `rank` dimensions."""
    if v is None:
        return None
    v = v.transpose(np.argsort(axes))
    return np.expand_dims(v, tuple(i for i in range(rank) if i not in axes))


@op("LayerNorm")
def layer_norm(
    n: Node, x: np.ndarray, w: np.ndarray | None = None, b: np.ndarray | None = None
) -> np.ndarray:
    y = _standard(x, _axes(n), number(n, "epsilon", 1e-3))
    return _affine(y, _along(w, _axes(n), x.ndim), _along(b, _axes(n), x.ndim))


@op("RmsNorm")
def rms_norm(
    n: Node, x: np.ndarray, w: np.ndarray | None = None, b: np.ndarray | None = None
) -> np.ndarray:
    mean = (x * x).mean(_axes(n), keepdims=True)
    y = x / np.sqrt(mean + number(n, "epsilon", 1e-6))
    return _affine(y, _along(w, _axes(n), x.ndim), _along(b, _axes(n), x.ndim))


@op("InstanceNorm")
def instance_norm(
    n: Node, x: np.ndarray, w: np.ndarray | None = None, b: np.ndarray | None = None
) -> np.ndarray:
    spatial, channel = tuple(range(1, x.ndim - 1)), (x.ndim - 1,)
    axes = (spatial, channel, spatial + channel)[integer(n, "region")]
    plain = integer(n, "mode") == 0
    if plain:
        x = x - x.mean(axes, keepdims=True)
    if not plain or flag(n, "normalize_variance", True):  # rms without a division would be nothing
        x = x / np.sqrt((x * x).mean(axes, keepdims=True) + number(n, "epsilon", 1e-12))
    return _affine(x, w, b)


@op("GroupNorm")
def group_norm(
    n: Node, x: np.ndarray, w: np.ndarray | None = None, b: np.ndarray | None = None
) -> np.ndarray:
    split = x.reshape(*x.shape[:-1], integer(n, "group"), -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    return _affine(_standard(split, axes, number(n, "epsilon", 1e-5)).reshape(x.shape), w, b)


@op("L2Norm")
def l2_norm(n: Node, x: np.ndarray) -> np.ndarray:
    axes = _axes(n) if "axes" in n.params else (integer(n, "axis"),)
    norm = np.sqrt((x * x).sum(axes, keepdims=True))
    return x / np.maximum(norm, number(n, "epsilon", 1e-12))


@op("Lrn")
def lrn(n: Node, x: np.ndarray) -> np.ndarray:
    """Over channels, or over the pixels around within one."""
    squares, radius = x * x, integer(n, "radius")
    for axis in (1, 2) if integer(n, "region") else (3,):
        near = [
            np.take(squares, range(max(i - radius, 0), min(i + radius + 1, x.shape[axis])), axis)
            for i in range(x.shape[axis])
        ]
        squares = np.stack([part.sum(axis) for part in near], axis)
    scale = number(n, "bias", 1) + number(n, "alpha", 1) * squares
    return x / scale ** number(n, "beta", 0.5)


@op("Softmax", "LogSoftmax")
def softmax(n: Node, x: np.ndarray) -> np.ndarray:
    axis = integer(n, "axis", -1)
    x = x * number(n, "beta", 1)
    x = x - x.max(axis, keepdims=True)
    logs = x - np.log(np.exp(x).sum(axis, keepdims=True))
    return logs if n.type == "LogSoftmax" else np.exp(logs)
