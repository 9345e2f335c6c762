"""Evaluation of nodes whose inputs are all constants (shape arithmetic, mostly), with numpy.

The common operators are here; everything else goes through ONNX's own reference evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx

from ...errors import ModelError
from ..budget import Budget
from .child import Child
from .nodes import OnnxNode, axis_of

#: No constant of more elements than this is materialized: a corrupted shape asks for more.
LARGEST = 2**31

#: Operators whose result is not a function of their inputs.
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}

Arrays = list[np.ndarray]


def evaluates(node: OnnxNode) -> bool:
    """Is the operator evaluated here?"""
    return node.domain == "" and node.op in _TABLE


def fold(
    node: OnnxNode,
    inputs: list[np.ndarray | None],
    opsets: dict[str, int],
    budget: Budget,
    child: Child,
) -> Arrays:
    """The outputs of a node with constant inputs."""
    for found in node.types:
        if found is not None and node.op not in _VIEWS:
            budget.array(found[0], found[1])
    given = [x for x in inputs if x is not None]
    if evaluates(node) and len(given) == len(inputs):
        try:
            found_here = _TABLE[node.op](node, given)
        except (ValueError, IndexError, TypeError) as exc:
            raise ModelError(
                f"node {node.name!r} ({node.op}) cannot be evaluated on constants of shapes "
                f"{[list(x.shape) for x in given]}: {exc}"
            ) from exc
        if found_here is not None:
            return [np.asarray(found_here)]
    return _reference(node, inputs, opsets, child)


_VIEWS = {"ConstantOfShape", "Expand", "Identity", "Reshape"}


def _reference(
    node: OnnxNode, inputs: list[np.ndarray | None], opsets: dict[str, int], child: Child
) -> Arrays:
    """Everything else by onnx's reference evaluator, in a process of its own."""
    named = zip(node.proto.input, inputs, strict=True)
    feeds = {name: value for name, value in named if value is not None}
    outputs = [name for name in node.proto.output if name]
    graph = onnx.GraphProto(name="fold", node=[node.proto])
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    for name, x in feeds.items():
        elem_type = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, elem_type, x.shape))
    imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(x), name).SerializeToString()
        for name, x in feeds.items()
    ]
    found = iter(child.evaluate(model.SerializeToString(), tensors))
    results = []
    for name in node.proto.output:
        if name:
            tensor = onnx.TensorProto()
            tensor.ParseFromString(next(found))
            results.append(onnx.numpy_helper.to_array(tensor))
        else:
            results.append(np.empty(0))
    return results


def _attribute_axes(node: OnnxNode, args: Arrays) -> list[int] | None:
    if len(args) > 1:
        return [int(a) for a in args[1].ravel()]
    return node.integers("axes")


def _gather(node: OnnxNode, args: Arrays) -> np.ndarray:
    return np.take(args[0], args[1].astype(np.int64), axis=node.integer("axis"))


def _unsqueeze(node: OnnxNode, args: Arrays) -> np.ndarray:
    axes = _attribute_axes(node, args) or []
    return np.expand_dims(args[0], tuple(axes))


def _squeeze(node: OnnxNode, args: Arrays) -> np.ndarray:
    axes = _attribute_axes(node, args)
    return np.squeeze(args[0], None if axes is None else tuple(axes))


def _slice(node: OnnxNode, args: Arrays) -> np.ndarray:
    x = args[0]
    if len(args) > 1:
        starts, ends = args[1].tolist(), args[2].tolist()
        axes = args[3].tolist() if len(args) > 3 else list(range(len(starts)))
        steps = args[4].tolist() if len(args) > 4 else [1] * len(starts)
    else:
        starts, ends = node.integers("starts") or [], node.integers("ends") or []
        axes = node.integers("axes") or list(range(len(starts)))
        steps = [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis_of(axis, x.ndim)] = slice(*bounds(start, end, step, x.shape[axis]), step)
    return x[tuple(index)]


