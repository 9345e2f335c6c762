"""OpenCL devices as ``qnnrt info`` and the choice of one see them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import qnnrt
from qnnrt.cli import main
from qnnrt.gpu import device as devices
from support.gpu.opencl import cl, gpu, opencl_is_up  # noqa: F401

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def info(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["info", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["backends"]["gpu"]


def raw(name: str, kind: int = 2, version: str = "OpenCL 3.0", **more: Any) -> SimpleNamespace:
    """A device as pyopencl would describe it."""
    given = {
        "name": name,
        "type": kind,
        "version": version,
        "driver_version": "1.0",
        "host_unified_memory": 1,
        "mem_base_addr_align": 1024,
        "extensions": "",
        "platform": SimpleNamespace(name="Some platform"),
    }
    return SimpleNamespace(**(given | more))


class Platform:
    """``devices``: what it lists, or what it raises instead."""

    name = "Some platform"

    def __init__(self, devices: Any) -> None:
        self.devices = devices

    def get_devices(self) -> list[Any]:
        if isinstance(self.devices, Exception):
            raise self.devices
        return list(self.devices)


class Program:
    """Builds on devices whose compiler knows the processor."""

    def __init__(self, context: list[Any], text: str) -> None:
        self.devices = context

    def build(self, **_: Any) -> None:
        if any("old" in d.driver_version for d in self.devices):
            raise cl.RuntimeError("error: unknown target CPU 'generic'")


@pytest.fixture
def platforms(monkeypatch: pytest.MonkeyPatch) -> list[Platform]:
    found: list[Platform] = []
    fake = SimpleNamespace(
        get_platforms=lambda: found, Error=cl.Error, Context=list, Program=Program
    )
    monkeypatch.setattr(devices, "pyopencl", lambda: fake)
    monkeypatch.setattr(devices, "_refusals", {})
    monkeypatch.delenv(devices.ENVIRONMENT, raising=False)
    return found


def test_the_devices_of_this_machine(capsys) -> None:
    gpu_info = info(capsys)
    assert gpu_info["available"]
    assert (gpu_info["provider"], gpu_info["backend_api"]) == ("GPU_QTI_AISW", "3.15.0")
    assert [d["name"] for d in gpu_info["devices"]] == [str(d) for d in gpu.devices()]
    (used,) = [d for d in gpu_info["devices"] if d["used"]]
    assert used["name"] == str(gpu.choose())
    assert set(used) == {
        *("name", "used", "kind", "version", "driver"),
        *("shared_memory", "half", "tensor_cores", "alignment", "imports"),
    }
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    for d in gpu_info["devices"]:
        assert f"{'*' if d['used'] else '+'} {d['kind']} {d['name']}" in text


def test_gpus_come_first_then_accelerators_then_cpus(platforms) -> None:
    platforms.append(Platform([raw("cpu", 2), raw("fpga", 8), raw("gpu", 4), raw("odd", 16)]))
    assert [d.kind for d in gpu.devices()] == ["gpu", "accelerator", "cpu", "other"]
    assert gpu.choose().name == "gpu"
    assert gpu.choose("FPGA").name == "fpga"


def test_of_several_pocl_the_newest_is_used(platforms) -> None:
    platforms.append(Platform([raw("another")]))
    for number in ("3.0-rc2", "6.0", "3.1", "10.2"):
        pocl = raw(number, version="OpenCL 3.0 PoCL HSTR: x", driver_version=number)
        platforms.append(Platform([pocl]))
    assert [d.name for d in gpu.devices()] == ["another", "10.2", "6.0", "3.1", "3.0-rc2"]


def pocl_of(driver: str) -> Any:
    return raw("cpu", version="OpenCL 3.0 PoCL x", driver_version=driver)


def test_a_pocl_that_knows_no_code_for_the_processor_is_not_used(platforms, capsys) -> None:
    """As the one of pyopencl's wheel, LLVM 14, on processors of 2024."""
    platforms += [Platform([pocl_of("9.0 old")]), Platform([pocl_of("3.1")])]
    assert [d.driver for d in gpu.devices()] == ["3.1"]
    del platforms[1]
    reason = info(capsys)["reason"]
    assert "PoCL 9.0 old compiles nothing for this processor" in reason
    assert "unknown target CPU 'generic'" in reason
    assert "apt-get install pocl-opencl-icd" in reason


