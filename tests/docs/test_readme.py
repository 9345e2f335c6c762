"""The README says what is so: its commands, its first program, its links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qnnrt.cli import main
from support.loading import loaded

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def small_classifier(path: Path) -> None:
    """A convolution, a pool and a softmax, as ONNX."""
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.standard_normal((8, 3, 3, 3), dtype=np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Softmax", ["f"], ["prob"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("prob", TensorProto.FLOAT, [1, 8])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def test_the_first_program_runs_and_copies_nothing(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    small_classifier(tmp_path / "model.onnx")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "10 runs, 0 bytes copied"


def test_the_two_commands_are_the_ones_that_ci_runs() -> None:
    commands = loaded(".ci/readme.py").commands(README)
    assert commands == ["pip install . && qnnrt demo", "pip install '.[test]' && pytest"]
    ci = (ROOT / ".ci/run").read_text()
    assert "readme.py 'qnnrt demo'" in ci
    assert "readme.py pytest" in ci


def test_the_commands_listed_are_the_commands_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    there = set(re.findall(r"^    ([a-z-]+)(?: |$)", capsys.readouterr().out, re.MULTILINE))
    section = README.split("## Command line")[1].split("```")[1]
    listed = {
        name
        for line in re.findall(r"^qnnrt (.*?)(?:  |$)", section, re.MULTILINE)
        for name in re.findall(r"[a-z-]{3,}(?=,| |$)", line.split(" MODEL")[0])
    }
    assert listed == there


def test_every_decision_has_a_number_of_its_own_and_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    pages = sorted(p.name for p in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    listed = re.findall(r"^\d+\. \[.*\]\((.*)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == pages


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_link_is_dead(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    dead = [t for t in targets if "://" not in t and not (document.parent / t).exists()]
    assert not dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_variable_that_is_documented_exists(document: Path) -> None:
    names = set(re.findall(r"\bQNNRT_[A-Z_]+\b", document.read_text(encoding="utf-8")))
    files = [ROOT / "setup.py", ROOT / "tests/native/run.py", *(ROOT / "csrc").rglob("*.*")]
    files += (ROOT / "qnnrt").rglob("*.py*")
    code = "\n".join(p.read_text() for p in files if p.suffix in (".py", ".pyx", ".cc", ".h"))
    # setup.py reads its switches by the part behind the prefix.
    assert {n for n in names if n not in code and f'"{n[6:]}"' not in code} == set()
