"""Fixed-point numbers are computed with as the 32-bit floats that they stand for.

Constants become floats here; what comes in is decoded and what goes out is encoded by kernels of
their own. In between a value is the floats that its encoding has numbers for: behind the node that
writes it stands a Quantize which rounds to those (``ROUNDED_AS``), an operation on single elements
that `fuse` moves into the node's kernel. Operations that only move elements in one encoding do so
with the integers, as long as nothing has decoded them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..._native.op_table import op_table
from ...dtypes import data_type
from ..ir import Ir, Node, Value
from ..ops import moves_integers
from ..ops.formulas import ROUNDED_AS, is_fixed, is_real
from ..target import Target
from .aliases import same_encoding

__all__ = ["apply"]

_F32: Final = np.dtype(np.float32)
#: Params that are integers of an encoding: that of the first input, or of the first output.
_CODES: Final = {"Pad": ("pad_constant_value",), "OneHot": ("on_value", "off_value")}


def apply(ir: Ir, target: Target) -> None:
    """Change the nodes that have fixed-point numbers."""
    tensors = [v for node in ir.nodes for v in (*node.inputs, *node.outputs) if v is not None]
    if not any(map(is_fixed, tensors)):
        return
    forms = _Forms(ir, target)
    for node in ir.nodes:
        forms.add(node)
    for value in ir.io:
        if value.kind == "output" and is_fixed(value) and value.size:  # no node writes an empty one
            forms.stored(value)
    ir.nodes = forms.nodes
    if forms.computed:
        ir.passes.append(("fixed_point_in_floats", forms.computed))


class _Forms:
    """The new nodes, and in what form there is each value so far."""

    def __init__(self, ir: Ir, target: Target) -> None:
        self.nodes: list[Node] = []
        self.computed = 0  # nodes in floats
        self._target = target
        self._real: dict[Value, Value] = {}
        self._stored: set[Value] = set()
        self._read = {v for node in ir.nodes for v in node.inputs if v is not None}
        written = {v for node in ir.nodes for v in node.outputs}
        self._stored |= self._read - written

    def real(self, value: Value) -> Value:
        """A fixed-point value as floats."""
        if value not in self._real:
            if value.data is not None:
                self._real[value] = self._target.decoded(value)
            else:
                self._real[value] = made = _floats(value)
                self._put(f"{value.name} decoded", "Dequantize", value, made)
        return self._real[value]

    def stored(self, value: Value) -> Value:
        """A fixed-point value as its integers."""
        if value not in self._stored:
            self._put(f"{value.name} encoded", "Quantize", self._real[value], value)
            self._stored.add(value)
        return value

    def add(self, node: Node) -> None:
        fixed = [v for v in (*node.inputs, *node.outputs) if v is not None and is_fixed(v)]
        if not fixed:
            self.nodes.append(node)
        elif _of_integers(node):
            self._keep(node)
        elif node.type in ("Cast", "Convert", "Dequantize", "Quantize"):
            self._convert(node)
        elif self._moves(node, fixed):
            self._keep(node)
        else:
            self._compute(node, exact=_picks(node) and _alike(fixed))

    def _moves(self, node: Node, fixed: list[Value]) -> bool:
        inputs = [v for v in fixed if v not in node.outputs]
        there = all(v in self._stored for v in inputs)
        return there and node.type in moves_integers() and _picks(node) and _alike(fixed)

    def _keep(self, node: Node) -> None:
        for value in node.inputs:
            if value is not None and is_fixed(value):
                self.stored(value)
        self._stored |= {v for v in node.outputs if is_fixed(v)}
        self.nodes.append(node)

    def _convert(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        assert x is not None
        source = self.real(x) if is_fixed(x) else x
        self.computed += 1
        if not is_fixed(y):
            self._put(node.name, "Cast", source, y)
            return
        if not is_real(source):
            source = _floats(y)
            self._put(node.name, "Cast", x, source)
        self._round(node.name, source, y)

    def _compute(self, node: Node, exact: bool) -> None:
        """In floats; ``exact``: what it gives are elements of what it takes."""
        self.computed += 1
        inputs = [self.real(v) if v is not None and is_fixed(v) else v for v in node.inputs]
        outputs = [_floats(v) if is_fixed(v) else v for v in node.outputs]
        params = _params(node)
        self.nodes.append(Node(node.name, node.type, inputs, outputs, params, ports=node.ports))
        for value, made in zip(node.outputs, outputs, strict=True):
            if made is not value and exact:
                self._real[value] = made
            elif made is not value:
                self._round(node.name, made, value)

    def _round(self, name: str, source: Value, value: Value) -> None:
        if value.kind == "output" and value not in self._read:
            self._put(name, "Quantize", source, value)
            self._stored.add(value)
            return
        self._real[value] = made = _floats(value)
        self._put(name, "Quantize", source, made, {ROUNDED_AS: value})

    def _put(
        self, name: str, op: str, x: Value, y: Value, params: dict[str, Any] | None = None
    ) -> None:
        self.nodes.append(Node(name, op, [x], [y], params or {}))


def _floats(value: Value) -> Value:
    return Value(value.name, 0, value.shape, _F32, data_type(_F32), "native")


def _of_integers(node: Node) -> bool:
    """Casts take the stored integers, but to and from 64 bits the numbers that they stand for."""
    tensors = (node.inputs[0], node.outputs[0])
    return node.type == "Cast" and not any(v is not None and v.dtype == np.int64 for v in tensors)


def _picks(node: Node) -> bool:
    """Whether its results are elements of its inputs and nothing else."""
    record = op_table().get(node.type, {})
    return bool(record.get("moves")) and not record["fills"]


def _alike(fixed: list[Value]) -> bool:
    return all(v.code == fixed[0].code and same_encoding(v, fixed[0]) for v in fixed)


def _params(node: Node) -> dict[str, Any]:
    """With real numbers for integers of an encoding."""
    like = node.outputs[0] if node.type == "OneHot" else node.inputs[0]
    names = [n for n in _CODES.get(node.type, ()) if isinstance(node.params.get(n), int)]
    if like is None or not is_fixed(like) or like.quantization is None:
        return node.params
    q = like.quantization
    real = {n: float(q.scale) * (node.params[n] + int(q.offset)) for n in names}
    return {**node.params, **real}
