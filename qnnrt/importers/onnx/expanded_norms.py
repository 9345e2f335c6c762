"""Normalizations of ONNX with further results, written as others."""

from __future__ import annotations

import numpy as np
import onnx

from .bodies import AsDefined, Body, otherwise
from .expanded import OPSET, array, ints
from .infer_elementwise import element_type
from .nodes import OnnxNode, axis_of


@otherwise("LayerNormalization")
def _with_statistics(n: OnnxNode) -> onnx.FunctionProto:
    """LayerNormalization with the mean, and with the inverse of the deviation.

    The function that ONNX defines it by squares differences, and gives y by what comes of it: in
    half precision differences of 256 have an infinite square. Here y is LayerNorm's, and squares
    are of what is divided by the largest difference.
    """
    if not (n.wants(1) or n.wants(2)):
        raise AsDefined
    b, rank = Body(n), n.input(0).rank
    inputs = [b.given(i) for i in range(len(n.inputs))]
    y = b.like("LayerNormalization", inputs)
    stash = element_type(n, "stash_type") or np.dtype(np.float32)
    kind = onnx.helper.np_dtype_to_tensor_dtype(stash)
    axes = ints(b, range(axis_of(n.integer("axis", -1), rank), rank))
    x = b.op("Cast", [inputs[0]], to=kind)
    mean = b.op("ReduceMean", [x, axes])
    apart = b.op("Sub", [x, mean])
    one, epsilon = (array(b, np.array(v, stash)) for v in (1, n.number("epsilon", 1e-5)))
    largest = b.op("Max", [b.op("ReduceMax", [b.op("Abs", [apart]), axes]), one])
    part = b.op("Div", [apart, largest])
    variance = b.op("ReduceMean", [b.op("Mul", [part, part]), axes])
    variance = b.op("Add", [variance, b.op("Div", [epsilon, b.op("Mul", [largest, largest])])])
    inverse = b.op("Reciprocal", [b.op("Mul", [largest, b.op("Sqrt", [variance])])])
    return b.proto(*[y, mean, inverse][: len(n.outputs)], opset=OPSET)
