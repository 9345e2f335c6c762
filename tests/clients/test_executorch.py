"""ExecuTorch's Qualcomm backend on these libraries: what it lowers runs as it does in torch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from qnnrt.cli import sdk_root
from support.outside import run_script

pytest.importorskip("executorch", reason="the wheel is for x86_64")

pytestmark = pytest.mark.foreign

HERE = Path(__file__).parent
#: How far a run may be from the model that ExecuTorch lowers, in the largest output.
LIMITS = {"fp16": 5e-3, "8a8w": 2e-2, "16a8w": 1e-3, "16a4w": 1e-3}


@pytest.mark.parametrize(
    "precision",
    [
        "fp16",
        "8a8w",
        *(pytest.param(p, marks=pytest.mark.slow) for p in LIMITS if p.startswith("16")),
    ],
)
def test_a_network_is_lowered_whole_and_runs_as_in_torch(precision: str, tmp_path: Path) -> None:
    sdk_root.make(tmp_path)
    (libraries,) = tmp_path.glob("lib/x86_64-*")
    process = run_script(
        HERE / "executorch_client.py",
        precision,
        QNN_SDK_ROOT=str(tmp_path),
        LD_LIBRARY_PATH=str(libraries),
        QNNRT_PACKAGE_LIBS=str(Path(sys.prefix, "lib")),
        PYTHONPATH=os.pathsep.join(
            (str(HERE.with_name("models")), os.environ.get("PYTHONPATH", ""))
        ),
    )
    assert process.returncode == 0, process.stderr[-4000:]
    said = json.loads(process.stdout.splitlines()[-1])[precision]
    assert (said["delegated"], said["left"]) == (["QnnBackend"], 0)
    assert said["lowered"] < LIMITS[precision]
    assert said["eager"] < said.get("quantization", 0) + LIMITS[precision]
