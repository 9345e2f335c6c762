"""docs/quantization.md says what is so: its programs run, its messages are those that come."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from qnnrt.cli import main
from qnnrt.errors import Error
from qnnrt.model import Quantization
from qnnrt.qnn import Backend
from support import quantizing

pytestmark = pytest.mark.foreign

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/quantization.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx, as the example quantizes it, and a sample."""
    example = quantizing.example()
    found = tmp_path_factory.mktemp("page")
    samples = example.toy(found / "model.onnx")
    example.quantize(found / "model.onnx", found / "model.quantized.onnx", samples)
    np.savez(found / "sample.npz", **samples[0])
    np.save(found / "image.npy", samples[0]["image"])
    return found


def test_its_programs_run(folder: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 2
    shown = []
    for program in programs:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    found = dict(re.findall(r"(\w+): ([\d.]+) dB", shown[0]))
    assert found.keys() == {"r1", "c2", "r2", "mean", "scores"}
    assert all(float(snr) > 25 for snr in found.values()), found


def test_its_commands_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    commands = re.findall(r"^qnnrt (\w.* model.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert main(shlex.split(command)) in (0, None), command


def test_its_options_are_those_of_the_example() -> None:
    command = [sys.executable, ROOT / "examples/quantize.py", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = set(re.findall(r"quantize\.py .*", PAGE))
    assert used
    for option in set(re.findall(r"--[a-z]+", " ".join(used))):
        assert option in text


def messages() -> dict[str, str]:
    """What comes, by what is done wrong."""
    found: dict[str, str] = {}
    half = Quantization(0.5, 0)

    def attempt(what: str, name: str, dtype: str, shape: tuple[int, ...], **more: object) -> None:
        graph = context.create_graph(what)
        with pytest.raises(Error) as error:
            graph.add_tensor(name, shape, dtype, type="native", **more)
        found[what] = str(error.value)

    def product(
        what: str, *, x: Quantization, bias: Quantization = half, out: str = "UFIXED_POINT_8"
    ) -> None:
        graph = context.create_graph(what)
        w, b = np.ones((2, 4), np.int8), np.zeros(2, np.int32)
        inputs = [
            graph.add_tensor("x", (3, 4), "UFIXED_POINT_8", quantization=x, type="native"),
            graph.add_tensor("w", (2, 4), "SFIXED_POINT_8", quantization=half, type="static",
                             data=w),
            graph.add_tensor("b", (2,), "SFIXED_POINT_32", quantization=bias,
                             type="static", data=b),
        ]  # fmt: skip
        encoded = {} if out == "FLOAT_32" else {"quantization": Quantization(0.1, 0)}
        outputs = [graph.add_tensor("y", (3, 2), out, type="native", **encoded)]
        with pytest.raises(Error) as error:
            graph.add_node("dense", "FullyConnected", inputs, outputs)
        found[what] = str(error.value)

    with Backend.open("cpu") as backend, backend.create_context() as context:
        byte, short = "UFIXED_POINT_8", "SFIXED_POINT_8"
        attempt("zero scale", "x", byte, (4,), quantization=Quantization(0.0, 0))
        attempt("no encoding", "x", byte, (4,))
        attempt("sign", "x", byte, (4,), quantization=Quantization(0.1, 5))
        scales, offsets = np.ones(3, np.float32), np.zeros(3, np.int32)
        attempt("axis", "w", short, (8, 3), quantization=Quantization(scales, offsets, axis=4))
        attempt("count", "w", short, (8, 3), quantization=Quantization(scales, offsets, axis=0))
        attempt("bits", "w", short, (4,), quantization=Quantization(0.1, 0, bitwidth=9))
        eighth = Quantization(0.125, 0)
        product("bias", x=eighth, bias=Quantization(0.25, 3))
        axes = Quantization(np.full(4, 0.125, np.float32), np.zeros(4, np.int32), axis=1)
        product("activation", x=axes)
        product("mixed", x=eighth, out="FLOAT_32")
    return found


def test_its_messages_are_those_that_come() -> None:
    section = PAGE.split("## What is checked")[1]
    listed = re.findall(r"^\| `([^|]*)` \| (\d{4}) \|", section, re.MULTILINE)
    found = messages()
    assert len(listed) == len(found)
    for (text, code), (what, message) in zip(listed, found.items(), strict=True):
        assert text in message, what
        assert code in message, what
