"""Shape and element type of what a node gives, from what it takes: the rules, and what they share.

A rule is a function of one node that raises `ValueError` for whatever the operator does not allow:
shapes that do not fit, an axis that is not there, a size that is none. All arithmetic is Python's,
so that no number of a file can overflow. Operators without a rule have no QNN counterpart: they are
evaluated when their inputs are constants, expanded by the function that ONNX defines them by, or
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .nodes import OnnxNode, axis_of, needed
from .tables import Table
from .types import TypeOf
from .values import Value, constant

Shape = tuple[int, ...]
Found = TypeOf | list[TypeOf]
Rule = Callable[[OnnxNode], Found]

#: ONNX op type of the default domain -> its rule.
RULES: Table[Rule] = Table(
    {
        "infer_elementwise": (
            "Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitwiseAnd BitwiseOr "
            "BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout "
            "DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual "
            "GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization "
            "IsInf IsNaN LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax "
            "LpNormalization Max Mean MeanVarianceNormalization Min Mish Mod Mul Neg Not Or PRelu "
            "Pow QuantizeLinear RMSNormalization Reciprocal Relu Round Selu Shrink Sigmoid Sign "
            "Sin Sinh Softmax Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where "
            "Xor"
        ),
        "infer_gather": "Gather GatherElements GatherND OneHot Scatter ScatterElements ScatterND",
        "infer_linear": (
            "ArgMax ArgMin CumSum Einsum GRU Gemm LSTM MatMul MatMulInteger RNN ReduceL1 ReduceL2 "
            "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ReduceSumSquare TopK"
        ),
        "infer_shape": (
            "Compress Concat ConstantOfShape Expand EyeLike Flatten Pad Range Reshape "
            "ReverseSequence Shape Size Slice Split Squeeze Tile Transpose Trilu Unsqueeze"
        ),
        "infer_windows": (
            "AveragePool Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool "
            "GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool Resize RoiAlign SpaceToDepth "
            "Upsample"
        ),
        "op_transform": (
            "RandomNormal RandomNormalLike RandomUniform RandomUniformLike RotaryEmbedding"
        ),
    }
)

#: No tensor has more elements than this: a corrupted shape asks for more.
LARGEST = 2**31

#: numpy's arrays, and so the constants, have no more dimensions.
_HIGHEST_RANK = 64

#: No list of dimensions, axes or amounts is longer.
_LONGEST = 4096

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


class Unknown(Exception):
    """A shape depends on a value that is not known when the model is loaded."""


def infers(*op_types: str) -> Callable[[Rule], Rule]:
    """Register the rule of ONNX `op_types`."""

    def register(rule: Rule) -> Rule:
        RULES.register(op_types, rule)
        return rule

    return register


def infer(n: OnnxNode) -> list[TypeOf]:
    """Shape and type of each output; None where there is no rule, or a shape is not known yet.

    Raises `ValueError` for a node that its operator does not allow.
    """
    count = len(n.outputs)
    rule = RULES.get(n.op)
    if rule is None:
        return [None] * count
    try:
        found = rule(n)
    except Unknown as exc:
        n.unknown = str(exc)
        return [None] * count
    types = found[:count] if isinstance(found, list) else [found][:count]
    for index, entry in enumerate(types):
        if entry is not None:
            _check_result(entry[0], index)
    if len(types) < count:
        types += [None] * (count - len(types))
    return types


def _check_result(shape: Shape, index: int) -> None:
    if shape and min(shape) < 0:
        raise ValueError(f"output {index} would have the shape {list(shape)}")
    if len(shape) > _HIGHEST_RANK:
        raise ValueError(
            f"output {index} would have {len(shape)} dimensions; {_HIGHEST_RANK} are the most"
        )
    if math.prod(shape) > LARGEST:
        raise ValueError(
            f"output {index} would have the shape {list(shape)}: more than {LARGEST} elements"
        )


def misfit(n: OnnxNode, results: Sequence[Value | None]) -> str | None:
    """How the outputs of a node, once there are some, differ from what was inferred."""
    for index, (value, wanted) in enumerate(zip(results, n.types, strict=False)):
        if value is None or wanted is None:
            continue
        if value.shape != wanted[0] or value.dtype != wanted[1]:
            return (
                f"output {index} is {wanted[1].name}{list(wanted[0])} by the operator's rules and "
                f"came out as {value.dtype.name}{list(value.shape)}"
            )
    return None


def empty(n: OnnxNode) -> list[Value | None] | None:
    """Constants in place of a node of which no output has an element; else None."""
    some = False
    for wanted, name in zip(n.types, n.outputs, strict=True):
        if name:
            if wanted is None or 0 not in wanted[0]:
                return None
            some = True
    if not some:
        return None
    return [None if t is None else constant(np.zeros(*t)) for t in n.types]


# ---- what rules are made of --------------------------------------------------------------------


def same(n: OnnxNode, index: int = 0) -> TypeOf:
    """Shape and type of an input."""
    x = n.input(index)
    return x.shape, x.dtype


def broadcast(*shapes: Sequence[int]) -> Shape:
    """ONNX's multidirectional broadcasting (numpy's rule)."""
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return tuple(first)
    found = []
    for i in range(max(map(len, shapes)), 0, -1):
        sizes = {s[-i] for s in shapes if i <= len(s)}
        sizes.discard(1)
        if len(sizes) > 1:
            raise ValueError(
                "the shapes " + ", ".join(str(list(s)) for s in shapes) + " cannot be broadcast"
            )
        found.append(sizes.pop() if sizes else 1)
    return tuple(found)


def one_way(shape: Sequence[int], to: Sequence[int], what: str) -> None:
    """`shape` has to be broadcast to `to`, and not the other way."""
    fits = len(shape) <= len(to) and all(
        d in (1, w) for d, w in zip(shape[::-1], to[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"{what} of shape {list(shape)} cannot be broadcast to {list(to)}")


def exactly(n: OnnxNode, index: int, wanted: Sequence[int], what: str) -> None:
    """An input, if it is given, has one possible shape."""
    value = n.optional(index)
    if value is not None and value.shape != tuple(wanted):
        raise ValueError(
            f"input {index} ({what}) has the shape {list(value.shape)}; it has to be {list(wanted)}"
        )


def rank_of(n: OnnxNode, index: int, least: int, most: int = _HIGHEST_RANK) -> Shape:
    """The shape of an input whose rank lies between `least` and `most`."""
    shape = n.input(index).shape
    if not least <= len(shape) <= most:
        wanted = f"{least}" if least == most else f"{least} or more"
        if least < most < _HIGHEST_RANK:
            wanted = f"{least} to {most}"
        raise ValueError(f"input {index} of shape {list(shape)} has to have the rank {wanted}")
    return shape


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front, each once."""
    found = [axis_of(a, rank) if rank else _no_axis(a) for a in axes]
    if len(set(found)) != len(found):
        raise ValueError(f"the axes {list(axes)} name a dimension twice")
    return found


