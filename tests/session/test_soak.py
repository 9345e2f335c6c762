"""tests/soak.py: seconds of it pass, and what keeps growing fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

import soak
from support.outside import MEASURED, run_code

SCRIPT = Path(soak.__file__)


@pytest.mark.foreign  # the OpenCL driver, where there is one
def test_seconds_of_it_do_everything_and_nothing_grows(tmp_path: Path) -> None:
    result = tmp_path / "soak.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--minutes", "0.03", "--seed", "1", "--json", result],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soak passed" in done.stdout
    report = json.loads(result.read_text())
    assert set(report["done"]) == set(soak.ACTIVITIES)
    assert all(count > 0 for count in report["done"].values())
    assert report["samples"] >= 2


@pytest.mark.parametrize(
    ("leak", "what"),
    [
        ("kept.append(open(os.devnull))", "fds"),
        pytest.param("kept.append(qnnrt.alloc(4096))", "live", marks=pytest.mark.slow),
        pytest.param(
            "kept.append(bytes(b'x') * (8 << 20))",
            "rss_mib",
            marks=[pytest.mark.slow, MEASURED],
        ),
    ],
)
def test_what_an_activity_keeps_fails_the_run(leak: str, what: str) -> None:
    code = f"""
        import os, sys
        import qnnrt, soak
        kept = []
        def errors(self):
            {leak}
            return 1
        soak.Soak.errors = errors
        soak._has_gpu = lambda: False
        sys.argv = ["soak.py", "--minutes", "0.01", "--seed", "1", "--only", "errors,asynchronous"]
        sys.exit(soak.main())
    """
    done = run_code(code)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = done.stdout.splitlines()[-1]
    assert "grew too much" in verdict
    assert what in verdict


@pytest.mark.slow
def test_a_wrong_result_ends_the_run() -> None:
    code = """
        import sys
        import soak
        soak._has_gpu = lambda: False
        soak.reference.run = lambda model, feeds: {"y": 0 * feeds["x"][..., :1]}
        sys.argv = ["soak.py", "--minutes", "0.01", "--seed", "1", "--only", "executions"]
        soak.main()
    """
    done = run_code(code)
    assert done.returncode == 1
    assert "WrongResult" in done.stderr


def test_growth_is_from_the_first_samples_to_the_last() -> None:
    steady = [dict.fromkeys(soak.LIMITS, float(i % 3)) for i in range(40)]
    assert set(soak.growth(steady).values()) == {0.0}
    rising = [dict.fromkeys(soak.LIMITS, float(i)) for i in range(40)]
    assert all(grown > 25 for grown in soak.growth(rising).values())
