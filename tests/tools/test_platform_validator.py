"""``qnnrt platform-validator``: a backend is said to work because it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import qnnrt
from qnnrt import gpu
from qnnrt.cli import main
from support.building import Builder
from support.gpu import client as gpu_client
from support.recording import Fake
from support.vendor import vendor_library

pytestmark = pytest.mark.other_fds

Capture = pytest.CaptureFixture[str]
ALL = ("--coreVersion", "--libVersion", "--testBackend")
LIB = Path(qnnrt.__file__).parent / "lib"


def validate(capsys: Capture, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    status = main(["platform-validator", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)["backends"]


def compiled(folder: Path, text: str, name: str) -> Path:
    (folder / "source.cc").write_text(text)
    return Builder(folder).library(folder / "source.cc", name=name)


@pytest.mark.parametrize(
    ("name", "core"), [("cpu", ""), ("htp", "Hexagon Architecture V68"), ("dsp", "Hexagon")]
)
def test_our_backends_pass_on_ordinary_and_on_shared_memory(capsys, name: str, core: str) -> None:
    status, found = validate(capsys, "--backend", name, *ALL)
    assert status == 0
    assert list(found) == [name]
    report = found[name]
    assert report["hardware"] == "Supported" + ("" if name == "cpu" else " (emulated on the CPU)")
    assert report["libraries"] == "Found"
    assert report["unit_test"] == report["shared_memory"] == "Passed"
    assert report["core_version"].startswith(core)
    assert report["library_version"].startswith("v2.40.0.0-qnnrt-")
    assert report["reason"] == ""
    assert Path(report["library"]) == LIB / ("libQnnCpu.so" if name == "cpu" else "libQnnHtp.so")


def test_the_summary_has_the_lines_of_the_sdks_tool(capsys: Capture) -> None:
    assert main(["platform-validator", "--backend", "dsp", "--coreVersion", "--testBackend"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "Backend = DSP",
        "{",
        "  Backend Hardware  : Supported (emulated on the CPU)",
        "  Backend Libraries : Found",
        "  Library Version   : Not Queried",
        "  Core Version      : Hexagon Architecture V68",
        "  Unit Test         : Passed",
        "  Shared Memory     : Passed",
        f"  Library           : {LIB / 'libQnnHtp.so'}",
        "}",
    ]


def test_what_was_not_asked_for_is_not_queried(capsys: Capture) -> None:
    status, found = validate(capsys, "--backend", "cpu")
    assert status == 0
    for key in ("library_version", "core_version", "unit_test", "shared_memory"):
        assert found["cpu"][key] == "Not Queried"


def test_all_says_what_is_not_there_and_passes_with_what_is(capsys: Capture) -> None:
    status, found = validate(capsys, "--backend", "all", *ALL)
    assert list(found) == ["cpu", "gpu", "htp"]
    assert status == 0
    assert found["cpu"]["unit_test"] == found["htp"]["unit_test"] == "Passed"
    if (reason := gpu.why_not()) is not None:
        assert found["gpu"]["libraries"] == "Not Found"
        assert found["gpu"]["reason"] == reason
        assert validate(capsys, "--backend", "gpu", *ALL)[0] == 1


@pytest.mark.foreign  # OpenCL drivers are
def test_the_gpu_backend_is_looked_at_through_opencl(capsys: Capture) -> None:
    if (reason := gpu.why_not()) is not None:
        pytest.skip(reason)
    device = gpu.choose()
    status, found = validate(capsys, "--backend", "gpu", *ALL)
    report = found["gpu"]
    assert status == 0
    instead = " (emulated on the CPU)" if device.kind == "cpu" else ""
    assert report["hardware"] == "Supported" + instead
    assert (report["libraries"], report["library"]) == ("Found", "pyopencl")
    assert report["core_version"] == str(device)
    assert report["unit_test"] == "Passed"
    assert report["shared_memory"] == ("Passed" if device.shared else "Not Supported")


@pytest.mark.foreign
def test_the_gpu_library_runs_on_opencl_buffers(capsys: Capture, tmp_path, monkeypatch) -> None:
    for name, value in gpu_client.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    arguments = ("--backend", "gpu", "--targetPath", LIB, *ALL)
    status, found = validate(capsys, *arguments)
    report = found["gpu"]
    assert status == 0, report["reason"]
    assert report["core_version"] == str(gpu_client.device())
    assert (report["unit_test"], report["shared_memory"]) == ("Passed", "Passed")
    assert report["library"].endswith("libQnnGpu.so")


def test_a_machine_without_the_opencl_device_says_so(capsys: Capture, monkeypatch) -> None:
    monkeypatch.setenv("QNNRT_GPU_DEVICE", "no such device")
    status, found = validate(capsys, "--backend", "gpu", *ALL)
    assert status == 1
    assert (found["gpu"]["hardware"], found["gpu"]["libraries"]) == ("Not Supported", "Not Found")
    assert found["gpu"]["library"] is None
    assert found["gpu"]["reason"]


def test_a_backend_that_computes_nothing_fails_the_unit_test(capsys, fake: Fake) -> None:
    """It takes every call and leaves the outputs as they are."""
    path = fake.path
    status, found = validate(capsys, "--backend", path, *ALL)
    report = found[str(path)]
    assert status == 1
    assert report["hardware"].startswith("Supported")
    assert report["unit_test"] == "Failed"
    assert "off by up to" in report["reason"]


def test_a_library_that_crashes_is_a_line_in_the_report(capsys, tmp_path: Path) -> None:
    path = compiled(
        tmp_path,
        '#include <cstdlib>\nextern "C" unsigned long QnnInterface_getProviders(void*, void*) '
        "{ std::abort(); }\n",
        "libQnnHtp.so",
    )
    status, found = validate(capsys, "--backend", "htp", "--targetPath", tmp_path, *ALL)
    assert status == 1
    report = found["htp"]
    assert (report["hardware"], report["unit_test"]) == ("Not Supported", "Failed")
    assert "SIGABRT" in report["reason"]
    assert report["library"] == str(path)


def test_a_library_that_is_no_backend_is_not_found(capsys: Capture, tmp_path: Path) -> None:
    path = compiled(tmp_path, "int nothing;\n", "libnothing.so")
    status, found = validate(capsys, "--backend", path, *ALL)
    (report,) = found.values()
    assert status == 1
    assert report["libraries"] == "Not Found"
    assert "QnnInterface_getProviders" in report["reason"]


@pytest.mark.foreign
def test_the_vendors_simulator_passes(capsys: Capture) -> None:
    folder = Path(vendor_library("libQnnHtp.so")).parent
    status, found = validate(capsys, "--backend", "dsp", "--targetPath", folder, *ALL)
    report = found["dsp"]
    assert status == 0
    assert report["hardware"] == "Supported (simulated)"
    assert report["unit_test"] == "Passed"
    assert report["shared_memory"] == "Not Supported"  # memRegister answers 1000
    assert report["core_version"] == "Hexagon Architecture V68"
    assert not report["library_version"].startswith("qnnrt")


@pytest.mark.foreign
def test_a_vendor_library_without_its_hardware_is_not_supported(capsys: Capture) -> None:
    folder = Path(vendor_library("libQnnGpu.so")).parent
    status, found = validate(capsys, "--backend", "gpu", "--targetPath", folder, "--testBackend")
    report = found["gpu"]
    assert status == 1
    assert (report["hardware"], report["libraries"]) == ("Not Supported", "Found")
    assert "4000" in report["reason"]


def test_debug_prints_what_the_backend_says(capfd) -> None:
    assert main(["platform-validator", "--backend", "htp", "--testBackend", "--debug"]) == 0
    assert "graph 'unit_test'" in capfd.readouterr().err


def test_bad_options_are_one_line_and_status_2(capsys: Capture, tmp_path: Path) -> None:
    for arguments, words in (
        (["--backend", "npu"], "--backend npu: expected dsp"),
        (["--backend", "cpu", "--targetPath", str(tmp_path / "none")], "no such folder"),
        (["--backend", "/x.so", "--targetPath", str(tmp_path)], "--targetPath"),
    ):
        assert main(["platform-validator", *arguments]) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert err.count("\n") == 1
