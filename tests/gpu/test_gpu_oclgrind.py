"""Kernels on oclgrind, an OpenCL device that checks each access to memory: it has nothing to say.

It writes a report of accesses outside of buffers and of work items that race for an element; its
exit status says nothing. It also is a device with memory of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from oclgrind_families import FAMILIES

from support.gpu.driver import oclgrind_environment
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401

pytestmark = [
    pytest.mark.foreign,  # OpenCL drivers are
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind is not installed"),
]

#: What its check for uninitialized values can follow: not what was stored as vectors or halves.
PLAIN = ("pads", "scans", "softmaxes")


def reports(
    folder: Path,
    families: list[str],
    changes: dict[str, str] | None = None,
    uninitialized: bool = False,
) -> dict[str, dict[str, str]]:
    """What is written about families of kernels, some of whose source may be changed."""
    environment = oclgrind_environment(folder, folder / "report") | {
        "XDG_CACHE_HOME": str(folder),  # a cache knows nothing of changes
        "OCLGRIND_MAX_ERRORS": "1000000",  # behind it, it is silent
    }
    if uninitialized:
        environment["OCLGRIND_UNINITIALIZED"] = "1"
        # It does not know all that the optimizer makes.
        environment["PYOPENCL_BUILD_OPTIONS"] = "-cl-opt-disable"
    given = {"families": families, "changes": changes or {}}
    program = Path(__file__).with_name("oclgrind_families.py")
    ran = subprocess.run(
        [sys.executable, str(program), json.dumps(given)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [f["family"] for f in found] == families, (ran.returncode, ran.stderr[-4000:])
    return {f["family"]: f for f in found}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return reports(tmp_path_factory.mktemp("oclgrind"), list(FAMILIES))


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_stay_inside_and_do_not_race(
    family: str, checked: dict[str, dict[str, str]]
) -> None:
    assert checked[family]["error"] == ""
    assert checked[family]["log"] == ""


def test_no_value_is_used_that_nothing_was_written_to(tmp_path: Path) -> None:
    for found in reports(tmp_path, list(PLAIN), uninitialized=True).values():
        assert (found["error"], found["log"]) == ("", ""), found["family"]


def test_what_is_wrong_is_reported(tmp_path: Path) -> None:
    """The same programs after a change for the worse."""
    changes = {
        "from_start >= 0 && from_start < size ? from_start : -1": "from_start",
        "barrier(CLK_LOCAL_MEM_FENCE);": "",
        "if (at >= total) return;\n  int rest = at, from = 0;\n  int inside": "\n"
        "  int rest = at, from = 0;\n  int inside",
    }
    found = reports(tmp_path, ["gathers", "pads", "softmaxes"], changes)
    assert "Invalid read" in found["gathers"]["log"]
    assert "Invalid write" in found["pads"]["log"]
    assert "data race at local memory" in found["softmaxes"]["log"]


def test_values_that_nothing_was_written_to_are_reported(tmp_path: Path) -> None:
    changes = {"SUM sum = 0;": "SUM sum;", "SUM before = 0;": "SUM before;"}
    found = reports(tmp_path, ["scans"], changes, uninitialized=True)
    assert "ninitialized value" in found["scans"]["log"]
