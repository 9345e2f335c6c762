"""What loading may take: small files that ask for the machine end in one error that names the node,
and limits are the caller's to set."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from qnnrt.importers import passes, quantized
from qnnrt.importers.budget import Budget
from qnnrt.importers.onnx import child
from support.onnx import bombs
from support.onnx.hostile import ints, single
from support.outside import MEASURED


@MEASURED
def test_files_that_ask_for_gigabytes_are_refused_before_they_are_taken() -> None:
    wrong = []
    for name, (kind, text, seconds, peak) in bombs.outcomes(sorted(bombs.memory_bombs())).items():
        named = "wants" in text or "in a process of its own" in text
        if name in bombs.LEFT_TO_GRAPH:
            named = kind == ""
        elif kind != "ModelError":
            named = False
        if not named or peak > 3 << 29 or seconds > 40:
            wrong.append(f"{name}: {kind} after {seconds:.1f} s, {peak >> 20} MiB: {text}")
    assert not wrong, "\n".join(wrong)


def test_files_that_hang_or_crash_are_one_short_error_each() -> None:
    wrong = []
    for name, (kind, text, seconds, _) in bombs.outcomes(sorted(bombs.other_cases())).items():
        length, text = text.split(":", 1) if ":" in text else ("0", text)
        last_line = "cannot be loaded" in text
        known = kind in ("ModelError", "UnsupportedOpError")
        if not known or int(length) > 2000 or last_line or seconds > 40:
            wrong.append(f"{name}: {kind or 'loaded'} after {seconds:.1f} s: {text}")
    assert not wrong, "\n".join(wrong)


def test_the_error_says_how_to_give_more() -> None:
    bomb = single("Tile", [np.array([[1, 2]], np.float32), ints(2**5, 2**6)])
    with pytest.raises(ModelError, match=r"limits=qnnrt\.Limits\(constant_bytes=\.\.\.\)"):
        importer.load(bomb, limits=qnnrt.Limits(constant_bytes=8 << 10))
    model = importer.load(bomb, limits=qnnrt.Limits(constant_bytes=64 << 10))
    assert model.tensors["o0"].shape == (32, 128)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (qnnrt.Limits(constant_bytes=1000), "bytes"),
        (qnnrt.Limits(steps=2), "step"),
        (qnnrt.Limits(operations=10), "operations"),
        (qnnrt.Limits(seconds=1e-9), "seconds"),
    ],
)
def test_each_limit_holds(limits: qnnrt.Limits, says: str) -> None:
    nodes = [
        helper.make_node("Tile", ["c", "n"], ["t"]),
        helper.make_node("Add", ["x", "t"], ["u"]),
        helper.make_node("Relu", ["u"], ["y"]),
    ]
    constants = {"c": np.array([1, 2], np.float32), "n": ints(500)}
    model = bombs.network(nodes, constants, {"x": (1000,)})
    assert importer.load(model).outputs == ["y"]
    with pytest.raises(ModelError, match=says):
        importer.load(model, limits=limits)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("nodes", "the clean-up of the graph"),
        ("quantized", "the clean-up of the graph"),
        ("passes", "naming what the graph has become"),
    ],
)
def test_time_is_looked_at_behind_the_last_node(
    stage: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever takes long: the nodes, fixed-point numbers or the last passes."""
    made: list[Budget] = []

    def watched(*args: object) -> Budget:
        made.append(Budget(*args))  # type: ignore[arg-type]
        return made[-1]

    def aged(run: Callable[..., None]) -> Callable[..., None]:
        def slow(*args: object) -> None:
            run(*args)
            made[-1]._deadline -= 1000

        return slow

    where = {
        "nodes": (importer.GraphLowering, "nodes"),
        "quantized": (quantized, "run"),
        "passes": (importer.passes, "run"),
    }
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Exp", ["r"], ["y"])]
    model = bombs.network(nodes)
    assert importer.load(model).outputs == ["y"]
    monkeypatch.setattr(importer, "Budget", watched)
    owner, name = where[stage]
    monkeypatch.setattr(owner, name, aged(getattr(owner, name)))
    with pytest.raises(ModelError, match=f"{says} wants more time; this file may take 120 sec"):
        importer.load(model, quantized_io=stage == "quantized")


