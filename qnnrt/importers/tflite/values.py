"""Values of a TFLite graph, and the builder that emits QNN operations on them.

TFLite is channel-last as QNN is, so a value has its shape's layout in memory. A value is a
constant until an operation needs it as a tensor: parameters of QNN operations are read off it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...model import Quantization
from ..encodings import reshaped, transposed
from ..graph import Edge, Op, Shape, physical
from .refusal import Unsupported
from .schema import OperatorInfo
from .types import TensorInfo


@dataclass(eq=False)
class Value:
    """A constant (`data`) or a tensor (`edge`); `shape` is TFLite's, () for a scalar."""

    shape: Shape
    dtype: np.dtype
    edge: Edge | None = None
    data: np.ndarray | None = None
    quantization: Quantization | None = None
    name: str = ""  # of a constant, from the file
    imaginary: Value | None = None  # of complex numbers, whose real part this is
    variable: Variable | None = None  # whose handle this is: it has no elements

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def const(self) -> np.ndarray:
        """The data of a constant."""
        assert self.data is not None
        return self.data


@dataclass
class TfliteNode:
    """An operator and what it reads. Inputs are None where they are omitted, or hold state."""

    info: OperatorInfo
    inputs: list[Value | None]
    tensors: list[TensorInfo | None]  # of the inputs
    outputs: list[TensorInfo]


#: Container and name.
Key = tuple[str, str]


@dataclass(eq=False)
class Variable:
    """One variable: a constant where no subgraph assigns it.

    Attributes:
        first: what it holds before the first run; None: zeros.
        assigned: whether anything in the file assigns it, but for what runs once.
        start: the input that it is when a run begins, once it is needed.
        now: its value at this point of the graph.
        name: of that input; the variable's own unless given.
    """

    key: Key
    assigned: bool
    first: np.ndarray | None = None
    start: Value | None = None
    now: Value | None = None
    name: str = ""


def constant(array: np.ndarray, quantization: Quantization | None = None, name: str = "") -> Value:
    return Value(tuple(array.shape), array.dtype, None, array, quantization, name)


class Builder:
    """Collects operations."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.scope = ""  # name of the operator being lowered
        self._small: dict[tuple[bytes, Shape, str], Edge] = {}
        # Constants that several operators want in the same other form are converted once.
        self._reshaped: dict[tuple[Value, Shape], Value] = {}
        self._transposed: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def edge(self, v: Value) -> Edge:
        """The tensor that holds `v`."""
        if v.edge is None:
            data = np.ascontiguousarray(v.const).reshape(physical(v.shape))
            edge = Edge(data.shape, v.dtype, data, v.name, v.quantization)
            if data.nbytes <= 256 and v.quantization is None:
                edge = self._small.setdefault((data.tobytes(), data.shape, data.dtype.str), edge)
            v.edge = edge
        return v.edge

    def reshape(self, v: Value, shape: Sequence[int]) -> Value:
        """The same elements under another shape."""
        shape = tuple(int(d) for d in shape)
        if math.prod(shape) != v.size:
            raise ValueError(f"cannot reshape {list(v.shape)} to {list(shape)}")
        if shape == v.shape:
            return v
        if v.data is not None:
            if (v, shape) not in self._reshaped:
                scales = _reshaped(v.quantization, v.shape, shape)
                self._reshaped[v, shape] = constant(v.data.reshape(shape), scales, v.name)
            return self._reshaped[v, shape]
        assert physical(shape) == physical(v.shape), "the lowering reshapes tensors"
        return Value(shape, v.dtype, v.edge, None, v.quantization)

    def transpose(self, v: Value, perm: Sequence[int]) -> Value:
        """A constant, of which dimension i is dimension ``perm[i]`` of `v`."""
        perm = tuple(int(p) for p in perm)
        if (v, perm) not in self._transposed:
            q = v.quantization
            scales = None if q is None else transposed(q, perm)
            self._transposed[v, perm] = constant(v.const.transpose(perm), scales, v.name)
        return self._transposed[v, perm]

    def copy(self, v: Value, shape: Sequence[int]) -> Value:
        """A tensor of its own with the elements of `v`."""
        edge = Edge(physical(shape), v.dtype, quantization=v.quantization)
        self.ops.append(Op("Reshape", [self.edge(v)], [edge], {}, self.scope))
        return Value(tuple(shape), v.dtype, edge, None, v.quantization)


def _reshaped(q: Quantization | None, old: Shape, new: Shape) -> Quantization | None:
    found = None if q is None else reshaped(q, old, new)
    if q is not None and found is None:
        raise Unsupported(
            f"scales along dimension {q.axis} of {list(old)}, reshaped to {list(new)}"
        )
    return found
