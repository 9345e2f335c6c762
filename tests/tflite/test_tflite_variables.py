"""Resource variables of TFLite files: state that runs update in place, beside LiteRT's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import tflite as importer
from qnnrt.tflite import Interpreter, QnnDelegate, QnnDelegateOptions, external
from support.tflite import delegated, reference
from support.tflite.builder import ModelBuilder
from support.tflite.variables import (
    F32,
    FILES,
    I8,
    I32,
    SHAPE,
    add,
    assign,
    call_once,
    handle,
    once,
    read,
    total,
    window,
)

pytestmark = pytest.mark.foreign


def frames(data: bytes, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    detail = reference.interpreter(data).get_input_details()[0]
    values = rng.uniform(-1, 1, (count, *detail["shape"]))
    return [*(values * (100 if detail["dtype"] is I8 else 1)).astype(detail["dtype"])]


def check(found: Any, wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        reference.close(np.asarray(a), b)


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_a_session_keeps_variables_as_the_interpreter_does(make: Callable[[], bytes]) -> None:
    data = make()
    model = importer.load(data)
    assert isinstance(model, qnnrt.Model)
    assert len(model.state) == 1
    feeds = frames(data, 50)
    wanted = reference.streamed(data, feeds)
    with qnnrt.Session(model) as session:
        assert list(session.inputs) == ["x"]
        for _ in range(2):
            for x, want in zip(feeds, wanted, strict=True):
                found = session.run({"x": x})
                check([found[name] for name in session.outputs], want)
            session.reset_state()


@pytest.mark.parametrize("make", [total, window], ids=["total", "window"])
def test_variables_are_updated_in_place(make: Callable[[], bytes]) -> None:
    data = make()
    with qnnrt.Session(importer.load(data), strict=True) as session:
        for x in frames(data, 3):
            session.inputs["x"].array[...] = x
            session.run()
        assert session.stats.copied_bytes == 0


@pytest.mark.parametrize("make", [total, window], ids=["total", "window"])
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_context_binary_has_variables_as_state(
    make: Callable[[], bytes], backend: str, tmp_path: Path
) -> None:
    """They start from real zeros there."""
    data = make()
    with qnnrt.Session(importer.load(data), backend) as session:
        session.save_binary(tmp_path / "net.bin")
    feeds = frames(data, 5)
    with qnnrt.Session(tmp_path / "net.bin", backend) as session:
        for x, want in zip(feeds, reference.streamed(data, feeds), strict=True):
            found = session.run({"x": x})
            check([found[name] for name in session.outputs], want)


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_variables_may_be_inputs_and_outputs(make: Callable[[], bytes]) -> None:
    data = make()
    model = importer.load(data, variables="io")
    assert isinstance(model, qnnrt.Model)
    (name,) = (n for n in model.inputs if n != "x")
    assert not model.state
    state = model.initial[name]
    feeds = frames(data, 5)
    with qnnrt.Session(model) as session:
        for x, want in zip(feeds, reference.streamed(data, feeds), strict=True):
            found = session.run({"x": x, name: state})
            state = found[f"{name}.next"].copy()
            check([found[n] for n in model.outputs if n != f"{name}.next"], want)


@pytest.mark.parametrize("backend", [None, "htp"])
@pytest.mark.parametrize("make", [total, lambda: total(2.5), window], ids=["0", "2.5", "window"])
def test_the_workflow_keeps_variables(make: Callable[[], bytes], backend: str | None) -> None:
    data = make()
    feeds = frames(data, 5)
    delegates = [QnnDelegate(QnnDelegateOptions(backend_type=backend))] if backend else []
    with Interpreter(model_content=data, experimental_delegates=delegates) as it:
        it.allocate_tensors()
        (x,) = (d["index"] for d in it.get_input_details())
        for feed, want in zip(feeds, reference.streamed(data, feeds), strict=True):
            it.set_tensor(x, feed)
            it.invoke()
            check([it.get_tensor(d["index"]) for d in it.get_output_details()], want)
            it.allocate_tensors()  # what they hold stays
        if backend:
            delegated = sum(n for name, n in it.partitions if name == QnnDelegate.name)
            assert delegated == len(it._graph.graph.operators) - (4 + (make is not window))
        else:
            assert len(it.partitions) == 1
            assert it.copied_bytes == 0
    for delegate in delegates:
        delegate.close()


def test_resetting_the_interpreter_does_to_variables_what_litert_does() -> None:
    data = total(2.5)
    feed = np.ones(SHAPE, F32)
    theirs = reference.interpreter(data)
    with Interpreter(model_content=data) as it:
        it.allocate_tensors()
        for _ in range(2):
            for runner in (theirs, it):
                runner.set_tensor(0, feed)
                runner.invoke()
                runner.invoke()
            y = it.get_output_details()[0]["index"]
            np.testing.assert_array_equal(it.get_tensor(y), theirs.get_tensor(y))
            theirs.reset_all_variables()
            it.reset_all_variables()


@pytest.mark.parametrize("make", [lambda: total(2.5), window], ids=["total", "window"])
def test_litert_keeps_variables_beside_the_delegate(make: Callable[[], bytes]) -> None:
    data = make()
    given = delegated.delegate(backend_type="htp")
    runner = delegated.interpreter(data, given)
    feeds = frames(data, 5)
    for x, want in zip(feeds, reference.streamed(data, feeds), strict=True):
        check(delegated.run(runner, [x]), want)
    assert external.counters(given).delegated >= 2


def test_many_shapes_have_variables_of_one() -> None:
    b = ModelBuilder()
    x = b.input((1, 2), name="x", signature=(-1, 2))
    call_once(b)
    h = handle(b, "sum")
    (s,) = b.op("SUM", [x, b.const([0], I32)], [(SHAPE, F32)], "ReducerOptions", keepDims=True)
    new = add(b, read(b, h, SHAPE), s)
    assign(b, h, new)
    (y,) = b.op("NEG", [new], [b.tensor(SHAPE, name="y")])
    b.output(y)
    once(b, {"sum": np.full(SHAPE, 1, F32)})
    with qnnrt.Session(importer.load(b.build(), shapes={"x": "any"})) as session:
        wanted = 1.0
        for rows in (1, 3, 1, 2):
            wanted += rows
            found = session.run({"x": np.ones((rows, 2), F32)})["y"]
            np.testing.assert_array_equal(found, np.full(SHAPE, -wanted, F32))


def entries() -> bytes:
    """A signature that adds, one that sets, one that reads."""
    b = ModelBuilder()
    for n, key in enumerate(("add", "set", "get")):
        if n:
            b.subgraph(key)
        x = b.input(SHAPE, name="x")
        call_once(b, 3)
        h = handle(b, "sum")
        old = read(b, h, SHAPE)
        if key != "get":
            assign(b, h, add(b, old, x) if key == "add" else x)
        y = add(b, old, x)
        b.output(y)
        b.signature(key, {"x": x}, {"y": y}, n)
    once(b, {"sum": np.full(SHAPE, 1, F32)})
    return b.build()


def test_signatures_share_variables() -> None:
    data = entries()
    calls = ["add", "get", "add", "set", "get", "add", "get"]
    feeds = np.random.default_rng(1).uniform(-1, 1, (len(calls), *SHAPE)).astype(F32)
    theirs = reference.interpreter(data)
    models = {key: importer.load(data, signature=key) for key in ("add", "set", "get")}
    with (
        Interpreter(model_content=data) as it,
        qnnrt.Session(models["add"]) as first,
        qnnrt.Session(models["set"]) as second,
        qnnrt.Session(models["get"]) as third,
    ):
        second.bind_state(first)
        third.bind_state(first)
        sessions = {"add": first, "set": second, "get": third}
        for key, x in zip(calls, feeds, strict=True):
            wanted = theirs.get_signature_runner(key)(x=x)["y"]
            reference.close(it.get_signature_runner(key)(x=x)["y"], wanted)
            reference.close(sessions[key].run({"x": x})["y"], wanted)


def test_a_variable_that_nothing_assigns_is_a_constant() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    call_once(b)
    b.output(add(b, read(b, handle(b, "w"), SHAPE), x))
    once(b, {"w": np.full(SHAPE, 4, F32)})
    model = reference.agree(b.build(), [np.ones(SHAPE, F32)])
    assert not model.state
    assert model.inputs == ["x"]


def test_variables_of_two_containers_are_two() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    for container in ("a", "b"):
        h = handle(b, "v", container)
        assign(b, h, add(b, x, x))
        b.output(read(b, h, SHAPE))
    model = importer.load(b.build())
    assert isinstance(model, qnnrt.Model)
    assert list(model.state) == ["v", "v.2"]


def test_state_of_another_shape_or_encoding_is_refused() -> None:
    b = ModelBuilder()
    x = b.input((1, 3), name="x")
    call_once(b)
    assign(b, handle(b, "v"), x)
    b.output(x)
    once(b, {"v": np.zeros(SHAPE, F32)})
    with pytest.raises(UnsupportedOpError, match=r"'v' is float32\[1, 2\] and becomes .*\[1, 3\]"):
        importer.load(b.build())
    b = ModelBuilder()
    x = b.input(SHAPE, I8, scale=0.5)
    h = handle(b, "v")
    assign(b, h, x)
    b.output(read(b, h, SHAPE, I8, scale=0.25))
    with pytest.raises(UnsupportedOpError, match="with another encoding"):
        importer.load(b.build())


@pytest.mark.parametrize(
    ("index", "text"), [(7, "names subgraph 7; there are 2"), (0, "subgraph 0 runs itself")]
)
def test_what_runs_once_has_to_be_there(index: int, text: str) -> None:
    b = ModelBuilder()
    x = b.input(SHAPE)
    call_once(b, index)
    b.output(add(b, x, x))
    once(b, {})
    with pytest.raises(ModelError, match=text):
        importer.load(b.build())


def test_a_read_of_what_is_no_handle_is_refused() -> None:
    b = ModelBuilder()
    b.output(read(b, b.input(SHAPE), SHAPE))
    with pytest.raises(ModelError, match="no handle of a variable"):
        importer.load(b.build())
