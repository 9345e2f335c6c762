"""``qnnrt inspect``: the report is the plan, and the drawing is the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto, helper, load, numpy_helper, save
from test_cli import complaint

import qnnrt
from qnnrt.cli import _arena_drawing, main
from qnnrt.model import Model, Node, Tensor

Capture = pytest.CaptureFixture[str]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions whose sum is pooled; names that XML has to escape."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape, np.float32), name)
        for name, shape in (("w1", (8, 3, 3, 3)), ("w2", (8, 8, 3, 3)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a<1>"], "first", pads=[1] * 4),
        helper.make_node("Conv", ["a<1>", "w2"], ["b&\"2'"], "second", pads=[1] * 4),
        helper.make_node("Add", ["a<1>", "b&\"2'"], ["s"], "sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], "pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])],
        weights,
    )
    path = tmp_path / "small.onnx"
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def reported(capsys: Capture, *arguments: object) -> dict[str, Any]:
    assert main(["inspect", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def boxes(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [e for e in root.iter(f"{SVG}rect") if e.get("class") == "item"]


def check_drawing(root: ElementTree.Element, report: dict[str, Any]) -> None:
    """Each box is an item, to scale; peak and lower bound are where they belong."""
    arena, steps = report["arena"], report["steps"]
    keys = ("offset", "size", "first", "last", "kind", "name")
    drawn = [tuple(box.get(f"data-{key}") for key in keys) for box in boxes(root)]
    assert drawn == [
        tuple(_arena_drawing.clean(str(item[key])) for key in keys) for item in arena["items"]
    ]
    lines = {e.get("class"): e for e in root.iter(f"{SVG}line")}
    peak, bound = float(lines["peak"].get("y1", "")), float(lines["bound"].get("y1", ""))
    assert lines["peak"].get("data-value") == str(arena["peak"])
    assert lines["bound"].get("data-value") == str(arena["lower_bound"])
    axes = [e for e in root.iter(f"{SVG}line") if e.get("class") == "axis"]
    zero, left, right = (float(axes[0].get(key, "")) for key in ("y1", "x1", "x2"))
    scale, wide = (zero - peak) / arena["peak"], (right - left) / len(steps)
    assert bound == pytest.approx(zero - arena["lower_bound"] * scale, abs=1e-2)
    for box, item in zip(boxes(root), arena["items"], strict=True):
        x, y, width, height = (float(box.get(k, "")) for k in ("x", "y", "width", "height"))
        assert x == pytest.approx(left + item["first"] * wide, abs=1e-2)
        assert width == pytest.approx((item["last"] + 1 - item["first"]) * wide, abs=1e-2)
        assert height == pytest.approx(item["size"] * scale, abs=1e-2)
        assert y + height == pytest.approx(zero - item["offset"] * scale, abs=1e-2)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_the_report_is_what_the_session_says(model: Path, capsys: Capture, backend: str) -> None:
    report = reported(capsys, model, "--backend", backend, "--threads", 1)
    with qnnrt.Session(model, backend, threads=1) as session:
        described = json.loads(session.graph.describe())
    assert {key: report[key] for key in described} == described
    (x,) = report["inputs"]
    assert (x["name"], x["shape"], x["dtype"]) == ("x", [1, 3, 16, 16], "float32")
    assert (x["bytes"], x["prepared"], x["bound"]) == (3072, "memhandle", "memhandle")
    kinds = {t["name"]: t["kind"] for t in report["tensors"]}
    assert (kinds["x"], kinds["y"]) == ("input", "output")
    assert "static" in kinds.values()


def test_the_table_has_steps_tensors_and_memory(model: Path, capsys: Capture) -> None:
    report = reported(capsys, model, "--io", "raw")
    assert main(["inspect", str(model), "--io", "raw"]) == 0
    text = capsys.readouterr().out
    assert f"arena       {report['arena']['peak']:,} bytes" in text
    assert f"weights     {report['weight_bytes']:,} bytes" in text
    assert "input x: float32[1, 3, 16, 16], 3 KiB, prepared raw, bound raw" in text
    for step in report["steps"]:
        assert step["kernel"] in text
        assert " + ".join([step["op"], *step["fused"]]) in text
    for item in report["arena"]["items"]:
        assert item["kind"] != "tensor" or item["name"] in text


def test_boxes_are_the_items_of_the_plan(model: Path, tmp_path: Path, capsys: Capture) -> None:
    svg, page = tmp_path / "arena.svg", tmp_path / "arena.html"
    report = reported(capsys, model, "--svg", svg, "--html", page)
    assert {"a<1>", "b&\"2'"} & {item["name"] for item in report["arena"]["items"]}
    check_drawing(ElementTree.parse(svg).getroot(), report)
    text = page.read_text(encoding="utf-8")
    check_drawing(ElementTree.fromstring(text), report)  # well-formed as XML, too
    assert text.startswith("<!DOCTYPE html>")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # nothing is fetched
    assert "src=" not in text
    assert "@import" not in text


def test_a_context_binary_is_inspected(model: Path, tmp_path: Path, capsys: Capture) -> None:
    binary = tmp_path / "small.bin"
    with qnnrt.Session(model) as session:
        session.save_binary(binary)
    report = reported(capsys, binary, "--svg", tmp_path / "binary.svg")
    assert report["arena"]["items"] == reported(capsys, model)["arena"]["items"]
    assert report["tensors"] == []
    check_drawing(ElementTree.parse(tmp_path / "binary.svg").getroot(), report)


def test_a_quantized_model_has_encodings_and_lpai_its_io_in_the_arena(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    uint8 = np.dtype(np.uint8)
    pair = qnnrt.model.Quantization(0.5, -3)
    names = ["x", "t", "y"]
    tensors = {n: Tensor(n, (4, 64), uint8, quantization=pair) for n in names}
    nodes = [Node("r", "Relu", ["x"], ["t"]), Node("p", "Transpose", ["t"], ["y"])]
    nodes[1].params["perm"] = np.array([1, 0], np.uint32)
    tensors["y"] = Tensor("y", (64, 4), uint8, quantization=pair)
    small = Model("quantized", tensors, nodes, ["x"], ["y"])
    path = tmp_path / "model.onnx"
    path.touch()
    monkeypatch.setattr("qnnrt.cli._common.load", lambda _: small)
    html = tmp_path / "lpai.html"
    report = reported(capsys, path, "--backend", "lpai", "--io", "scratch", "--html", html)
    assert report["inputs"][0]["encoding"] == "0.5 x (q -3)"
    kinds = [item["kind"] for item in report["arena"]["items"]]
    assert {"input", "output"} <= set(kinds)
    check_drawing(ElementTree.parse(html).getroot(), report)


def test_the_drawing_of_a_thousand_tensors_has_text_where_it_can_be_read() -> None:
    random = np.random.default_rng(1)
    first = np.sort(random.integers(0, 990, 1000))
    last = first + random.integers(0, 10, 1000)
    size = random.integers(1, 1 << 20, 1000)
    plan = qnnrt.planning.plan(zip(first.tolist(), last.tolist(), size.tolist(), strict=True))
    arena = {
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "sum": plan.sum,
        "order": plan.order,
        "items": [
            {"name": f"tensor \x00{i}", "kind": "tensor", "offset": offset}
            | {"size": int(size[i]), "first": int(first[i]), "last": int(last[i])}
            for i, offset in enumerate(plan.offsets)
        ],
    }
    arena["items"][7] |= {"first": 0, "last": 999}  # a long one: it has a label
    steps = [{"name": f"node {i}", "op": "Conv2d"} for i in range(1000)]
    drawing = _arena_drawing.svg("thousand", arena, steps)
    root = ElementTree.fromstring(drawing)
    check_drawing(root, {"arena": arena, "steps": steps})
    labels = [e for e in root.iter(f"{SVG}text") if e.get("class") == "label"]
    assert len(labels) <= 1
    assert all(box.find(f"{SVG}title") is not None for box in boxes(root))
    assert len(drawing) < 600_000


def test_an_arena_without_items_is_drawn() -> None:
    arena = {"peak": 0, "lower_bound": 0, "sum": 0, "order": "", "items": []}
    root = ElementTree.fromstring(_arena_drawing.svg("empty", arena, []))
    assert boxes(root) == []


def test_bad_options_and_files_are_one_line(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert "no such file" in complaint(capsys, "inspect", tmp_path / "none.onnx")
    assert "--plan-ms" in complaint(capsys, "inspect", model, "--plan-ms", 0)
    assert "one graph" in complaint(capsys, "inspect", model, "--graph", "g")
    graph = load(model)
    graph.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "H"
    save(graph, tmp_path / "open.onnx")
    assert "--shape DIMENSION=N" in complaint(capsys, "inspect", tmp_path / "open.onnx")
    assert reported(capsys, tmp_path / "open.onnx", "--shape", "H=16")["inputs"][0]["bytes"] == 3072
    assert "No such file" in complaint(capsys, "inspect", model, "--svg", tmp_path / "no/x.svg")
    assert "float" in complaint(capsys, "inspect", model, "--backend", "lpai")
    (tmp_path / "bad.bin").write_bytes(b"none")
    complaint(capsys, "inspect", tmp_path / "bad.bin")
    complaint(capsys, "inspect", model, "--backend", tmp_path / "libOther.so")
    assert "scratch" in complaint(capsys, "inspect", model, "--io", "scratch")
    with qnnrt.Session(model) as session:
        session.save_binary(tmp_path / "small.bin")
    line = complaint(capsys, "inspect", tmp_path / "small.bin", "--plan-ms", 5)
    assert "planned when it was made" in line
