"""System libraries: what a context binary says of itself, to our library and to the vendor's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt._native._core import SystemLibrary
from qnnrt.cli.paths import LIB_DIR
from qnnrt.dtypes import DATA_TYPES
from support.parallel import in_threads
from support.toy import conv_model
from support.vendor import simulator_binary, two_graphs, vendor_library


@pytest.fixture
def ours() -> SystemLibrary:
    return SystemLibrary.open()


@pytest.fixture
def theirs() -> SystemLibrary:
    return SystemLibrary.open(vendor_library("libQnnSystem.so"))


def test_ours_is_a_system_library_that_onnx_runtime_takes(ours: SystemLibrary) -> None:
    assert ours.provider_name == "SYSTEM_QTI_AISW"
    assert ours.version >= (1, 15, 0)
    assert ours.version[0] == 1
    assert ours.has_extensions
    assert Path(ours.path) == LIB_DIR / "libQnnSystem.so"
    assert SystemLibrary.open(LIB_DIR / "libQnnSystem.so") is ours


def test_the_vendors_is_one_too(theirs: SystemLibrary) -> None:
    assert theirs.provider_name == "SYSTEM_QTI_AISW"
    assert theirs.version >= (1, 7, 0)
    assert not theirs.has_extensions


def test_what_is_no_system_library_is_said(tmp_path: Path) -> None:
    with pytest.raises(qnnrt.BackendNotFoundError, match="does not export QnnSystemInterface"):
        SystemLibrary.open(LIB_DIR / "libQnnCpu.so")
    with pytest.raises(qnnrt.BackendNotFoundError, match="cannot load the system library"):
        SystemLibrary.open(tmp_path / "none.so")


@pytest.mark.parametrize("name", ["htp", "cpu"])
def test_ours_describes_what_was_prepared(ours: SystemLibrary, name: str) -> None:
    with qnn.Backend.open(name) as backend:
        data = two_graphs(backend)
        core, own = backend.version
        number = backend.id
    info = ours.binary_info(data)
    assert (info["version"], info["backend_id"]) == (3, number)
    assert (info["core_api_version"], info["backend_api_version"]) == (core, own)
    assert info["build_id"] == f"v2.40.0.0-qnnrt-{qnnrt.__version__}"
    first, second = info["graphs"]
    (x,), (y,) = first["inputs"], first["outputs"]
    assert (x["name"], x["dims"], x["data_type"]) == ("x", [1, 4, 4, 8], DATA_TYPES["FLOAT_32"])
    assert (x["type"], y["type"]) == (0, 1)
    assert (x["mem_type"], y["mem_type"]) == ("memhandle", "raw")
    (x,), (y,) = second["inputs"], second["outputs"]
    assert (x["name"], x["dims"]) == ("in/x", [2, 3])
    assert (x["mem_type"], y["mem_type"]) == ("raw", "memhandle")
    assert bool(info["devices"]) == bool(info["context_metadata"]) == (name == "htp")


def test_ids_are_those_to_execute_with(ours: SystemLibrary) -> None:
    """A client that knows the binary alone, as ONNX Runtime does."""
    with qnnrt.Session(conv_model(0), "htp", io="raw") as s:
        data = s.context.binary()
        x = np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)
        expected = s.run({"x": x})["y"]
    (graph,) = ours.binary_info(data)["graphs"]
    with (
        qnn.Backend.open("htp") as backend,
        qnn.Context.from_binary(backend, data) as context,
    ):
        library = backend.library
        made = [
            _core.Tensor(t["name"], tuple(t["dims"]), t["data_type"], t["type"], id=t["id"])
            for t in (*graph["inputs"], *graph["outputs"])
        ]
        y = np.zeros_like(expected)
        handle = library.graph_retrieve(context.handle, graph["name"])
        bindings = [(a.ctypes.data, a.nbytes) for a in (x, y)]
        _core.graph_execute(library, handle, [(made[0], bindings[0])], [(made[1], bindings[1])])
        assert (y == expected).all()


def test_one_wrong_byte_of_weights_is_found(ours: SystemLibrary) -> None:
    with qnnrt.Session(conv_model(0), "htp") as s:
        data = bytearray(s.context.binary())
    ours.binary_verify(data)
    ours.binary_verify(memoryview(bytes(data)))
    weights = len(data) - 4096
    data[weights] ^= 1
    assert ours.binary_info(data)["graphs"]
    with pytest.raises(qnnrt.QnnError, match=r"weights of graph .* checksum") as e:
        ours.binary_verify(data)
    assert e.value.code == 30010


def test_no_memory_is_an_error_and_the_next_call_works(ours: SystemLibrary) -> None:
    with qnn.Backend.open("htp") as backend:
        data = two_graphs(backend)
    expected = ours.binary_info(data)
    codes = []
    for nth in range(1, 1000):
        _core.debug_fail_allocation(nth)
        try:
            ours.binary_info(data)
        except qnnrt.QnnError as e:
            codes.append(e.code)
        else:
            break
        finally:
            _core.debug_fail_allocation(-1)
        assert ours.binary_info(data) == expected
    assert len(codes) > 20
    assert set(codes) == {1002}


@pytest.mark.foreign
def test_the_vendors_library_refuses_ours(theirs: SystemLibrary) -> None:
    with qnn.Backend.open("htp") as backend:
        data = two_graphs(backend)
    with pytest.raises(qnnrt.QnnError) as e:
        theirs.binary_info(data)
    assert e.value.code == 30010


@pytest.mark.foreign
def test_the_vendors_library_describes_a_binary_of_its_simulator(theirs: SystemLibrary) -> None:
    info = theirs.binary_info(simulator_binary())
    assert info["version"] == 3
    assert info["backend_id"] == 6
    assert info["build_id"].startswith("v2.")
    assert info["core_api_version"][0] == 2
    assert 0 < info["context_blob_size"] < len(simulator_binary())
    assert info["devices"][0]["cores"][0]["core_id"] == 0
    first, second = info["graphs"]
    assert (first["name"], second["name"]) == ("first", "second")
    (x,), (y,) = first["inputs"], first["outputs"]
    assert (x["name"], x["dims"], x["data_type"]) == (
        "x",
        [1, 4, 4, 8],
        DATA_TYPES["UFIXED_POINT_8"],
    )
    assert (x["mem_type"], y["mem_type"]) == ("memhandle", "raw")
    assert (x["type"], y["type"]) == (0, 1)
    assert x["quantization"] == {
        "encoding": "scale_offset",
        "scale": 0.5,
        "offset": -3,
        "axis": None,
        "bitwidth": None,
    }
    (x,), (y,) = second["inputs"], second["outputs"]
    assert (x["name"], x["dims"], x["data_type"]) == ("in/x", [2, 3], DATA_TYPES["FLOAT_32"])
    assert (x["mem_type"], y["mem_type"]) == ("raw", "memhandle")
    assert x["quantization"] is None
    ids = [t["id"] for g in info["graphs"] for t in (*g["inputs"], *g["outputs"])]
    assert len(set(ids)) == 4


@pytest.mark.foreign
def test_ours_says_that_such_a_binary_is_the_vendors(ours: SystemLibrary) -> None:
    with pytest.raises(qnnrt.QnnError, match="the vendor's libraries made") as e:
        ours.binary_info(simulator_binary())
    assert e.value.code == 30010
    assert "libQnnSystem.so describes it" in str(e.value)


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", 30001, "null or empty"),
        (b"x", 30010, "no qnnrt context binary"),
        (b"\x89QNNRT\r\n", 30010, "truncated"),
        (b"\x18\0\0\0TFL3" + bytes(99), 30010, "a TFLite model"),
        (b"PK\3\4" + bytes(99), 30010, "a zip archive"),
        (b"\x7fELF" + bytes(99), 30010, "shared library"),
        (bytes(5000), 30010, "these 5000 bytes"),
    ],
)
def test_what_is_no_binary_is_called_what_it_is(
    ours: SystemLibrary, data: bytes, code: int, says: str
) -> None:
    for call in (ours.binary_info, ours.binary_verify):
        with pytest.raises(qnnrt.QnnError, match=says) as e:
            call(data)
        assert e.value.code == code


def test_only_contiguous_bytes_are_taken(ours: SystemLibrary) -> None:
    with pytest.raises(TypeError):
        ours.binary_info("text")
    with pytest.raises((BufferError, ValueError)):
        ours.binary_info(np.zeros(100, np.uint8)[::2])


def test_the_vendors_library_has_no_checksums_of_ours(theirs: SystemLibrary) -> None:
    with pytest.raises(qnnrt.QnnError, match="no such function") as e:
        theirs.binary_verify(b"x" * 1000)
    assert e.value.code == 1000


def footprint(library: SystemLibrary, shape: tuple[int, ...], data_type: int) -> int | str:
    tensor = _core.Tensor("t", shape, data_type, 0)
    try:
        return library.tensor_memory_footprint(tensor)
    except qnnrt.QnnError as e:
        return f"error {e.code}"


@pytest.mark.parametrize("name", DATA_TYPES)
def test_footprints_are_the_vendors(ours: SystemLibrary, theirs: SystemLibrary, name: str) -> None:
    data_type = DATA_TYPES[name]
    for shape in ((1,), (7,), (3, 5), (1, 224, 224, 3), (0,), (4, 0)):
        assert footprint(ours, shape, data_type) == footprint(theirs, shape, data_type)


def test_footprints_beyond_memory_are_an_error(ours: SystemLibrary) -> None:
    """The vendor's wraps around."""
    assert footprint(ours, (2**20,) * 4, DATA_TYPES["FLOAT_32"]) == "error 30002"
    assert footprint(ours, (2**20, 2**20, 2**20, 0), DATA_TYPES["FLOAT_32"]) == 0
    assert footprint(ours, (), DATA_TYPES["FLOAT_32"]) == 4


def test_threads_describe_at_once(ours: SystemLibrary) -> None:
    failures: list[object] = []

    def work() -> None:
        for _ in range(50):
            try:
                ours.binary_info(b"PK\3\4" + bytes(50))
            except qnnrt.QnnError as e:
                if e.code != 30010 or "zip" not in str(e):
                    failures.append(e)

    in_threads(*[work] * 4)
    assert not failures
