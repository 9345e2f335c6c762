"""Sums, products and extremes over axes, and running sums."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np

from ..ir import Launch, Node, Value
from ..target import Target
from .broadcast import magic
from .common import Defines
from .shares import Shares, shared
from .sizes import axis_of, launch, number, simt
from .spatial import width

__all__ = ["sums_of_parts"]

_SEGMENTS: Final = 4  # of a tile that a work group adds up at once, as in scan.cl
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


#: What results are made in -> the same in memory.
_ACC: Final = {"float": np.float32, "long": np.int64, "ulong": np.uint64}
_Loop: TypeAlias = tuple[int, int]  # iterations, and elements from one to the next


def _acc(x: Value) -> str:
    return "float" if x.dtype.kind == "f" else "ulong" if x.dtype.kind == "u" else "long"


def _rule(op: str, x: Value) -> Defines:
    start, merge, value, finish = _RULES[op]
    acc = _acc(x)
    if acc != "float":
        start = _INTEGER_STARTS.get((op, acc), start)
        if op == "ReduceMean":
            finish = f"(a) / ({acc})(n)"
    return (
        *number(x),
        ("ACC", acc),
        ("START", start),
        ("MERGE(a, b)", f"({merge})"),
        ("VALUE(x)", f"({value})"),
        ("FINISH(a, n)", f"({finish})"),
        *((("ADDS", "1"),) if acc == "float" and merge == _SUM else ()),
    )


def _reduce(node: Node, target: Target) -> list[Launch]:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    rank = len(x.shape)
    reduced = {int(a) % rank for a in node.params["axes"]} if rank else set()
    kept, gone = _loops(x.shape, reduced)
    terms = math.prod(n for n, _ in gone)
    apart = kept[0][0] if kept and kept[0][1] == 1 else 1
    shares = shared(y.size, terms, apart, target)
    rule = _rule(node.type, x)
    if shares.parts == 1:
        return [_launch(rule, x, y, kept, gone, shares, terms)]
    parts = _parts(x, shares, y.size, target, node.name)
    combine = (("VALUE(x)", "(x)"), ("COMBINE", "1"))
    last = (*(d for d in rule if d[0] != "VALUE(x)"), *combine)
    return [
        _launch((*rule, ("PARTIAL", "1")), x, parts, kept, gone, shares, terms),
        _launch(
            last,
            parts,
            y,
            [(y.size, 1)],
            [(shares.parts, y.size)],
            shared(y.size, shares.parts, y.size, target, whole=True),
            terms,
        ),
    ]


def sums_of_parts(
    x: Value, kept: list[_Loop], gone: _Loop, shares: Shares, target: Target, name: str
) -> tuple[Launch, Value]:
    """The sum of each part of each row, as [parts, rows]: 32-bit floats, or 64-bit integers."""
    rows = math.prod(n for n, _ in kept)
    parts = _parts(x, shares, rows, target, name)
    rule = (*_rule("ReduceSum", x), ("PARTIAL", "1"))
    return _launch(rule, x, parts, kept, [gone], shares, gone[0]), parts


def _parts(x: Value, shares: Shares, results: int, target: Target, name: str) -> Value:
    dtype = _ACC[_acc(x)]
    return target.temporary((shares.parts, results), dtype, f"{name}.parts")


def _launch(
    defines: Defines,
    x: Value,
    y: Value,
    kept: list[_Loop],
    gone: list[_Loop],
    shares: Shares,
    terms: int,
) -> Launch:
    results, here = math.prod(n for n, _ in kept), math.prod(n for n, _ in gone)
    args: list[Value | int] = [x, y, results, here, shares.chunk, terms]
    for name, loops in (("KEPT", kept), ("GONE", gone)):
        count = next(n for n in (1, 2, 4) if n >= len(loops))
        defines = (*defines, (name, str(count)))
        for n, step in [*loops, *[(1, 0)] * (count - len(loops))]:
            args += [n, step, *magic(max(n, 1))]
    return launch("reduce", "reduce", (*defines, *shares.defines), args, shares.grid)


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
    vector = width(n, x.dtype, target) if step == 1 and simt(target) else 1
    shares = shared(lines, n, step, target, at_once=max(vector, _SEGMENTS))
    defines = (*number(x), *shares.defines, ("WIDTH", str(vector)))
    sizes = (lines, n, shares.chunk, step)
    args = (*sizes, int(node.params["exclusive"]), int(node.params["reverse"]))
    if shares.parts == 1:
        return [launch("scan", "scan", defines, (x, y, *args), shares.grid)]
    kept = [(step, 1), (lines // step, n * step)] if step > 1 else [(lines, n)]
    first, sums = sums_of_parts(x, kept, (n, step), shares, target, node.name)
    defines = (*defines, ("BEHIND", _acc(x)))
    return [first, launch("scan", "scan", defines, (x, y, sums, *args), shares.grid)]


OPS: Final = {"CumulativeSum": _cumulative_sum, **dict.fromkeys(_RULES, _reduce)}
