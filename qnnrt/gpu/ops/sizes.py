"""Index spaces, element types and loops: what the families that move and reduce share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..ir import FAULTS, Launch, Node, Value
from ..passes.aliases import same_encoding
from ..target import Target
from .common import Defines, Refused

__all__ = [
    "FIXED",
    "Grid",
    "axis_of",
    "index_type",
    "launch",
    "moved",
    "noting",
    "number",
    "over",
    "plain",
    "simt",
    "strides",
    "unit_type",
]

Grid = tuple[tuple[int, ...], tuple[int, ...]]
#: QNN data types of fixed-point numbers: 0x03.. and 0x04..
FIXED: Final = (0x03, 0x04)
_C_TYPES: Final = {
    "bool": "uchar",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
}


def simt(target: Target) -> bool:
    """Whether work groups are lanes side by side, so that local memory and barriers pay; on a CPU
    they are loops."""
    return target.device.kind != "cpu"


def over(total: int, target: Target) -> Grid:
    """An index space for kernels that skip work items behind their total.

    The sizes of groups are few, since a driver may compile a kernel anew for each.
    """
    group = 256 if simt(target) else 64
    return (-(-total // group) * group,), (group,)


def launch(
    file: str, function: str, defines: Defines, args: Sequence[Value | int | float], grid: Grid
) -> Launch:
    """A launch of the only function of a file that is compiled for it, which takes a driver a
    tenth of a second each."""
    only = (f"ONLY_{function.upper()}", "1")
    return Launch(file, function, (only, *defines), grid[0], tuple(args), grid[1])


def axis_of(node: Node, rank: int, name: str = "axis") -> int:
    """An axis that the checks of the graph let through."""
    axis = int(node.params[name])
    return axis + rank if axis < 0 else axis


def strides(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next, for each dim of a dense tensor."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def plain(*values: Value | None) -> None:
    """Fixed-point numbers are refused: kernels do not know what their integers stand for."""
    for value in values:
        if value is not None and value.code >> 8 in FIXED:
            raise Refused(f"tensor {value.name!r} has fixed-point numbers")


def moved(first: Value, *others: Value | None) -> None:
    """Fixed-point numbers are moved as they are, so all tensors need one encoding."""
    for value in others:
        if value is None or (value.code >> 8 not in FIXED and first.code >> 8 not in FIXED):
            continue
        if value.code != first.code or not same_encoding(first, value):
            raise Refused("there is no kernel that moves and changes an encoding at once")


def number(value: Value) -> Defines:
    """The defines by which a kernel loads and stores a tensor's numbers."""
    plain(value)
    if value.dtype == np.float32:
        return ()
    if value.dtype == np.float16:
        return (("HALF", "1"),)
    if value.dtype.name not in _C_TYPES:
        raise Refused(f"tensor {value.name!r} is {value.dtype}")
    return (("TYPE", _C_TYPES[value.dtype.name]),)


def index_type(value: Value) -> str:
    """The C type of a tensor of indices."""
    return _C_TYPES[value.dtype.name]


def noting(indices: Value) -> tuple[Defines, tuple[Value | int, ...]]:
    """The defines and last arguments of a kernel that notes indices which have no element.

    Constant ones have been checked before.
    """
    if indices.root.data is not None:
        return (), ()
    return (("CHECKED", "1"),), (FAULTS, 0)


def unit_type(width: int) -> str:
    """A C type of so many bytes, for elements that are only moved."""
    return {1: "uchar", 2: "ushort", 4: "uint", 8: "uint2", 16: "uint4"}[width]
