"""LSTM, GRU and RNN with what no operation of QNN has, beside ONNX Runtime."""

from __future__ import annotations

import random as numbers
from typing import Any

import numpy as np
import pytest

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import agree, make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
#: Activation -> how many parameters it has.
PARAMETERS = {
    "Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "Relu": 0, "ScaledTanh": 2,
    "Sigmoid": 0, "Softplus": 0, "Softsign": 0, "Tanh": 0, "ThresholdedRelu": 1,
}  # fmt: skip


def _checked(op: str, direction: str, how: dict[str, Any], ragged: bool = False) -> None:
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[op] * HIDDEN
    constants = {
        "w": random(1, ways, gates, SIZE), "r": random(2, ways, gates, HIDDEN),
        "b": random(3, ways, 2 * gates), "h": random(4, ways, BATCH, HIDDEN),
    }  # fmt: skip
    inputs, outputs = ["x", "w", "r", "b", "", "h"], ["y", "last"]
    if op == "LSTM":
        constants |= {"c": random(5, ways, BATCH, HIDDEN), "p": random(6, ways, 3 * HIDDEN)}
        inputs += ["c", "p"]
        outputs += ["cell"]
    if ragged:
        inputs[4], constants["lengths"] = "lengths", np.array([5, 0, 3], np.int32)
    cell = node(op, inputs, outputs, hidden_size=HIDDEN, direction=direction, **how)
    x = random(7, STEPS, BATCH, SIZE)
    agree(make([cell], {"x": x.shape}, outputs, constants), {"x": x})


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_a_clip_keeps_what_gates_are_given_within_it(op: str, direction: str, ragged: bool) -> None:
    for clip in (0.1, 1.0):
        _checked(op, direction, {"clip": clip}, ragged)
    if op == "GRU":
        _checked(op, direction, {"clip": 0.3, "linear_before_reset": 1}, ragged)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_coupled_gates_forget_what_they_do_not_take_in(direction: str, ragged: bool) -> None:
    _checked("LSTM", direction, {"input_forget": 1}, ragged)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("op", GATES)
def test_any_activations_of_each_direction(op: str, seed: int) -> None:
    r = numbers.Random(seed)
    direction = r.choice(["forward", "reverse", "bidirectional"])
    count = ACTIVATIONS[op] * (2 if direction == "bidirectional" else 1)
    names = [r.choice(sorted(PARAMETERS)) for _ in range(count)]
    how: dict[str, Any] = {"activations": names, "clip": 1.5}  # some would grow without bound
    for least, key in ((1, "activation_alpha"), (2, "activation_beta")):
        if given := [r.uniform(0.2, 0.9) for name in names if PARAMETERS[name] >= least]:
            how[key] = given
    _checked(op, direction, how, ragged=seed % 2 == 1)


def test_an_rnn_whose_directions_differ() -> None:
    _checked("RNN", "bidirectional", {"activations": ["Relu", "Tanh"]})


def test_what_goes_step_by_step_is_not_long() -> None:
    constants = {"w": random(1, 1, 9, 4), "r": random(2, 1, 9, 3)}
    gru = node("GRU", ["x", "w", "r"], ["y"], hidden_size=3, clip=1.0)
    with pytest.raises(UnsupportedOpError, match="300 steps"):
        importer.load(make([gru], {"x": (300, 1, 4)}, ["y"], constants))


def test_a_state_that_is_kept_is_none_of_a_layer_by_steps() -> None:
    """It would begin anew in each run."""
    constants = {"w": random(1, 1, 9, 4), "r": random(2, 1, 9, 3)}
    gru = node("GRU", ["x", "w", "r"], ["y"], hidden_size=3, clip=1.0)
    proto = make([gru], {"x": (2, 1, 4)}, ["y"], constants)
    importer.load(proto)
    with pytest.raises(UnsupportedOpError, match="whose state is kept"):
        importer.load(proto, stateful=True)
