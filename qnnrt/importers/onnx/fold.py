"""Evaluation of nodes whose inputs are all constants: shapes computed by the model, and weights
that it prepares.

What models fold is evaluated here with numpy, with its memory and work counted before (the modules
``fold_*``); everything else by ONNX's own reference evaluator, in a process with limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import onnx

from ...errors import ModelError
from ..budget import Budget
from ..guard import shortened
from .fold_table import EVALUATORS, VIEWS, Arrays, Given
from .nodes import OnnxNode

if TYPE_CHECKING:
    from .child import Child

#: Operators whose result is not a function of their inputs.
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


#: Operators on images, sequences and the like, which compute no shapes or parameters: the graph
#: computes them from constants as from anything else. ONNX's evaluator would ignore attributes of
#: some, of some it has the wrong shapes, and results of old versions. The function that ONNX
#: defines Softplus by overflows from 89 on.
_COMPUTED = {
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DynamicQuantizeLinear",
    "GRU", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample",
    "GroupNormalization", "Hardmax", "InstanceNormalization", "LRN", "LSTM",
    "LayerNormalization", "LogSoftmax", "LpNormalization", "LpPool", "MaxPool",
    "MeanVarianceNormalization", "RMSNormalization", "RNN", "Resize", "RoiAlign", "Softmax",
    "Softplus", "Upsample",
}  # fmt: skip


def left_to_graph(node: OnnxNode) -> bool:
    """Is it lowered even if all of its inputs are constants?"""
    return node.op in _COMPUTED and not evaluates(node)


def evaluates(node: OnnxNode) -> bool:
    """Is the operator evaluated here?"""
    return node.domain == "" and node.op in EVALUATORS


def fold(
    node: OnnxNode,
    inputs: Given,
    opsets: dict[str, int],
    budget: Budget,
    child: Callable[[], Child],
) -> Arrays:
    """The outputs of a node with constant inputs."""
    if evaluates(node):
        try:
            found = evaluated(node, inputs, budget)
        except (ValueError, IndexError, TypeError, OverflowError) as exc:
            if isinstance(exc, ModelError):
                raise
            given = ["-" if x is None else list(x.shape) for x in inputs[:8]]
            raise ValueError(
                f"it cannot be evaluated on constants of shapes {shortened(str(given))}: "
                f"{shortened(str(exc), 300)}"
            ) from exc
        if found is not None:
            return found
    for inferred in node.types:
        if inferred is not None:
            budget.array(*inferred)
    return _reference(node, inputs, opsets, child())


def evaluated(node: OnnxNode, inputs: Given, budget: Budget) -> Arrays | None:
    """The outputs, by this package; None when it leaves this form of the operator out."""
    evaluate = EVALUATORS[node.op]
    budget.work(sum(x.size for x in inputs if x is not None and 0 not in x.strides))
    if node.op not in VIEWS:
        for inferred in node.types:
            if inferred is not None:
                budget.array(*inferred)
    narrow = any(x is not None and _is_narrow(x.dtype) for x in inputs) and all(node.types)
    found = evaluate(node, _widened(inputs, budget) if narrow else inputs, budget)
    if found is None:
        return None
    outputs = found if isinstance(found, list) else [found]
    if narrow:  # sums in 32 bits, one rounding
        types = [inferred[1] for inferred in node.types if inferred is not None]
        outputs = [np.asarray(x).astype(t) for x, t in zip(outputs, types, strict=False)]
    if len(outputs) < len(node.outputs):
        return None
    return [np.asarray(x) for x in outputs[: len(node.outputs)]]


def _is_narrow(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.name == "bfloat16"


def _widened(inputs: Given, budget: Budget) -> Given:
    """With float32 for bfloat16, in which numpy's functions sum as it is stored."""
    wide = []
    for x in inputs:
        if x is not None and _is_narrow(x.dtype):
            budget.array(x.shape, np.dtype(np.float32))
            x = x.astype(np.float32)
        wide.append(x)
    return wide


def _reference(node: OnnxNode, inputs: Given, opsets: dict[str, int], child: Child) -> Arrays:
    """Everything else by onnx's reference evaluator, in a process of its own."""
    proto = node.written.proto
    named = zip(proto.input, inputs, strict=True)
    feeds = {name: value for name, value in named if value is not None}
    outputs = [name for name in proto.output if name]
    graph = onnx.GraphProto(name="fold", node=[proto])
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    for name, x in feeds.items():
        elem_type = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, elem_type, x.shape))
    imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    tensors = []
    for name, x in feeds.items():
        child.budget.array(x.shape, x.dtype, copies=2)
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(x).reshape(x.shape), name)
        tensors.append(tensor.SerializeToString())
    found = iter(child.evaluate(model.SerializeToString(), tensors))
    results = []
    for name in proto.output:
        if name:
            tensor = onnx.TensorProto()
            tensor.ParseFromString(next(found))
            results.append(onnx.numpy_helper.to_array(tensor))
        else:
            results.append(np.empty(0))
    return results
