"""docs/lpai.md says what is so: its programs run, its options are those that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from lpai_models import example

import qnnrt
from qnnrt import lpai

PAGE = (Path(__file__).resolve().parents[2] / "docs/lpai.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("page")
    with qnnrt.Session(example().network()) as s:
        s.save_binary(found / "keyword.bin")
    random = np.random.default_rng(0)
    np.save(found / "sound.npy", random.normal(0, 1, (5, 1, 40)).astype(np.float32))
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(folder: Path, program: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_it_has_four_programs() -> None:
    assert len(PROGRAMS) == 4


def test_its_options_are_those_of_a_session() -> None:
    table = PAGE[PAGE.index("| option | |") : PAGE.index("`session.set_scratch(buffer)`")]
    told = re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines() if row))
    assert sorted(told) == sorted(field.name for field in fields(lpai.Options))


def test_the_names_that_it_uses_are_there() -> None:
    for name in set(re.findall(r"lpai\.(\w+)", PAGE)) - {"bin"}:
        assert hasattr(lpai, name), name
