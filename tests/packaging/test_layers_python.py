"""One way down in the Python package, too: what a room imports, and that no imports go in circles.

Imports inside of functions and those under TYPE_CHECKING count as all others.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "qnnrt"

#: Room, a folder of the package or a module in it -> the rooms that it may import. Every room may
#: import abi: facts of the C interface, made from csrc/abi.
BELOW = {
    "abi": set(),
    "_start": set(),
    "errors": set(),
    "dtypes": set(),
    "support": {"_native"},
    "_native": {"errors"},
    "memory": {"_native", "errors"},
    "channel": {"_native", "errors", "memory"},
    "planning": {"_native", "support"},
    "model": {"_native", "dtypes", "errors", "support"},
    "quantization": {"dtypes", "model"},
    "gpu": {"_native", "dtypes", "errors", "model", "planning", "support"},
    "custom_ops": {"_native", "dtypes"},
    "qnn": {
        *("_native", "custom_ops", "dtypes", "errors", "gpu", "model", "quantization", "support"),
    },
    "profile_log": {"_native", "errors", "qnn", "support"},
    "lpai": {"_native", "dtypes", "errors", "memory", "model", "qnn", "support"},
    "importers": {"_native", "custom_ops", "dtypes", "errors", "model", "quantization", "support"},
    "session": {
        *("_native", "dtypes", "errors", "gpu", "importers", "lpai", "memory", "model", "qnn"),
        *("quantization", "support"),
    },
    "ray": {"_native", "errors", "importers", "memory", "model", "session", "support"},
    "llm": {"_native", "errors", "importers", "memory", "model", "session", "support"},
    "tflite": {
        *("_native", "errors", "gpu", "importers", "memory", "model", "qnn", "session", "support"),
    },
    "cli": {
        *("_native", "dtypes", "errors", "gpu", "importers", "lpai", "memory", "model", "qnn"),
        *("_start", "planning", "profile_log", "session", "support"),
    },
    "__main__": {"cli"},
}
#: What a room shows of one above it, beside what is its own.
FACES = {("qnnrt.gpu", "qnnrt.qnn.opencl_handle")}


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports."""
    files = {_name(p): p for p in PACKAGE.rglob("*.py")}

    def target(name: str) -> str:
        while name not in files:
            name = name.rpartition(".")[0]
        return name

    found = {}
    for module, path in files.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names = [n for node in ast.walk(ast.parse(path.read_text())) for n in _names(node, package)]
        found[module] = {target(n) for n in names if n.split(".")[0] == "qnnrt"} - {module}
    return found


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _names(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    start = ".".join([*above, *([node.module] if node.module else [])])
    return [f"{start}.{a.name}" for a in node.names]


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_its_place() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    modules = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__"}
    assert folders | modules == set(BELOW)


@pytest.mark.parametrize("name", BELOW)
def test_nothing_imports_what_stands_above_it(name: str) -> None:
    upward = [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) == name != room(target)
        and room(target) not in {"abi"} | BELOW[name]
        and (module, target) not in FACES
    ]
    assert upward == []


def test_rooms_are_in_an_order() -> None:
    done: set[str] = set()
    while ready := {name for name, below in BELOW.items() if below <= done} - done:
        done |= ready
    assert done == set(BELOW)


def test_the_binding_imports_nothing_but_errors() -> None:
    sources = [*(PACKAGE / "_native").glob("*.p[xy]*")]
    assert len(sources) > 10
    for path in sources:
        text = path.read_text()
        names = set(
            re.findall(r"^\s*from qnnrt(?:\.(?!_native)| import )(\w+)", text, re.MULTILINE)
        )
        assert set(names) <= BELOW["_native"], path.name


def test_no_imports_go_in_a_circle() -> None:
    def reached(module: str) -> set[str]:
        found: set[str] = set()
        new = set(imports()[module])
        while new:
            found |= new
            new = set().union(*(imports()[m] for m in new)) - found
        return found

    assert [m for m in imports() if m in reached(m)] == []


def test_what_a_backend_needs_is_imported_with_its_first_session() -> None:
    loaded = "import sys, qnnrt; print(*(m for m in sys.modules if m.startswith('qnnrt.')))"
    run = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert not [m for m in run.stdout.split() if room(m) in ("cli", "gpu", "lpai", "tflite")]
    assert "qnnrt._native.op_table" not in run.stdout
