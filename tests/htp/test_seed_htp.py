"""The Qmem graph from end to end: prepared online and offline, with the hint and without it, run
through net-run on files, and compared byte by byte with a Session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt
from qnnrt import qnn
from support.tool_cases import Capture, call, listed, python_model, raw, report

SHAPE, CLASSES, FRAMES = (1, 3, 24, 24), 10, 5
IN, OUT = int(np.prod(SHAPE)) * 4, CLASSES * 4
MEM_TYPES = ("raw", "memhandle")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier as ONNX: convolutions, a pool, a softmax."""
    random = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        values = random.standard_normal(shape, dtype=np.float32) * 0.3
        return numpy_helper.from_array(values, name)

    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["prob"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("prob", TensorProto.FLOAT, [1, CLASSES])],
        [
            constant("w1", 16, 3, 3, 3),
            constant("b1", 16),
            constant("w2", 24, 16, 3, 3),
            constant("b2", 24),
            constant("w3", CLASSES, 24),
            constant("b3", CLASSES),
        ],
    )
    path = tmp_path_factory.mktemp("network") / "classifier.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal(SHAPE, dtype=np.float32) for _ in range(FRAMES)]


@pytest.fixture(scope="module")
def expected(network: Path, frames: list[np.ndarray]) -> list[bytes]:
    """What a Session on the model computes, without files, tools and binaries."""
    with qnnrt.Session(network, backend="htp", strict=True) as session:
        outputs = []
        for frame in frames:
            session.inputs["image"].array[...] = frame
            session.run()
            outputs.append(session.outputs["prob"].array.tobytes())
    assert len(set(outputs)) == FRAMES
    return outputs


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, frames: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for n, frame in enumerate(frames):
        raw(tmp_path / f"frame{n}.raw", frame)
    listed(tmp_path / "input_list.txt", *(f"image:=frame{n}.raw" for n in range(FRAMES)))


def generate(network: Path, mem_type: str) -> Path:
    """As the seed has it."""
    given = ["context-binary-generator", "--model", network, "--backend", "htp"]
    given += ["--binary_file", "qnngraph.serialized", "--output_dir", "output"]
    assert call(*given, "--input_output_tensor_mem_type", mem_type) == 0
    return Path("output/qnngraph.serialized.bin")


def written(folder: str) -> list[bytes]:
    return [Path(folder, f"Result_{n}", "prob.raw").read_bytes() for n in range(FRAMES)]


# The table: prepared, executed -> bytes reserved when the graph is made ready, bytes reserved by
# the first execution, bytes copied by each.
TABLE = {
    ("raw", "raw"): (IN + OUT, 0, IN + OUT),
    ("raw", "memhandle"): (IN + OUT, 0, 0),
    ("memhandle", "raw"): (0, IN + OUT, IN + OUT),
    ("memhandle", "memhandle"): (0, 0, 0),
}


@pytest.mark.parametrize("executed", MEM_TYPES)
@pytest.mark.parametrize("prepared", MEM_TYPES)
@pytest.mark.parametrize("way", ["online", "offline"])
def test_net_run_gives_what_a_session_gives_and_copies_what_the_table_says(
    way: str,
    prepared: str,
    executed: str,
    network: Path,
    expected: list[bytes],
    capsys: Capture,
) -> None:
    if way == "offline":
        model: list[Any] = ["--retrieve_context", generate(network, prepared)]
    else:
        model = ["--model", network, "--input_output_tensor_mem_type", prepared]
    capsys.readouterr()
    options = ["--shared_buffer"] if executed == "memhandle" else []
    run = ["net-run", *model, "--backend", "htp", "--input_list", "input_list.txt"]
    found = report(capsys, *run, "--output_dir", "results", *options)
    assert written("results") == expected
    (graph,) = found["graphs"]
    at_finalize, at_execute, copied = TABLE[prepared, executed]
    assert graph["reserved_at_finalize_bytes"] == at_finalize
    assert graph["reserved_at_execute_bytes"] == at_execute
    assert graph["reserved_bytes"] == at_finalize + at_execute
    assert graph["reserved_at"] == (
        "finalize" if at_finalize else "execute" if at_execute else None
    )
    assert graph["executions"] == FRAMES
    assert graph["copied_bytes"] == copied * FRAMES
    reason = f"prepared {prepared}, executed raw"
    assert graph["copies"] == (
        [
            {"tensor": "image", "direction": "in", "bytes": IN * FRAMES, "reason": reason},
            {"tensor": "prob", "direction": "out", "bytes": OUT * FRAMES, "reason": reason},
        ]
        if copied
        else []
    )


@pytest.mark.parametrize("executed", MEM_TYPES)
@pytest.mark.parametrize("prepared", MEM_TYPES)
def test_a_session_on_the_binary_reserves_and_copies_the_same(
    prepared: str, executed: str, network: Path, frames: list[np.ndarray], expected: list[bytes]
) -> None:
    """Step by step: what is reserved before the first execution, and by it, and by no other."""
    at_finalize, at_execute, copied = TABLE[prepared, executed]
    with qnnrt.Session(generate(network, prepared), backend="htp", io=executed) as session:
        assert session.stats.reserved_bytes == at_finalize
        for n, frame in enumerate(frames):
            session.inputs["image"].array[...] = frame
            session.run()
            assert session.outputs["prob"].array.tobytes() == expected[n]
            assert session.stats.reserved_bytes == at_finalize + at_execute
            assert session.stats.copied_bytes == copied * (n + 1)


