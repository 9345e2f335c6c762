"""Hadamard transforms: rounds of sums and differences."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node
from ..target import Target
from .common import reals
from .sizes import launch, over

_MOST_BITS: Final = 4  # of a round: a work item has 2 to their power elements


def _hadamard(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    size = x.shape[-1]
    if y.size == 0:
        return []
    bits = size.bit_length() - 1
    rounds = max(1, -(-bits // _MOST_BITS))
    each = [bits * (i + 1) // rounds - bits * i // rounds for i in range(rounds)]
    found: list[Launch] = []
    step, source = 1, x
    for i, n in enumerate(each):
        last = i + 1 == rounds
        sink = y if last else target.temporary(x.shape, x.dtype)
        items = x.size >> n
        factor = float(node.params["scale"]) / math.sqrt(size) if last else 1.0
        defines = (*reals(x, y), ("ELEMENTS", str(1 << n)))
        args = (source, sink, items, step, factor)
        found.append(launch("hadamard", "hadamard", defines, args, over(items, target)))
        step, source = step << n, sink
    return found


OPS: Final = {"HadamardTransform": _hadamard}
