"""QNN's operations in numpy, written from their definitions alone: an oracle for ops and importers.

Slow and plain on purpose. It shares no code with the runtime, so that a wrong layout in an importer
and the same mistake in a kernel cannot cancel. Floats are computed in double precision.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qnnrt.dtypes import is_float
from qnnrt.model import Model, Node, Tensor

from . import (  # noqa: F401
    conv,
    detection,
    elementwise,
    matmul,
    movement,
    norm,
    pool,
    random,
    recurrent,
    reduce,
    resize,
    transform,
)
from .elementwise import cast
from .registry import OPS

#: The output's shape is the client's choice.
_SHAPED = ("Resize", "ResizeBilinear", "ResizeNearestNeighbor", "RoiAlign", "NonZero")
#: The output's shape says how its elements lie, or how many dimensions of 1 there are.
RESHAPED = ("Reshape", "Squeeze", "ExpandDims", "Lstm", "Gru", "Gather", "MatMul")


def of(
    op: str,
    inputs: Sequence[np.ndarray | None],
    params: Mapping[str, Any] | None = None,
    shape: Sequence[int] = (),
) -> Any:
    """What a node gives: its output, or a list of them. shape: of the output, for resizing."""
    return _outputs(Node("", op, [], [], dict(params or {})), inputs, shape)


def _outputs(node: Node, inputs: Sequence[np.ndarray | None], shape: Sequence[int]) -> Any:
    wide = [x if x is None or not is_float(x.dtype) else np.asarray(x, np.float64) for x in inputs]
    if node.type in _SHAPED:
        wide.append(np.array(shape))
    with np.errstate(all="ignore"):
        return OPS[node.type](node, *wide)


def results(
    node: Node, inputs: Sequence[np.ndarray | None], shape: Sequence[int] = ()
) -> list[np.ndarray]:
    """What a node gives for real numbers, before its outputs' types have their say."""
    found = _outputs(node, inputs, shape)
    return [np.asarray(y) for y in (found if isinstance(found, list) else [found])]


def run(model: Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of `model` for `feeds`, every shape compared with what the model declares."""
    values = {t.name: t.data for t in model.constants()}
    for name in model.inputs:
        tensor = model.tensors[name]
        values[name] = np.asarray(feeds[name], tensor.dtype).reshape(tensor.shape)
    last = {name: i for i, node in enumerate(model.nodes) for name in node.inputs if name}
    for i, node in enumerate(model.nodes):
        inputs = [
            real(model.tensors[name], values[name], node) if name else None for name in node.inputs
        ]
        found = results(node, inputs, model.tensors[node.outputs[0]].shape)
        for name, y in zip(node.outputs, found, strict=False):
            if not name:
                continue
            tensor = model.tensors[name]
            if node.type in RESHAPED:
                y = y.reshape(tensor.shape)
            assert y.shape == tensor.shape, f"{node.type} {node.name}: {y.shape} {tensor}"
            values[name] = stored(tensor, y, node)
        for name in node.inputs:
            if name and last[name] == i and name not in model.outputs:
                values.pop(name, None)
    return {name: values[name] for name in model.outputs}


def _encoding(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    q = tensor.quantization
    if q.block is not None:
        ones = [np.ones(b) for b in q.block]
        one = functools.reduce(np.multiply.outer, ones)
        grid = [d // b for d, b in zip(tensor.shape, q.block, strict=True)]
        return np.kron(q.scale, one), np.kron(np.broadcast_to(q.offset, grid), one)
    shape = [-1 if i == q.axis else 1 for i in range(len(tensor.shape))]
    return np.reshape(q.scale, shape), np.reshape(q.offset, shape)


def real(tensor: Tensor, x: np.ndarray, node: Node) -> np.ndarray:
    """What the elements of a fixed-point tensor stand for; a Cast takes them as integers."""
    if tensor.quantization is None or node.type == "Cast":
        return x
    scale, offset = _encoding(tensor)
    if tensor.quantization.packed:
        halves = np.array([[b % 16, b // 16] for b in range(256)])[x].reshape(-1)
        x = halves[: int(np.prod(tensor.shape))].reshape(tensor.shape)
        x = np.where(x > 7, x - 16, x) if tensor.dtype.kind == "i" else x
    return (scale * (x.astype(np.float64) + offset)).astype(np.float32)


def stored(tensor: Tensor, y: np.ndarray, node: Node) -> np.ndarray:
    """The elements of an output, in the form and precision of its type."""
    if tensor.quantization is None or node.type == "Cast":
        return cast(y, tensor.dtype)
    scale, offset = _encoding(tensor)
    codes = np.rint(y.astype(np.float32) / scale.astype(np.float32)).astype(np.float64) - offset
    bits = tensor.quantization.bitwidth or 8 * tensor.dtype.itemsize
    low = -(2 ** (bits - 1)) if tensor.dtype.kind == "i" else 0
    return np.clip(codes, low, low + 2**bits - 1).astype(tensor.dtype)
