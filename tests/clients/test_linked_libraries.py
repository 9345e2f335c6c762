"""Libraries that programs are linked against, used or not, load and say what they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qnnrt import errors
from qnnrt.cli.paths import LIB_DIR
from qnnrt.qnn import Backend

#: What LiteRT's compiler plugin is linked against.
NEEDED = ("libQnnHtp.so", "libQnnSystem.so", "libQnnIr.so", "libQnnSaver.so", "libQnnLpai.so")


def test_a_library_linked_against_all_of_them_loads(tmp_path: Path) -> None:
    source = tmp_path / "plugin.c"
    source.write_text("int main(void) { return 0; }\n")
    names = [f"-l:{name}" for name in NEEDED]
    program = tmp_path / "plugin"
    options = [f"-L{LIB_DIR}", "-Wl,--no-as-needed", *names, f"-Wl,-rpath,{LIB_DIR}"]
    subprocess.run(["gcc", source, "-o", program, *options], check=True)
    listed = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True)
    assert all(f"[{name}]" in listed.stdout for name in NEEDED)
    assert subprocess.run([program], check=False, timeout=300).returncode == 0


def test_the_ir_backend_says_that_it_writes_no_files() -> None:
    with pytest.raises(errors.BackendError, match="DLC files here: libQnnSaver") as raised:
        Backend.open(LIB_DIR / "libQnnIr.so")
    assert raised.value.code == 4003
