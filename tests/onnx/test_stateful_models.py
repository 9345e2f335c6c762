"""Models loaded with stateful=True: runs of one step each are a run of the whole sequence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt import lpai
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from qnnrt.model import Model, Node, Tensor
from support.onnx.models import GraphMaker

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

STEPS, BATCH, INPUTS, UNITS = 12, 3, 5, 7
GATES = {"LSTM": 4, "GRU": 3}


def recurrent(
    kind: str, *, initial: str = "", direction: str = "forward", **attrs: int
) -> onnx.ModelProto:
    """Over [T, 3, 5] with 7 units, and all of its outputs. initial: "", "constant" or "input"."""
    g = GraphMaker(11)
    ways = 2 if direction == "bidirectional" else 1
    gates, states = GATES.get(kind, 1), 2 if kind == "LSTM" else 1
    inputs = ["x", g.weight(ways, gates * UNITS, INPUTS), g.weight(ways, gates * UNITS, UNITS)]
    inputs.append(g.weight(ways, 2 * gates * UNITS))
    given: dict[str, tuple[int, tuple[object, ...]]] = {
        "x": (TensorProto.FLOAT, ("T", BATCH, INPUTS))
    }
    if initial == "constant":
        inputs += ["", *(g.weight(ways, BATCH, UNITS) for _ in range(states))]
    elif initial == "input":
        inputs += ["", *"hc"[:states]]
        given |= dict.fromkeys("hc"[:states], (TensorProto.FLOAT, (ways, BATCH, UNITS)))
    first = g(kind, *inputs, outputs=states + 1, hidden_size=UNITS, direction=direction, **attrs)
    names = {"y": first, **{f"y{i}": f"{first}.{i}" for i in range(1, states + 1)}}
    return g.model(given, names, 17)


def quantized(
    kind: str, dtype: str, ways: int = 1, wanted: Sequence[int] = (0, 1)
) -> onnx.ModelProto:
    """The same between QuantizeLinear and DequantizeLinear, with weights of 8 bits.

    wanted: numbers of the outputs, the sequence and the last states.
    """
    g = GraphMaker(12)
    kinds = np.dtype(dtype)
    steps = 2.0 ** (8 * kinds.itemsize)
    zero = steps / 2 if kinds.kind == "u" else 0

    def coded(name: str, reach: float) -> str:
        scale, point = g.const(2 * reach / steps), g.const(np.array(zero, kinds))
        return g("DequantizeLinear", g("QuantizeLinear", name, scale, point), scale, point)

    def weight(*shape: int) -> str:
        codes = g.rng.integers(-127, 128, shape).astype(np.int8)
        return g("DequantizeLinear", g.const(codes), g.const(0.8 / 127), g.const(np.int8(0)))

    gates = GATES[kind] * UNITS
    inputs = [coded("x", 4.0), weight(ways, gates, INPUTS), weight(ways, gates, UNITS)]
    bias = g.rng.integers(-1000, 1000, (ways, 2 * gates)).astype(np.int32)
    inputs.append(g("DequantizeLinear", g.const(bias), g.const(2e-4)))
    attrs: dict[str, object] = {"direction": "bidirectional"} if ways == 2 else {}
    if kind == "GRU":
        attrs["linear_before_reset"] = 1
    count = 3 if kind == "LSTM" else 2
    first = g(kind, *inputs, outputs=count, hidden_size=UNITS, **attrs)
    found = [first, *(f"{first}.{i}" for i in range(1, count))]
    if ways == 1:
        found[0] = g("Squeeze", first, g.const(np.array([1])))
    outputs = {f"y{i or ''}": coded(found[i], 1.0) for i in wanted}
    return g.model({"x": (TensorProto.FLOAT, ("T", BATCH, INPUTS))}, outputs, 21)


def sequence(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((STEPS, BATCH, INPUTS), np.float32)


def of_onnxruntime(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def loaded(proto: onnx.ModelProto, steps: int = 1, stateful: bool = True) -> Model:
    return importer.load(proto, shapes={"T": steps}, stateful=stateful)


def run_steps(session: qnnrt.Session, x: np.ndarray, steps: int = 1) -> list[np.ndarray]:
    """The first output of all runs joined, and the other outputs of the last run."""
    found = [session.run({"x": part}) for part in np.split(x, len(x) // steps)]
    first, *others = session.model.outputs
    return [np.concatenate([f[first] for f in found]), *(found[-1][name] for name in others)]


def close(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


CASES = [("LSTM", ""), ("LSTM", "constant"), ("GRU", ""), ("GRU", "constant")]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(("kind", "initial"), CASES)
def test_steps_are_onnxruntimes_sequence(kind: str, initial: str, steps: int) -> None:
    proto, x = recurrent(kind, initial=initial), sequence()
    wanted = of_onnxruntime(proto, {"x": x})
    with qnnrt.Session(loaded(proto, steps), backend="cpu") as session:
        close(run_steps(session, x, steps), wanted)


@pytest.mark.parametrize("kind", GATES)
def test_both_directions_go_on(kind: str) -> None:
    proto, x = recurrent(kind, direction="bidirectional"), sequence()
    forward = of_onnxruntime(proto, {"x": x})[0][:, 0]
    backward = of_onnxruntime(proto, {"x": x[::-1].copy()})[0][:, 1]
    with qnnrt.Session(loaded(proto), backend="cpu") as session:
        found = run_steps(session, x)[0]
    np.testing.assert_allclose(found[:, 0], forward, rtol=1e-4, atol=1e-5)
    # The steps come one after the other, so that is the order for the other direction, too.
    np.testing.assert_allclose(found[:, 1], backward[::-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_without_the_option_every_run_starts_afresh(kind: str) -> None:
    proto, x = recurrent(kind), sequence()
    with qnnrt.Session(loaded(proto, stateful=False), backend="cpu") as session:
        for part in np.split(x, STEPS):
            found = session.run({"x": part})
            close(list(found.values()), of_onnxruntime(proto, {"x": part}))


@pytest.mark.parametrize("kind", GATES)
def test_a_state_that_is_an_input_stays_one(kind: str) -> None:
    proto, x = recurrent(kind, initial="input"), sequence()
    with qnnrt.Session(loaded(proto), backend="cpu") as session:
        states = {k: np.zeros((1, BATCH, UNITS), np.float32) for k in session.model.inputs[1:]}
        for part in np.split(x[:3], 3):
            found = session.run({"x": part, **states})
            close(list(found.values()), of_onnxruntime(proto, {"x": part, **states}))


def test_what_cannot_keep_its_state_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="cannot be kept from run to run"):
        loaded(recurrent("RNN"))
    assert loaded(recurrent("RNN", initial="input")).inputs == ["x", "h"]


@pytest.mark.parametrize("kind", GATES)
def test_a_state_is_not_kept_of_sequences_that_end_apart(kind: str) -> None:
    """The graph would keep what it has after the last step, of padding where a sequence is over."""

    def proto(initial: str) -> onnx.ModelProto:
        made = recurrent(kind, initial=initial)
        (layer,) = (n for n in made.graph.node if n.op_type == kind)
        while len(layer.input) < 5:
            layer.input.append("")
        layer.input[4] = "lengths"
        lengths = onnx.helper.make_tensor_value_info("lengths", TensorProto.INT32, [BATCH])
        made.graph.input.append(lengths)
        return made

    for initial in ("", "constant"):
        with pytest.raises(UnsupportedOpError, match=r"\(sequence_lens\) whose state is kept"):
            loaded(proto(initial), STEPS)
    assert "h" in loaded(proto("input"), STEPS).inputs
    assert loaded(proto(""), STEPS, stateful=False).inputs == ["x", "lengths"]


@pytest.mark.parametrize("backend", ["cpu", "htp", "lpai"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("kind", GATES)
def test_quantized_steps_are_onnxruntimes_sequence(kind: str, dtype: str, backend: str) -> None:
    proto, x = quantized(kind, dtype), sequence()
    wanted = of_onnxruntime(proto, {"x": x})
    model = loaded(proto)
    op = {"LSTM": "Lstm", "GRU": "Gru"}[kind]
    (node,) = [n for n in model.nodes if n.type == op]
    for name in (*node.inputs, *node.outputs):  # nothing of it is computed on floats
        tensor = model.tensors.get(name) if name else None
        assert tensor is None or tensor.quantization or tensor.dtype == np.bool_, name
    with qnnrt.Session(model, backend=backend) as session:
        found = run_steps(session, x)
        session.reset_state()  # the next run begins the sequence again
        for mine, again in zip(found, run_steps(session, x), strict=True):
            np.testing.assert_array_equal(mine, again)
    step = 2.0 / 2 ** (8 * np.dtype(dtype).itemsize)
    for mine, theirs in zip(found, wanted, strict=True):
        apart = np.abs(np.rint(mine / step) - np.rint(theirs / step))
        assert apart.max() <= 1
        assert np.mean(apart == 0) > 0.9
        assert len(np.unique(theirs)) > 10


@pytest.mark.parametrize(
    ("kind", "ways", "wanted"),
    [("LSTM", 2, [0]), ("LSTM", 1, [1]), ("LSTM", 1, [2]), ("LSTM", 1, [0, 1, 2]), ("GRU", 2, [1])],
)
def test_whatever_is_read_of_a_quantized_network(kind: str, ways: int, wanted: list[int]) -> None:
    proto, x = quantized(kind, "uint8", ways, wanted), sequence()
    model = loaded(proto, STEPS, stateful=False)
    counts = model.op_counts()
    assert counts[{"LSTM": "Lstm", "GRU": "Gru"}[kind]] == ways
    assert (counts["Quantize"], counts["Dequantize"]) == (1, len(wanted))  # at the edges
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run({"x": x})
    for mine, theirs in zip(found.values(), of_onnxruntime(proto, {"x": x}), strict=True):
        assert np.abs(mine - theirs).max() <= 1.01 * 2 / 256


@pytest.mark.parametrize("kind", GATES)
def test_state_survives_other_scratch_memory_at_every_step(kind: str) -> None:
    proto, x = quantized(kind, "uint8"), sequence()
    with qnnrt.Session(loaded(proto), backend="cpu") as session:
        wanted = run_steps(session, x)
    with qnnrt.Session(loaded(proto), backend="lpai") as session:
        sizes = lpai.pool_sizes(session.graph)
        assert min(sizes.scratch, sizes.persistent) > 0
        found = []
        for part in np.split(x, STEPS):
            scratch = lpai.alloc(session.backend, sizes.scratch)
            scratch.array(scratch.nbytes, np.uint8)[...] = 0xEE
            session.set_scratch(scratch)
            found.append(session.run({"x": part})["y"])
    np.testing.assert_array_equal(np.concatenate(found), wanted[0])


def test_sessions_do_not_disturb_each_other() -> None:
    proto, a, b = recurrent("LSTM"), sequence(1), sequence(2)
    model = loaded(proto)
    with (
        qnnrt.Session(model, backend="cpu") as first,
        qnnrt.Session(model, backend="cpu") as second,
    ):
        found: list[list[np.ndarray]] = [[], []]
        for i in range(STEPS):
            found[0].append(first.run({"x": a[i : i + 1]})["y"])
            found[1].append(second.run({"x": b[i : i + 1]})["y"])
    close([np.concatenate(f) for f in found], [of_onnxruntime(proto, {"x": x})[0] for x in (a, b)])


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_saved_session_keeps_state_and_starts_afresh(backend: str, tmp_path: Path) -> None:
    proto, x = quantized("GRU", "uint8"), sequence()
    path = tmp_path / "gru.bin"
    with qnnrt.Session(loaded(proto), backend=backend) as session:
        wanted = run_steps(session, x)
        session.save_binary(path)
    for _ in range(2):
        with qnnrt.Session(qnnrt.load(path), backend=backend) as session:
            found = [session.run({"x": part})["y"] for part in np.split(x, STEPS)]
        np.testing.assert_array_equal(np.concatenate(found), wanted[0])


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_bound_memory_and_asynchronous_runs_keep_state(backend: str) -> None:
    proto, x = recurrent("LSTM"), sequence()
    wanted = of_onnxruntime(proto, {"x": x})[0]
    with qnnrt.Session(loaded(proto), backend=backend) as session:
        for i in range(STEPS):
            session.inputs["x"].array[...] = x[i : i + 1]
            if i % 2:
                session.run()
            else:
                session.run_async().result()
            close([session.outputs["y"].array], [wanted[i : i + 1]])


def test_the_programs_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/state.md").read_text(encoding="utf-8")
    *_, steps, early = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    onnx.save(recurrent("LSTM"), "network.onnx")
    exec(compile(steps, "state.md", "exec"), {})
    assert capsys.readouterr().out == ""
    stream = Model(
        "stream",
        {
            name: Tensor(name, (rows, 1), np.dtype(np.float32))
            for name, rows in (("x", 1), ("y", 2))
        },
        [
            Node(
                "n",
                "Buffer",
                ["x"],
                ["y"],
                {"buffer_size": np.uint32(2), "buffer_dim": np.uint32(0)},
            )
        ],
        ["x"],
        ["y"],
    )
    frames = [np.full((1, 1), i, np.float32) for i in range(3)]
    exec(compile(early, "state.md", "exec"), {"stream": stream, "frames": frames})
    assert capsys.readouterr().out.split() == ["[[0.]", "[1.]]", "[[1.]", "[2.]]"]
