"""``qnnrt context-binary-utility``: the SDK's JSON of our binaries and of the vendor's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.cli import main
from qnnrt.model import Node, Tensor
from support.toy import conv_model
from support.vendor import simulator_binary, two_graphs, vendor_library

Capture = pytest.CaptureFixture[str]


def utility(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    status = main(["context-binary-utility", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def vendor_file(tmp_path: Path) -> Path:
    path = tmp_path / "vendor.bin"
    path.write_bytes(simulator_binary())
    return path


def infos(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {g["info"]["graphName"]: g["info"] for g in document["info"]["graphs"]}


def check_two_graphs(document: dict[str, Any], quantized: bool = True) -> None:
    """What `vendor.two_graphs` holds."""
    graphs = infos(document)
    assert list(graphs) == ["first", "second"]
    (x,), (y,) = graphs["first"]["graphInputs"], graphs["first"]["graphOutputs"]
    assert x["info"]["name"] == "x"
    assert x["info"]["dimensions"] == [1, 4, 4, 8]
    assert x["info"]["rank"] == 4
    assert x["info"]["type"] == "QNN_TENSOR_TYPE_APP_WRITE"
    assert y["info"]["type"] == "QNN_TENSOR_TYPE_APP_READ"
    assert x["info"]["memType"] == "QNN_TENSORMEMTYPE_MEMHANDLE"
    assert y["info"]["memType"] == "QNN_TENSORMEMTYPE_RAW"
    if quantized:
        assert x["info"]["dataType"] == "QNN_DATATYPE_UFIXED_POINT_8"
        assert x["info"]["quantizeParams"]["scaleOffset"] == {"scale": 0.5, "offset": -3}
    (x,), (y,) = graphs["second"]["graphInputs"], graphs["second"]["graphOutputs"]
    assert (x["info"]["name"], x["info"]["dataType"]) == ("in/x", "QNN_DATATYPE_FLOAT_32")
    assert x["info"]["quantizeParams"]["definition"] == "QNN_DEFINITION_UNDEFINED"
    assert y["info"]["memType"] == "QNN_TENSORMEMTYPE_MEMHANDLE"
    assert document["info"]["numGraphs"] == 2
    assert document["info"]["backendId"] == 6


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "own.bin"
    with qnn.Backend.open("htp") as backend:
        path.write_bytes(two_graphs(backend))
    return path


def test_ours_describes_ours(own_file: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.json"
    arguments = ("--context_binary", own_file, "--json_file", target)
    status, out, err = utility(capsys, *arguments)
    assert (status, err) == (0, "")
    assert "graph second\n    input in/x: FLOAT_32[2, 3] raw\n" in out
    document = json.loads(target.read_text())
    check_two_graphs(document, quantized=False)
    assert document["info"]["buildId"] == f"v2.40.0.0-qnnrt-{qnnrt.__version__}"
    status, out, _ = utility(capsys, "--context_binary", own_file, "--json")
    assert (status, json.loads(out)) == (0, document)


def test_the_sizes_in_the_blob_are_the_graphs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "conv.bin"
    model = conv_model(0)
    model.tensors["z"] = Tensor("z", (1, 8, 8, 16), np.dtype("f4"))
    model.nodes.append(Node("softmax", "Softmax", ["y"], ["z"]))
    model.outputs[:] = ["z"]
    with qnnrt.Session(model, "htp") as s:
        path.write_bytes(s.context.binary())
        stats = s.backend.library.graph_stats(s.graph.handle)
    assert stats is not None
    arena = stats["arena_bytes"]
    assert arena >= 4 * 8 * 8 * 16
    status, out, _ = utility(capsys, "--context_binary", path, "--json")
    assert status == 0
    (graph,) = infos(json.loads(out)).values()
    first, second = (blob["info"] for blob in graph["graphBlobInfo"])
    assert first["spillFillBufferSize"] == second["ddrTensorSize"] == arena
    assert first["vtcmSize"] == first["numHvxThreads"] == 0
    assert second["ioTensorSize"] == 4 * (8 * 8 * 8 + 8 * 8 * 16)
    assert 4 * 3 * 3 * 8 * 16 <= second["constSize"] <= path.stat().st_size


def test_verify_reads_every_weight(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "conv.bin"
    with qnnrt.Session(conv_model(0), "htp") as s:
        data = bytearray(s.context.binary())
    path.write_bytes(data)
    status, out, _ = utility(capsys, "--context_binary", path, "--verify")
    assert status == 0
    assert "every checksum is right" in out
    data[-4096] ^= 1
    path.write_bytes(data)
    assert utility(capsys, "--context_binary", path)[0] == 0  # the description is whole
    status, out, err = utility(capsys, "--context_binary", path, "--verify")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "checksum" in err
    path.write_bytes(data[: len(data) // 2])
    status, _, err = utility(capsys, "--context_binary", path)
    assert status == 2
    assert "truncated" in err


@pytest.mark.foreign
def test_the_vendors_library_says_that_ours_is_not_its_own(own_file: Path, capsys: Capture) -> None:
    system = ("--system_lib", vendor_library("libQnnSystem.so"))
    status, _, err = utility(capsys, "--context_binary", own_file, *system)
    assert status == 2
    assert "this binary is qnnrt's own: leave --system_lib out" in err


@pytest.mark.foreign
def test_the_vendors_library_describes_the_vendors_binary(
    vendor_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    system = ("--system_lib", vendor_library("libQnnSystem.so"))
    target = tmp_path / "out.json"
    status, out, _ = utility(
        capsys, "--context_binary", vendor_file, "--json_file", target, *system
    )
    assert status == 0
    assert "graph first" in out
    document = json.loads(target.read_text())
    check_two_graphs(document)
    assert document["info"]["buildId"].startswith("v2.")
    assert document["info"]["contextMetadata"]["info"] == {"dspArch": 68, "socModel": 0}
    for graph in infos(document).values():
        assert [blob["version"] for blob in graph["graphBlobInfo"]] == [1, 2]
        assert graph["graphBlobInfo"][0]["info"]["vtcmSize"] == 4 << 20
    status, out, _ = utility(capsys, "--context_binary", vendor_file, "--json", *system)
    assert (status, json.loads(out)) == (0, document)


@pytest.mark.foreign
def test_ours_says_whose_the_format_is_and_what_to_do(
    vendor_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "out.json"
    status, out, err = utility(capsys, "--context_binary", vendor_file, "--json_file", target)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "the vendor's libraries made" in err
    assert "--system_lib PATH" in err
    assert not target.exists()


@pytest.mark.foreign
def test_checksums_are_known_of_ours_alone(vendor_file: Path, capsys: Capture) -> None:
    system = ("--system_lib", vendor_library("libQnnSystem.so"))
    status, _, err = utility(capsys, "--context_binary", vendor_file, "--verify", *system)
    assert status == 2
    assert "only the checksums of qnnrt's own" in err


def test_bad_files_and_options_are_one_line_and_status_2(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty.bin").touch()
    (tmp_path / "text.bin").write_text("no binary")
    for options, says in (
        (("--context_binary", tmp_path / "none.bin"), "no such file"),
        (("--context_binary", tmp_path), "is a folder"),
        (("--context_binary", tmp_path / "empty.bin"), "is empty"),
        (("--context_binary", tmp_path / "text.bin"), "no qnnrt context binary"),
        (
            ("--context_binary", tmp_path / "text.bin", "--system_lib", tmp_path / "no.so"),
            "cannot load the system library",
        ),
    ):
        status, out, err = utility(capsys, *options)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert says in err
    with pytest.raises(SystemExit) as e:
        main(["context-binary-utility"])
    assert e.value.code == 2
    assert "--context_binary" in capsys.readouterr().err