def test_the_c_calls_of_the_seed(expected: list[bytes], network: Path) -> None:
    """Online prepare: IO tensors created with memory type MEMHANDLE and no handle, then executed
    with handles to registered buffers: nothing is reserved, nothing is copied."""
    shape = (1, 64)
    with qnn.Backend.open("htp") as backend:
        context = backend.create_context()
        graph = context.create_graph("online")
        x = graph.add_tensor("x", shape, np.float32, type="app_write", mem_type="memhandle")
        y = graph.add_tensor("y", shape, np.float32, type="app_read", mem_type="memhandle")
        graph.add_node("relu", "Relu", [x], [y])
        graph.finalize()
        stats = backend.library.graph_stats(graph.handle)
        assert stats["reserved_bytes"] == 0
        buffer = qnnrt.alloc(8192)
        handles = [
            context.register(buffer, shape, np.float32, offset=offset, kind="shared_buffer")
            for offset in (0, 4096)
        ]
        values = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        handles[0].array[...] = values
        graph.execute(handles[:1], handles[1:])
        np.testing.assert_array_equal(handles[1].array, np.maximum(values, 0))
        stats = backend.library.graph_stats(graph.handle)
        assert (stats["reserved_bytes"], stats["copied_bytes"]) == (0, 0)
        # The hint is no promise: RAW memory is taken, at a price.
        out = np.empty(shape, np.float32)
        graph.execute([values], [out])
        np.testing.assert_array_equal(out, np.maximum(values, 0))
        stats = backend.library.graph_stats(graph.handle)
        assert (stats["reserved_bytes"], stats["copied_bytes"]) == (512, 512)


MIXED = """
import numpy as np

def compose(graph):
    a = graph.add_tensor("a", (1, 100), np.float32, type="app_write", mem_type="memhandle")
    b = graph.add_tensor("b", (1, 100), np.float32, type="app_write", mem_type="raw")
    s = graph.add_tensor("s", (1, 100), np.float32, type="app_read", mem_type="raw")
    p = graph.add_tensor("p", (1, 100), np.float32, type="app_read", mem_type="memhandle")
    graph.add_node("sum", "ElementWiseAdd", [a, b], [s])
    graph.add_node("product", "ElementWiseMultiply", [a, b], [p])
"""


@pytest.mark.parametrize(
    ("io", "reserved", "copies"),
    [
        ("memhandle", 800, {}),
        (
            "raw",
            1600,
            {
                ("a", "in"): "prepared memhandle, executed raw",
                ("b", "in"): "prepared raw, executed raw",
                ("s", "out"): "prepared raw, executed raw",
                ("p", "out"): "prepared memhandle, executed raw",
            },
        ),
        (
            {"a": "raw", "b": "memhandle", "s": "raw", "p": "memhandle"},
            1200,
            {
                ("a", "in"): "prepared memhandle, executed raw",
                ("s", "out"): "prepared raw, executed raw",
            },
        ),
    ],
)
def test_mixed_sets_count_for_each_tensor(
    io: Any, reserved: int, copies: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    given = ["context-binary-generator", "--model", python_model(tmp_path, "mixed", MIXED)]
    assert call(*given, "--backend", "htp", "--binary_file", "mixed") == 0
    a, b = np.random.default_rng(3).standard_normal((2, 1, 100)).astype(np.float32)
    with qnnrt.Session("output/mixed.bin", backend="htp", io=io) as session:
        assert session.stats.reserved_bytes == 800  # b and s, prepared raw
        session.inputs["a"].array[...] = a
        session.inputs["b"].array[...] = b
        for n in range(1, 4):
            session.run()
            np.testing.assert_array_equal(session.outputs["s"].array, a + b)
            np.testing.assert_array_equal(session.outputs["p"].array, a * b)
            assert session.stats.reserved_bytes == reserved
            assert session.stats.copied_bytes == 400 * len(copies) * n
        found = {(c.tensor, c.direction): c.reason for c in session.stats.copies}
        assert found == copies


@pytest.mark.parametrize("way", [[], ["--asynchronous"], ["--use_mmap"]])
@pytest.mark.parametrize("prepared", MEM_TYPES)
def test_handles_of_every_kind_give_the_same_bytes(
    prepared: str, way: list[str], network: Path, expected: list[bytes], capsys: Capture
) -> None:
    run = ["net-run", "--retrieve_context", generate(network, prepared), "--backend", "htp"]
    capsys.readouterr()
    for kind in ("ion", "dma_buf", "shared_buffer"):
        option = f"--io_tensor_mem_handle_type={kind}"
        found = report(
            capsys, *run, "--input_list", "input_list.txt", option, *way, "--output_dir", kind
        )
        assert written(kind) == expected
        assert found["graphs"][0]["copied_bytes"] == 0
