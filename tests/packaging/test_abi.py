"""What is made from csrc/abi is what csrc/abi says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from qnnrt import errors
from qnnrt.abi import error_codes, structs
from qnnrt.abi.layout import Layout

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


def test_the_compiler_has_the_layouts_of_structs() -> None:
    """What is packed lies where tests/native/abi_layout_test.cc makes the compiler check that it
    does."""
    source = (ROOT / "tests/native/abi_layout_test.cc").read_text()
    checked = {
        name: (int(size), dict(re.findall(r"AT\((\w+), (\d+)\)", fields)))
        for name, size, fields in re.findall(
            r"^LAYOUT\((\w+), (\d+),?((?:[^()]|\([^()]*\))*)\)", source, re.MULTILINE
        )
    }
    layouts = {name: one for name, one in vars(structs).items() if isinstance(one, Layout)}
    assert layouts
    for name, layout in layouts.items():
        offsets = {field: str(offset) for field, (offset, _) in layout.fields.items()}
        assert checked[name] == (layout.size, offsets), name


def test_a_struct_is_packed_by_the_names_of_its_fields() -> None:
    layout = Layout(16, {"option": (0, "I"), "one": (8, "Q"), "two": (8, "If")})
    assert layout.pack(option=3, one=1 << 40) == bytes([3, *[0] * 12, 1, 0, 0])
    made = layout.pack(option=7, two=(5, 0.5))
    assert layout.get(made, "two") == (5, 0.5)
    assert layout.unpack(made)["option"] == 7