def test_a_graph_is_not_gone_over_again_for_each_of_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Merging reshapes used to index the whole graph for every one of them."""
    counts = []
    index = passes.Graph.index
    monkeypatch.setattr(passes.Graph, "index", lambda graph: (counts.append(1), index(graph))[1])
    found = []
    for pairs in (2, 40):
        nodes, last = [], "x"
        for i in range(pairs):
            nodes += [
                helper.make_node("Reshape", [last, "s"], [f"a{i}"]),
                helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
                helper.make_node("Reshape", [f"r{i}", "t"], [f"b{i}"]),
            ]
            last = f"b{i}"
        nodes.append(helper.make_node("Exp", [last], ["y"]))
        counts.clear()
        model = importer.load(bombs.network(nodes, {"s": ints(2, 3), "t": ints(6)}, {"x": (6,)}))
        assert [n.type for n in model.nodes].count("Relu") == pairs
        found.append(len(counts))
    assert found[0] == found[1]


def test_time_is_looked_at_before_much_work() -> None:
    budget = Budget(None, "a file")
    budget._deadline -= 1000
    budget.work(10)
    with pytest.raises(ModelError, match="more time"):
        budget.work(1 << 20)


@pytest.mark.parametrize("wrong", [0, -1, "1", True, float("nan")])
def test_limits_are_positive_numbers(wrong: object) -> None:
    with pytest.raises(ValueError, match="constant_bytes"):
        qnnrt.Limits(constant_bytes=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Limits"):
        importer.load(b"", limits=5)  # type: ignore[arg-type]


def test_a_large_file_may_take_more_than_a_small_one() -> None:
    """16 times its bytes, so that weights of few bits can be made floats."""
    Budget(None, "a file", lambda: (128 << 20, 1)).take(1 << 31)
    with pytest.raises(ModelError, match="1,073,741,824 bytes"):
        Budget(None, "a file", lambda: (1 << 20, 1)).take(1 << 31)


def test_a_lookup_of_token_types_folds() -> None:
    """GatherElements of int64[1,512] by int64[1,128]: the evaluator of onnx takes 64 columns."""
    buffered, index = np.arange(512, dtype=np.int64)[None] % 7, np.arange(127, -1, -1)[None]
    nodes = [
        helper.make_node("GatherElements", ["b", "i"], ["g"], axis=1),
        helper.make_node("Cast", ["g"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    model = importer.load(bombs.network(nodes, {"b": buffered, "i": index}, {"x": (1, 128)}))
    with qnnrt.Session(model, backend="cpu") as session:
        y = session.run({"x": np.zeros((1, 128), np.float32)})["y"]
    np.testing.assert_array_equal(y, buffered[:, :128][:, ::-1])


def test_a_view_of_one_element_costs_nothing() -> None:
    """A mask of one value, broadcast, is used where it is small in the end."""
    model = bombs.uniform(
        (2**14, 2**14),
        [
            helper.make_node("Slice", ["c", "zero", "two"], ["d"]),
            helper.make_node("Slice", ["d", "zero", "two", "one"], ["e"]),
            helper.make_node("Add", ["x", "e"], ["y"]),
        ],
        zero=ints(0),
        two=ints(2),
        one=ints(1),
    )
    assert importer.load(model, limits=qnnrt.Limits(constant_bytes=1 << 16)).outputs == ["y"]


# ---- data files --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", sorted(bombs.places(bombs.external("w.bin", {}))))
def test_data_files_are_found_beside_the_model_wherever_the_tensor_lies(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "model", tmp_path / "elsewhere"
    here.mkdir()
    there.mkdir()
    model = bombs.places(bombs.external("w.bin", {}))[place]
    (here / "m.onnx").write_bytes(model.SerializeToString())
    (there / "w.bin").write_bytes(np.array([5, 5], np.float32).tobytes())
    monkeypatch.chdir(there)
    with pytest.raises(ModelError, match=r"w\.bin"):
        qnnrt.load(here / "m.onnx")
    with pytest.raises(ModelError, match=r"beside the model"):
        importer.load(model.SerializeToString())
    if place == "a list":
        return  # no operator takes it; it is never read from another folder
    (here / "w.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    loaded = qnnrt.load(here / "m.onnx")
    data = [t.data.tolist() for t in loaded.constants()]
    assert [1.0, 2.0] in data


def _bad_places(folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    (folder / "w.bin").write_bytes(bytes(8))
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "out").symlink_to(folder.parent / "secret.bin")
    (folder.parent / "secret.bin").write_bytes(bytes(64))
    (folder / "null").symlink_to("/dev/zero")
    return {
        "absolute": (str(folder / "w.bin"), {}),
        "above": ("../secret.bin", {}),
        "a link out of the folder": ("out", {}),
        "a link to a device": ("null", {}),
        "a folder": ("folder", {}),
        "the folder itself": (".", {}),
        "a FIFO": ("fifo", {}),
        "NUL": ("w\0.bin", {}),
        "nothing": ("", {}),
        "a long name": ("n" * 5000, {}),
        "behind the end": ("w.bin", {"offset": "4"}),
        "far behind the end": ("w.bin", {"offset": str(2**63)}),
        "a length beyond": ("w.bin", {"length": "4096"}),
        "a length of its own": ("w.bin", {"length": "4"}),
        "a negative offset": ("w.bin", {"offset": "-4"}),
        "an offset in words": ("w.bin", {"offset": "four"}),
        "a negative length": ("w.bin", {"length": "-8"}),
    }


def test_data_outside_of_a_file_or_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "m.onnx"
    for name, (location, entries) in _bad_places(folder).items():
        model = bombs.places(bombs.external(location, entries))["a function"]
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError) as caught:
            qnnrt.load(path)
        assert len(str(caught.value)) < 2000, name
        assert "cannot be loaded" not in str(caught.value), name


def test_tensors_that_share_a_data_file_cannot_read_it_without_end(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(bytes(4 << 20))
    model = bombs.network([helper.make_node("Relu", ["x"], ["y"])])
    for i in range(1000):
        tensor = bombs.external("w.bin", {}, dims=1 << 20)
        tensor.name = f"w{i}"
        model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"w4.*16777216|times as much"):
        qnnrt.load(path)


# ---- functions ---------------------------------------------------------------------------------


def test_functions_of_a_file_give_what_their_bodies_say() -> None:
    """Defaults, attributes of the caller, functions in functions and branches, omitted inputs."""
    node = helper.make_node
    scale = onnx.FunctionProto()
    scale.CopyFrom(
        helper.make_function(
            "own", "scale", ["a"], ["b", "unused"],
            [
                node("Constant", [], ["s"]), node("Mul", ["a", "s"], ["b"]),
                node("Loop", ["a", "a"], ["unused"]),
            ],
            [helper.make_opsetid("", 21)], attribute_protos=[helper.make_attribute("by", 2.0)],
        )
    )  # fmt: skip
    attr = scale.node[0].attribute.add(name="value_float", ref_attr_name="by")
    attr.type = onnx.AttributeProto.FLOAT
    twice = bombs.function("twice", [bombs.call("scale", "a", "t"), bombs.call("scale", "t", "b")])
    named = node("scale", ["t"], ["u"], domain="own", by=10.0)
    branches = {
        f"{kind}_branch": helper.make_graph(
            [bombs.call("scale", "u", "v")], kind, [], [onnx.ValueInfoProto(name="v")]
        )
        for kind in ("then", "else")
    }
    model = bombs.network(
        [bombs.call("twice", "x", "t"), named, node("If", ["yes"], ["y"], **branches)],
        {"yes": np.array(True)},
        functions=[twice, scale],
    )
    with qnnrt.Session(importer.load(model), backend="cpu") as session:
        y = session.run({"x": np.array([1, -3], np.float32)})["y"]
    np.testing.assert_array_equal(y, [80, -240])


# ---- paths and the class of errors -------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".bin"])
def test_what_is_no_file_is_one_error_at_once(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, fifo, link = (tmp_path / f"{n}{suffix}" for n in ("folder", "fifo", "zero"))
    folder.mkdir()
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    address = tmp_path / f"socket{suffix}"
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(address.name)  # the path of a socket is at most 107 bytes long
        kinds = {folder: "a folder", fifo: "a FIFO", link: "a device", address: "a socket"}
        for path, kind in kinds.items():  # by what they are: nothing is read
            with pytest.raises(ModelError, match=f"{path.name} is {kind}"):
                qnnrt.load(path)
    with pytest.raises(ModelError):
        qnnrt.load(f"a\0b{suffix}")
    with pytest.raises(FileNotFoundError):
        qnnrt.load(tmp_path / f"none{suffix}")


def test_the_bytes_of_a_file_are_not_the_text_of_the_error() -> None:
    for data in (bytes(1 << 24), bytearray(1 << 24), b"/tmp/model.onnx"):
        with pytest.raises(ModelError, match="load takes a path") as caught:
            qnnrt.load(data)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 500
    with pytest.raises(ModelError) as caught:
        qnnrt.load("x" * (1 << 20))
    assert len(str(caught.value)) < 4000
    with pytest.raises((ModelError, OSError)) as error:
        qnnrt.load("x" * (1 << 20) + ".onnx")
    assert len(str(error.value)) < 4000


def test_whatever_a_reader_raises_is_a_model_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line: nothing is known to come to it."""
    model = single("Relu", [(2,)])
    for raised in (
        RecursionError("x" * 10**6),
        KeyError("k"),
        AssertionError(),
        ZeroDivisionError(),
    ):

        def fail(*_: object, error: Exception = raised) -> None:
            raise error

        monkeypatch.setattr(importer, "finish", fail)
        with pytest.raises(ModelError) as caught:
            importer.load(model)
        assert len(str(caught.value)) < 10_000
    monkeypatch.setattr(importer, "finish", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError, match="not enough memory"):
        importer.load(model)


