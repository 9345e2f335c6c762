"""Sums, products and extremes over axes, and running sums."""

from __future__ import annotations

import math
from typing import Final

from ..ir import Launch, Node, Value
from ..target import Target
from .common import Defines
from .sizes import axis_of, launch, number, over, simt

_GROUP: Final = 256  # as in reduce.cl and scan.cl
_COLUMNS: Final = 32  # results that a group makes together where these are neighbours
#: Terms from which on a work group shares them.
_SHARED_FROM: Final = 32

_SUM: Final = "(a) + (b)"
#: START, MERGE(a, b), VALUE(x) and FINISH(a, n) of floats; integers differ where they have to.
_RULES: Final = {
    "ReduceSum": ("0", _SUM, "x", "a"),
    "ReduceMean": ("0", _SUM, "x", "(a) / (n)"),
    "ReduceSumSquare": ("0", _SUM, "(x) * (x)", "a"),
    "ReduceProd": ("1", "(a) * (b)", "x", "a"),
    "ReduceMax": ("-INFINITY", "(b) > (a) || (b) != (b) ? (b) : (a)", "x", "a"),
    "ReduceMin": ("INFINITY", "(b) < (a) || (b) != (b) ? (b) : (a)", "x", "a"),
}
_INTEGER_STARTS: Final = {
    ("ReduceMax", "long"): "LONG_MIN",
    ("ReduceMax", "ulong"): "0",
    ("ReduceMin", "long"): "LONG_MAX",
    ("ReduceMin", "ulong"): "ULONG_MAX",
}


def _rule(node: Node, x: Value) -> Defines:
    start, merge, value, finish = _RULES[node.type]
    acc = "float"
    if x.dtype.kind in "iu":
        acc = "ulong" if x.dtype.kind == "u" else "long"
        start = _INTEGER_STARTS.get((node.type, acc), start)
        if node.type == "ReduceMean":
            finish = f"(a) / ({acc})(n)"
    return (
        *number(x),
        ("ACC", acc),
        ("START", start),
        ("MERGE(a, b)", f"({merge})"),
        ("VALUE(x)", f"({value})"),
        ("FINISH(a, n)", f"({finish})"),
    )


def _reduce(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    rank = len(x.shape)
    reduced = {int(a) % rank for a in node.params["axes"]} if rank else set()
    kept_loops, reduced_loops = _loops(x.shape, reduced)
    terms = math.prod(n for n, _ in reduced_loops)
    args: list[Value | int] = []
    for loops in (kept_loops, reduced_loops):
        for n, step in [*loops, *[(1, 0)] * (4 - len(loops))]:
            args += [n, step]
    defines = _rule(node, x) + ((("ONE_LOOP", "1"),) if len(reduced_loops) < 2 else ())
    if not simt(target) or terms < _SHARED_FROM:
        grid = over(y.size, target)
        return [launch("reduce", "reduce", defines, (x, y, y.size, terms, *args), grid)]
    inner_stays = bool(kept_loops) and kept_loops[0][1] == 1
    columns = _COLUMNS if inner_stays and y.size >= _COLUMNS else 1
    groups = -(-y.size // columns)
    grid = ((groups * _GROUP,), (_GROUP,))
    return [launch("reduce", "reduce_group", defines, (x, y, y.size, terms, columns, *args), grid)]


def _loops(
    shape: tuple[int, ...], reduced: set[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Loops over the dims that stay and those that go, neighbours of a kind as one."""
    kept_loops: list[tuple[int, int]] = []
    reduced_loops: list[tuple[int, int]] = []
    step = 1
    last: list[tuple[int, int]] | None = None
    for i in reversed(range(len(shape))):
        n = shape[i]
        if n == 1:
            continue
        loops = reduced_loops if i in reduced else kept_loops
        if loops is last:
            loops[-1] = (loops[-1][0] * n, loops[-1][1])
        else:
            loops.append((n, step))
        last = loops
        step *= n
    return kept_loops, reduced_loops


def _cumulative_sum(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axis = axis_of(node, len(x.shape))
    n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // max(n, 1)
    flags = (int(node.params["exclusive"]), int(node.params["reverse"]))
    args = (x, y, lines, n, step, *flags)
    if simt(target) and n >= _SHARED_FROM and step == 1:
        grid = ((lines * _GROUP,), (_GROUP,))
        return [launch("scan", "scan_group", number(x), args, grid)]
    return [launch("scan", "scan", number(x), args, over(lines, target))]


OPS: Final = {"CumulativeSum": _cumulative_sum, **dict.fromkeys(_RULES, _reduce)}
