"""docs/gpu.md says what is so: its programs and commands run, its options and refusals are real."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qnnrt
from qnnrt import cli
from qnnrt.gpu import allocation, ir
from qnnrt.gpu.compile import launches_of
from qnnrt.gpu.device import choose
from qnnrt.gpu.ops import table
from qnnrt.gpu.target import Target
from qnnrt.model import Model, Node, Quantization, Tensor
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401
from support.toy import F32, relu_model, tensors

pytestmark = pytest.mark.foreign  # OpenCL drivers are

PAGE = (Path(__file__).resolve().parents[2] / "docs/gpu.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).splitlines()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the model of the page's programs: y = softmax(relu(x @ w))."""
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        onnx.helper.make_node("Relu", ["product"], ["positive"], name="relu"),
        onnx.helper.make_node("Softmax", ["positive"], ["y"], name="softmax"),
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (2, 16)), ("y", (2, 4)))
    )
    graph = onnx.helper.make_graph(
        nodes, "small", [x], [y], [onnx.numpy_helper.from_array(weight, "w")]
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    return tmp_path


@pytest.fixture
def session(opencl_is_up: None) -> Iterator[qnnrt.Session]:  # noqa: F811
    with qnnrt.Session(relu_model(), "gpu") as found:
        yield found
        found.backend.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(program: str, session: qnnrt.Session) -> None:
    names: dict[str, Any] = {}
    if "import qnnrt" not in program:  # a part of one, in the middle of a session
        names = {"session": session, "cl": cl, "nbytes": 64}
    exec(compile(program, "docs/gpu.md", "exec"), names)


def test_its_commands_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS == ["qnnrt info"]
    for command in COMMANDS:
        assert cli.main(shlex.split(command)[1:]) == 0
    assert str(choose()) in capsys.readouterr().out


def test_its_options_are_those_that_there_are() -> None:
    rows = PAGE[PAGE.index("| option | |") : PAGE.index("C clients give the same")]
    told = re.findall(r"`(\w+)`", "\n".join(r.split("|")[1] for r in rows.splitlines() if r))
    assert sorted(told) == sorted(f.name for f in fields(gpu.Options))


def test_operations_without_a_kernel_are_those_that_it_names() -> None:
    with qnnrt.qnn.Backend.open("cpu") as cpu:
        known = {n for _, n in cpu.library.backend_get_supported_operations(cpu.handle)}
    row = next(r for r in PAGE.splitlines() if "has no such operation" in r)
    assert set(re.findall(r"[A-Z]\w+", row.split("|")[1])) == known - set(table())


def _non_zero(session: qnnrt.Session) -> None:
    both = tensors(Tensor("x", (4, 4), F32), Tensor("y", (16, 2), np.dtype(np.int32)))
    nodes = [Node("places", "NonZero", ["x"], ["y"])]
    qnnrt.Session(Model("m", both, nodes, ["x"], ["y"]), session.backend)


def _scales(session: qnnrt.Session) -> None:
    encoding = Quantization(np.full(4, 0.1, np.float32), np.zeros(4, np.int32), axis=1)
    x, y = Tensor("x", (4, 4), np.dtype(np.uint8), None, encoding), Tensor("y", (4, 4), F32)
    nodes = [Node("decode", "Dequantize", ["x"], ["y"])]
    qnnrt.Session(Model("m", tensors(x, y), nodes, ["x"], ["y"]), session.backend)


def _carried(session: qnnrt.Session) -> None:
    sizes = [(1, 4, 3), *[(2, 3)] * 3, *[(2, 2)] * 3]
    ins = [Tensor(f"i{n}", size, F32) for n, size in enumerate(sizes)]
    ins.append(Tensor("reset", (1,), np.dtype(np.bool_)))
    names = [t.name for t in ins]
    nodes = [Node("gru", "Gru", [*names[:7], *[""] * 7, "reset"], ["y"])]
    model = Model("m", tensors(*ins, Tensor("y", (1, 4, 2), F32)), nodes, names, ["y"])
    qnnrt.Session(model, session.backend)


def _size(*shape: int) -> None:
    x, y = (ir.Value(n, 1, shape, F32, 0x0232, "native") for n in "xy")
    launches_of(ir.Ir("g", nodes=[ir.Node("n", "Relu", [x], [y], {})]), Target(choose()))


REFUSED: dict[str, Callable[[qnnrt.Session], Any]] = {
    "NonMaxSuppression, NonZero": _non_zero,
    "fixed-point numbers that are no constants": _scales,
    "Lstm and Gru with": _carried,
    "tensors of 2^31 elements": lambda s: _size(1 << 16, 1 << 15),
    "tensors larger than": lambda s: _size(allocation.most_bytes(choose()) // 4 + 1),
    "context binaries": lambda s: s.save_binary("model.bin"),
    "`threads`": lambda s: qnnrt.Session(relu_model(), s.backend, threads=2),
}


def _rows() -> dict[str, str]:
    part = PAGE[PAGE.index("## What is refused") : PAGE.index("[The coverage page]")]
    rows = [r.split("|")[1:3] for r in part.splitlines() if r.startswith("| ")][1:]
    return {what.strip(): sentence.strip().strip("`") for what, sentence in rows}


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[:12])
def test_it_is_refused_with_these_words(
    row: str, session: qnnrt.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (do,) = [do for start, do in REFUSED.items() if row.startswith(start)]
    if "larger than" in row:  # what a device allows may be more than kernels can count
        monkeypatch.setattr("qnnrt.gpu.compile.most_bytes", lambda device: 64)
        monkeypatch.setattr(allocation, "most_bytes", lambda device: 64)
    with pytest.raises((qnnrt.QnnError, qnnrt.UnsupportedOpError)) as e:
        do(session)
    assert _rows()[row] in str(e.value)


def test_every_refusal_is_tried() -> None:
    assert len(_rows()) == len(REFUSED)
