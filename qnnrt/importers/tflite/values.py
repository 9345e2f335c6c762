"""Values of a TFLite graph, and the builder that emits QNN operations on them.

TFLite is channel-last as QNN is, so a value lies in memory as its shape says. A value is a
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


@dataclass(eq=False)
class Value:
    """A constant (`data`) or a tensor (`edge`); `shape` is TFLite's, () for a scalar."""

    shape: Shape
    dtype: np.dtype
    edge: Edge | None = None
    data: np.ndarray | None = None
    quantization: Quantization | None = None
    name: str = ""  # of a constant, from the file

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def const(self) -> np.ndarray:
        """The data of a constant."""
        assert self.data is not None
        return self.data


def constant(array: np.ndarray, quantization: Quantization | None = None, name: str = "") -> Value:
    return Value(tuple(array.shape), array.dtype, None, array, quantization, name)


class Builder:
    """Collects operations; every method takes and returns `Value`s."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.scope = ""  # name of the operator being lowered
        self._small: dict[tuple[bytes, Shape, str], Edge] = {}
        # Constants that several operators want in the same other form are converted once.
        self._reshaped: dict[tuple[Value, Shape], Value] = {}
        self._transposed: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def edge(self, v: Value) -> Edge:
        """The tensor that holds `v`."""
        if 0 in v.shape:
            raise Unsupported("a tensor has no elements, which QNN tensors must have")
        if v.edge is None:
            data = np.ascontiguousarray(v.const).reshape(physical(v.shape))
            edge = Edge(data.shape, v.dtype, data, v.name, v.quantization)
            if data.nbytes <= 256 and v.quantization is None:
                edge = self._small.setdefault((data.tobytes(), data.shape, data.dtype.str), edge)
            v.edge = edge
        return v.edge

    def ops_of(
        self,
        type_: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[tuple[Sequence[int], np.dtype] | None],
        **params: object,
    ) -> list[Value]:
        """One operation with any number of outputs, None for one that is left out."""
        if any(o is not None and 0 in o[0] for o in outputs):
            raise Unsupported("its result has no elements, which QNN tensors must have")
        edges = [None if o is None else Edge(physical(o[0]), np.dtype(o[1])) for o in outputs]
        given = [None if v is None else self.edge(v) for v in inputs]
        self.ops.append(Op(type_, given, list(edges), params, self.scope))
        return [
            Value(tuple(int(d) for d in o[0]), np.dtype(o[1]), edge)
            for o, edge in zip(outputs, edges, strict=True)
            if o is not None
        ]

    def op(
        self,
        type_: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: np.dtype | type | None = None,
        **params: object,
    ) -> Value:
        """One operation with one output; its element type is the first input's unless given."""
        kind = dtype if dtype is not None else next(v for v in inputs if v is not None).dtype
        return self.ops_of(type_, inputs, [(shape, np.dtype(kind))], **params)[0]

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
        if physical(shape) == physical(v.shape):
            return Value(shape, v.dtype, v.edge, None, v.quantization)
        return self.copy(v, shape)

    def transpose(self, v: Value, perm: Sequence[int]) -> Value:
        """Dimension i of the result is dimension ``perm[i]`` of `v`."""
        perm = tuple(int(p) for p in perm)
        if perm == tuple(range(v.rank)):
            return v
        if v.data is not None:
            if (v, perm) not in self._transposed:
                q = v.quantization
                scales = None if q is None else transposed(q, perm)
                self._transposed[v, perm] = constant(v.data.transpose(perm), scales, v.name)
            return self._transposed[v, perm]
        shape = [v.shape[p] for p in perm]
        kept = [p for p in perm if v.shape[p] != 1]
        if kept == sorted(kept):
            return self.reshape(v, shape)
        return self._moved(self.op("Transpose", [v], shape, perm=np.array(perm, np.uint32)), v)

    def copy(self, v: Value, shape: Sequence[int]) -> Value:
        """A tensor of its own with the elements of `v`."""
        return self._moved(self.op("Reshape", [v], shape), v)

    @staticmethod
    def _moved(out: Value, source: Value) -> Value:
        """Elements in other places have the encoding that they had."""
        assert out.edge is not None
        out.quantization = out.edge.quantization = source.quantization
        return out

    # ---- fixed point -------------------------------------------------------------------------

    def dequantize(self, v: Value, dtype: np.dtype | type = np.float32) -> Value:
        """The real numbers that `v` stands for; itself when it is not quantized."""
        return v if v.quantization is None else self.op("Dequantize", [v], v.shape, dtype)

    def quantize(self, v: Value, dtype: np.dtype, encoding: Quantization) -> Value:
        """Real numbers as fixed-point ones of the type and encoding given."""
        out = self.op("Quantize", [v], v.shape, dtype)
        assert out.edge is not None
        out.quantization = out.edge.quantization = encoding
        return out

    def convert(
        self, v: Value, encoding: Quantization | None, dtype: np.dtype | None = None
    ) -> Value:
        """The same real numbers in another encoding; a plain integer has none."""
        known = v.quantization is not None and encoding is not None
        out = self.op("Convert" if known else "Cast", [v], v.shape, dtype)
        assert out.edge is not None
        out.quantization = out.edge.quantization = encoding
        return out


def _reshaped(q: Quantization | None, old: Shape, new: Shape) -> Quantization | None:
    found = None if q is None else reshaped(q, old, new)
    if q is not None and found is None:
        raise Unsupported(
            f"scales along dimension {q.axis} of {list(old)}, reshaped to {list(new)}"
        )
    return found
