"""Values with a physical layout, and the builder that emits QNN operations on them.

An ONNX value has a logical shape. The tensor that holds it has its dimensions in some physical
order, ``perm``: physical dimension i is logical dimension ``perm[i]``. Channel-last data is such
an order, and so is the result of an ONNX Transpose: transposing only changes ``perm``, and an
actual Transpose is emitted where a consumer needs another order than the value has.
A reshape that would mix dimensions which are out of order stays pending (``base``) until a
consumer says which order it needs; a fully connected layer permutes its weights instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ..budget import Budget
from ..encodings import Coded
from ..graph import Edge, Op, Shape, physical
from .signs import Signs

Perm = tuple[int, ...]


_IDENTITIES = [tuple(range(rank)) for rank in range(9)]


def identity(rank: int) -> Perm:
    return _IDENTITIES[rank] if rank < 9 else tuple(range(rank))


def channel_last(rank: int) -> Perm:
    """[N, C, spatial...] held as [N, spatial..., C]."""
    return (0, *range(2, rank), 1) if rank > 2 else identity(rank)


def permuted(shape: Sequence[int], perm: Perm) -> Shape:
    return tuple([shape[p] for p in perm])


def inverse(perm: Perm) -> Perm:
    out = [0] * len(perm)
    for i, p in enumerate(perm):
        out[p] = i
    return tuple(out)


@dataclass(eq=False, slots=True)
class Value:
    """An ONNX value: a constant (`held`), a tensor in some order, or a pending reshape (of `base`).

    Attributes:
        of: what a tensor is a reshape of, for operations that would rather have that.
        count: how many of the rows along `axis` count, where the data decide it: int64[1].
        second: an axis behind that one, and its number, where the data decide along both.
        sizes: of a constant: it is the most that its elements can be; those that the data decide
            are these, int64[1], the others None.
        exact: of such a constant that is held to a capacity: what the graph computes, as data.
        pooled: of places of maxima: the shape that they count in.
    """

    shape: Shape
    dtype: np.dtype
    edge: Edge | None = None
    perm: Perm = ()
    held: np.ndarray | Coded | None = None  # in logical order
    base: Value | None = None
    of: Value | None = None
    statics: dict[tuple[Perm, Shape], Edge] | None = None  # of a constant, made so far
    count: Value | None = None
    axis: int = 0
    second: tuple[int, Value] | None = None
    sizes: tuple[Value | None, ...] | None = None
    exact: Value | None = None
    pooled: Shape | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_const(self) -> bool:
        return self.held is not None

    @property
    def data(self) -> np.ndarray | None:
        """The data of a constant, in logical order; computed when it is held as integers."""
        return self.held.real if isinstance(self.held, Coded) else self.held

    @property
    def coded(self) -> Coded | None:
        """A constant that is held as integers with an encoding."""
        return self.held if isinstance(self.held, Coded) else None

    @property
    def const(self) -> np.ndarray:
        """The data of a constant, in logical order."""
        return cast(np.ndarray, self.data)


def _run(v: Value, perm: Perm) -> int:
    """Elements that stay beside each other when a tensor is put into an order."""
    count = 1
    for old, new in zip(reversed(v.perm), reversed(perm), strict=True):
        if old != new:
            break
        count *= v.shape[new]
    return count


@dataclass(eq=False, slots=True)
class Items:
    """A sequence of tensors.

    Attributes:
        count: how many of the first are there, int64[1], where the data decide it.
    """

    values: list[Value]
    count: Value | None = None


#: What a name in a graph can stand for.
Thing = Value | Items


def constant(array: np.ndarray) -> Value:
    shape = array.shape
    return Value(shape, array.dtype, None, identity(len(shape)), array)


def coded_constant(coded: Coded) -> Value:
    shape = coded.codes.shape
    return Value(shape, coded.dtype, perm=identity(len(shape)), held=coded)


def uniform(x: np.ndarray) -> bool:
    """Is it one element in memory, whatever its shape?"""
    if x.size == 0 or (x.size > 1 and 0 not in x.strides):  # as nearly all are
        return False
    return all(s == 0 or d == 1 for d, s in zip(x.shape, x.strides, strict=True))


def one_of(x: np.ndarray) -> np.ndarray:
    """The element of which a uniform array is made."""
    return np.asarray(x[(0,) * x.ndim])


def blocks(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """The finest groups of adjacent dims of `a` and `b` with equal products; size-1 dims omitted.

    None when there are none to match (a size is 0).
    """
    left = [i for i, d in enumerate(a) if d != 1]
    right = [i for i, d in enumerate(b) if d != 1]
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        if i == len(left) or j == len(right):
            return None
        group_a, group_b = [left[i]], [right[j]]
        size_a, size_b = a[left[i]], b[right[j]]
        i, j = i + 1, j + 1
        while size_a != size_b:
            if size_a < size_b:
                if i == len(left):
                    return None
                group_a.append(left[i])
                size_a *= a[left[i]]
                i += 1
            else:
                if j == len(right):
                    return None
                group_b.append(right[j])
                size_b *= b[right[j]]
                j += 1
        out.append((group_a, group_b))
    return out


#: Arrays of arrays, decided by these alone.
Computation = Callable[..., Sequence[np.ndarray]]


class Trace:
    """What a lowering of one node does with constants, see `alike`.

    Attributes:
        lost: what was emitted before had a part in it.
        laid_out: the constants that tensors were made of.
        reshaped: constants, and those that they are reshapes of.
        computed: constants, and what they are computed from: by which function, of which constants,
            as which of its results.
        moves: tensors that were put into another order: where the operations for it begin and end,
            of what, how, and what that is then.
        decoded: where the operations are that decode constants which are held as integers.
    """

    __slots__ = ("computed", "decoded", "laid_out", "lost", "moves", "reshaped")

    def __init__(self) -> None:
        self.lost = False
        self.laid_out: dict[Edge, Value] = {}
        self.reshaped: dict[Value, Value] = {}
        self.computed: dict[Value, tuple[Computation, tuple[Value, ...], int]] = {}
        self.moves: list[tuple[int, int, Edge, Perm, Edge]] = []
        self.decoded: list[int] = []

    def lay_out(self, v: Value, edge: Edge) -> None:
        # Small ones with the same elements are one tensor; those of another node may differ.
        self.lost = self.lost or self.laid_out.setdefault(edge, v).statics is not v.statics


class Builder:
    """Collects operations; every method takes and returns `Value`s."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.ops: list[Op] = []
        self.scope = ""  # name of the ONNX node being lowered
        self.signs = Signs()
        self.trace: Trace | None = None
        self._moved: dict[tuple[Edge, Perm], Edge] = {}
        self._origin: dict[Edge, tuple[Edge, Perm]] = {}
        self._small: dict[tuple[bytes, Shape, str], Edge] = {}

    # ---- emitting ----------------------------------------------------------------------------

    def raw(
        self,
        type_: str,
        inputs: Sequence[Edge | None],
        outputs: Iterable[tuple[Shape, np.dtype]],
        params: dict[str, object] | None = None,
    ) -> list[Edge]:
        edges = [Edge(tuple(map(int, shape)), dtype) for shape, dtype in outputs]
        self.add(Op(type_, list(inputs), [*edges], params or {}, self.scope))
        return edges

    def add(self, op: Op) -> None:
        self.budget.step()
        self.ops.append(op)
        self.signs.add(op)

    def op(
        self,
        type_: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: np.dtype | None = None,
        perm: Perm | None = None,
        **params: object,
    ) -> Value:
        """One operation with one output of logical `shape`, held in order `perm`."""
        shape = tuple(map(int, shape))
        if dtype is None:
            dtype = next(v.dtype for v in inputs if v is not None)
        dtype = np.dtype(dtype)
        perm = identity(len(shape)) if perm is None else perm
        edges = [None if v is None else v.edge or self.edge(v) for v in inputs]
        out = Edge(permuted(shape, perm) or (1,), dtype)
        self.add(Op(type_, edges, [out], params, self.scope))
        return Value(shape, dtype, out, perm)

    def edge(self, v: Value) -> Edge:
        """The tensor that holds `v`, in the order that `v.perm` says."""
        if v.held is not None:
            return self._static(v)
        if v.base is not None:
            raise AssertionError("a pending reshape has no tensor; call real() or plain() first")
        return cast(Edge, v.edge)

    def _static(self, v: Value) -> Edge:
        if v.statics is None:
            v.statics = {}
        key = (v.perm, v.shape)
        found = v.statics.get(key)
        if found is None:
            coded = v.coded
            found = self._laid_out(v) if coded is None else self._decoded(coded, v.perm)
            v.statics[key] = found
        if self.trace is not None:
            self.trace.lay_out(v, found)
        return found

    def _laid_out(self, v: Value) -> Edge:
        data = v.const
        if v.perm != identity(data.ndim):
            data = data.transpose(v.perm)
        contiguous = data.flags.c_contiguous
        if not contiguous:
            self.budget.array(data.shape, data.dtype)
        if data.nbytes > 256:
            # A session copies it: until then it lies as the file has it.
            if not contiguous and uniform(data):
                data = np.broadcast_to(one_of(data), data.shape)
            return Edge(data.shape, data.dtype, data)
        if not data.shape:
            data = data.reshape(1)
        small = (data.tobytes(), data.shape, data.dtype.str)
        found = self._small.get(small)
        if found is None:
            found = self._small[small] = Edge(data.shape, data.dtype, data)
        return found

    def _decoded(self, coded: Coded, perm: Perm) -> Edge:
        """The integers as a tensor and a Dequantize behind it."""
        held = coded if perm == identity(coded.codes.ndim) else coded.transpose(perm)
        codes = held.codes
        if not codes.flags.c_contiguous:
            self.budget.array(codes.shape, codes.dtype)  # a session makes rows of it
        if not codes.shape:
            codes = codes.reshape(1)
        shape = codes.shape
        edge = Edge(shape, codes.dtype, codes, quantization=held.quantization)
        if self.trace is not None:
            self.trace.decoded.append(len(self.ops))
        real = Edge(shape, coded.dtype)
        self.add(Op("Dequantize", [edge], [real], {}, self.scope))
        return real

    def computed(self, function: Computation, *given: Value) -> list[Value]:
        """The constants that a function makes of the elements of constants. It reads nothing else
        that differs between nodes with the same attributes, on tensors of the same shapes and
        types."""
        made = [constant(a) for a in function(*(v.const for v in given))]
        if self.trace is not None:
            for i, v in enumerate(made):
                self.trace.computed[v] = function, given, i
        return made

    def not_alike(self) -> None:
        """The lowering of this node makes a constant of others in a way that is not traced."""
        if self.trace is not None:
            self.trace.lost = True

    # ---- order of dimensions -------------------------------------------------------------------

    def with_perm(self, v: Value, perm: Perm) -> Value:
        """`v` held in order `perm`."""
        if v.held is not None:
            if v.perm == perm:
                return v
            if v.statics is None:
                v.statics = {}
            return Value(v.shape, v.dtype, perm=perm, held=v.held, statics=v.statics)
        if v.base is not None:
            if perm == identity(v.rank):
                base = self.with_perm(v.base, identity(v.base.rank))
                return self._reshaped(base, v.shape, perm)
            v = self.real(v)
        if v.perm == perm:
            return v
        relative = tuple(v.perm.index(p) for p in perm)
        return Value(v.shape, v.dtype, self.move(cast(Edge, v.edge), relative), perm)

    def plain(self, v: Value) -> Value:
        """`v` held in its logical order."""
        return self.with_perm(v, identity(v.rank))

    def channels_last(self, v: Value) -> Value:
        """[N, C, spatial...] held as [N, spatial..., C]."""
        return self.with_perm(v, channel_last(v.rank))

    def real(self, v: Value) -> Value:
        """`v` with a tensor, in whatever order costs least."""
        if v.base is None:
            return v
        base = v.base
        groups = blocks(base.shape, v.shape)
        if groups is None:
            return self.plain(v)
        order = sorted(groups, key=lambda g: min(base.perm.index(d) for d in g[0]))
        units = [i for i, d in enumerate(base.shape) if d == 1]
        perm = (*units, *(d for g in order for d in g[0]))
        if _run(base, perm) < _run(base, identity(base.rank)):
            return self.plain(v)  # has to move anyway, and moves in longer runs
        moved = self.with_perm(base, perm)
        out_units = [i for i, d in enumerate(v.shape) if d == 1]
        return self._reshaped(moved, v.shape, (*out_units, *(d for g in order for d in g[1])))

    def move(self, edge: Edge, relative: Perm) -> Edge:
        """`edge` transposed by `relative`: through its origin, so that inverses cancel."""
        if relative == identity(len(relative)):
            return edge
        if self.trace is None:
            return self._moved_by(edge, relative)
        begin = len(self.ops)
        out = self._moved_by(edge, relative)
        self.trace.moves.append((begin, len(self.ops), edge, relative, out))
        return out

    def _moved_by(self, edge: Edge, relative: Perm) -> Edge:
        if edge in self._origin:
            origin, first = self._origin[edge]
            relative = tuple(first[r] for r in relative)
            if relative == identity(len(relative)):
                return origin
            return self._moved_by(origin, relative)
        key = (edge, relative)
        if key not in self._moved:
            shape = permuted(edge.shape, relative)
            kept = [r for r in relative if edge.shape[r] != 1]
            if kept == sorted(kept):
                out = edge if shape == edge.shape else self._reshape_edge(edge, shape)
            else:
                out = self.raw(
                    "Transpose",
                    [edge],
                    [(shape, edge.dtype)],
                    {"perm": np.array(relative, np.uint32)},
                )[0]
            self._moved[key] = out
            if out is not edge:
                self._origin[out] = (edge, relative)
        return self._moved[key]

    # ---- reshaping -----------------------------------------------------------------------------

    def _reshape_edge(self, edge: Edge, shape: Sequence[int]) -> Edge:
        shape = physical(shape)
        if shape == edge.shape:
            return edge
        return self.raw("Reshape", [edge], [(shape, edge.dtype)])[0]

    def _reshaped(self, v: Value, shape: Shape, perm: Perm) -> Value:
        out = self._reshape_edge(self.edge(v), permuted(shape, perm))
        return Value(shape, v.dtype, out, perm, of=v.of or v)

    def reshape(self, v: Value, shape: Sequence[int]) -> Value:
        """ONNX Reshape: the elements in logical order under another shape."""
        shape = tuple(map(int, shape))
        if shape != v.shape and math.prod(shape) != math.prod(v.shape):
            raise ValueError(f"cannot reshape {list(v.shape)} to {list(shape)}")
        if v.held is not None:
            if v.coded is not None:
                coded = v.coded.reshape(shape)
                if coded is None:
                    return constant(v.const.reshape(shape))
                found = coded_constant(coded)
                if self.trace is not None and v not in self.trace.reshaped:
                    self.trace.reshaped[found] = v
                return found
            found = constant(v.const.reshape(shape))
            if self.trace is not None:
                self.trace.reshaped[found] = self.trace.reshaped.get(v, v)
            return found
        if v.base is not None:
            v = v.base
        if shape == v.shape:
            return v
        if v.perm == identity(v.rank):
            return self._reshaped(v, shape, identity(len(shape)))
        pending = Value(shape, v.dtype, perm=identity(len(shape)), base=v)
        groups = blocks(v.shape, shape)
        if groups is None:
            return pending
        for group, _ in groups:
            at = [v.perm.index(d) for d in group]
            between = [v.perm[p] for p in range(at[0], at[-1] + 1)]
            if at != sorted(at) or [d for d in between if v.shape[d] != 1] != group:
                return pending
        order = sorted(groups, key=lambda g: v.perm.index(g[0][0]))
        units = [i for i, d in enumerate(shape) if d == 1]
        return self._reshaped(v, shape, (*units, *(d for g in order for d in g[1])))

    def transpose(self, v: Value, perm: Sequence[int]) -> Value:
        """ONNX Transpose: only the order changes, no data moves yet."""
        perm = tuple(int(p) for p in perm)
        if v.coded is not None:
            return coded_constant(v.coded.transpose(perm))
        if v.data is not None:
            return constant(v.data.transpose(perm))
        v = self.real(v)
        at = inverse(perm)
        shape = permuted(v.shape, perm)
        return Value(shape, v.dtype, v.edge, tuple(at[p] for p in v.perm))

    def flat_rows(self, v: Value) -> tuple[Value, np.ndarray] | None:
        """A pending reshape to [M, K] without moving data, for a consumer that can permute K.

        Returns the matrix as it lies in memory and the index array `k`: physical column i holds
        logical column ``k[i]``. None when the rows themselves are out of order.
        """
        base = v.base
        if base is None or v.rank != 2:
            return None
        self.not_alike()  # the consumer permutes a constant by what comes back
        groups = blocks(base.shape, v.shape)
        if groups is None:
            return None
        rows = [d for a, b in groups for d in a if b == [0]]
        columns = [d for a, b in groups for d in a if b == [1]]
        held = [d for d in base.perm if base.shape[d] != 1]
        if len(rows) + len(columns) != len(held) or held[: len(rows)] != rows:
            return None
        order = [columns.index(d) for d in held[len(rows) :]]
        self.budget.array((v.shape[1],), np.int64, "the order of columns", copies=2)
        index = np.arange(v.shape[1]).reshape([base.shape[d] for d in columns])
        return self._reshaped(base, v.shape, identity(2)), index.transpose(order).ravel()

    # ---- several values in one order -----------------------------------------------------------

    def align(self, values: Sequence[Value], same_rank: bool = False) -> tuple[list[Value], Perm]:
        """`values` ready to be broadcast against each other, and the order of the result.

        The order is the one that most of the non-constant data is already in, plain only when no
        value of full rank is otherwise. Values of lower rank are given leading dimensions of size 1
        when the order is not plain (or with `same_rank`).
        """
        first = values[0].perm
        if all(v.edge is not None and v.perm == first for v in values):
            return list(values), first
        rank = max([len(v.shape) for v in values])
        values = [self.real(v) for v in values]
        weight: dict[Perm, int] = {}
        for v in values:
            if not v.is_const and v.rank == rank and v.perm != identity(rank):
                weight[v.perm] = weight.get(v.perm, 0) + math.prod(v.shape)
        perm = max(weight, key=lambda p: weight[p]) if weight else identity(rank)
        plain = perm == identity(rank) and not same_rank
        out = []
        for v in values:
            if v.rank < rank and plain:
                out.append(self.plain(v))
                continue
            if v.rank < rank:
                v = self.reshape(self.plain(v), (1,) * (rank - v.rank) + v.shape)
            out.append(self.with_perm(v, perm))
        return out, perm
