"""LSTM, RNN and SVDF of TFLite files, with their state reset at every run and carried along."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.recurrent import (
    BATCH,
    FILTERS,
    INPUTS,
    RELU,
    STATEFUL,
    STEPS,
    TANH,
    Weights,
)

pytestmark = pytest.mark.foreign

SEED = 20261121


def frames(data: bytes, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(SEED + 1)
    shape = reference.interpreter(data).get_input_details()[0]["shape"]
    return [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("name", STATEFUL)
def test_every_run_starts_from_zeros(name: str) -> None:
    data = STATEFUL[name]
    model = importer.load(data)
    assert model.inputs == ["x"]
    with qnnrt.Session(model) as session:
        for x in frames(data, 2):
            found = session.run({"x": x})
            for output, wanted in zip(model.outputs, reference.reference(data, [x]), strict=True):
                reference.close(found[output], wanted)


@pytest.mark.parametrize("name", [*STATEFUL, *FILTERS])
def test_state_given_back_continues_the_sequence(name: str) -> None:
    data = (STATEFUL | FILTERS)[name]
    feeds = frames(data, 6)
    wanted = reference.streamed(data, feeds)
    model = importer.load(data, variables="io")
    carried = [n for n in model.inputs if n != "x"]
    assert carried
    assert [n for n in model.outputs if n.endswith(".next")] == [f"{n}.next" for n in carried]
    state = {n: np.zeros(model.tensors[n].shape, np.float32) for n in carried}
    with qnnrt.Session(model) as session:
        for x, expected in zip(feeds, wanted, strict=True):
            found = session.run({"x": x, **state})
            state = {n: found[f"{n}.next"] for n in carried}
            for output, array in zip(model.outputs[: len(expected)], expected, strict=True):
                reference.close(found[output], array)


@pytest.mark.parametrize("name", [n for n in [*STATEFUL, *FILTERS] if "rnn" not in n])
def test_the_graph_keeps_state_as_the_interpreter_does(name: str) -> None:
    data = (STATEFUL | FILTERS)[name]
    feeds = frames(data, 6)
    model = importer.load(data, stateful=True)
    assert model.inputs == ["x"]
    with qnnrt.Session(model) as session:
        for x, expected in zip(feeds, reference.streamed(data, feeds), strict=True):
            found = session.run({"x": x})
            for output, array in zip(model.outputs, expected, strict=True):
                reference.close(found[output], array)


def test_state_is_kept_inside_or_outside_of_the_graph() -> None:
    with pytest.raises(ValueError, match="take one"):
        importer.load(STATEFUL["lstm"], stateful=True, variables="io")
    with pytest.raises(UnsupportedOpError, match="cannot be kept from run to run"):
        importer.load(STATEFUL["rnn"], stateful=True)


def test_integer_weights_of_an_lstm_are_the_numbers_they_stand_for() -> None:
    """TFLite rounds activations to 8 bits as well: its result is a rounding step away."""
    b, units = ModelBuilder(), 4
    rng = np.random.default_rng(SEED)
    x = b.input((BATCH, STEPS, INPUTS), name="x")

    def weights(*shape: int) -> int:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return b.const(values, scale=0.5 / 127)

    w = Weights(b, SEED)
    inputs = [x, *(weights(units, INPUTS) for _ in range(4))]
    inputs += [*(weights(units, units) for _ in range(4)), -1, -1, -1]
    inputs += [*(w.const(units) for _ in range(4)), -1, -1, *w.states(units, units)]
    fields = {"fusedActivationFunction": TANH}
    table = "UnidirectionalSequenceLSTMOptions"
    kind = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    b.output(*b.op(kind, inputs, [((), np.float32)], table, version=3, **fields))
    data = b.build()
    (feed,) = frames(data, 1)
    (found,) = reference.run(importer.load(data), [feed])
    (wanted,) = reference.reference(data, [feed])
    assert wanted.std() > 0.05
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_a_filter_over_earlier_runs_is_refused_without_its_state() -> None:
    with pytest.raises(qnnrt.UnsupportedOpError, match='variables="io"') as info:
        importer.load(next(iter(FILTERS.values())))
    assert [node.op for node in info.value.nodes] == ["SVDF"]


def test_the_basic_kernel_has_its_state_as_inputs_and_outputs() -> None:
    b, units = ModelBuilder(), 4
    rng = np.random.default_rng(SEED)
    x, h = b.input((BATCH, INPUTS), name="x"), b.input((BATCH, units), name="h")
    weights = b.const(rng.uniform(-1, 1, (4 * units, INPUTS + units)).astype(np.float32))
    bias = b.const(rng.uniform(-1, 1, 4 * units).astype(np.float32))
    c = b.input((BATCH, units), name="c")
    out = b.op(
        "LSTM",
        [x, h, weights, bias, c],
        [((), np.float32)] * 4,
        "LSTMOptions",
        kernelType=1,
        fusedActivationFunction=TANH,
    )
    b.output(*out[:2])
    feeds = [rng.uniform(-1, 1, (BATCH, n)).astype(np.float32) for n in (INPUTS, units, units)]
    reference.agree(b.build(), feeds)


def test_another_cell_activation_is_refused_by_name() -> None:
    b = ModelBuilder()
    w = Weights(b, SEED)
    x = b.input((BATCH, STEPS, INPUTS))
    inputs = [x, *w.lstm(4), *w.states(4, 4)]
    out = b.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [((), np.float32)],
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=RELU,
    )
    b.output(*out)
    with pytest.raises(qnnrt.UnsupportedOpError, match="other than tanh"):
        importer.load(b.build())
