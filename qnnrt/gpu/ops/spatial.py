"""What kernels over images and volumes share: index spaces, vectors of channels, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...dtypes import data_type
from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines, Fused

__all__ = [
    "Arg",
    "Space",
    "flat",
    "launch",
    "over_channels",
    "pads",
    "pixels",
    "present",
    "scratch",
    "spatial",
    "three",
    "width",
]

Arg: TypeAlias = Value | int | float
#: Total and group of a launch
Space: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

_GROUP: Final = {"cpu": 64}
_BUSY: Final = 1 << 15  # work items that a GPU should have at once
_F32: Final = np.dtype(np.float32)


def width(count: int, dtype: np.dtype[Any], target: Target) -> int:
    """How many neighbours of ``count`` in a row a work item reads at once, WIDTH in kernels.

    16 bytes of them, the most that GPUs load with one instruction, or 8 elements on a CPU.
    """
    most = 8 if target.device.kind == "cpu" else 16 // dtype.itemsize
    return next(n for n in (8, 4, 2, 1) if n <= most and count % n == 0)


def over_channels(x: Value, y: Value, target: Target) -> tuple[int, int, int]:
    """The channels of ``x``, how many of them a work item reads at once, and items for all of y."""
    vector = width(x.shape[-1], x.dtype, target)
    return x.shape[-1], vector, y.size // vector


def flat(items: int, target: Target) -> Space:
    """A launch with one work item for each of ``items``.

    Groups of one size for all launches: drivers that compile kernels for a size do it once. The
    last group is whole, so kernels compare with their argument ``count``.
    """
    group = _GROUP.get(target.device.kind, 128)
    return (-(-items // group) * group,), (group,)


def pixels(vectors: int, target: Target, most: int = 4) -> int:
    """Pixels of a line for each work item, PIXELS in kernels, where the output has ``vectors``.

    They share what they read, which is worth nothing where a GPU had too little to do for it.
    """
    choices = (n for n in (4, 2) if n <= most)
    if target.device.kind == "cpu":
        return next(choices, 1)
    return next((n for n in choices if vectors // n >= _BUSY), 1)


def three(values: Sequence[int], fill: int = 1) -> tuple[int, int, int]:
    """One to three spatial dimensions as depth, height and width."""
    a, b, c = (fill,) * (3 - len(values)) + tuple(int(v) for v in values)
    return a, b, c


def spatial(node: Node, name: str) -> tuple[int, int, int]:
    """A parameter with a number for each spatial dimension; a scalar where there is one."""
    return three(np.ravel(node.params[name]).tolist())


def pads(node: Node, dims: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """``pad_amount``, before and behind each dimension."""
    both = np.asarray(node.params["pad_amount"]).reshape(dims, 2)
    return three(both[:, 0].tolist(), 0), three(both[:, 1].tolist(), 0)


def scratch(name: str, *shape: int) -> Value:
    """32-bit floats that one kernel leaves for the next."""
    return Value(name, 0, shape, _F32, data_type(_F32), "native")


def present(**values: Value | None) -> tuple[Defines, tuple[Value, ...]]:
    """Optional operands: a define for each that there is, and those themselves."""
    there = {name: v for name, v in values.items() if v is not None}
    return tuple((name, "1") for name in there), tuple(there.values())


def launch(
    file: str,
    function: str,
    defines: Sequence[tuple[str, str]],
    space: Space,
    args: Sequence[Arg],
    post: Fused | None = None,
) -> Launch:
    """A launch with what is done to its result."""
    total, group = space
    if post is None:
        return Launch(file, function, tuple(defines), total, tuple(args), group)
    every = (*defines, *post.defines)
    return Launch(file, function, every, total, (*args, *post.args), group, post.before)