def bounds(start: int, end: int, step: int, size: int) -> tuple[int, int | None]:
    """ONNX's start and end, clamped, as Python's slice takes them."""
    if step == 0:
        raise ValueError("a slice step is 0")
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return min(max(start, 0), size), min(max(end, 0), size)
    end = max(end, -1)
    return min(max(start, -1), size - 1), None if end < 0 else min(end, size - 1)


def _cast(node: OnnxNode, args: Arrays) -> np.ndarray | None:
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(node.integer("to"))
    except KeyError:
        return None
    plain = dtype.kind in "fiub" and args[0].dtype.kind in "fiub"
    return args[0].astype(dtype) if plain else None


def _reshape(node: OnnxNode, args: Arrays) -> np.ndarray:
    return args[0].reshape(
        reshape_target(args[0].shape, args[1].tolist(), bool(node.integer("allowzero")))
    )


def reshape_target(shape: tuple[int, ...], wanted: list[int], allowzero: bool) -> tuple[int, ...]:
    """ONNX's rule: 0 copies the dimension (unless allowzero), one -1 is inferred."""
    out = [
        int(shape[i]) if d == 0 and not allowzero and i < len(shape) else int(d)
        for i, d in enumerate(wanted)
    ]
    if out.count(-1) == 1:
        rest = math.prod(d for d in out if d != -1)
        out[out.index(-1)] = math.prod(shape) // rest if rest else 0
    if any(d < 0 for d in out) or math.prod(out) != math.prod(shape):
        raise ValueError(f"cannot reshape {list(shape)} to {wanted}")
    return tuple(out)


def _constant_of_shape(node: OnnxNode, args: Arrays) -> np.ndarray:
    given = node.attrs.get("value")
    value = np.zeros(1, np.float32)
    if isinstance(given, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(given)
    shape = tuple(int(d) for d in args[0].ravel())
    if any(d < 0 for d in shape) or math.prod(shape) > LARGEST:
        raise ValueError(f"{list(shape)} is not a shape for a constant: at most {LARGEST} elements")
    # One element in memory, whatever the shape: only what is really used is written out.
    return np.broadcast_to(value.reshape(()), shape)


def _divide(node: OnnxNode, args: Arrays) -> np.ndarray | None:
    a, b = args
    if a.dtype.kind in "iu":
        if np.any(b == 0):
            raise ValueError("division by zero")
        quotient = np.abs(a) // np.abs(b)
        return (np.where((a < 0) != (b < 0), -quotient, quotient)).astype(a.dtype)
    return a / b


def _range(node: OnnxNode, args: Arrays) -> np.ndarray:
    start, limit, delta = (x.item() for x in args)
    if delta == 0 or (limit - start) / delta > LARGEST:
        raise ValueError(f"range({start}, {limit}, {delta}) has no end")
    count = max(math.ceil((limit - start) / delta), 0)
    return np.asarray(start + np.arange(count) * delta, args[0].dtype)


_TABLE: dict[str, Callable[[OnnxNode, Arrays], np.ndarray | None]] = {
    "Add": lambda n, a: a[0] + a[1],
    "Cast": _cast,
    "Concat": lambda n, a: np.concatenate(a, axis=n.integer("axis")),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": lambda n, a: a[0] == a[1],
    "Expand": lambda n, a: (
        a[0] * np.ones(tuple(a[1]), a[0].dtype) if a[0].dtype.kind in "fiu" else None
    ),
    "Gather": _gather,
    "Identity": lambda n, a: a[0],
    "Mul": lambda n, a: a[0] * a[1],
    "Neg": lambda n, a: -a[0],
    "Range": _range,
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": lambda n, a: np.sqrt(a[0]) if a[0].dtype.kind == "f" else None,
    "Squeeze": _squeeze,
    "Sub": lambda n, a: a[0] - a[1],
    "Transpose": lambda n, a: a[0].transpose(n.integers("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": lambda n, a: np.where(a[0], a[1], a[2]),
}
