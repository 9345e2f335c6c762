"""Parts of .onnx files in the tools: ``--cut-inputs`` and ``--cut-outputs``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.generator import generator, mem_types
from support.tool_cases import (
    Capture,
    call,
    complaint,
    listed,
    numbers,
    onnx_model,
    python_model,
    raw,
    report,
)

pytestmark = pytest.mark.usefixtures("listed_here")


def test_commands_run_a_part_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    path = onnx_model(tmp_path)
    ends = ("--cut-inputs", "twice,a", "--cut-outputs", "total")
    found = report(capsys, "run", path, *ends)
    assert list(found["outputs"]) == ["total"]
    assert set(report(capsys, "bench", path, *ends, "--iterations", 1)["ways"]) == {
        "zero-copy",
        "copying",
    }
    assert [t["name"] for t in report(capsys, "inspect", path, *ends)["inputs"]] == ["twice", "a"]


def test_the_generator_and_net_run_take_parts(tmp_path: Path, capsys: Capture) -> None:
    path, other = onnx_model(tmp_path), onnx_model(tmp_path, "other")
    cut = ("--cut_inputs", "sum:twice,a", "--cut_outputs", "sum:total;other:positive")
    given = generator(f"{path},{other}", "--binary_file", "parts", *cut, backend="cpu")
    assert call(*given) == 0
    assert set(mem_types(tmp_path / "output/parts.bin")) == {
        "twice", "total", "a", "in/b", "positive",
    }  # fmt: skip
    capsys.readouterr()
    twice, a = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    raw(tmp_path / "twice.raw", twice)
    raw(tmp_path / "one.raw", a)
    listed(tmp_path / "parts", "twice:=twice.raw a:=one.raw")
    run = ("net-run", "--model", path, "--backend", "cpu", "--input_list", "parts")
    assert call(*run, "--cut_inputs", "a,twice", "--cut_outputs", "total") == 0
    folder = tmp_path / "output/Result_0"
    assert [p.name for p in folder.iterdir()] == ["total.raw"]
    np.testing.assert_array_equal(numbers(folder / "total.raw"), a + twice)


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (["--cut_outputs", "totl"], "no tensor 'totl' (nearest: 'total'): outputs="),
        (["--cut_outputs", "summ:total"], "no tensor 'summ:total'"),
        (["--cut_inputs", "a"], "depend on 'in/b', too"),
    ],
)
def test_names_that_are_not_in_the_file(
    cut: list[str], words: str, tmp_path: Path, capsys: Capture
) -> None:
    assert words in complaint(capsys, *generator(onnx_model(tmp_path), *cut, backend="cpu"))


def test_only_onnx_files_are_cut(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(tmp_path)
    error = complaint(capsys, *generator(model, "--cut_outputs", "h", backend="cpu"))
    assert "--cut_outputs: only .onnx files are loaded in part" in error
    binary = ("--retrieve_context", "b.bin", "--backend", "cpu")
    error = complaint(capsys, "net-run", *binary, "--cut_outputs", "h")
    assert "a context binary is loaded as it is" in error
    Path("b.bin").write_bytes(b"1")
    error = complaint(capsys, "run", "b.bin", "--cut-outputs", "h")
    assert "--cut-outputs: only .onnx files are loaded in part" in error
