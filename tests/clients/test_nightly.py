"""nightly.py runs tests of a foreign package as they are, whatever lies around that package."""

from __future__ import annotations

import os
from pathlib import Path

import nightly
import pytest

PLUGIN = """
import json, os

def pytest_runtest_logreport(report):
    if report.when == "call":
        said = {"test": report.nodeid, "outcome": report.outcome, "why": report.longreprtext}
        with open(os.environ["EXECUTORCH_SUITE_RESULTS"], "a") as file:
            file.write(json.dumps(said) + "\\n")
"""
TESTS = """
def test_right(): pass
def test_wrong(): assert not "right"
"""


def test_settings_of_a_project_around_the_environment_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, results = tmp_path / "project", tmp_path / "results"
    package = project / "environment" / "standin"
    package.mkdir(parents=True)
    results.mkdir()
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--unknown'\n")
    (package / "__init__.py").touch()
    (package / "suite.py").write_text(TESTS)
    (package.parent / "executorch_suite.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(nightly, "PACKAGE", "standin")
    monkeypatch.setattr(nightly, "SUITES", {"some": ("suite", "")})
    variables = os.environ | {"PYTHONPATH": str(package.parent)}
    said = nightly.suite("some", results, variables, "0/1", "")
    assert {s["test"].partition("::")[2]: s["outcome"] for s in said} == {
        "test_right": "passed",
        "test_wrong": "failed",
    }
