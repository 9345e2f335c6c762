"""What is made from csrc/abi is what csrc/abi says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from qnnrt import errors
from qnnrt.abi import error_codes

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_made_from_the_headers_are_fresh() -> None:
    command = [sys.executable, ROOT / "tools/abi.py", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_page_on_errors_lists_codes_of_the_header() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    said = " ".join(page[page.index("has a range:") : page.index("`errorGetMessage`")].split())
    found = re.findall(r"([a-z ]+) (\d+)", said)
    ranges = {name.strip().replace(" ", "_"): int(first) for name, first in found}
    own = {one: first for one, (first, _, _) in error_codes.COMPONENTS.items() if one != "saver"}
    assert ranges == {"common": 1000} | own
    rows = re.findall(r"^\| ([\d, ]+) \| (?:([a-z ]+): )?", page, re.MULTILINE)
    assert len(rows) > 20
    for codes, component in rows:
        for code in map(int, codes.split(",")):
            assert errors.CODES[code][0] == (component.replace(" ", "_") or "common"), code
