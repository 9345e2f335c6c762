"""ONNX Runtime's operators that ONNX has had since, or by another name."""

from __future__ import annotations

import numpy as np
import onnx

from .bodies import MICROSOFT, Body, body
from .expanded import OPSET, array, ints
from .nodes import OnnxNode, axis_of


@body(MICROSOFT, "GatherND", "GridSample", "Pad", "Range", "Trilu")
def _same(n: OnnxNode) -> onnx.FunctionProto:
    """As in the operator sets that have them first, with these inputs and attributes."""
    b = Body(n)
    opset = {"GridSample": 16, "Pad": 13}.get(n.op, 14)
    inputs = [b.given(i) for i in range(len(n.inputs))]
    if n.op == "Pad":  # of [1, 2 * rank], too
        inputs[1] = b.op("Reshape", [inputs[1], ints(b, [-1])])
    if n.op == "GatherND":
        inputs[1] = b.op("Cast", [inputs[1]], to=onnx.TensorProto.INT64)
    if n.op == "Range" and not n.has(2):
        inputs = [*inputs[:2], array(b, np.array(1, n.input(0).dtype))]
    return b.proto(b.like(n.op, inputs), opset=opset)


@body(MICROSOFT, "ExpandDims")
def _expand_dims(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    axis = b.op("Cast", [b.given(1)], to=onnx.TensorProto.INT64)
    return b.proto(b.op("Unsqueeze", [b.given(0), b.op("Reshape", [axis, ints(b, [1])])]), opset=14)


@body(MICROSOFT, "UnfoldTensor")
def _unfold(n: OnnxNode) -> onnx.FunctionProto:
    """Windows along a dimension; what is in them lies in a last one."""
    b, rank = Body(n), n.input(0).rank
    axis, size, step = axis_of(n.integer("dim", -1), rank), n.integer("size"), n.integer("step", 1)
    length = n.input(0).shape[axis]
    if not 1 <= size <= length or step < 1:
        raise ValueError(f"windows of {size} every {step} of {length}")
    starts = np.arange(0, length - size + 1, step)
    y = b.op("Gather", [b.given(0), array(b, starts[:, None] + np.arange(size))], axis=axis)
    order = [i for i in range(rank + 1) if i != axis + 1]
    return b.proto(b.op("Transpose", [y], perm=[*order, axis + 1]), opset=OPSET)
