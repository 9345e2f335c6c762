"""Quantized networks on lpai: in pools of just the size that was asked for, between guard pages,
with the results of the other backends; recurrent ones step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import lpai
from qnnrt.errors import GraphError
from qnnrt.model import Model
from support import quantizing
from support.guarded import Guarded
from support.onnx.networks import EACH
from zoo import networks
from zoo.quantizing import quantized, reference

SEED = 20261122

#: ONNX Runtime, which quantizes, keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def _network(name: str, folder: Path) -> Model:
    proto = networks.current(networks.randomized(name, SEED, 256))
    networks.randomized.cache_clear()
    for node in proto.graph.node:
        if node.op_type == "Sum":  # the quantizer leaves it in float, which lpai refuses
            node.op_type = "Add"
    samples = [{proto.graph.input[0].name: networks.image(SEED + 10)}]
    found = quantized(proto, samples, folder, prepare=True)
    for file in folder.iterdir():
        file.unlink()
    return qnnrt.importers.onnx.load(found, quantized_io=True)


@pytest.fixture(scope="module", params=EACH)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return _network(request.param, tmp_path_factory.mktemp("quantized"))


def _feeds(model: Model, seed: int = SEED) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 256, model.tensors[name].shape).astype(model.tensors[name].dtype)
        for name in model.inputs
    }


def _run(model: Model | Path, backend: str, feeds: dict[str, np.ndarray], **options: Any) -> Any:
    with qnnrt.Session(model, backend=backend, **options) as session:
        return session.run(feeds)


def _same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_a_network_stays_inside_pools_of_the_size_that_was_answered(network: Model) -> None:
    feeds = _feeds(network)
    wanted = _run(network, "cpu", feeds)
    with qnnrt.Session(network, backend="lpai", io="scratch") as session:
        sizes = lpai.pool_sizes(session.graph)
        assert sizes.persistent == 0
        arena = json.loads(session.graph.describe() or "")["arena"]
        assert arena["lower_bound"] <= arena["peak"] <= 1.05 * arena["lower_bound"]
        assert arena["peak"] <= sizes.scratch < arena["peak"] + 16
        for front in (False, True):
            guarded = Guarded(sizes.scratch, front=front)
            lpai.set_scratch(session.graph, guarded.array)
            _same(session.run(feeds), wanted)
            assert guarded.untouched
        with pytest.raises(
            GraphError, match=f"has {sizes.scratch - 1} bytes, needed are {sizes.scratch}"
        ):
            lpai.set_scratch(session.graph, guarded.array[:-1])
        step = lpai.alignment(session.backend).size
        with pytest.raises(
            GraphError, match=f"has {sizes.scratch - step} bytes, needed are {sizes.scratch}"
        ):
            lpai.set_scratch(session.graph, guarded.array[:-step])
        _same(session.run(feeds), wanted)  # in the memory that it had


def test_a_network_uses_inputs_and_outputs_of_the_callers_where_they_are(network: Model) -> None:
    feeds = _feeds(network)
    wanted = _run(network, "cpu", feeds)
    with qnnrt.Session(network, backend="lpai", io="raw", strict=True) as session:
        arrays, all_guarded = {}, []
        for name, tensor in (*session.inputs.items(), *session.outputs.items()):
            guarded = Guarded(tensor.array.nbytes)
            arrays[name] = guarded.like(tensor.array)
            tensor.bind(arrays[name])
            all_guarded.append(guarded)
        scratch = Guarded(lpai.pool_sizes(session.graph).scratch)
        lpai.set_scratch(session.graph, scratch.array)
        for name, value in feeds.items():
            arrays[name][...] = value
        session.run()
        _same({name: arrays[name] for name in wanted}, wanted)
        _same({name: arrays[name] for name in feeds}, feeds)
        assert all(guarded.untouched for guarded in (*all_guarded, scratch))
        assert session.stats.copied_bytes == 0


def test_a_context_binary_runs_on_every_backend(network: Model, tmp_path: Path) -> None:
    feeds = _feeds(network)
    wanted = _run(network, "cpu", feeds)
    for prepared in ("cpu", "lpai"):
        path = tmp_path / f"{prepared}.bin"
        with qnnrt.Session(network, backend=prepared) as session:
            session.save_binary(path)
        for backend in ("cpu", "htp", "lpai"):
            _same(_run(path, backend, feeds), wanted)


# ---- state ------------------------------------------------------------------------------------

STEPS, BATCH, WIDTH, UNITS = 12, 2, 6, 10


def _recurrent(op: str, steps: int, dtype: type) -> onnx.ModelProto:
    """Codes in, an LSTM or a GRU, a fully connected layer, codes out."""
    rng = np.random.default_rng(SEED)
    gates = {"LSTM": 4, "GRU": 3}[op]
    graph = quantizing.Graph()
    info = np.iinfo(dtype)
    zero, step = (info.max + 1) // 2, 4 / (info.max + 1)
    x = graph.dq("x", step, zero, dtype)
    w = graph.weights(rng.integers(-127, 128, (1, gates * UNITS, WIDTH)).astype(np.int8), 0.008)
    r = graph.weights(rng.integers(-127, 128, (1, gates * UNITS, UNITS)).astype(np.int8), 0.006)
    y = graph.op(op, [x, w, r], hidden_size=UNITS)
    y = graph.qdq(y, step / 2, zero, dtype)
    y = graph.op("Reshape", [y, graph.const(np.array([steps * BATCH, UNITS]))])
    y = graph.qdq(y, step / 2, zero, dtype)
    dense = graph.weights(rng.integers(-127, 128, (UNITS, 4)).astype(np.int8), 0.01)
    y = graph.q(graph.op("MatMul", [y, dense]), step, zero, dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return graph.proto({"x": (steps, BATCH, WIDTH)}, [y], x=kind, **{y: kind})


def _sequence(dtype: type, seed: int) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(0, info.max + 1, (STEPS, BATCH, WIDTH)).astype(dtype)


CELLS = [(op, dtype) for op in ("LSTM", "GRU") for dtype in (np.uint8, np.uint16)]


@pytest.mark.parametrize(("op", "dtype"), CELLS)
def test_steps_give_what_the_whole_sequence_does(op: str, dtype: type) -> None:
    whole = _recurrent(op, STEPS, dtype)
    model = qnnrt.importers.onnx.load(_recurrent(op, 1, dtype), stateful=True, quantized_io=True)
    sequences = [_sequence(dtype, SEED + i) for i in (1, 2)]
    wanted = [reference(whole, {"x": s})[0].reshape(STEPS, BATCH, -1) for s in sequences]
    sessions = [qnnrt.Session(model, backend="lpai", io="scratch") for _ in sequences]
    sizes = lpai.pool_sizes(sessions[0].graph)
    assert sizes.persistent > 0
    (name,) = model.outputs
    try:
        for again in range(2):
            for step in range(STEPS):
                for session, sequence, ref in zip(sessions, sequences, wanted, strict=True):
                    scratch = Guarded(sizes.scratch, front=bool(step % 2))
                    lpai.set_scratch(session.graph, scratch.array)
                    found = session.run({"x": sequence[step : step + 1]})[name]
                    assert scratch.untouched
                    apart = np.abs(found.astype(np.int64) - ref[step].astype(np.int64))
                    assert apart.max() <= 1, f"run {again}, step {step}"
            for session in sessions:
                session.reset_state()
    finally:
        for session in sessions:
            session.close()


@pytest.mark.parametrize(("op", "dtype"), CELLS)
def test_state_stays_inside_a_pool_of_the_size_that_was_answered(op: str, dtype: type) -> None:
    model = qnnrt.importers.onnx.load(_recurrent(op, 1, dtype), stateful=True, quantized_io=True)
    with qnnrt.Session(model, backend="lpai", io="scratch") as session:
        sizes = lpai.pool_sizes(session.graph)
    sequence = _sequence(dtype, SEED)
    found = []
    for front in (False, True):
        pools = {
            name: Guarded(size, front=front)
            for name, size in (("scratch", sizes.scratch), ("persistent", sizes.persistent))
        }
        given = {name: pool.array for name, pool in pools.items()}
        with qnnrt.Session(model, backend="lpai", io="scratch", options={"lpai": given}) as session:
            (name,) = model.outputs
            steps = [session.run({"x": sequence[i : i + 1]})[name] for i in range(STEPS)]
        found.append(np.stack(steps))
        assert all(pool.untouched for pool in pools.values())
        less = given | {"persistent": given["persistent"][:-1]}
        with pytest.raises(GraphError, match=f"has {sizes.persistent - 1} bytes"):
            qnnrt.Session(model, backend="lpai", options={"lpai": less})
    np.testing.assert_array_equal(found[0], found[1])
