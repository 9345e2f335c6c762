"""The cache of built programs: what it is good for, and everything that may be wrong with it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import programs
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.outside import PATHS
from support.toy import relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are

X = np.arange(-8, 8, dtype=np.float32).reshape(1, 16) / 8  # in 16 bits as well


def use(folder: Path | str, **options: Any) -> str:
    """Run a graph; where its programs came from."""
    given = {"gpu": {"kernel_repo_dir": folder, **options}}
    with qnnrt.Session(relu_model(), "gpu", options=given) as s:
        np.testing.assert_array_equal(s.run({"x": X})["y"], np.maximum(X, 0))
        text = s.graph.describe()
        s.backend.close()
    assert text is not None
    return " and ".join(k for k, n in json.loads(text)["programs"].items() if n)


def test_a_program_is_built_once(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for it"
    assert use(folder) == "built"
    (file,) = folder.iterdir()
    written = file.read_bytes()
    assert use(folder) == "disk"
    assert use(folder, invalidate_kernel_repo=True) == "built"
    assert [f.name for f in folder.iterdir()] == [file.name]
    assert file.read_bytes()[:15] == written[:15] == b"qnnrt opencl 1\n"
    assert use(folder, precision="fp16") == "built"  # other programs
    assert use(folder) == "disk"


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "foreign"])
def test_a_damaged_program_is_built_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert use(tmp_path) == "built"
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "cut": data[:middle],
            "changed": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "empty": b"",
            "foreign": b"\x7fELF of somebody else's",
        }[damage]
    )
    with caplog.at_level(logging.WARNING, "qnnrt"):
        assert use(tmp_path) == "built"
    assert "is damaged, so its kernel is built anew" in caplog.text
    assert file.read_bytes()[:15] == data[:15]
    assert use(tmp_path) == "disk"


def test_a_program_that_the_driver_refuses_is_built_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cl = programs.pyopencl()
    assert use(tmp_path) == "built"
    original = cl.Program

    def refuse(*args: Any) -> Any:
        if len(args) == 3:  # of a binary
            raise cl.LogicError("CL_INVALID_BINARY")
        return original(*args)

    monkeypatch.setattr(cl, "Program", refuse)
    with caplog.at_level(logging.WARNING, "qnnrt"):
        assert use(tmp_path) == "built"
    assert "is of no use, so its kernel is built anew" in caplog.text


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    assert use(file / "below") == "built"
    assert use("/proc/no such folder") == "built"
    if os.getuid() != 0:  # who may write everywhere
        tmp_path.chmod(0o500)
        assert use(tmp_path) == "built"
        tmp_path.chmod(0o700)


def test_another_driver_another_program(tmp_path: Path) -> None:
    device = gpu.devices()[0]

    class Other:
        """The device with another driver."""

        driver_version = "another"
        platform = device.raw.platform
        single_fp_config = device.raw.single_fp_config

    keys = {
        programs._key(device, "text"),
        programs._key(device, "another text"),
        programs._key(type(device)(**{**vars(device), "raw": Other}), "text"),
        programs._key(type(device)(**{**vars(device), "name": "another"}), "text"),
    }
    assert len(keys) == 4


def test_two_processes_build_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gpu.test_gpu_cache import use\n"
        "print(use(Path(sys.argv[1])))\n"
    )
    args = [sys.executable, "-c", code, str(tmp_path)]
    env = os.environ | {"PYTHONPATH": PATHS}
    both = [subprocess.Popen(args, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [p.communicate(timeout=1800)[0].strip() for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert set(said) <= {"disk", "built"}
    assert len(list(tmp_path.iterdir())) == 1
    assert use(tmp_path) == "disk"


def test_graphs_of_a_backend_share_programs(tmp_path: Path) -> None:
    with qnnrt.qnn.Backend.open("gpu", gpu={"cache_dir": tmp_path}) as backend:
        said = []
        for _ in range(2):
            with qnnrt.Session(relu_model(), backend) as s:
                text = s.graph.describe()
                assert text is not None
                said.append(json.loads(text)["programs"])
    assert said == [{"built": 1, "disk": 0, "memory": 0}, {"built": 0, "disk": 0, "memory": 1}]
