"""What is made from csrc/abi is what csrc/abi says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_made_from_the_headers_are_fresh() -> None:
    command = [sys.executable, ROOT / "tools/abi.py", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
