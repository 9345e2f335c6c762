"""What CI installs besides the package is what the extras of pyproject.toml ask for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def printed(*args: str) -> list[Requirement]:
    command = [sys.executable, str(ROOT / ".ci" / "extra.py"), *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Requirement(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("extra", ["clients", "accuracy", "test"])
def test_an_extra_is_printed_as_far_as_it_holds_here(extra: str) -> None:
    here = [r for r in map(Requirement, EXTRAS[extra]) if not r.marker or r.marker.evaluate()]
    assert [str(r) for r in printed(extra)] == [str(r).partition(";")[0] for r in here]


def test_two_parts_of_an_extra_make_it_up() -> None:
    names = ["pandas", "tabulate"]
    only, rest = printed("clients", "--only", *names), printed("clients", "--without", *names)
    assert [r.name for r in only] == names
    assert not set(names) & {r.name for r in rest}
    assert {*only, *rest} == set(printed("clients"))


def test_ci_names_no_package_that_an_extra_pins() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    pinned = [r for e in ("clients", "accuracy") for r in map(Requirement, EXTRAS[e])]
    assert not [str(r.specifier) for r in pinned if r.specifier and str(r.specifier) in text]
