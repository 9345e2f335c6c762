"""Groups of ONNX nodes that QNN has one operation for, found before the nodes are lowered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import onnx

from ...dtypes import is_number
from .written import Written

#: Domain of the nodes made here: the operator may be newer than the model's opset.
OWN_DOMAIN = "qnnrt"

Scalar = Callable[[str], float | None]


def simplify(nodes: list[Written], scalar: Scalar) -> list[Written]:
    """`nodes` with the known groups replaced. `scalar` gives the value of a constant, or None."""
    return _gelu(nodes, scalar)


class _Finder:
    def __init__(self, nodes: list[Written], scalar: Scalar) -> None:
        self.producer = {out: node for node in nodes for out in node.output}
        self.uses = Counter(name for node in nodes for name in node.input)
        self.consumers: dict[str, list[Written]] = {}
        for node in nodes:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)
        self._scalar = scalar

    def value(self, name: str) -> float | None:
        node = self.producer.get(name)
        if node is not None and node.op_type == "Constant":
            for attr in node.attribute:
                if attr.name == "value" and math.prod(attr.t.dims) == 1:
                    return _number(attr.t)
                if attr.name == "value_float":
                    return float(attr.f)
            return None
        return self._scalar(name)

    def is_close(self, name: str, wanted: float) -> bool:
        found = self.value(name)
        return found is not None and math.isclose(found, wanted, rel_tol=1e-3)

    def other(self, node: Written, name: str) -> str:
        return node.input[1] if node.input[0] == name else node.input[0]

    def next(self, name: str, op: str) -> Written | None:
        """The only consumer of `name`, when it is a binary `op`."""
        found = self.consumers.get(name, [])
        one = len(found) == 1 and self.uses[name] == 1
        binary = one and len(found[0].input) == 2 and len(found[0].output) == 1
        return found[0] if binary and found[0].op_type == op else None


def _number(tensor: onnx.TensorProto) -> float | None:
    """The only element of a tensor. What is wrong with it is said when its node is lowered."""
    try:
        found = onnx.numpy_helper.to_array(tensor).reshape(-1)
    except Exception:
        return None
    return float(found[0]) if found.size == 1 and is_number(found.dtype) else None


def _gelu(nodes: list[Written], scalar: Scalar) -> list[Written]:
    """x * 0.5 * (1 + Erf(x / sqrt 2)), in any order of the factors, is Gelu."""
    if all(node.op_type != "Erf" for node in nodes):
        return nodes
    find = _Finder(nodes, scalar)
    replaced: dict[str, Written] = {}  # by the last output
    for erf in nodes:
        if erf.op_type != "Erf" or erf.domain not in ("", "ai.onnx"):
            continue
        if len(erf.input) != 1 or len(erf.output) != 1:
            continue
        scaled = find.producer.get(erf.input[0])
        if scaled is None or scaled.op_type not in ("Div", "Mul") or len(scaled.input) != 2:
            continue
        x = scaled.input[0]
        if scaled.op_type == "Div":
            fits = find.is_close(scaled.input[1], math.sqrt(2))
        else:
            fits = find.is_close(scaled.input[1], math.sqrt(0.5))
            if not fits and find.is_close(scaled.input[0], math.sqrt(0.5)):
                fits, x = True, scaled.input[1]
        plus = find.next(erf.output[0], "Add")
        if not fits or plus is None or not find.is_close(find.other(plus, erf.output[0]), 1.0):
            continue
        last = _product(find, plus.output[0], x)
        if last is not None:
            gelu = onnx.helper.make_node(
                "Gelu", [x], [last.output[0]], name=last.name, domain=OWN_DOMAIN
            )
            replaced[last.output[0]] = Written(gelu)
    if not replaced:
        return nodes
    return [replaced.get(node.output[0], node) if node.output else node for node in nodes]


def _product(find: _Finder, term: str, x: str) -> Written | None:
    """The node that holds term * x * 0.5."""
    first = find.next(term, "Mul")
    if first is None:
        return None
    factor = find.other(first, term)
    half = find.producer.get(factor)
    if (
        half is not None
        and half.op_type == "Mul"
        and x in half.input
        and len(half.input) == 2
        and len(half.output) == 1
    ):
        return first if find.is_close(find.other(half, x), 0.5) else None
    for wanted, rest in ((x, None), (None, x)):
        second = find.next(first.output[0], "Mul")
        if second is None:
            return None
        last = find.other(second, first.output[0])
        if wanted == x and factor == x and find.is_close(last, 0.5):
            return second
        if rest == x and last == x and find.is_close(factor, 0.5):
            return second
    return None
