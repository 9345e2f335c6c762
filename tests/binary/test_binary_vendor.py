"""Context binaries of a vendor, and ours for a vendor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.cli import main
from qnnrt.model import ContextBinary, Model, Node, Quantization, Tensor
from support.binaries import feeds, save
from support.toy import add_model, relu_model, tensors
from support.vendor import vendor_library


@pytest.fixture(scope="module")
def simulator() -> str:
    return vendor_library("libQnnHtp.so")


@pytest.fixture(scope="module")
def vendor_binary(simulator, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("vendor") / "add.bin"
    return save(add_model(), path, simulator, io="raw")


@pytest.mark.foreign
def test_a_vendors_binary_runs_on_the_vendors_library(simulator, vendor_binary):
    with qnnrt.Session(add_model(), "cpu") as ours:
        given = feeds(ours, 2)
        expected = ours.run(given)
    with qnnrt.Session(vendor_binary, simulator, io="raw") as s:
        assert s.model.system == str(Path(simulator).parent / "libQnnSystem.so")
        assert s.model.info["build_id"].startswith("v")
        assert s.prepare == "raw"
        got = s.run(given)
        assert list(got) == ["w", "z"]
        for name in expected:
            np.testing.assert_allclose(got[name], expected[name], 1e-3, 1e-3)


@pytest.mark.foreign
def test_the_command_line_runs_a_vendors_binary(simulator, vendor_binary, capsys):
    command = ["run", str(vendor_binary), "--backend", simulator, "--io", "raw", "--json"]
    assert main(command) == 0
    assert set(json.loads(capsys.readouterr().out)["outputs"]) == {"w", "z"}


@pytest.mark.foreign
def test_quantization_comes_back(simulator, tmp_path):
    q = Quantization(0.5, -3)
    shape = (1, 4, 4, 8)
    model = Model(
        "q",
        tensors(*(Tensor(n, shape, np.dtype(np.uint8), quantization=q) for n in "xy")),
        [Node("relu", "Relu", ["x"], ["y"])],
        ["x"],
        ["y"],
    )
    path = save(model, tmp_path / "q.bin", simulator, io="raw")
    with qnnrt.Session(path, simulator, io="raw") as s:
        x, y = s.inputs["x"], s.outputs["y"]
        for t in (x, y):
            assert t.dtype == np.uint8
            assert (t.quantization.scale, t.quantization.offset) == (0.5, -3)
            assert t.quantization.axis is None
        x.array[...] = np.arange(128).reshape(shape) % 9
        s.run()
        assert (y.array == np.maximum(x.array, 3)).all()  # 3 stands for 0


@pytest.mark.foreign
def test_a_vendors_binary_is_none_for_ours_and_the_message_says_what_it_needs(
    simulator, vendor_binary
):
    for use in (qnnrt.load, lambda path: qnnrt.Session(path, "htp")):
        with pytest.raises(qnnrt.ModelError, match=r"add\.bin.*libQnnSystem\.so"):
            use(vendor_binary)
    system = Path(simulator).parent / "libQnnSystem.so"
    loaded = qnnrt.load(vendor_binary, system=system)
    assert isinstance(loaded, ContextBinary)
    assert loaded.graphs == ("add",)
    with pytest.raises(qnnrt.ContextError):
        qnnrt.Session(loaded, "htp")


@pytest.mark.foreign
def test_our_binary_is_none_for_a_vendor(simulator, tmp_path):
    path = save(relu_model(), tmp_path / "ours.bin")
    with pytest.raises(qnnrt.ModelError, match=r"ours\.bin"):
        qnnrt.Session(path, simulator, io="raw")
    with pytest.raises(qnnrt.QnnError):
        qnnrt.Session(qnnrt.load(path), simulator, io="raw")


@pytest.mark.foreign
def test_without_its_system_library_a_vendors_context_still_loads(simulator, vendor_binary):
    with qnn.Backend.open(simulator, log_level="error") as backend:
        data = vendor_binary.read_bytes()
        context = qnn.Context.from_binary(backend, data)
        assert context.graph("add").inputs
        context._graphs, context._unknown = None, "no library"
        assert not context.graph("add").inputs  # a line in the log says why
