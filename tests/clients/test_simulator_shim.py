"""What nightly.py puts before the vendor's simulator, so that ExecuTorch's tests run on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly import simulator

from support.outside import run_script

pytestmark = pytest.mark.foreign

OPEN = """
import sys
from qnnrt import QnnError, qnn
try:
    with qnn.Backend.open(sys.argv[1], log_level="error", soc_model=int(sys.argv[2])) as backend:
        print("device", backend.has_device)
except QnnError as error:
    print("error", error.code)
"""


def test_a_device_that_the_simulator_does_not_have_is_its_own(tmp_path: Path) -> None:
    theirs = simulator(tmp_path / "sdk")["SIMULATOR_LIBRARY"]
    shim = tmp_path / "sdk/lib/x86_64-linux-clang/libQnnHtp.so"
    script = tmp_path / "open.py"
    script.write_text(OPEN)
    said = {}
    for path in (Path(theirs), shim):
        for soc in (0, 30):
            done = run_script(script, path, soc, SIMULATOR_LIBRARY=theirs)
            assert done.returncode == 0, done.stderr
            said[path, soc] = done.stdout.splitlines()[-1]
    assert said[Path(theirs), 0] == "error 14001"
    assert {said[Path(theirs), 30], said[shim, 0], said[shim, 30]} == {"device True"}
