"""Recurrent operators of TFLite as one-operator models."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.tflite.builder import ModelBuilder

SEED = 20261121
TANH, RELU = 4, 1
BATCH, STEPS, INPUTS = 2, 5, 3


class Weights:
    """Random constants and variables for one model."""

    def __init__(self, b: ModelBuilder, seed: int) -> None:
        self.b = b
        self.rng = np.random.default_rng(seed)

    def const(self, *shape: int) -> int:
        return self.b.const(self.rng.uniform(-0.5, 0.5, shape).astype(np.float32))

    def state(self, name: str, *shape: int) -> int:
        return self.b.tensor(shape, name=name, variable=True)

    def lstm(
        self, units: int, *, gate: bool = True, peephole: bool = False, projection: int = 0
    ) -> list[int]:
        """Inputs 1 to 17. The biases are not optional, except the absent gate's."""
        outputs = projection or units
        found = [self.const(units, INPUTS) for _ in range(4)]
        found += [self.const(units, outputs) for _ in range(4)]
        found += [self.const(units) if peephole else -1 for _ in range(3)]
        found += [self.const(units) for _ in range(4)]
        found += [self.const(projection, units) if projection else -1, -1]
        if not gate:  # coupled to the forget gate
            for i in (0, 4, 8, 11):
                found[i] = -1
        return found

    def states(self, units: int, outputs: int, name: str = "") -> list[int]:
        return [self.state(f"{name}h", BATCH, outputs), self.state(f"{name}c", BATCH, units)]


def lstm(time_major: bool = False, norm: bool = False, projection: int = 0, **form: Any) -> bytes:
    b, units = ModelBuilder(), 4
    x = b.input((STEPS, BATCH, INPUTS) if time_major else (BATCH, STEPS, INPUTS), name="x")
    w = Weights(b, SEED)
    clips = form.pop("clips", {})
    inputs = [x, *w.lstm(units, projection=projection, **form)]
    inputs += w.states(units, projection or units)
    if norm:
        inputs += [w.const(units) for _ in range(4)]
    out = b.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [((), np.float32)],
        "UnidirectionalSequenceLSTMOptions",
        version=2,
        fusedActivationFunction=TANH,
        timeMajor=time_major,
        **clips,
    )
    b.output(*out)
    return b.build()


def step_lstm() -> bytes:
    b, units = ModelBuilder(), 4
    x = b.input((BATCH, INPUTS), name="x")
    w = Weights(b, SEED)
    inputs = [x, *w.lstm(units), *w.states(units, units)]
    out = b.op(
        "LSTM", inputs, [((), np.float32)], "LSTMOptions", version=3, fusedActivationFunction=TANH
    )
    b.output(*out)
    return b.build()


def bidirectional_lstm(time_major: bool, merge: bool) -> bytes:
    b, units = ModelBuilder(), 4
    x = b.input((STEPS, BATCH, INPUTS) if time_major else (BATCH, STEPS, INPUTS), name="x")
    w = Weights(b, SEED)
    inputs = [x, *w.lstm(units), *w.lstm(units)]
    inputs += [*w.states(units, units, "f"), *w.states(units, units, "b"), *[-1] * 9]
    out = b.op(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [((), np.float32)] * (1 if merge else 2),
        "BidirectionalSequenceLSTMOptions",
        version=2,
        fusedActivationFunction=TANH,
        timeMajor=time_major,
        mergeOutputs=merge,
    )
    b.output(*out)
    return b.build()


def rnn(kind: str, time_major: bool = False, act: int = TANH, merge: bool = True) -> bytes:
    b, units = ModelBuilder(), 4
    shape: tuple[int, ...] = (STEPS, BATCH, INPUTS) if time_major else (BATCH, STEPS, INPUTS)
    x = b.input((BATCH, INPUTS) if kind == "RNN" else shape, name="x")
    w = Weights(b, SEED)

    def direction(name: str) -> list[int]:
        found = [w.const(units, INPUTS), w.const(units, units), w.const(units)]
        return [*found, w.state(name, BATCH, units)]

    inputs, fields = [x, *direction("h")], {"fusedActivationFunction": act}
    table = "RNNOptions"
    if kind != "RNN":
        table, fields["timeMajor"] = "SequenceRNNOptions", time_major
    if kind == "BIDIRECTIONAL_SEQUENCE_RNN":
        inputs += [*direction("bh"), -1, -1, -1]
        table, fields["mergeOutputs"] = "BidirectionalSequenceRNNOptions", merge
    count = 1 if merge else 2
    b.output(*b.op(kind, inputs, [((), np.float32)] * count, table, **fields))
    return b.build()


def svdf(rank: int, act: int, bias: bool) -> bytes:
    b, units, memory = ModelBuilder(), 3, 4
    x = b.input((BATCH, INPUTS), name="x")
    w = Weights(b, SEED)
    inputs = [x, w.const(units * rank, INPUTS), w.const(units * rank, memory)]
    inputs += [w.const(units) if bias else -1, w.state("s", BATCH, memory * units * rank)]
    fields = {"rank": rank, "fusedActivationFunction": act}
    b.output(*b.op("SVDF", inputs, [((), np.float32)], "SVDFOptions", **fields))
    return b.build()


STATEFUL = {
    "lstm": lstm(),
    "lstm time major": lstm(time_major=True),
    "lstm peephole": lstm(peephole=True),
    "lstm coupled gate": lstm(gate=False),
    "lstm coupled gate, peephole": lstm(gate=False, peephole=True),
    "lstm projection": lstm(projection=3),
    "lstm norm": lstm(norm=True),
    "lstm clipped": lstm(projection=3, clips={"cellClip": 0.1, "projClip": 0.05}),
    "lstm step": step_lstm(),
    "lstm both ways": bidirectional_lstm(False, False),
    "lstm both ways, merged": bidirectional_lstm(True, True),
    "rnn step": rnn("RNN"),
    "rnn step relu": rnn("RNN", act=RELU),
    "rnn": rnn("UNIDIRECTIONAL_SEQUENCE_RNN"),
    "rnn time major": rnn("UNIDIRECTIONAL_SEQUENCE_RNN", True, RELU),
    "rnn both ways": rnn("BIDIRECTIONAL_SEQUENCE_RNN", merge=False),
    "rnn both ways, merged": rnn("BIDIRECTIONAL_SEQUENCE_RNN", True),
}
FILTERS = {
    f"svdf rank {rank}, activation {act}": svdf(rank, act, bias)
    for rank, act, bias in ((1, 0, True), (2, RELU, True), (2, 0, False))
}