def test_what_a_device_offers_is_listed(platforms, capsys) -> None:
    extensions = "cl_khr_fp16 cl_khr_external_memory_dma_buf cl_qcom_ion_host_ptr cl_khr_x"
    platforms.append(
        Platform(
            [raw("big", 4, extensions=extensions, host_unified_memory=0, mem_base_addr_align=4096)]
        )
    )
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "* gpu Some platform: big, OpenCL 3.0, driver 1.0" in text
    assert (
        "memory of its own, 16-bit floats, sub-buffers on 512 bytes, "
        "cl_khr_external_memory_dma_buf, cl_qcom_ion_host_ptr" in text
    )


@pytest.mark.parametrize(
    "broken",
    [
        cl.LogicError("clGetDeviceIDs", -1),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "not text"),
        OSError("no such file"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_broken_driver_hides_no_other(platforms, capsys, broken) -> None:
    platforms += [Platform(broken), Platform([raw("works")])]
    assert [d["name"] for d in info(capsys)["devices"]] == ["Some platform: works"]


def test_without_a_device_it_says_what_to_install(platforms, capsys) -> None:
    said = info(capsys)
    assert not said["available"]
    assert "there is no OpenCL device" in said["reason"]
    assert "pip install 'pyopencl[pocl]'" in said["reason"]
    assert main(["info"]) == 0
    assert "- gpu: there is no OpenCL device" in capsys.readouterr().out


def test_drivers_without_a_device_are_named(platforms, capsys) -> None:
    """As PoCL's where it cannot write its cache."""
    platforms.append(Platform([]))
    assert "of the OpenCL platforms 'Some platform' none has a device" in info(capsys)["reason"]


def test_without_a_driver_its_file_is_named(platforms, capsys, tmp_path, monkeypatch) -> None:
    def reason(vendors: Path) -> str:
        monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors))
        return str(info(capsys)["reason"])

    gone = tmp_path / "gone"
    assert f"OCL_ICD_VENDORS names {gone}, which does not exist" in reason(gone)
    assert f"OCL_ICD_VENDORS names {tmp_path}, which has no .icd file" in reason(tmp_path)
    (tmp_path / "a.icd").write_text("libgone.so.1\n")
    (tmp_path / "b.icd").write_text("\n")
    (tmp_path / "c.icd").write_text("libc.so.6\n")
    said = reason(tmp_path)
    assert "a.icd names 'libgone.so.1', which does not load (libgone.so.1: cannot open" in said
    assert "b.icd is empty" in said
    assert "c.icd names 'libc.so.6', which loads but has no device" in said
    assert reason(tmp_path / "b.icd").startswith(
        f"there is no OpenCL device: OCL_ICD_VENDORS names "
        f"{tmp_path / 'b.icd'}: b.icd is empty; pip"
    )
    monkeypatch.delenv("OCL_ICD_VENDORS")
    assert "the loader reads /etc/OpenCL/vendors" in str(info(capsys)["reason"])


def test_a_name_that_no_device_has_lists_those_that_there_are(
    platforms, capsys, monkeypatch
) -> None:
    platforms.append(Platform([raw("works")]))
    monkeypatch.setenv(devices.ENVIRONMENT, "nothing like it")
    said = info(capsys)
    assert not said["available"]
    assert said["reason"].endswith("there are Some platform: works")
    assert [(d["name"], d["used"]) for d in said["devices"]] == [("Some platform: works", False)]


@pytest.mark.parametrize(
    "error", [ImportError("no module"), OSError("libOpenCL.so.1"), SystemError]
)
def test_pyopencl_that_is_missing_or_does_not_load_is_no_failure(
    monkeypatch, capsys, error
) -> None:
    import builtins

    real = builtins.__import__

    def refuse(name: str, *args: Any, **given: Any) -> Any:
        if name == "pyopencl":
            raise error
        return real(name, *args, **given)

    monkeypatch.setattr(builtins, "__import__", refuse)
    said = info(capsys)
    assert (said["available"], said["devices"]) == (False, [])
    assert "pip install 'qnnrt[gpu]'" in said["reason"]
    with pytest.raises(qnnrt.BackendNotFoundError, match="needs pyopencl"):
        gpu.devices()
