"""--shape of context-binary-generator and net-run, and --graph of net-run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qnnrt
from support.generator import generator, net_run
from support.tool_cases import Capture, call, complaint, listed, numbers, onnx_model, raw, report

pytestmark = pytest.mark.usefixtures("listed_here")

DIMS = ("batch", "n")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return onnx_model(tmp_path, shape=DIMS)  # type: ignore[arg-type]


def graphs(capsys: Capture, model: Path, *shapes: str) -> list[str]:
    options = [part for shape in shapes for part in ("--shape", shape)]
    given = generator(model, "--binary_file", "net", *options, backend="cpu")
    return [graph["name"] for graph in report(capsys, *given)["graphs"]]


def test_each_combination_is_a_graph_of_the_binary(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    names = [f"sum_batch_{b}_n_{n}" for b in (1, 2) for n in (4, 6)]
    assert graphs(capsys, model, "batch=1,2", "n=4,6") == names
    binary = tmp_path / "output/net.bin"
    assert qnnrt.load(binary).graphs == tuple(names)
    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    with qnnrt.Session(binary) as session:
        np.testing.assert_array_equal(session.run({"a": a, "in/b": a})["total"], 3 * a)


def test_combinations_may_be_listed_instead(model: Path, capsys: Capture) -> None:
    names = ["sum_batch_1_n_4", "sum_batch_3_n_2"]
    assert graphs(capsys, model, "batch=1;n=4", "batch=3;n=2") == names
    assert graphs(capsys, model, "n=4", "batch=1;n=4") == names[:1]


def test_an_input_may_have_several_shapes(tmp_path: Path, capsys: Capture) -> None:
    model = onnx_model(tmp_path, shape=("batch", 4))  # type: ignore[arg-type]
    found = graphs(capsys, model, "a=1,4", "a=2,4", "in/b=2,4")
    assert found == ["sum_a_1x4_in_b_2x4", "sum_batch_2"]


def test_one_shape_is_a_graph_that_is_called_as_its_file(model: Path, capsys: Capture) -> None:
    assert graphs(capsys, model, "batch=2", "n=5") == ["sum"]


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        (("batch=1,2",), "is not fixed"),
        (("batch=1,x", "n=1"), "expected NAME=N"),
        (("batch=1", "n=1", "width=2"), "width"),
        (("batch=1;n=2;",), "expected NAME=N"),
    ],
)
def test_bad_shapes_are_one_line(
    model: Path, capsys: Capture, shapes: tuple[str, ...], why: str
) -> None:
    options = [part for shape in shapes for part in ("--shape", shape)]
    assert why in complaint(capsys, *generator(model, "--binary_file", "net", *options))


def test_python_files_and_libraries_choose_their_shapes(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "m.py").write_text("def compose(graph): pass\n")
    said = complaint(capsys, *generator(tmp_path / "m.py", "--shape", "batch=1"))
    assert "chooses its shapes itself" in said


def test_net_run_takes_chosen_graphs_of_a_binary(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    graphs(capsys, model, "batch=1,2", "n=4,6")
    for size in (4, 12):
        raw(tmp_path / f"v{size}.raw", np.arange(size))
        listed(tmp_path / f"l{size}", f"a:=v{size}.raw in/b:=v{size}.raw")
    chosen = ["--graph", "sum_batch_2_n_6,sum_batch_1_n_4", "--input_list", "l12,l4"]
    found = report(capsys, *net_run("output/net.bin", *chosen, backend="cpu"))
    assert [g["name"] for g in found["graphs"]] == ["sum_batch_2_n_6", "sum_batch_1_n_4"]
    for name, size in (("sum_batch_2_n_6", 12), ("sum_batch_1_n_4", 4)):
        total = numbers(tmp_path / "output" / name / "Result_0/total.raw")
        np.testing.assert_array_equal(total, 3 * np.arange(size))
    said = complaint(capsys, *net_run("output/net.bin", "--graph", "other", "--input_list", "l4"))
    assert "no graph 'other'; there are sum_batch_1_n_4" in said
    said = complaint(capsys, *net_run("output/net.bin", "--shape", "n=1", "--input_list", "l4"))
    assert "were chosen when it was made" in said


def test_net_run_prepares_the_shapes_that_are_listed(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    raw(tmp_path / "v.raw", np.arange(6))
    listed(tmp_path / "l6", "a:=v.raw in/b:=v.raw")
    given = ("net-run", "--backend", "cpu", "--model", model)
    more = ("--shape", "batch=1", "--shape", "n=4,6", "--input_list", "__,l6")
    assert call(*given, *more) == 0
    found = numbers(tmp_path / "output/sum_batch_1_n_6/Result_0/total.raw")
    np.testing.assert_array_equal(found, 3 * np.arange(6))
    capsys.readouterr()
    assert "--graph is for" in complaint(capsys, *given, "--graph", "sum", "--input_list", "l6")
