"""One ONNX node as the lowering functions see it, and the table of those functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..budget import Budget
from ..graph import Edge
from .tables import Table
from .values import Builder, Value
from .written import Written

Result = Value | list[Value | None]
LowerFn = Callable[["Lowering", "OnnxNode"], Result]
UsualFn = Callable[
    [Builder, str, Sequence[Value | None], tuple[tuple[int, ...], np.dtype], Mapping[str, Any]],
    Value | None,
]

#: ONNX op type of the default domain -> function that emits its QNN operations.
TABLE: Table[LowerFn] = Table(
    {
        "op_activation": (
            "Cast CastLike Celu Clip Dropout Elu Gelu HardSigmoid HardSwish Hardmax Identity "
            "LeakyRelu LogSoftmax MeanVarianceNormalization Mish PRelu Relu Selu Shrink Sigmoid "
            "Softmax Softplus Softsign Swish Tanh ThresholdedRelu"
        ),
        "op_conv": "Conv ConvInteger ConvTranspose",
        "op_elementwise": (
            "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor Ceil Cos "
            "Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log "
            "Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan "
            "Where Xor"
        ),
        "op_gather": (
            "Gather GatherElements GatherND GridSample OneHot RoiAlign Scatter ScatterElements "
            "ScatterND"
        ),
        "op_matmul": "Einsum Gemm MatMul MatMulInteger",
        "op_norm": (
            "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization "
            "LpNormalization RMSNormalization"
        ),
        "op_pool": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool",
        "op_quantize": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
        "op_recurrent": "GRU LSTM RNN",
        "op_reduce": (
            "ArgMax ArgMin CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
            "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK"
        ),
        "op_resize": "Resize Upsample",
        "op_shape": (
            "Compress Concat DepthToSpace Expand Flatten Pad Reshape ReverseSequence Slice "
            "SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze"
        ),
        "op_transform": (
            "RandomNormal RandomNormalLike RandomUniform RandomUniformLike RotaryEmbedding"
        ),
    }
)
#: ONNX op type -> the QNN op types that it becomes, for the coverage page; of imported modules.
TARGETS: dict[str, str] = {}
#: ONNX op type -> what most nodes of it give, by the inferred shape and type of that and by the
#: attributes, when one like it was checked before; None: not this one. Of imported modules.
USUAL: dict[str, UsualFn] = {}


class Lowering:
    """What a lowering function emits into: the builder, and how the model is imported."""

    def __init__(self, stateful: bool, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.b = Builder(self.budget)
        self.stateful = stateful  # recurrent nodes go on from run to run
        #: Weights of MatMulNBits -> the level of accuracy that it asks for.
        self.levels: dict[Edge, int] = {}
        #: Conditions, and what they have to be for results that are made now to be used.
        self.conditions: list[tuple[Value, bool]] = []

    @contextmanager
    def only_if(self, condition: Value, is_: bool) -> Iterator[None]:
        """For what is computed in any case, and used if the data say so."""
        self.conditions.append((condition, is_))
        try:
            yield
        finally:
            self.conditions.pop()


class Unsupported(Exception):
    """This node cannot be expressed; the text is the reason."""


class Refused(Unsupported):
    """Nor can it be by the function that ONNX defines the operator by."""


def lowers(*op_types: str, to: str) -> Callable[[LowerFn], LowerFn]:
    """Register a lowering for ONNX `op_types`; `to` names its QNN ops for the documentation."""

    def register(fn: LowerFn) -> LowerFn:
        TABLE.register(op_types, fn)
        TARGETS.update(dict.fromkeys(op_types, to))
        return fn

    return register


@dataclass(slots=True)
class OnnxNode:
    """A node with its inputs resolved. Missing optional inputs are None."""

    name: str
    op: str
    domain: str
    version: int  # of the operator set of its domain
    inputs: list[Value | None]
    outputs: list[str]
    types: list[tuple[tuple[int, ...], np.dtype] | None]  # inferred, for each output
    written: Written
    attrs: dict[str, object]
    unknown: str = ""  # why shapes could not be inferred

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Value:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Unsupported(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The inferred shape of an output."""
        found = self.types[index]
        if found is None:
            raise Unsupported(self.unknown or f"the shape of output {index} is not known")
        return found[0]

    def dtype(self, index: int = 0) -> np.dtype:
        found = self.types[index]
        if found is None:
            raise Unsupported(self.unknown or f"the type of output {index} is not known")
        return found[1]

    def wants(self, index: int) -> bool:
        """Is output `index` used?"""
        return index < len(self.outputs) and bool(self.outputs[index])

    def integer(self, name: str, default: int = 0) -> int:
        value: Any = self.attrs.get(name, default)
        return int(value)

    def number(self, name: str, default: float = 0.0) -> float:
        value: Any = self.attrs.get(name, default)
        return float(value)

    def text(self, name: str, default: str = "") -> str:
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def texts(self, name: str) -> list[str]:
        found: Any = self.attrs.get(name) or []
        return [t.decode() if isinstance(t, bytes) else str(t) for t in found]

    def integers(self, name: str) -> list[int] | None:
        value: Any = self.attrs.get(name)
        return None if value is None else list(value)

    def const_input(self, index: int, what: str) -> np.ndarray | None:
        """The value of an input that QNN takes as a parameter; None when it is omitted."""
        value = self.optional(index)
        if value is None:
            return None
        if value.data is None:
            raise Unsupported(needed(index, what))
        return value.data

    def axes(self, attr: str, index: int) -> list[int] | None:
        """Axes from an attribute (older opsets) or a constant input (newer ones)."""
        given = self.integers(attr)
        if given is None:
            found = self.const_input(index, attr)
            given = None if found is None else [int(v) for v in np.asarray(found).ravel()]
        return given


def needed(index: int, what: str = "") -> str:
    """Why a node cannot be lowered without the value of an input."""
    name = f"{what} (input {index})" if what else f"input {index}"
    return (
        f"{name} must be known when the model is loaded: give it with constants=, or make it an "
        "initializer"
    )


def axis_of(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is not one of a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
