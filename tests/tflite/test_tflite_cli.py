"""The command line takes .tflite files where it takes .onnx files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.cli import main
from support.tflite import reference
from support.tflite.networks import NETWORKS

pytestmark = pytest.mark.foreign

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense.tflite"
    path.write_bytes(NETWORKS["dense"]()[0])
    return path


def test_run_writes_what_the_interpreter_computes(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    x = np.random.default_rng(3).standard_normal((4, 28, 28)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out"
    arguments = ["--input", f"image={tmp_path / 'x.npy'}", "--output-dir", str(out)]
    assert main(["run", str(model), *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["scores"]["shape"] == [4, 10]
    (wanted,) = reference.reference(model.read_bytes(), [x])
    reference.close(np.load(out / "scores.npy"), wanted)


def test_bench_compares_with_the_runtime_of_the_format(model: Path, capsys: Capture) -> None:
    assert main(["bench", str(model), "--iterations", "3", "--threads", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    # And the fastest precision of the processor, where that is not float32.
    assert list(report["ways"])[:3] == ["zero-copy", "copying", "ai-edge-litert"]
    assert report["copied_bytes"] == 0


def test_a_damaged_file_is_one_line_and_exit_status_two(model: Path, capsys: Capture) -> None:
    model.write_bytes(model.read_bytes()[:200])
    assert main(["run", str(model)]) == 2
    found = capsys.readouterr().err.strip()
    assert "\n" not in found
    assert f"{model} is damaged" in found