# ---- the process for onnx's own code -----------------------------------------------------------


def _einsum() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Einsum", ["c", "c"], ["e"], equation="i,i->i"),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ]
    return bombs.network(nodes, {"c": np.array([3, 4], np.float32)})


def test_a_rare_operator_is_evaluated_in_a_process_of_its_own() -> None:
    model = importer.load(_einsum())
    assert [9.0, 16.0] in [t.data.tolist() for t in model.constants()]


def test_the_death_of_the_process_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_ADDRESS_SPACE", -(1012 << 20))
    with pytest.raises(ModelError, match=r"Einsum.*in a process of its own"):
        importer.load(_einsum())
    monkeypatch.undo()
    assert importer.load(_einsum()).outputs == ["y"]


@pytest.mark.parametrize(
    ("program", "clock", "text"),
    [
        ("while True: pass", 600.0, r"within 1 s of processor time$"),
        ("import time; time.sleep(2.5)", 600.0, None),  # as where others have the processor
        ("import time; time.sleep(60)", 0.3, r"within 0\.3 s$"),
    ],
)
def test_the_process_has_seconds_of_a_processor(
    program: str, clock: float, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        monkeypatch.setattr(child, "_SECONDS", 1.0)
        limit = child._Limit(process, clock)
        if text is None:
            limit.wait(process.stdout, False)  # its end
        else:
            with pytest.raises(child._Lost, match=text):
                limit.wait(process.stdout, False)
        process.kill()


def test_without_an_interpreter_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program that embeds Python, sys.executable is that program: it is never started."""
    for wrong in ("", "/usr/bin/blender", None, "/nowhere/python3"):
        monkeypatch.setattr("sys.executable", wrong)
        monkeypatch.setattr("sys.exec_prefix", "/nowhere")
        monkeypatch.setattr("sys.base_exec_prefix", "/nowhere")
        with pytest.raises(ModelError, match="no Python interpreter to start"):
            importer.load(_einsum())
