"""docs/tflite-library.md says what is so: its program runs, its keys and operators are all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt._native import _core
from support.tflite import delegated
from support.tflite.networks import convolutional

pytestmark = pytest.mark.foreign

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tflite-library.md").read_text("utf-8")


def test_its_program_runs(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(convolutional()[0])
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_keys_are_all_there_are() -> None:
    table = PAGE[PAGE.index("| key | effect |") :].split("\n\n")[0]
    told = {k for row in table.splitlines()[2:] for k in re.findall(r"`(\w+)`", row.split("|")[1])}
    with pytest.raises(ValueError, match=r"there is no option 'nothing'; there are") as caught:
        delegated.delegate(nothing=1)
    assert told == set(re.search(r"there are (.*)", str(caught.value))[1].split(", "))


def test_its_operators_are_all_there_are() -> None:
    told = re.findall(r"[A-Z]\w+", PAGE.partition("## Operators\n")[2].strip().split("\n\n")[0])
    table = json.loads(_core.tflite_operators_json())
    assert told == sorted(row["name"] for row in table if row["delegated"])
