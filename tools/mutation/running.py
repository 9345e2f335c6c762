"""Tests of a mutated tree: which of them reach a mutant, and whether one of those notices it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .mutant import Mutant
from .parts import Part
from .tree import Tree

_MEMORY_KIB = 4 << 20  # of a C++ test
#: What a batch of tests may take: so many times what it took, and some seconds.
_SLOWER, _SECONDS = 6, 4
#: A part's tests that take longer than this are not run for each mutant.
_LONGEST = 6.0
#: C++ tests that are run together; what is spent on Python tests of one mutant, and around each.
_QUICK, _PYTHON, _AROUND = 0.05, 5.0, 0.02
_LAST = "NothingIsLeft"


@dataclass(frozen=True)
class Test:
    program: str  # path, or "pytest"
    name: str
    seconds: float
    reaches: int  # so many mutants


@dataclass
class Reach:
    """What reaches what."""

    tests: dict[int, list[Test]]
    void: set[int]
    failed: list[str]
    slow: list[str]


def measure(tree: Tree, programs: dict[str, Path], part: Part) -> Reach:
    """Runs every test of a part once."""
    reach = Reach(defaultdict(list), set(), [], [])
    with tempfile.TemporaryDirectory() as scratch:
        reached = Path(scratch, "reached")
        for path in _of_part(programs, part):
            source = (tree.folder / "tests/native" / f"{path.name}.cc").read_text()
            for name in re.findall(r"^TEST\((\w+)\)", source, re.MULTILINE) or [""]:
                reached.write_bytes(bytes(tree.size))
                start = _cpu_seconds()
                status = _run_native(tree, path, [name], 120, QNNRT_MUTANTS_REACHED=str(reached))
                seconds = _cpu_seconds() - start
                seen = reached.read_bytes()
                test = Test(str(path), name, seconds, seen.count(1))
                reach.void |= {i for i, byte in enumerate(seen) if byte == 2}
                _note(reach, test, status == 0, (i for i, byte in enumerate(seen) if byte == 1))
        files = [file for file in part.python if (tree.folder / file).exists()]
        if files:
            with Server(tree) as server:
                for file in files:
                    reached.write_bytes(bytes(tree.size))
                    result = Path(scratch, "result")
                    result.write_text("")
                    status = server.run(
                        [file],
                        600,
                        QNNRT_MUTANTS_REACHED=str(reached),
                        QNNRT_MUTANTS_RESULT=str(result),
                    )
                    reach.void |= {i for i, b in enumerate(reached.read_bytes()) if b == 2}
                    if status != 0:
                        reach.failed.append(f"{file} (status {status}) {server.tail}")
                    for line in result.read_text().splitlines():
                        name, seconds, ids = json.loads(line)
                        _note(reach, Test("pytest", name, seconds, len(ids)), True, ids)
    return reach


def _cpu_seconds() -> float:
    """Of the programs that have ended; the same on a busy machine, where the clock runs on."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _note(reach: Reach, test: Test, passed: bool, ids: Iterable[int]) -> None:
    name = f"{Path(test.program).name} {test.name}"
    if not passed:
        reach.failed.append(name)
    elif test.seconds > _LONGEST:
        reach.slow.append(name)
    else:
        for i in ids:
            reach.tests[i].append(test)


def _of_part(programs: dict[str, Path], part: Part) -> list[Path]:
    if "" in part.native:
        return list(programs.values())
    return [programs[name] for name in part.native if name in programs]


def _run_native(
    tree: Tree, program: Path, names: list[str], seconds: float, **environment: str
) -> int | str:
    limits = f'ulimit -c 0 -v {_MEMORY_KIB} -t {int(seconds) + 2}; exec "$@"'
    process = subprocess.Popen(
        # The last case of some programs says whether those before it left something behind.
        ["/bin/sh", "-c", limits, "sh", str(program), *([*names, _LAST] if names[0] else [])],
        cwd=tree.folder,
        env=tree.environment(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=3 * seconds)
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it, or what it left behind
        process.wait()


class Server:
    """A process that runs pytest again and again; started by its first request."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._process: subprocess.Popen[str] | None = None
        self.tail = ""

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._process.stdout.close()

    def run(self, tests: list[str], seconds: float, **environment: str) -> int | str:
        """The exit status of pytest, or "time"."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mutation.server"],
                cwd=self._tree.folder,
                env=self._tree.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin
        assert self._process.stdout
        request = {
            "environment": environment,
            "tests": tests,
            "cpu": int(seconds) + 1,
            "seconds": 3 * seconds,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that runs Python tests has ended")
        answer = json.loads(line)
        self.tail = answer["tail"]
        status: int | str = answer["status"]
        return status


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    part: str
    state: str  # killed, survived, never reached
    by: str = ""

    def row(self) -> dict[str, object]:
        return {
            "part": self.part,
            "state": self.state,
            "by": self.by,
            "line": self.mutant.line,
            "key": self.mutant.key,
        }


def judge(tree: Tree, part: Part, mutant: Mutant, tests: list[Test], server: Server) -> Verdict:
    """Runs the tests that reach the mutant, quick ones first, until one of them fails."""
    for batch in _batches(tests):
        seconds = _SECONDS + _SLOWER * sum(test.seconds for test in batch)
        names = [test.name for test in batch]
        chosen = {"QNNRT_MUTANT": str(mutant.id)}
        if batch[0].program == "pytest":
            status = server.run(names, seconds, **chosen)
        else:
            status = _run_native(tree, Path(batch[0].program), names, seconds, **chosen)
        if status != 0:
            name = Path(batch[0].program).name
            return Verdict(mutant, part.name, "killed", f"{name} ({status}): {' '.join(names)}")
    return Verdict(mutant, part.name, "survived" if tests else "never reached")


def _batches(tests: list[Test]) -> list[list[Test]]:
    """Quick cases of a C++ program together, the others one by one; then Python's."""
    together: dict[tuple[str, float], list[Test]] = defaultdict(list)
    for test in sorted(tests, key=lambda t: t.seconds):
        if test.program != "pytest":
            together[test.program, 0.0 if test.seconds < _QUICK else test.seconds].append(test)
    cost = {key: sum(test.seconds for test in batch) for key, batch in together.items()}
    batches = [together[key] for key in sorted(together, key=lambda key: cost[key])]
    return [*batches, *_of_pytest([test for test in tests if test.program == "pytest"])]


def _of_pytest(tests: list[Test]) -> list[list[Test]]:
    """Those that reach least, which are about the mutant's line, for some seconds: what a module
    does when it is imported is reached by every test. First a few, since most mutants do not last.
    """
    chosen: list[Test] = []
    seconds = 0.0
    for test in sorted(tests, key=lambda t: (t.reaches, t.seconds)):
        seconds += test.seconds + _AROUND
        if seconds < _PYTHON or not chosen:
            chosen.append(test)
    return [piece for piece in (chosen[:5], chosen[5:]) if piece]
