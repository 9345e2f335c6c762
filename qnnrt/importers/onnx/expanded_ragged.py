"""Operators of ONNX on batches of sequences of unequal lengths, written as others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .bodies import AsDefined, Body, otherwise
from .expanded import OPSET, array, ints
from .expanded_recurrent import by_steps, unrolled
from .nodes import OnnxNode

#: What a gate is given where a sequence has ended: its sigmoid is 0 or 1 in every float type.
_SHUT = 1e4


def _along(b: Body, values: str, rank: int, axis: int) -> str:
    """A vector that broadcasts along an axis of tensors of a rank."""
    shape = [1] * rank
    shape[axis] = -1
    return b.op("Reshape", [values, ints(b, shape)])


def _reversed(b: Body, x: str, shape: Sequence[int], lengths: str, batch: int, time: int) -> str:
    """ReverseSequence of `x`; `lengths` are int64."""
    count, steps = shape[batch], shape[time]
    places = array(b, np.expand_dims(np.arange(steps), batch))
    each = _along(b, lengths, 2, batch)
    last = b.op("Sub", [each, ints(b, [1])])
    source = b.op("Where", [b.op("Less", [places, each]), b.op("Sub", [last, places]), places])
    others = np.broadcast_to(np.expand_dims(np.arange(count), time), (shape[0], shape[1]))
    both = [array(b, others[..., None]), b.op("Unsqueeze", [source, ints(b, [2])])]
    return b.op("GatherND", [x, b.op("Concat", both if batch == 0 else both[::-1], axis=2)])


@otherwise("ReverseSequence")
def _reverse_sequence(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    lengths = b.op("Cast", [b.given(1)], to=onnx.TensorProto.INT64)
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis")
    return b.proto(_reversed(b, b.given(0), n.input(0).shape, lengths, batch, time), opset=OPSET)


@otherwise("GRU")
@otherwise("LSTM")
@otherwise("RNN")
def _recurrent(n: OnnxNode) -> onnx.FunctionProto:
    """Each direction forwards over all steps; what lies behind the end of a sequence is left out of
    the results. A cell's state stays as it was at the end: one more feature shuts the gates."""
    if by_steps(n):
        return unrolled(n)
    if not n.has(4):
        raise AsDefined
    b, layout = Body(n), n.integer("layout")
    shape = n.input(0).shape
    batch, time = (0, 1) if layout else (1, 0)
    ways = n.input(1).shape[0]
    lengths = b.op("Cast", [b.given(4)], to=onnx.TensorProto.INT64)
    steps = array(b, np.expand_dims(np.arange(shape[time]), (batch, 2)))  # as X, of one feature
    ends = _along(b, lengths, 3, batch)
    zero = array(b, np.zeros((), n.input(0).dtype))
    past = b.op("GreaterOrEqual", [steps, ends])
    final = b.op("Equal", [steps, b.op("Sub", [ends, ints(b, [1])])])
    found: list[list[str]] = []
    for way in range(ways):
        backwards = way == 1 or n.text("direction", "forward") == "reverse"
        inputs, x = _of_direction(b, n, way, ways), b.given(0)
        if backwards:
            x = _reversed(b, x, shape, lengths, batch, time)
        with_cell = len(n.outputs) > 2 and bool(n.outputs[2])
        if with_cell:
            x, inputs[1] = _held(b, n, x, inputs[1], past)
        inputs[0] = x
        all_steps, cell = _call(b, n, way, inputs)
        flat = b.op("Squeeze", [all_steps, ints(b, [2 if layout else 1])])
        h = b.op("Where", [final, flat, zero])
        h = b.op("ReduceSum", [h, ints(b, [time])], keepdims=0)
        y = b.op("Where", [past, zero, flat])
        if backwards:
            y = _reversed(b, y, shape, lengths, batch, time)
        # Y is [T, ways, N, H] or [N, T, ways, H], a state [ways, N, H] or [N, ways, H].
        found.append([
            b.op("Unsqueeze", [y, ints(b, [2 if layout else 1])]),
            b.op("Unsqueeze", [h, ints(b, [1 if layout else 0])]),
        ])  # fmt: skip
        if with_cell:
            some = b.op("Greater", [_along(b, lengths, 3, batch), ints(b, [0])])
            found[-1].append(b.op("Where", [some, cell, zero]))
    axes = (2, 1, 1) if layout else (1, 0, 0)
    parts = zip(zip(*found, strict=True), axes, strict=False)
    return b.proto(*(b.op("Concat", p, axis=a) for p, a in parts), opset=OPSET)


def _of_direction(b: Body, n: OnnxNode, way: int, ways: int) -> list[str]:
    """The inputs of one direction, without lengths."""
    names = [b.given(i) if i != 4 else "" for i in range(len(n.inputs))]
    for i, name in enumerate(names):
        if i and name and ways > 1:
            axis = 1 if i in (5, 6) and n.integer("layout") else 0
            names[i] = b.op("Slice", [name, ints(b, [way]), ints(b, [way + 1]), ints(b, [axis])])
    return names


def _held(b: Body, n: OnnxNode, x: str, w: str, past: str) -> tuple[str, str]:
    """X and W of an LSTM with a feature that opens the forget gate and shuts the input gate."""
    kind, hidden = n.input(0).dtype, n.input(2).shape[2]
    zero = array(b, np.zeros((), kind))
    number = helper.np_dtype_to_tensor_dtype(kind)
    x = b.op("Where", [past, zero, x])
    x = b.op("Concat", [x, b.op("Cast", [past], to=number)], axis=2)
    column = np.zeros((1, 4, hidden, 1), kind)  # gates: input, output, forget, cell
    column[:, 0], column[:, 2] = -_SHUT, _SHUT
    return x, b.op("Concat", [w, array(b, column.reshape(1, 4 * hidden, 1))], axis=2)


def _call(b: Body, n: OnnxNode, way: int, inputs: list[str]) -> tuple[str, str]:
    """The node, forwards over whole sequences: all steps, and the cell's last state."""
    attrs: dict[str, Any] = {"direction": "forward"}
    given = n.texts("activations")
    if "activations" in n.written.names:
        each = len(given) // n.input(1).shape[0]
        attrs["activations"] = given[way * each : (way + 1) * each]
    y = b.like(n.op, inputs, "activations", "activation_alpha", "activation_beta", **attrs)
    b.nodes[-1].output.extend(["", f"{y}c"] if n.op == "LSTM" else [])
    return y, f"{y}c"
