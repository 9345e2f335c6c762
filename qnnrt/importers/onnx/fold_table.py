"""The table of the operators that are evaluated on constants, and what the evaluators share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..budget import Budget
from .nodes import OnnxNode
from .tables import Table

Arrays = list[np.ndarray]
Given = list[np.ndarray | None]
#: None: this form of the operator is not evaluated here.
Found = np.ndarray | Arrays | None
Evaluator = Callable[[OnnxNode, Given, Budget], Found]

#: ONNX op type of the default domain -> its evaluator.
EVALUATORS: Table[Evaluator] = Table(
    {
        "fold_elementwise": (
            "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot "
            "BitwiseOr BitwiseXor Cast CastLike Ceil Clip Cos Cosh Div Dropout Equal Erf Exp "
            "Floor Greater GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Log Max Mean Min "
            "Mod Mul Neg Not Or Pow Reciprocal Relu Round Shrink Sigmoid Sign Sin Sinh Sqrt Sub "
            "Sum Tan Tanh Where Xor"
        ),
        "fold_index": (
            "Compress CumProd CumSum Gather GatherElements GatherND NonZero ReverseSequence "
            "Scatter ScatterElements ScatterND TopK Unique"
        ),
        "fold_make": "ConstantOfShape Expand OneHot Range Trilu",
        "fold_reduce": (
            "ArgMax ArgMin Gemm LogSoftmax MatMul ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
            "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax"
        ),
        "fold_shape": (
            "Concat DepthToSpace Flatten Pad Reshape Slice SpaceToDepth Split Squeeze Tile "
            "Transpose Unsqueeze"
        ),
    }
)
#: Those whose result lies in the memory of an input, or is one element in memory; of
#: imported modules.
VIEWS: set[str] = set()

#: No list of dimensions, axes or sizes is longer.
_LONGEST_LIST = 2**16


def evaluates(*op_types: str, view: bool = False) -> Callable[[Evaluator], Evaluator]:
    """Register an evaluator. Memory for outputs whose shape was inferred is counted before it is
    called, except of views; everything else that it makes, it counts itself."""

    def register(fn: Evaluator) -> Evaluator:
        EVALUATORS.register(op_types, fn)
        if view:
            VIEWS.update(op_types)
        return fn

    return register


def needs(args: Given, index: int) -> np.ndarray:
    """An input that has to be there."""
    found = args[index] if index < len(args) else None
    if found is None:
        raise ValueError(f"input {index} is missing")
    return found


def optional(args: Given, index: int) -> np.ndarray | None:
    return args[index] if index < len(args) else None


def integers(array: np.ndarray) -> list[int]:
    """A list of dimensions, axes, sizes or positions as Python's integers."""
    if array.dtype.kind not in "iu":
        raise ValueError(f"integers are expected, not {array.dtype.name}")
    if array.size > _LONGEST_LIST:
        raise ValueError(f"a list of {array.size} integers is too long")
    return [int(v) for v in array.ravel()]


def axes_of(node: OnnxNode, args: Given, index: int = 1) -> list[int] | None:
    """Axes from an input, or the attribute of older operator sets; None when there are none."""
    given = optional(args, index)
    return node.integers("axes") if given is None else integers(given)


def whole(x: np.ndarray, budget: Budget) -> np.ndarray:
    """`x` with all of its elements in memory."""
    if not x.flags.c_contiguous:
        budget.array(x.shape, x.dtype)
    return np.ascontiguousarray(x).reshape(x.shape)
