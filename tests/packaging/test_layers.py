"""One way down: what docs/decisions/0001-layout.md says a part knows of is all that it includes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Folder of csrc -> the folders, or single headers, below it.
BELOW = {
    "abi": set(),
    "support": {"abi"},
    "memory": {"abi", "support"},
    "ipc": {"abi", "support", "memory"},
    "ir": {"abi", "support"},
    "opencl": {"abi", "support", "ir"},
    "ops": {"abi", "support", "ir"},
    "graph": {"abi", "support", "memory", "ir", "ops"},
    "backends": {
        "abi",
        "ir",
        "memory/descriptor.h",
        "memory/process_domain.h",
        "ops/op.h",
        "support/status.h",
    },
    "api": {"abi", "support", "memory", "ir", "ops", "graph", "backends"},
    "gpu": {"abi", "support", "ipc/socket.h", "ir", "opencl", "graph", "api"},
    "saver": {"abi", "support", "api/functions.h"},
    "shims": {"abi", "memory/rpcmem.h"},
    "client": {"abi", "support/clock.h", "support/fair_mutex.h"},
    "tflite/lowering": {"abi", "support/guard.h", "support/json.h", "support/per_thread.h"},
    "tflite/delegate": {
        "abi",
        "memory/memory_api.h",
        "support/guard.h",
        "support/json.h",
        "support/per_thread.h",
        "support/status.h",
        "tflite/lowering",
    },
}


def test_every_folder_has_its_place() -> None:
    rooms = {p.name for p in (ROOT / "csrc").iterdir() if p.is_dir()}
    assert rooms == {folder.partition("/")[0] for folder in BELOW}


@pytest.mark.parametrize("folder", BELOW)
def test_nothing_includes_what_stands_above_it(folder: str) -> None:
    files = [p for p in (ROOT / "csrc" / folder).rglob("*") if p.suffix in (".h", ".cc", ".inc")]
    assert files
    upward = []
    for path in files:
        for header in re.findall(r'^ *# *include "([^"]+)"', path.read_text(), re.MULTILINE):
            if header.startswith("../"):
                header = str((path.parent / header).resolve().relative_to(ROOT / "csrc"))
            depth = folder.count("/") + 1 if header.startswith("tflite/") else 1
            parent = "/".join(header.split("/")[:depth]) if "/" in header else folder
            if parent != folder and not {parent, header} & BELOW[folder]:
                upward.append(f"{path.relative_to(ROOT)} includes {header}")
    assert upward == []


def test_the_extension_declares_c_in_one_place() -> None:
    """qnn.pxd is made from csrc/abi; client.pxd is written by hand: what is no C interface."""
    sources = [p for p in (ROOT / "qnnrt").rglob("*") if p.suffix in (".pyx", ".pxi", ".pxd")]
    declaring = {p.name for p in sources if "cdef extern" in p.read_text()}
    assert declaring == {"qnn.pxd", "client.pxd"}
    assert "abi/" not in (ROOT / "qnnrt/_native/client.pxd").read_text()
