"""Normalizations as algebra: what arithmetic computes of a tensor x, its means and one root.

Whatever the order of the factors, whichever way the variance is written, and whether the weights
join the root, the difference or the quotient first: expanded, a LayerNorm is
``w x r - w m r + c`` and an RmsNorm is ``w x r + c``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..dtypes import is_float
from .graph import Edge, Op, Shape
from .rewriting import ROOTS, Graph

#: Exponents of x, its mean m, the mean q of its square, and r = 1 / sqrt(variance + epsilon).
Powers = tuple[int, int, int, int]
#: A sum of products of these: the factor of each, a number or a constant that broadcasts.
Form = dict[Powers, "float | np.ndarray"]

_ONE: Powers = (0, 0, 0, 0)
_X: Powers = (1, 0, 0, 0)
_MEAN: Powers = (0, 1, 0, 0)
_SQUARE: Powers = (0, 0, 1, 0)
_SCALED: Powers = (1, 0, 0, 1)
_CENTRE: Powers = (0, 1, 0, 1)

_BINARY = {
    "ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply", "ElementWiseDivide",
    "ElementWiseSquaredDifference",
}  # fmt: skip

#: Operations that a form is known of: `_Reading` computes it of the forms of their inputs.
_KNOWN = _BINARY | {
    "ElementWiseMaximum", "ElementWiseNeg", "ElementWisePower", "ReduceMean", "ReduceSum", "Relu",
    "ReluMinMax", "Reshape", "Tile",
}  # fmt: skip

#: The most operations that one normalization is looked for in, and terms that one of them has.
_MOST_OPS, _MOST_TERMS = 40, 12
_TOLERANCE = 2e-6  # of float32 constants such as 1 / n


@dataclass(frozen=True)
class Norm:
    """``weight (x - mean) / sqrt(variance + epsilon) + bias`` along `axes`, which `out` has.

    Where it is not `centred`, the mean is not taken away, and the variance is the mean square.
    Weight and bias are numbers, or broadcast to x.
    """

    x: Edge
    out: Edge
    axes: tuple[int, ...]
    epsilon: float
    centred: bool
    weight: float | np.ndarray
    bias: float | np.ndarray
    ops: tuple[Op, ...]


def _plus(a: Form, b: Form, sign: float = 1) -> Form | None:
    found = dict(a)
    for powers, factor in b.items():
        found[powers] = found.get(powers, 0.0) + sign * factor
    return found if len(found) <= _MOST_TERMS else None


def _times(a: Form, b: Form) -> Form | None:
    found: Form = {}
    for p, f in a.items():
        for q, g in b.items():
            powers = (p[0] + q[0], p[1] + q[1], p[2] + q[2], p[3] + q[3])
            found[powers] = found.get(powers, 0.0) + f * g
    return found if len(found) <= _MOST_TERMS else None


def _small(factor: float | np.ndarray, scale: float = 1) -> bool:
    return bool(np.all(np.abs(factor) <= _TOLERANCE * scale))


def _pruned(form: Form) -> Form:
    """Without the terms that cancel each other."""
    most = max((float(np.max(np.abs(f))) for p, f in form.items() if p != _ONE), default=0)
    return {p: f for p, f in form.items() if p == _ONE or not _small(f, most)}


class _Reading:
    """What edges compute, seen from one tensor."""

    def __init__(self, graph: Graph, x: Edge) -> None:
        self.graph, self.x = graph, x
        self.axes: tuple[int, ...] | None = None  # of the means; known from the first one on
        self.root: tuple[float, bool] | None = None  # epsilon, and whether the mean is taken away
        self._known: dict[Edge, Form | None] = {x: {_X: 1.0}}

    def form(self, edge: Edge | None) -> Form | None:
        """None: something else."""
        if edge is None or edge.quantization is not None:
            return None
        if edge.data is not None:
            return {_ONE: _factor(edge)} if is_float(edge.dtype) else None
        if edge in self._known:
            return self._known[edge]
        if len(self._known) > 2 * _MOST_OPS:
            return None
        self._known[edge] = None  # until it is known
        op = self.graph.producer.get(edge)
        found = None if op is None or edge.dtype != self.x.dtype else self._of(op, edge)
        self._known[edge] = found
        return found

    def _of(self, op: Op, out: Edge) -> Form | None:
        if op.type not in _KNOWN and op.type not in ROOTS:
            return None
        if op.type in _BINARY or op.type in ("ElementWisePower", "ElementWiseMaximum"):
            return self._binary(op, out)
        first = op.inputs[0] if op.inputs else None
        if first is None or first.data is not None:
            return None
        given = self.form(first)
        if given is None:
            return None
        if op.type in ROOTS:
            return self._rooted(given, ROOTS[op.type])
        if op.type == "ElementWiseNeg":
            return {p: -f for p, f in given.items()}
        if op.type in ("ReduceMean", "ReduceSum"):
            return self._reduced(op, first, given)
        if op.type in ("Relu", "ReluMinMax"):
            return self._limited(op, given)
        if op.type in ("Reshape", "Tile") and not any(p[0] for p in given):
            # Dimensions of one come and go, or become what broadcasting makes of them.
            return given if self._spreads(first.shape, out.shape, op.type == "Tile") else None
        return None

    def _spreads(self, before: Shape, after: Shape, tiles: bool) -> bool:
        if tiles:
            return self._fits(after) and all(
                a in (1, b) for a, b in zip(before, after, strict=True)
            )
        return {before, after} <= {self._kept(), self._left()}

    def _kept(self) -> Shape:
        """The shape of the means, with dimensions of one."""
        return tuple(1 if i in (self.axes or ()) else n for i, n in enumerate(self.x.shape))

    def _left(self) -> Shape:
        """Without them."""
        left = tuple(n for i, n in enumerate(self.x.shape) if i not in (self.axes or ()))
        return left or (1,)

    def _fits(self, shape: Shape) -> bool:
        """Whether it broadcasts to that of x dimension by dimension."""
        same_rank = len(shape) == len(self.x.shape)
        return same_rank and all(n in (1, w) for n, w in zip(shape, self.x.shape, strict=True))

    def _binary(self, op: Op, out: Edge) -> Form | None:
        if len(op.inputs) != 2 or op.inputs[0] is None or op.inputs[1] is None:
            return None
        a = self.form(op.inputs[0])
        b = None if a is None else self.form(op.inputs[1])  # edges above x lead up to the inputs
        if a is None or b is None:
            return None
        fits = [self._fits(e.shape) for e in op.inputs if e is not None and e.data is None]
        if not (all(fits) and self._fits(out.shape)):
            # Means without the dimensions that are gone: with numbers, and their like.
            if any(fits) or out.shape != self._left():
                return None
            if any(isinstance(f, np.ndarray) for form in (a, b) for f in form.values()):
                return None
        if op.type == "ElementWiseAdd":
            return _plus(a, b)
        if op.type == "ElementWiseSubtract":
            return _plus(a, b, -1)
        if op.type == "ElementWiseMultiply":
            return _times(a, b)
        if op.type == "ElementWiseSquaredDifference":
            difference = _plus(a, b, -1)
            return None if difference is None else _times(difference, difference)
        if op.type == "ElementWiseMaximum":
            for value, limit in ((a, b), (b, a)):
                if set(limit) == {_ONE} and not np.any(limit[_ONE]) and _variance(value):
                    return value
            return None
        if op.type == "ElementWisePower":
            return self._power(a, b)
        return self._quotient(a, b)

    def _power(self, a: Form, b: Form) -> Form | None:
        exponent = b.get(_ONE)
        if set(b) != {_ONE} or not isinstance(exponent, float):
            return None
        if exponent == 2:
            return _times(a, a)
        return self._rooted(a, exponent) if abs(exponent) == 0.5 else None

    def _quotient(self, a: Form, b: Form) -> Form | None:
        if len(b) != 1:
            return None
        (powers, factor), *_ = b.items()
        if any(powers[:3]) or not np.all(factor):
            return None
        return _times(a, {(0, 0, 0, -powers[3]): 1.0 / factor})

    def _rooted(self, given: Form, exponent: float) -> Form | None:
        """r or its inverse, of a variance and an epsilon; scaled where these are."""
        epsilon = given.get(_ONE)
        scaled = _variance({p: f for p, f in given.items() if p != _ONE})
        if scaled is None or not isinstance(epsilon, float) or not epsilon > 0:
            return None
        scale, centred = scaled
        root = (epsilon / scale, centred)
        if self.root not in (None, root):
            return None
        self.root = root
        return {(0, 0, 0, int(-2 * exponent)): scale**exponent}

    def _reduced(self, op: Op, source: Edge, given: Form) -> Form | None:
        axes = tuple(sorted(int(a) for a in np.asarray(op.params["axes"]).reshape(-1)))
        if source.shape != self.x.shape or not axes or self.axes not in (None, axes):
            return None
        self.axes = axes
        count = 1 if op.type == "ReduceMean" else math.prod(source.shape[a] for a in axes)
        found: Form = {}
        for powers, factor in given.items():
            if isinstance(factor, np.ndarray) or powers[0] > 2 or powers[3]:
                return None
            mean = (_ONE, _MEAN, _SQUARE)[powers[0]]
            rest = (0, powers[1] + mean[1], powers[2] + mean[2], 0)
            found[rest] = found.get(rest, 0.0) + factor * count
        return found

    def _limited(self, op: Op, given: Form) -> Form | None:
        """A variance that is kept from falling below zero."""
        least = float(np.asarray(op.params.get("min_value", 0)))
        most = float(np.asarray(op.params.get("max_value", math.inf)))
        return given if least == 0 and most > 3e38 and _variance(given) is not None else None


def _factor(edge: Edge) -> float | np.ndarray:
    assert edge.data is not None
    if edge.data.size == 1:
        return float(edge.data.reshape(-1)[0])
    return edge.data.astype(np.float64)


def _variance(form: Form) -> tuple[float, bool] | None:
    """How many times the variance it is, or the mean square; whether the mean is taken away."""
    form = _pruned(form)
    scale, less = form.pop(_SQUARE, None), form.pop((0, 2, 0, 0), None)
    if np.any(form.pop(_ONE, 0.0)) or form or not isinstance(scale, float) or not scale > 0:
        return None
    if less is None:
        return scale, False
    if not isinstance(less, float) or not _small(less + scale, scale):
        return None
    return scale, True


def _around(graph: Graph, root: Op) -> list[Edge]:
    """The tensors that the mean under a root may be of, the nearest first.

    A form of x has no other tensor in it, so that x lies on every way from the root up to what no
    form is known of: on the one to the nearest of these, too.
    """
    found: list[Edge] = []
    below: dict[Edge, Edge | None] = {}  # the edge that led to each, the nearest first
    for edge in root.inputs:
        if edge is not None and edge.data is None:
            below.setdefault(edge, None)
    open_ = deque(below)
    reduced = 0
    while open_ and len(below) < _MOST_OPS:
        edge = open_.popleft()
        op = graph.producer.get(edge)
        if reduced:
            found.append(edge)
        if op is None or (op.type not in _KNOWN and op.type not in ROOTS):
            way: set[Edge] = set()
            at: Edge | None = edge
            while at is not None:
                way.add(at)
                at = below[at]
            return [e for e in found if e in way]
        if op.type in ROOTS:
            continue
        reduced += op.type in ("ReduceMean", "ReduceSum")
        for source in op.inputs:
            if source is not None and source.data is None and source not in below:
                below[source] = edge
                open_.append(source)
    return found


def _readings(graph: Graph, root: Op) -> list[_Reading]:
    """Ways to read a root: the nearest with the mean taken away, then the nearest without."""
    out = root.outputs[0]
    centred: list[_Reading] = []
    others: list[_Reading] = []
    for x in _around(graph, root):
        small = is_float(x.dtype) and x.dtype.itemsize <= 4
        if x.quantization is not None or not small or (out is not None and x.dtype != out.dtype):
            continue
        reading = _Reading(graph, x)
        form = reading.form(out)
        if form is not None and reading.root is not None and len(form) == 1:
            (centred if reading.root[1] else others).append(reading)
    return centred[:1] + others[:1]


class _Behind:
    """What is computed of a root, and the normalizations among it."""

    def __init__(self, graph: Graph, root: Op, reading: _Reading, at: dict[int, int]) -> None:
        self.graph, self.root, self.reading, self.at = graph, root, reading, at

    def norms(self) -> Iterator[Norm]:
        """The largest first."""
        assert self.root.outputs[0] is not None
        met: dict[int, Op] = {}
        open_ = [self.root.outputs[0]]
        while open_ and len(met) < _MOST_OPS:
            for op in self.graph.consumers.get(open_.pop(), []):
                out = op.outputs[0]
                if id(op) in met or out is None or len(op.outputs) != 1:
                    continue
                form = self.reading.form(out)
                if form is not None and any(p[3] for p in form):
                    met[id(op)] = op
                    open_.append(out)
        for op in sorted(met.values(), key=lambda op: -self.at[id(op)]):
            norm = self._norm(op)
            if norm is not None:
                yield norm

    def _norm(self, last: Op) -> Norm | None:
        out, reading = last.outputs[0], self.reading
        assert out is not None
        assert reading.axes is not None
        assert reading.root is not None
        form = reading.form(out)
        if form is None or out.shape != reading.x.shape:
            return None
        form = _pruned(form)
        epsilon, centred = reading.root
        bias = form.pop(_ONE, 0.0)
        weight, less = form.pop(_SCALED, None), form.pop(_CENTRE, None)
        if weight is None or form or centred != (less is not None):
            return None
        if less is not None and not _small(less + weight, float(np.max(np.abs(weight)))):
            return None
        ops = self._inside(last)
        if ops is None:
            return None
        return Norm(reading.x, out, reading.axes, epsilon, centred, weight, bias, ops)

    def _inside(self, last: Op) -> tuple[Op, ...] | None:
        """The operations between x and the result, where nothing else needs what they make."""
        found: dict[int, Op] = {}
        open_ = [last]
        while open_:
            op = open_.pop()
            if id(op) in found:
                continue
            found[id(op)] = op
            for edge in op.inputs:
                if edge is None or edge is self.reading.x or edge.data is not None:
                    continue
                open_.append(self.graph.producer[edge])
        for op in found.values():
            for edge in op.outputs:
                if edge is None or edge is last.outputs[0]:
                    continue
                users = self.graph.consumers.get(edge, [])
                if edge in self.graph.outputs or any(id(user) not in found for user in users):
                    return None
        return tuple(found.values())


def _takes_root(op: Op) -> bool:
    if op.type in ROOTS:
        return True
    if op.type != "ElementWisePower" or len(op.inputs) != 2 or op.inputs[1] is None:
        return False
    exponent = op.inputs[1].data
    return exponent is not None and exponent.size == 1 and abs(exponent.reshape(-1)[0]) == 0.5


def norms_in(graph: Graph) -> Iterator[list[Norm]]:
    """For each root that a normalization may have: these normalizations, the largest first."""
    roots = [op for op in graph.ops if _takes_root(op)]
    if not roots:
        return
    at = {id(op): i for i, op in enumerate(graph.ops)}
    for root in roots:
        graph.budget.check_time()
        found: list[Norm] = []
        for reading in _readings(graph, root):
            found += _Behind(graph, root, reading, at).norms()
        if found:
            yield found
