"""Batches of sequences of unequal lengths, beside ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.contrib import theirs
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

STEPS, BATCH, SIZE, HIDDEN = 6, 4, 3, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LENGTHS = np.array([6, 0, 1, 4], np.int32)
INT32, INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64


def _recurrent(
    op: str, direction: str, outputs: list[str], **more: np.ndarray
) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[op] * HIDDEN
    constants = {
        "w": random(1, ways, gates, SIZE),
        "r": random(2, ways, gates, HIDDEN),
        "b": random(3, ways, 2 * gates),
        **more,
    }
    states = [name for name in ("h", "c", "p") if name in more]
    inputs = ["x", "w", "r", "b", "lengths", *states]
    attrs: dict[str, object] = {"hidden_size": HIDDEN, "direction": direction}
    if op == "RNN":
        attrs["activations"] = ["Relu", "Tanh"][:ways]
    return [node(op, inputs, outputs, **attrs)], constants


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(op: str, direction: str, known: bool) -> None:
    ways = 2 if direction == "bidirectional" else 1
    states = {"h": random(4, ways, BATCH, HIDDEN)}
    outputs = ["y", "last"]
    if op == "LSTM":
        states |= {"c": random(5, ways, BATCH, HIDDEN), "p": random(6, ways, 3 * HIDDEN)}
        outputs.append("cell")
    nodes, constants = _recurrent(op, direction, outputs, **states)
    x = random(7, STEPS, BATCH, SIZE)
    feeds, inputs = {"x": x}, {"x": x.shape}
    if known:
        constants["lengths"] = LENGTHS
    else:
        feeds["lengths"], inputs["lengths"] = LENGTHS, LENGTHS.shape
    agree(make(nodes, inputs, outputs, constants, types={"lengths": INT32}), feeds)


def test_what_lies_behind_the_end_is_not_read() -> None:
    nodes, constants = _recurrent("LSTM", "bidirectional", ["y", "last", "cell"])
    x = random(1, STEPS, BATCH, SIZE)
    inputs = {"x": x.shape, "lengths": LENGTHS.shape}
    proto = make(nodes, inputs, ["y", "last", "cell"], constants, types={"lengths": INT32})
    wanted = theirs(proto, {"x": x, "lengths": LENGTHS})
    for b, length in enumerate(LENGTHS):
        x[length:, b] = 1e30
    for precision, tolerance in (("float32", 1e-5), ("bfloat16", 3e-2)):
        with qnnrt.Session(importer.load(proto), "htp", precision=precision) as session:
            found = session.run({"x": x, "lengths": LENGTHS})
        for name, value in zip(found, wanted, strict=True):
            np.testing.assert_allclose(found[name], value, atol=tolerance, err_msg=name)


def test_what_a_layer_cannot_do_is_said_of_the_node_itself() -> None:
    nodes, constants = _recurrent("GRU", "forward", ["y"])
    nodes[0].attribute.append(onnx.helper.make_attribute("activations", ["Tanh", "Sine"]))
    constants["lengths"] = LENGTHS
    with pytest.raises(UnsupportedOpError, match="activation sine"):
        importer.load(make(nodes, {"x": (STEPS, BATCH, SIZE)}, ["y"], constants))


@pytest.mark.parametrize("length", [-1, STEPS + 1])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_lengths_are_those_of_the_steps_there_are(op: str, length: int) -> None:
    nodes, constants = _recurrent(op, "forward", ["y"])
    constants["lengths"] = np.array([1, 2, length, 3], np.int32)
    with pytest.raises(ModelError, match=f"not one of 0 to {STEPS}"):
        importer.load(make(nodes, {"x": (STEPS, BATCH, SIZE)}, ["y"], constants))


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0)])
def test_lengths_to_reverse_may_be_computed(batch: int, time: int) -> None:
    nodes = [
        node("Add", ["given", "one"], ["lengths"]),
        node("ReverseSequence", ["x", "lengths"], ["y"], batch_axis=batch, time_axis=time),
    ]
    for rest in ((), (2,), (2, 3, 2)):
        x = random(1, 4, 4, *rest)
        inputs = {"x": x.shape, "given": (4,)}
        proto = make(nodes, inputs, ["y"], {"one": np.array([1])}, types={"given": INT64})
        for given in itertools.islice(itertools.permutations(range(4)), 3):
            agree(proto, {"x": x, "given": np.array(given)})