def axis_attribute(n: OnnxNode, default: int, rank: int) -> int:
    return axes_of([n.integer("axis", default)], rank)[0]


def _no_axis(axis: int) -> int:
    raise ValueError(f"axis {axis} is not one of a tensor of rank 0")


def data_of(n: OnnxNode, index: int) -> np.ndarray | None:
    """The value of a constant input, None when it is left out. Raises `Unknown` for others."""
    value = n.optional(index)
    if value is None:
        return None
    if value.data is None:
        raise Unknown(needed(index))
    return value.data


def list_of(n: OnnxNode, index: int) -> list[Any] | None:
    """The entries of a constant input that says dimensions, axes, amounts or scales."""
    value = n.optional(index)
    if value is None:
        return None
    if value.rank > 1:
        raise ValueError(
            f"input {index} has to be a list of numbers, and has the shape {list(value.shape)}"
        )
    if math.prod(value.shape) > _LONGEST:
        raise ValueError(f"input {index} has {math.prod(value.shape)} entries; {_LONGEST} at most")
    data = data_of(n, index)
    assert data is not None
    return data.ravel().tolist()


def given_or_input(n: OnnxNode, name: str, index: int) -> list[int] | None:
    """What older operator sets say by an attribute, and newer ones by a constant input."""
    given = n.integers(name)
    return list_of(n, index) if given is None else given


def single(n: OnnxNode, index: int, what: str) -> None:
    """An input, if it is given, has one element."""
    value = n.optional(index)
    if value is not None and math.prod(value.shape) != 1:
        raise ValueError(
            f"input {index} ({what}) has the shape {list(value.shape)}; it has to be one number"
        )


def one_of(n: OnnxNode, name: str, allowed: Sequence[str], default: str) -> str:
    """A text attribute with few possible values."""
    found = n.text(name, default)
    if found not in allowed:
        raise ValueError(f"{name} is {found[:60]!r}; it has to be one of {', '.join(allowed)}")
    return found
