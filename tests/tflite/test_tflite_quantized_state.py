"""Quantized recurrent operators: computed in floats, with fixed-point tensors around them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.importers import tflite as importer
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.recurrent import BATCH, INPUTS, RELU, STEPS, TANH

pytestmark = pytest.mark.foreign

SEED = 20261121
INPUT, OUTPUT = 1 / 127, 1 / 128
F32, I8, I16, I32 = np.float32, np.int8, np.int16, np.int32


class Integers:
    """Random constants of a quantized operator."""

    def __init__(self, b: ModelBuilder) -> None:
        self.b = b
        self.rng = np.random.default_rng(SEED)

    def weights(self, *shape: int, dtype: type = I8) -> int:
        most = np.iinfo(dtype).max
        values = self.rng.integers(-most, most + 1, shape).astype(dtype)
        return self.b.const(values, scale=0.5 / most)

    def bias(self, size: int, scale: float) -> int:
        values = np.rint(self.rng.uniform(-0.5, 0.5, size) / scale).astype(I32)
        return self.b.const(values, scale=scale)


def lstm() -> bytes:
    """Activations of 8 bits, a cell state of 16."""
    b, units = ModelBuilder(), 4
    w = Integers(b)
    x = b.input((BATCH, STEPS, INPUTS), I8, name="x", scale=INPUT)
    inputs = [x, *(w.weights(units, INPUTS) for _ in range(4))]
    inputs += [*(w.weights(units, units) for _ in range(4)), -1, -1, -1]
    inputs += [*(w.bias(units, INPUT * 0.5 / 127) for _ in range(4)), -1, -1]
    inputs += [
        b.tensor((BATCH, units), I8, name="h", variable=True, scale=OUTPUT),
        b.tensor((BATCH, units), I16, name="c", variable=True, scale=2.0**-11),
    ]
    inputs += [-1] * 4
    out = b.tensor((), I8, name="y", scale=OUTPUT)
    b.output(
        *b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [out], "UnidirectionalSequenceLSTMOptions",
              version=3, fusedActivationFunction=TANH)
    )  # fmt: skip
    gates = [b.tensor((), I16, scale=2.0**-12) for _ in range(4)]
    b.graph.operators[-1].intermediates = [*gates, b.tensor((), I8, scale=OUTPUT)]
    return b.build()


def svdf() -> bytes:
    b, units, memory = ModelBuilder(), 3, 4
    w = Integers(b)
    x = b.input((BATCH, INPUTS), I8, name="x", scale=INPUT)
    state = 2 / 32767
    inputs = [x, w.weights(units, INPUTS), w.weights(units, memory, dtype=I16)]
    inputs += [w.bias(units, state * 0.5 / 32767)]
    inputs += [b.tensor((BATCH, memory * units), I16, name="s", variable=True, scale=state)]
    out = b.tensor((), I8, name="y", scale=2 / 255, zero=-128)  # positive numbers only
    b.output(*b.op("SVDF", inputs, [out], "SVDFOptions", rank=1, fusedActivationFunction=RELU))
    return b.build()


def frames(data: bytes, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(SEED)
    shape = reference.interpreter(data).get_input_details()[0]["shape"]
    return [rng.integers(-127, 128, shape).astype(I8) for _ in range(count)]


def streamed(data: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    runner = reference.interpreter(data)
    found = []
    for x in feeds:
        runner.set_tensor(runner.get_input_details()[0]["index"], x)
        runner.invoke()
        found.append(np.array(runner.get_tensor(runner.get_output_details()[0]["index"])))
    return found


def test_every_run_of_an_lstm_starts_from_zeros() -> None:
    data = lstm()
    model = importer.load(data)
    assert model.inputs == ["x"]
    for x in frames(data, 2):
        (found,), (wanted,) = reference.run(model, [x]), reference.reference(data, [x])
        assert wanted.std() > 10
        assert np.abs(found.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("data", [lstm(), svdf()], ids=["lstm", "svdf"])
def test_state_is_carried_in_fixed_point(data: bytes) -> None:
    model = importer.load(data, variables="io")
    carried = [n for n in model.inputs if n != "x"]
    state = {n: np.zeros(model.tensors[n].shape, model.tensors[n].dtype) for n in carried}
    assert I16 in {array.dtype.type for array in state.values()}
    feeds = frames(data, 6)
    with qnnrt.Session(model) as session:
        for x, wanted in zip(feeds, streamed(data, feeds), strict=True):
            found = session.run({"x": x, **state})
            state = {n: found[f"{n}.next"].copy() for n in carried}
            assert np.abs(found["y"].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize(
    ("data", "backend"),
    [(lstm(), "cpu"), (lstm(), "lpai"), (svdf(), "cpu")],
    ids=["lstm", "lstm on lpai", "svdf"],
)
def test_the_graph_keeps_state_as_the_interpreter_does(data: bytes, backend: str) -> None:
    model = importer.load(data, stateful=True)
    assert model.inputs == ["x"]
    feeds = frames(data, 6)
    with qnnrt.Session(model, backend=backend) as session:
        for x, wanted in zip(feeds, streamed(data, feeds), strict=True):
            assert np.abs(session.run({"x": x})["y"].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("variables", ["reset", "io"])
def test_a_quantized_lstm_is_one_operation_on_fixed_point_numbers(variables: str) -> None:
    model = importer.load(lstm(), variables=variables)
    assert set(model.op_counts()) == {"Lstm"}
    types = {model.tensors[n].dtype.name for n in model.nodes[0].inputs if n}
    assert types <= {"int8", "int16", "int32"}
