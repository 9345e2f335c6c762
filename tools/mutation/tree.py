"""A copy of the checkout whose sources hold all mutants, built by the project's own rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from .cpp import Source
from .mutant import Mutant, Numbering
from .python import mutants as python_mutants

#: The numbers of a file are within a block of its own: a change of it leaves the others alone.
_BLOCK = 500
_ROUNDS = 15
_PROGRAMS_READ = ("QNNRT_BACKEND", "QNNRT_HEAP", "QNNRT_THREADS", "QNNRT_MUTANT")


class Tree:
    """``folder`` holds the copy. Of ``sources`` those ``wanted`` are mutated; all have numbers, so
    that these stay the same whatever is wanted.
    """

    def __init__(self, root: Path, folder: Path, sources: Iterable[str], wanted: set[str]) -> None:
        self.root, self.folder = root, folder
        self.python_first: dict[str, int] = {}
        self.mutants: dict[int, Mutant] = {}
        self.left_out: dict[str, int] = {}
        self._cpp: dict[str, Source] = {}
        self._dropped_file = folder / "build/mutants-that-do-not-compile.json"
        first = 1
        for path in sources:
            text = (root / path).read_text()
            numbering = Numbering(first - 1)
            if path.endswith(".py"):
                found = python_mutants(path, text, numbering)
                if path in wanted:
                    self.python_first[path] = first
            else:
                source = Source(path, text, numbering)
                found = source.mutants()
                if found and path in wanted:
                    self._cpp[path] = source
                    self.left_out[path] = source.left_out
            if path in wanted:
                self.mutants |= {mutant.id: mutant for mutant in found}
            first += _BLOCK * (1 + (numbering.count - first + 1) // _BLOCK)
        self.size = first  # of a map of mutants

    def environment(self, **more: str) -> dict[str, str]:
        """For what runs in the tree."""
        path = [self.folder / "tools/mutation/site", self.folder / "tools", self.folder]
        return {
            # How to build stays as it is: a cache of the compiler's has what is not mutated.
            **{k: v for k, v in os.environ.items() if k not in _PROGRAMS_READ},
            "PYTHONPATH": ":".join(map(str, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "QNNRT_MUTATION_TREE": str(self.folder),
            "QNNRT_PYTHON_MUTANTS": json.dumps(self.python_first),
            "OMP_NUM_THREADS": "1",
            **more,
        }

    def build(self, tests: list[str]) -> list[Path]:
        """The library and these C++ tests; returns the programs. Mutants that do not compile go."""
        self._copy()
        keys = {mutant.key: mutant.id for mutant in self.mutants.values()}
        old = json.loads(self._dropped_file.read_text()) if self._dropped_file.exists() else []
        dropped = {keys[key] for key in old if key in keys}
        for _ in range(_ROUNDS):
            for path, source in self._cpp.items():
                _write(self.folder / path, source.rewritten(dropped))
            errors = self._compile(["setup.py", "build_ext", "--inplace"])
            errors = errors or self._compile(["tests/native/run.py", "--list", *tests])
            found = self._culprits(errors) - dropped
            if errors and not found:
                raise SystemExit(f"the mutated tree does not compile:\n{errors[-6000:]}")
            dropped |= found
            self._dropped_file.parent.mkdir(exist_ok=True)
            names = {*old, *(self.mutants[i].key for i in dropped)}
            self._dropped_file.write_text(json.dumps(sorted(names), indent=1))
            if not errors:
                self.mutants = {i: m for i, m in self.mutants.items() if i not in dropped}
                self.dropped = len(dropped)
                return [self.folder / line for line in self._listed]
        raise SystemExit(f"the mutated tree still does not compile after {_ROUNDS} rounds")

    def _copy(self) -> None:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True).stdout
        names = {name for name in os.fsdecode(listed).split("\0") if name}
        for name in sorted(names):
            source = self.root / name
            if name not in self._cpp and source.is_file():
                _write(self.folder / name, source.read_bytes())
        _write(self.folder / "csrc/mutation.h", (Path(__file__).parent / "mutation.h").read_bytes())
        for folder in ("csrc", "qnnrt", "tests"):  # what was deleted
            for path in (self.folder / folder).rglob("*.*"):
                name = str(path.relative_to(self.folder))
                if path.suffix in (".py", ".cc", ".h") and name not in names | {"csrc/mutation.h"}:
                    path.unlink()

    def _compile(self, command: list[str]) -> str:
        """The compiler's errors."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        self._listed = [line for line in done.stdout.splitlines() if line.startswith("build/")]
        return (done.stderr or "failed without a word") if done.returncode else ""

    def _culprits(self, errors: str) -> set[int]:
        """The mutants on lines that errors name, or that lead to what they name."""
        lines: set[tuple[str, int]] = set()
        leading: set[tuple[str, int]] = set()  # to the next error: instantiations, macros
        for found in re.finditer(r"(?m)^\s*([\w./-]+):(\d+):(?:\d+:)?(.*)", errors):
            place = (os.path.normpath(found[1]), int(found[2]))
            if " error: " in found[3]:
                lines |= leading | {place}
                leading = set()
            elif " warning: " in found[3]:
                leading = set()
            elif "required" in found[3]:
                leading.add(place)
            elif "in expansion of macro" in found[3]:
                lines.add(place)
        return {m.id for m in self.mutants.values() if (m.path, m.line) in lines}


def _write(path: Path, content: str | bytes) -> None:
    """Files that stay the same keep their time, so that nothing is compiled again for them."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
