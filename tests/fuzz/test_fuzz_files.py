"""Mutated inputs: each ends in an answer, in bounded time and memory; and the runner sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.outside import SANITIZED

SCRIPT = Path(__file__).with_name("fuzz_files.py")
SEED = 20261122
#: The sanitizers' shadow is address space, too.
LIMITS = ["--memory", "0"] if SANITIZED else []


def mutate(target: str, *arguments: object, folder: Path) -> tuple[int, str]:
    """Exit status and output of a round in a process of its own."""
    command = [sys.executable, SCRIPT, target, *arguments, *LIMITS, "--findings", folder]
    done = subprocess.run(
        [str(a) for a in command], capture_output=True, text=True, timeout=3600, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("config", 150),
        ("inputs", 150),
        pytest.param("onnx", 400, marks=pytest.mark.slow),
        pytest.param("tflite", 400, marks=pytest.mark.slow),
        pytest.param("binary", 400, marks=pytest.mark.slow),
    ],
)
def test_a_short_round_finds_nothing(target: str, count: int, tmp_path: Path) -> None:
    status, output = mutate(target, "--count", count, "--seed", SEED, "--strict", folder=tmp_path)
    assert status == 0, output
    assert f"\n{count} cases of {target}, seed {SEED}" in output


@pytest.mark.parametrize("target", ["config", "inputs", "onnx"])
def test_what_was_found_once_is_answered(target: str, tmp_path: Path) -> None:
    """mutants.tar.xz has a case of every finding, as small as the runner could make it."""
    status, output = mutate(target, "--replay", "--strict", folder=tmp_path)
    assert status == 0, output


@pytest.mark.skipif(SANITIZED, reason="there is no limit of memory, and abort() says more")
def test_the_runner_sees_every_way_to_end_badly(tmp_path: Path) -> None:
    cases = {}
    for word in ("abort", "exit", "hang", "key", "leak", "long", "memory", "fine", "wait"):
        cases[word] = tmp_path / word
        cases[word].write_text(f"123{word}456")
    waits = cases.pop("wait")
    found_in = tmp_path / "f"
    status, output = mutate(
        "traps", "--replay", *cases.values(), "--cpu", 0.5, "--wall", 300, folder=found_in
    )
    assert status == 1
    found = dict(re.findall(r"^ +\d+ FOUND (.*?) (in|of|after) ", output, re.M))
    assert set(found) == {
        "SIGABRT", "exit with status 3", "hang", "KeyError", "leak", "MemoryError",
        "message",
    }, output  # fmt: skip
    assert "ModelError: as it should be" in output
    assert "8 cases of traps" in output
    status, output = mutate("traps", "--replay", waits, "--wall", 1, folder=found_in)
    assert status == 1
    assert re.search(r"^ +1 FOUND hang in ", output, re.M), output


def test_a_finding_is_minimised_and_kept_as_a_file_that_shows_it(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_text("0123456789key9876543210")
    status, output = mutate("traps", "--replay", noise, "--minimise", 400, folder=tmp_path / "f")
    assert status == 1, output
    (kept,) = (p for p in (tmp_path / "f").iterdir() if ".txt.txt" not in p.name)
    assert kept.read_text() == "key"
    said = kept.with_name(f"{kept.name}.txt").read_text()
    assert "KeyError: 'missing'" in said


def test_a_case_has_the_same_bytes_whenever_it_is_made(tmp_path: Path) -> None:
    for name in "ab":
        mutate("config", "--case", f"{SEED}:7", tmp_path / name, folder=tmp_path)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").stat().st_size > 100
