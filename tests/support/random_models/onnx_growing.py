"""An ONNX model that grows, and what the rules of ONNX operators ask of it.

The onnx package's reference evaluator gives the values of each node, in float64 where they are
floats; an operator that it does not know, or fails on, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qnnrt.dtypes import is_float

from .growing import Chance, Range, Shape, Unfit
from .onnx_reference import OneNode, widened

#: Elements of a tensor at most, and its largest float.
LARGEST, HIGHEST = 3000, {"float16": 500.0}
FLOATS, SIGNED = ("float16", "float32", "float64"), ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)
#: Those of the files that are about come more often.
OPSETS = (*range(7, 29), 11, 13, 13, 17, 17, 18)


@dataclass
class Plan:
    """A node to be; outputs: their number, or one flag for each that says whether it is there."""

    inputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int | list[bool] = 1


Rule = Callable[["OnnxGrowing", str], Plan]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, fn))
        return fn

    return register


def schema(op: str, opset: int) -> onnx.defs.OpSchema:
    """Unfit: the opset has no such operator, or not any more."""
    try:
        found = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError as e:
        raise Unfit(f"not in opset {opset}") from e
    if found.deprecated:
        raise Unfit(f"deprecated in opset {opset}")
    return found


class OnnxGrowing(Chance):
    """The model so far; `values` are what the evaluator says, floats in float64."""

    def __init__(self, seed: int, number: int, opset: int | None = None) -> None:
        super().__init__(seed, number, 1)
        newest = onnx.defs.onnx_opset_version()
        self.opset = opset or self.choice([o for o in OPSETS if o <= newest])
        self.theme = self.choice(["float32"] * 10 + ["float16", "float64", "int32", "int64", "int8",
                                                     "uint8"])  # fmt: skip
        self.nodes: list[onnx.NodeProto] = []
        self.evaluators: list[OneNode] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.types: dict[str, str] = {}
        self.private: set[str] = set()

    def _name(self) -> str:
        return f"t{len(self.values)}"

    def shape(self, name: str) -> Shape:
        return tuple(self.values[name].shape)

    def rank(self, name: str) -> int:
        return self.values[name].ndim

    # ---- tensors

    def const(self, value: object, dtype: str | None = None) -> str:
        """A parameter of one node."""
        name = self._name()
        array = np.asarray(value, dtype)
        self.constants[name] = array
        self.values[name], self.types[name] = widened(array), array.dtype.name
        self.private.add(name)
        return name

    def new(
        self, dtype: str, shape: Shape, domain: Range | None = None, constant: bool | None = None
    ) -> str:
        name = self._name()
        low, high = domain or ((-3, 3) if dtype in FLOATS else (-5, 6))
        x: Any
        if dtype == "bool":
            x = np.asarray(self.rng.integers(0, 2, shape)).astype(bool)
        elif dtype in FLOATS:
            x = np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)
            x = np.clip(x, np.dtype(dtype).type(low), np.dtype(dtype).type(high))
        else:
            info = np.iinfo(dtype)
            x = np.asarray(
                self.rng.integers(max(int(low), info.min), int(high), shape, endpoint=True)
            )
            x = x.astype(dtype)
        constant = self.chance(0.4) and bool(self.feeds) if constant is None else constant
        (self.constants if constant else self.feeds)[name] = x = np.asarray(x)
        self.values[name], self.types[name] = widened(x), dtype
        return name

    def pick_type(self, types: Sequence[str]) -> str:
        return self.theme if self.theme in types and self.chance(0.85) else self.choice(types)

    def x(
        self, types: Sequence[str] = ("float32",) * 8 + ("float16", "float64"), low: int = 0,
        high: int = 5, domain: Range | None = None, fits: Callable[[Shape], bool] | None = None,
        make: Callable[[], Shape] | None = None,
    ) -> str:  # fmt: skip
        """An operand: one that is there, or new."""
        dtype = self.pick_type(types)

        def good(n: str) -> bool:
            v = self.values[n]
            inside = domain is None or (
                v.size > 0 and v.min() >= domain[0] and v.max() <= domain[1]
            )  # fmt: skip
            return (
                self.types[n] == dtype and n not in self.private and low <= v.ndim <= high
                and (fits is None or fits(v.shape)) and bool(inside)
            )  # fmt: skip

        found = [n for n in self.values if good(n)]
        if found and self.chance(0.85):
            return self.choice(found[-4:]) if self.chance(0.7) else self.choice(found)
        shape = make() if make else self.random_shape(low, high)
        if fits is not None and not fits(shape):
            raise Unfit("no shape that fits")
        return self.new(dtype, shape, domain)

    def like(
        self, x: str, shape: Shape, domain: Range | None = None, constant: bool | None = None
    ) -> str:
        found = [
            n
            for n in self.values
            if self.types[n] == self.types[x] and self.shape(n) == shape and n not in self.private
        ]
        if found and domain is None and constant is None and self.chance(0.6):
            return self.choice(found)
        return self.new(self.types[x], shape, domain, constant)

    # ---- nodes

    def node(self, op: str, plan: Plan) -> list[str]:
        known = schema(op, self.opset)
        present = plan.outputs if isinstance(plan.outputs, list) else [True] * plan.outputs
        first = len(self.values)
        outputs = [f"t{first + i}" if there else "" for i, there in enumerate(present)]
        while not outputs[-1]:
            outputs.pop()
        attrs = {k: v for k, v in plan.attrs.items() if v is not None}
        if unknown := set(attrs) - set(known.attributes):
            raise Unfit(f"no attribute {sorted(unknown)} in opset {self.opset}")
        node = helper.make_node(op, plan.inputs, outputs, name=f"n{len(self.nodes)}", **attrs)
        one = self._single(node)
        try:
            evaluator = OneNode(node, self.opset, self.types)
            made = evaluator(self.values)
        except Exception as e:  # the evaluator's own limits
            raise Unfit(f"reference: {type(e).__name__}: {e}") from e
        for n in filter(None, outputs):
            y = made[n]
            if y.size > LARGEST or y.size == 0:
                raise Unfit("size")
            if one[n][1] not in (None, y.shape):
                raise Unfit(f"the reference gives {y.shape} for {one[n][1]}")
            if is_float(y.dtype) and op not in ("IsNaN", "IsInf") and not (
                np.isfinite(y).all() and np.abs(y).max() < HIGHEST.get(one[n][0], 5e4)
            ):  # fmt: skip
                raise Unfit("not finite, or too large")
        for i, n in enumerate(outputs):
            # Left-out outputs keep the numbers of the names in step.
            key = n or f"t{first + i}"
            self.values[key] = made[n] if n else np.zeros(0)
            self.types[key] = one[n][0] if n else ""
            if not n:
                self.private.add(key)
        self.nodes.append(node)
        self.evaluators.append(evaluator)
        return [n for n in outputs if n]

    def _single(self, node: onnx.NodeProto) -> dict[str, tuple[str, Shape | None]]:
        """The element types, and shapes if it can tell, that onnx infers for a node's outputs."""
        names = [n for n in dict.fromkeys(node.input) if n]
        graph = helper.make_graph(
            [node], "one",
            [helper.make_tensor_value_info(n, onnx_type(self.types[n]), self.shape(n))
             for n in names if n not in self.constants],
            [helper.make_empty_tensor_value_info(n) for n in node.output if n],
            [numpy_helper.from_array(self.constants[n], n) for n in names if n in self.constants],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        try:
            inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except Exception as e:
            raise Unfit(f"inference: {str(e)[:200]}") from e
        found: dict[str, tuple[str, Shape | None]] = {}
        for v in inferred.graph.output:
            t = v.type.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim]
            known = t.HasField("shape") and None not in dims
            if t.elem_type:
                name = np.dtype(helper.tensor_dtype_to_np_dtype(t.elem_type)).name
                found[v.name] = name, tuple(dims) if known else None  # type: ignore[arg-type]
        if any(n not in found for n in node.output if n):
            raise Unfit("inference: no type")
        return found

    def proto(self, outputs: Sequence[str]) -> onnx.ModelProto:
        read = {n for node in self.nodes for n in node.input}
        graph = helper.make_graph(
            self.nodes, "random",
            [helper.make_tensor_value_info(n, onnx_type(self.types[n]), self.shape(n))
             for n in self.feeds if n in read],
            [helper.make_tensor_value_info(n, onnx_type(self.types[n]), self.shape(n))
             for n in outputs],
            [numpy_helper.from_array(x, n) for n, x in self.constants.items() if n in read],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = min(model.ir_version, 10)
        return model


def onnx_type(name: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def product(shape: Sequence[int]) -> int:
    return math.prod(shape)
