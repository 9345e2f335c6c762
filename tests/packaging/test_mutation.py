"""tools/mutate.py: its mutants are what they say, and its tables name what is there."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import mutate
from mutation import python
from mutation.cpp import Source
from mutation.mutant import Numbering
from mutation.parts import PARTS

ROOT = Path(mutate.__file__).resolve().parents[1]
PROGRAM = """\
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

enum { kBits = 8 * sizeof(int) };
constexpr int kThree = 1 + 2;
template <int n = 4>
int Sum(const std::vector<int>& values, bool skip) {
  int table[2] = {kThree, n}, sum = 0;
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    if (skip && values[i] == 2) continue;
    if (!skip || i > 0)
      sum += values[i];
    else
      sum -= 1;
  }
  switch (sum) {
    case 1 + 1:
      break;
  }
  return std::min(sum, 100) + table[0] - table[1];
}

int main() {
  std::string text = std::string("a < b") + ": " + std::to_string(Sum({1, 2, 5, 7}, true));
  text.push_back(';');
  std::printf("%s %d %d\\n", text.c_str(), Sum({4, 9}, false), static_cast<int>(kBits));
}
"""


def test_every_mutant_of_a_cpp_source_is_in_one_program(tmp_path: Path) -> None:
    numbering = Numbering()
    source = Source("p.cc", PROGRAM, numbering)
    mutants = source.mutants()
    what = [f"{m.line}: {m.what}" for m in mutants]
    for expected in (
        "12: < -> <=",
        "12: < -> >=",
        "13: && -> ||",
        "13: == -> !=",
        "13: 2 + 1",
        "13: never",
        "14: ! removed",
        "14: || -> &&",
        "15: += -> -=",
        "15: statement deleted",
        "23: std::min -> std::max",
        "23: 100 + 1",
        "23: - -> +",
        "28: statement deleted",
    ):
        assert expected in what
    # Nothing among constants, in strings, or in directives.
    assert not {m.line for m in mutants} & {1, 7, 8, 9, 20}
    (tmp_path / "p.cc").write_text(source.rewritten(set()))
    command = ["g++", "-std=c++17", "-w", f"-I{ROOT / 'tools/mutation'}", "p.cc", "-o", "p"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)

    def output(**environment: str) -> str:
        done = subprocess.run(
            ["./p"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.stdout if done.returncode == 0 else f"status {done.returncode}"

    reached = tmp_path / "reached"
    reached.write_bytes(bytes(numbering.count + 1))
    plain = output(QNNRT_MUTANTS_REACHED=str(reached))
    assert plain == "a < b: 3; 3 32\n"
    seen = reached.read_bytes()
    alive = [
        f"{mutant.line}: {mutant.what}"
        for mutant in mutants
        if seen[mutant.id] == 1 and output(QNNRT_MUTANT=str(mutant.id)) == plain
    ]
    # `-` of strings is no mutant; of the others these change nothing that is printed.
    assert [m.what for m in mutants if seen[m.id] == 2] == ["+ -> -", "+ -> - #2"]
    assert alive == ["14: 0 + 1", "23: 100 + 1", "27: 7 + 1", "29: 9 + 1"]


CODE = '''\
"""A module."""
LIMIT = 3


def clipped(value: int | None, low: int = 0) -> int:
    if value is None or not low <= value:
        raise ValueError("low")
    found = [min(value, LIMIT) + 1]
    found.append(True)
    while len(found) > 2:
        found.pop()
    return found[0] if found else -1
'''


def test_every_mutant_of_a_python_source_is_another_program() -> None:
    first = 41
    mutants = python.mutants("m.py", CODE, Numbering(first - 1))
    assert [m.id for m in mutants] == list(range(first, first + len(mutants)))
    what = {f"{m.line}: {m.what}" for m in mutants}
    for expected in (
        "2: 3 + 1",
        "6: Or -> And",
        "6: not removed",
        "6: LtE -> Gt",
        "6: never",
        "7: statement deleted",
        "8: min -> max",
        "8: Add -> Sub",
        "9: statement deleted",
        "9: True negated",
        "10: never",
    ):
        assert expected in what
    assert not any(line.startswith("5: BitOr") for line in what)  # a type
    plain = ast.unparse(ast.parse(CODE))
    texts = [ast.unparse(python.mutated("m.py", CODE, first, m.id)) for m in mutants]
    assert plain not in texts
    assert len(set(texts)) == len(texts)


def test_statements_say_which_mutants_they_reach() -> None:
    seen: list[int] = []
    module = types.ModuleType("m")
    module.__dict__[python.REACHED] = seen.extend
    exec(compile(python.instrumented("m.py", CODE, 1), "m.py", "exec"), module.__dict__)
    assert module.clipped(2) == 3
    lines = {m.line for m in python.mutants("m.py", CODE, Numbering()) if m.id in seen}
    assert lines == {2, 5, 6, 8, 9, 10, 12}
    with pytest.raises(ValueError, match="low"):
        module.clipped(-1)
    assert {m.line for m in python.mutants("m.py", CODE, Numbering()) if m.id in seen} >= {7}


def test_names_of_mutants_stay_when_their_lines_move() -> None:
    keys = [m.key for m in Source("p.cc", PROGRAM, Numbering()).mutants()]
    moved = Source("p.cc", "// A line.\n\n" + PROGRAM, Numbering(7)).mutants()
    assert [m.key for m in moved] == keys
    assert min(m.id for m in moved) >= 8
    assert len({m.id for m in moved}) == len(keys)


def test_the_tables_name_what_is_there() -> None:
    for part in PARTS:
        for pattern in part.sources:
            assert list(ROOT.glob(pattern)), pattern
        for name in part.native:
            assert (ROOT / f"tests/native/{name}.cc").exists(), name
        for name in part.python:
            assert (ROOT / name).exists(), name


def test_every_reason_is_of_a_line_that_is_still_there() -> None:
    reasons = mutate.accepted()
    for key, reason in reasons.items():
        path, line, what = key.split(" :: ")
        lines = {" ".join(text.split()) for text in (ROOT / path).read_text().splitlines()}
        assert line in lines, key
        assert what
        assert len(reason) > 20, key


def test_lines_without_mutants_build_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"mutants": []}))
    done = subprocess.run(
        [sys.executable, ROOT / "tools/mutate.py", "--again", report, "--tree", tmp_path / "tree"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "no mutants on these lines\n")
    assert not (tmp_path / "tree").exists()
