"""What is made from csrc/abi is what csrc/abi says."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from qnnrt import errors
from qnnrt.abi import error_codes, structs
from qnnrt.abi.layout import Layout

ROOT = Path(__file__).resolve().parents[2]


def _check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / "tools/abi.py", "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_files_made_from_the_headers_are_fresh() -> None:
    found = _check(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What tools/abi.py reads and writes, to be changed."""
    for folder in ("csrc", "qnnrt", "tools"):
        ignored = shutil.ignore_patterns("*.so", "*.cc", "*.cl", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    assert _check(tmp_path).returncode == 0
    return tmp_path


def test_a_changed_header_makes_them_stale(copy: Path) -> None:
    header = copy / "csrc/abi/qnn_errors.h"
    header.write_text(header.read_text().replace("out of memory", "there is no memory", 1))
    found = _check(copy)
    assert found.returncode == 1
    assert "csrc/api/error_codes.inc is not what csrc/abi says" in found.stdout


def test_a_new_use_of_a_constant_makes_them_stale(copy: Path) -> None:
    assert "QNN_TENSOR_VERSION_2" not in (copy / "qnnrt/abi/constants.py").read_text()
    with (copy / "qnnrt/dtypes.py").open("a") as module:
        module.write("VERSION = abi.QNN_TENSOR_VERSION_2  # and not QNN_TENSOR_SET_VERSION_1\n")
    assert "qnnrt/abi/constants.py is not what csrc/abi says" in _check(copy).stdout
    subprocess.run([sys.executable, copy / "tools/abi.py"], check=True)
    constants = (copy / "qnnrt/abi/constants.py").read_text()
    assert "QNN_TENSOR_VERSION_2 = 2" in constants
    assert "QNN_TENSOR_SET_VERSION_1" not in constants


@pytest.fixture(scope="module")
def c_headers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("c_headers", ROOT / "tools/c_headers.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["c_headers"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_struct_lies_as_the_compiler_places_it(c_headers: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("""
#define COUNT 3u  // and a comment
typedef enum Kind_t {
  KIND_ONE = 1,
} Kind_t;
typedef struct Inner_t {
  uint64_t wide;
  uint8_t narrow;
} Inner_t;
typedef struct Outer_t {
  Kind_t kind;
  union {
    Inner_t inner;
    const char* const* names;
    uint16_t words[COUNT];
  };
  void (*call)(void* self, Kind_t kind);
  bool flag;
} Outer_t;
""")
    reader = c_headers.Reader(tmp_path)
    reader.read("a.h")
    layout = reader.layout("Outer_t")
    assert {name: (at, one.text()) for name, at, one in layout.fields} == {
        "kind": (0, "I"),
        "inner": (8, "QB7x"),
        "names": (8, "Q"),
        "words": (8, "HHH"),
        "call": (24, "Q"),
        "flag": (32, "?"),
    }
    assert (layout.size, layout.text()) == (40, "40s")


def test_what_the_reader_does_not_know_it_refuses(c_headers: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("typedef struct A_t {\n  int bits : 3;\n} A_t;\n")
    with pytest.raises(SyntaxError, match=r"a\.h:2: ': 3;"):
        c_headers.Reader(tmp_path).read("a.h")


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
