"""docs/tflite-delegate.md says what is so: its program runs and says this, its options are all."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

from qnnrt.tflite import DspOptions, GpuOptions, HtpOptions, QnnDelegateOptions
from qnnrt.tflite.options import STRING_KEYS
from support.tflite.networks import convolutional

pytestmark = pytest.mark.foreign

PAGE = (Path(__file__).resolve().parents[2] / "docs/tflite-delegate.md").read_text("utf-8")


def test_its_program_runs_and_says_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(convolutional()[0])
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (said,) = re.findall(r"```\n(INFO.*?)```", PAGE, re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == said


def test_its_options_are_those_of_the_delegate() -> None:
    table = PAGE[PAGE.index("| option | key | effect |") :]
    rows = [line.split("|") for line in table.splitlines()[2:] if line.startswith("|")]
    told = {name for row in rows for name in re.findall(r"`([\w.]+)`", row[1])}
    groups = {"htp_options": HtpOptions, "gpu_options": GpuOptions, "dsp_options": DspOptions}
    there = {f.name for f in fields(QnnDelegateOptions)} - groups.keys()
    there |= {f"{name}.{f.name}" for name, group in groups.items() for f in fields(group)}
    assert told == there
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row[2])} == STRING_KEYS.keys()
