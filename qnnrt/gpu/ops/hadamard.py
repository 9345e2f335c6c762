"""Hadamard transforms: rounds of sums and differences."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node, Value
from ..target import Target
from .common import reals
from .sizes import launch, over, simt

_MOST_BITS: Final = 4  # of a round: a work item has 2 to their power elements
_GROUP: Final = 256  # work items that do rounds in local memory


def _hadamard(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if y.size == 0:
        return []
    bits = x.shape[-1].bit_length() - 1
    # Bits that go first, all at once; then those of each further round.
    first = min(bits, _local_bits(target))
    rest = bits - first
    rounds = -(-rest // _MOST_BITS)
    each = [rest * (i + 1) // rounds - rest * i // rounds for i in range(rounds)]
    if first == 0 and not each:
        each = [0]  # a row of one element
    found: list[Launch] = []
    source, done = x, 0
    for n in ([first] if first else []) + each:
        last = done + n == bits
        sink = y if last else target.temporary(x.shape, x.dtype)
        factor = float(node.params["scale"]) / math.sqrt(x.shape[-1]) if last else 1.0
        make = _rows if first and done == 0 else _round
        found.append(make(source, sink, n, done, factor, target))
        source, done = sink, done + n
    return found


def _local_bits(target: Target) -> int:
    """Bits of an element's index whose rounds a work group does in local memory, which a CPU's
    has no gain from."""
    most = int(target.device.raw.max_work_group_size)
    return _MOST_BITS + _GROUP.bit_length() - 1 if simt(target) and most >= _GROUP else 0


def _rows(x: Value, y: Value, bits: int, done: int, factor: float, target: Target) -> Launch:
    """The lowest bits."""
    elements = 1 << _MOST_BITS
    sizes = (("GROUP", _GROUP), ("ELEMENTS", elements), ("BITS", _MOST_BITS))
    defines = (*reals(x, y), *((name, str(n)) for name, n in sizes))
    groups = -(-x.size // (_GROUP * elements))
    grid = (groups * _GROUP,), (_GROUP,)
    return launch("hadamard", "hadamard_rows", defines, (x, y, x.size, bits, factor), grid)


def _round(x: Value, y: Value, bits: int, done: int, factor: float, target: Target) -> Launch:
    """Bits behind those that are done."""
    items = x.size >> bits
    defines = (*reals(x, y), ("ELEMENTS", str(1 << bits)))
    args = (x, y, items, 1 << done, factor)
    return launch("hadamard", "hadamard", defines, args, over(items, target))


OPS: Final = {"HadamardTransform": _hadamard}
