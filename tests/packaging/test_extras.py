"""What CI installs besides the package is what the extras of pyproject.toml ask for."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
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


# What the extra "test" does not bring, and what a Python without its lock finds no wheel of.
OPTIONAL = {r.name.replace("-", "_") for e in EXTRAS for r in map(Requirement, EXTRAS[e])}
OPTIONAL -= {r.name.replace("-", "_") for r in map(Requirement, EXTRAS["test"])}
OPTIONAL -= {"qnnrt", "ruff", "numpy", "onnx", "mypy"}
OPTIONAL |= {"ai_edge_litert"}


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """The modules that a file imports by statements of its own, with their lines."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append((node.lineno, node.module))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def asked_for(path: Path, seen: set[Path]) -> Iterator[tuple[int, str]]:
    """The optional packages that importing a file takes, by itself or by files beside it."""
    for line, name in imports(path):
        if name.partition(".")[0] in OPTIONAL:
            yield line, name.partition(".")[0]
        stem = name.replace(".", "/")
        ends = (f"{stem}.py", f"{stem}/__init__.py")
        for place in (root / end for root in (ROOT / "tests", path.parent) for end in ends):
            if place.is_file() and place not in seen:
                seen.add(place)
                yield from ((line, package) for _, package in asked_for(place, seen))


def test_files_are_collected_without_optional_packages() -> None:
    missing = []
    for path in sorted(ROOT.glob("tests/*/test_*.py")):
        text = path.read_text(encoding="utf-8").splitlines()
        for line, package in asked_for(path, set()):
            before = "\n".join(text[: line - 1])
            if f'importorskip("{package}' not in before:
                missing.append(f"{path.name}:{line}: {package}")
    assert missing == [], 'pytest.importorskip("PACKAGE") has to stand before the import'
