"""What the binding takes from system libraries of other versions, seen by one that answers so."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

import qnnrt
from qnnrt._native._core import SystemLibrary
from support.building import Builder

pytestmark = pytest.mark.other_fds

SOURCE = Path(__file__).parents[1] / "backends" / "fake_system.cc"
Build = Callable[..., Path]


@pytest.fixture
def build(builder: Builder) -> Build:
    def build(**defines: int) -> Path:
        name = "-".join(["libQnnFakeSystem", *(f"{k}{v}" for k, v in defines.items())])
        flags = [f"-D{key}={value}" for key, value in defines.items()]
        return builder.library(SOURCE, *flags, name=f"{name}.so")

    return build


@pytest.mark.parametrize("version", [1, 2])
def test_descriptions_of_older_versions_are_read(build: Build, version: int) -> None:
    path = build(FAKE_INFO=version)
    library = SystemLibrary.open(path)
    info = library.binary_info(b"1")
    assert ctypes.CDLL(str(path)).fake_contexts() == 0
    assert info["version"] == version
    assert (info["build_id"], info["core_api_version"]) == ("fake", (2, 10, 0))
    assert (info["context_metadata"], info["context_blob_size"]) == (b"abc", 77)
    assert info["devices"] == []
    (graph,) = info["graphs"]
    assert (graph["name"], graph["blob"], graph["ops"]) == ("g", b"", [])
    assert [t["name"] for t in graph["updateable"]] == ["weights"] * (version - 1)
    first, second, third, fourth = graph["inputs"]
    assert (first["dims"], first["dynamic"]) == ([2, 3], [False, True])
    assert first["quantization"] == {
        "encoding": "axis_scale_offset",
        "scale": [0.5, 0.25, 0.125],
        "offset": [-1, -2, -3],
        "axis": 1,
        "bitwidth": None,
    }
    assert second["quantization"] == {
        "encoding": "bw_scale_offset",
        "scale": 2.0,
        "offset": -8,
        "axis": None,
        "bitwidth": 4,
    }
    assert third["quantization"] == {
        "encoding": "bw_axis_scale_offset",
        "scale": [1.0, 2.0],
        "offset": [0, 0],
        "axis": 0,
        "bitwidth": 4,
    }
    assert fourth["quantization"]["encoding"] == "block"
    assert fourth["quantization"]["scale"] is None
    assert fourth["dims"] == []
    kinds = [t["mem_type"] for t in graph["inputs"]]
    assert kinds == ["raw", "memhandle", "retrieve_raw", "undefined"]
    assert graph["outputs"][0]["quantization"] is None


def test_the_utility_writes_such_a_description(
    build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from qnnrt.cli import main

    (tmp_path / "x.bin").write_bytes(b"1")
    arguments = ["--context_binary", str(tmp_path / "x.bin"), "--json"]
    library = ["--system_lib", str(build())]
    assert main(["context-binary-utility", *arguments, *library]) == 0
    out = capsys.readouterr().out
    assert '"axisScaleOffset"' in out
    assert '"isDynamicDimensions"' in out
    assert '"QNN_QUANTIZATION_ENCODING_BLOCK"' in out
    assert '"QNN_TENSORMEMTYPE_UNDEFINED"' in out


def test_a_later_description_is_refused_by_name(build: Build) -> None:
    path = build(FAKE_INFO=9)
    with pytest.raises(qnnrt.QnnError, match="binary info version 9 is unknown"):
        SystemLibrary.open(path).binary_info(b"1")
    assert ctypes.CDLL(str(path)).fake_contexts() == 0


def test_errors_leave_no_context_behind(build: Build) -> None:
    path = build()
    library = SystemLibrary.open(path)
    with pytest.raises(qnnrt.QnnError) as e:
        library.binary_info(b"x")
    assert e.value.code == 30010
    assert "of another maker" in str(e.value)
    with pytest.raises(qnnrt.QnnError, match="returned no description"):
        library.binary_info(b"0")
    assert ctypes.CDLL(str(path)).fake_contexts() == 0


def test_functions_that_it_lacks_are_named(build: Build, tmp_path: Path) -> None:
    library = SystemLibrary.open(build())
    with pytest.raises(qnnrt.QnnError, match="no such function") as e:
        library.profile_create_target(tmp_path / "x.log")
    assert e.value.code == 1000


@pytest.mark.parametrize(
    ("major", "minor", "says"),
    [
        (2, 0, r"offers system interface 2\.0\.0; needed is 1\.x"),
        (1, 6, r"offers system interface 1\.6\.0; needed is 1\.7"),
        (0, 0, "offers system interface none"),
    ],
)
def test_interfaces_of_other_versions_are_refused(
    build: Build, major: int, minor: int, says: str
) -> None:
    with pytest.raises(qnnrt.BackendNotFoundError, match=says):
        SystemLibrary.open(build(FAKE_MAJOR=major, FAKE_MINOR=minor))
