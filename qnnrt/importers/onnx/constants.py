"""Nodes that are constants by themselves: what they hold, or a shape that is known."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ..budget import Budget
from .nodes import OnnxNode, Unsupported
from .reader import array_of, dense_of

#: Operators that exist only among constants.
FOLDED_OPS = {"Constant", "ConstantOfShape", "Range", "Shape", "Size", "EyeLike"}

#: What makes tensors out of nothing but parameters.
OF_CONSTANTS = {
    "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "MelWeightMatrix", "Range",
}  # fmt: skip


def held(node: OnnxNode, where: str, budget: Budget) -> np.ndarray:
    """What a Constant holds."""
    if len(node.attrs) != 1:
        raise ValueError(f"it has {len(node.attrs)} values; it has to have one")
    for key, value in node.attrs.items():
        if key == "value" and isinstance(value, onnx.TensorProto):
            return array_of(value, where)
        if key == "sparse_value" and isinstance(value, onnx.SparseTensorProto):
            return dense_of(value, where, budget)
        if key in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if key in ("value_int", "value_ints"):
            return np.array(value, np.int64)
    raise Unsupported(f"a constant given by {', '.join(node.attrs)}")


def of_shape(node: OnnxNode, budget: Budget) -> np.ndarray | None:
    """What a node tells of its input's shape, whatever is in it; None where it is none of those."""
    if node.op == "Size":
        return np.array(math.prod(node.input(0).shape), np.int64)
    if node.op == "Shape":
        from .infer_shape import shape_slice

        return np.array(node.input(0).shape[shape_slice(node)], np.int64)
    if node.op == "EyeLike":
        from .fold_make import eye

        rows, columns = node.shape()
        return eye((rows, columns), node.dtype(), node.integer("k"), budget)
    return None
