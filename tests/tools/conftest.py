"""Fixtures of the tests of net-run and context-binary-generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.net_run import A, B
from support.tool_cases import X, here, listed, onnx_model


@pytest.fixture
def inputs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of the test's own, with a.raw and b.raw in it."""
    here(tmp_path, monkeypatch, a=A, b=B)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return onnx_model(tmp_path)


@pytest.fixture
def listed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of the test's own, with x.raw and an input list that names it."""
    here(tmp_path, monkeypatch, x=X)
    listed(tmp_path / "l", "x.raw")
