"""net-run: sizes and batches, results in files."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_
from hypothesis import strategies as st

from qnnrt.cli import _io_sets, _net_jobs
from qnnrt.cli._input_list import FileTypes, plan
from qnnrt.cli._values import CHUNK
from qnnrt.dtypes import data_type
from support.net_run import TOTAL, A, B, net_run
from support.tool_cases import (
    Capture,
    call,
    complaint,
    listed,
    numbers,
    onnx_model,
    python_model,
    raw,
    report,
    results,
)

pytestmark = pytest.mark.usefixtures("inputs_here")

# ---- sizes and batches ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "lines", "executions"), [(2, 3, 3), (1, 4, 2), (1, 3, 2), (1, 1, 1)]
)
def test_files_that_are_parts_of_a_batch_are_put_together(
    count: int, lines: int, executions: int, tmp_path: Path, capsys: Capture
) -> None:
    model = python_model(tmp_path)
    random = np.random.default_rng(11)
    values = [random.standard_normal(8 * count).astype(np.float32) for _ in range(lines)]
    for n, v in enumerate(values):
        raw(tmp_path / f"{n}.raw", v)
    given = listed(tmp_path / "l", *(f"{n}.raw" for n in range(lines)))
    found = report(capsys, *net_run(model, "--input_list", given))
    assert found["inferences_completed"] == lines
    assert found["graphs"][0]["executions"] == executions
    assert set(results(tmp_path / "output")) == {f"Result_{n}" for n in range(lines)}
    for n, v in enumerate(values):
        got = numbers(tmp_path / f"output/Result_{n}/out_y.raw")
        np.testing.assert_array_equal(got, -np.maximum(v, 0))


def test_a_partial_batch_is_padded_with_zeros(tmp_path: Path) -> None:
    """Zeros, not what the batch before left: y = exp(x) of the padding would show."""
    model = python_model(
        tmp_path,
        "sum",
        "import numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (3, 2), np.float32, type="app_write")\n'
        '    y = graph.add_tensor("y", (3, 1), np.float32, type="app_read")\n'
        '    t = graph.add_tensor("t", (), np.float32)\n'
        '    o = graph.add_tensor("o", (3, 1), np.float32, type="static", '
        "data=np.zeros((3, 1), np.float32))\n"
        '    graph.add_node("s", "ReduceSum", [x], [t], {"axes": np.array([0, 1], np.uint32)})\n'
        '    graph.add_node("a", "ElementWiseAdd", [o, t], [y])\n',
    )
    for n in range(4):
        raw(tmp_path / f"{n}.raw", [10.0**n, 0])
    given = listed(tmp_path / "l", *(f"{n}.raw" for n in range(4)))
    assert call(*net_run(model, "--input_list", given)) == 0
    sums = [numbers(tmp_path / f"output/Result_{n}/y.raw").tolist() for n in range(4)]
    assert sums == [[111.0], [111.0], [111.0], [1000.0]]


@pytest.mark.parametrize(("parts", "per_file"), [(1, 4), (2, 2), (4, 1)])
def test_a_batch_multiplier_makes_tensors_longer(
    parts: int, per_file: int, tmp_path: Path, capsys: Capture
) -> None:
    """Two executions of a batch of two stand for one of four, whatever the files hold of it."""
    model = python_model(tmp_path)
    values = np.random.default_rng(13).standard_normal((4, 8)).astype(np.float32)
    for n in range(parts):
        raw(tmp_path / f"{n}.raw", values[n * per_file : (n + 1) * per_file])
    given = listed(tmp_path / "l", *(f"{n}.raw" for n in range(parts)))
    found = report(capsys, *net_run(model, "--input_list", given, "--batch_multiplier", 2))
    assert found["graphs"][0]["executions"] == 2
    assert found["inferences_completed"] == parts
    got = [numbers(tmp_path / f"output/Result_{n}/out_y.raw") for n in range(parts)]
    np.testing.assert_array_equal(np.concatenate(got), -np.maximum(values, 0).ravel())


def test_a_wrong_size_is_an_error_that_says_both_sizes(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(
        tmp_path,
        "half",
        "import numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (2, 6), np.float16, type="app_write")\n'
        '    y = graph.add_tensor("y", (2, 6), np.float16, type="app_read")\n'
        '    graph.add_node("relu", "Relu", [x], [y])\n',
    )
    run = net_run(model, "--input_list", listed(tmp_path / "l", "x.raw"))
    for size in (0, 47, 49, 16, 96):
        (tmp_path / "x.raw").write_bytes(bytes(size))
        error = complaint(capsys, *run)
        assert f"l:1: x.raw: {size} bytes, but input 'x' (FLOAT_16[2, 6]) takes 48" in error
        assert "or 24 in its own type with --use_native_input_files" in error
    # Half of a batch in float32, or all of it in float16: not guessed at.
    raw(tmp_path / "x.raw", np.arange(12), np.float16)
    assert "--input_data_type float)" in complaint(capsys, *run)
    assert call(*run, "--use_native_input_files") == 0
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/y.raw"), np.arange(12.0))
    raw(tmp_path / "x.raw", [5, 4, 3, 2, 1, 0])
    assert call(*run, "--input_data_type", "float") == 0
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/y.raw"), [5.0, 4, 3, 2, 1, 0])
    capsys.readouterr()
    (tmp_path / "x.raw").write_bytes(bytes(48))
    error = complaint(capsys, *run, "--use_native_input_files")
    assert "48 bytes, but input 'x' (FLOAT_16[2, 6]) takes 24 in its own type" in error
    assert "or 48 as float32" in error


def test_nothing_runs_when_any_file_is_wrong(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "short.raw").write_bytes(bytes(12))
    given = listed(tmp_path / "l", "a.raw b.raw", "a.raw b.raw", "a.raw short.raw")
    assert "l:3: short.raw: 12 bytes" in complaint(capsys, *net_run(model, "--input_list", given))
    assert results(tmp_path) == {}


def test_files_of_one_line_must_hold_equal_parts(tmp_path: Path, capsys: Capture) -> None:
    model = onnx_model(tmp_path, "pair", (4, 2))
    raw(tmp_path / "whole.raw", np.zeros(8))
    raw(tmp_path / "half.raw", np.zeros(4))
    run = net_run(model, "--input_list", tmp_path / "l")
    listed(tmp_path / "l", "whole.raw half.raw")
    assert "whole.raw is 1/1 of a, half.raw is 1/2 of in/b" in complaint(capsys, *run)
    listed(tmp_path / "l", "half.raw half.raw", "whole.raw whole.raw")
    assert "l:2: its files are 1/1 of their tensors" in complaint(capsys, *run)


def test_files_longer_than_what_is_converted_at_once(tmp_path: Path) -> None:
    size = CHUNK * 2 + 17
    model = python_model(
        tmp_path,
        "long",
        "import numpy as np\n"
        "def compose(graph):\n"
        f'    x = graph.add_tensor("x", (1, {size}), np.int32, type="app_write")\n'
        f'    y = graph.add_tensor("y", ({size}, 1), np.int32, type="app_read")\n'
        '    graph.add_node("r", "Reshape", [x], [y])\n',
    )
    values = np.random.default_rng(2).integers(-1000, 1000, size)
    raw(tmp_path / "x.raw", values)
    run = net_run(model, "--input_list", listed(tmp_path / "l", "x.raw"))
    assert call(*run, "--output_data_type", "float_and_native") == 0
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/y.raw"), values)
    native = numbers(tmp_path / "output/Result_0/y_native.raw", np.int32)
    np.testing.assert_array_equal(native, values)


class Fake:
    """As much of a tensor as the planning of files looks at."""

    data_type = data_type("float32")
    dtype = np.dtype(np.float32)

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self.shape = shape


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given_(
    rows=st.integers(1, 6),
    width=st.integers(1, 3),
    multiplier=st.integers(1, 4),
    lines=st.integers(1, 9),
    data=st.data(),
)
def test_every_element_goes_where_it_belongs(
    rows: int, width: int, multiplier: int, lines: int, data: st.DataObject
) -> None:
    """Through a graph that gives back what it gets, each line's results are its own files."""
    length = rows * multiplier
    parts = data.draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
    size = length // parts
    tensors = [Fake("a", (rows, width)), Fake("b", (rows,))]
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {}
        for n in range(lines):
            for t, per_row in ((0, width), (1, 1)):
                path = folder / f"{n}-{t}.raw"
                files[path] = random.standard_normal(size * per_row).astype(np.float32)
                files[path].tofile(path)
        given = [(f"l:{n}", [folder / f"{n}-{t}.raw" for t in (0, 1)]) for n in range(lines)]
        inferences = plan(given, tensors, tensors, FileTypes(), multiplier)  # type: ignore[arg-type]
    got = [[np.full(size * w, np.nan, np.float32) for w in (width, 1)] for _ in range(lines)]
    for inference in inferences:
        for t, (pieces, parts_) in enumerate(zip(inference.inputs, inference.outputs, strict=True)):
            memory = np.zeros(rows * (width, 1)[t], np.float32)
            for p in pieces:
                memory[p.start : p.start + p.count] = files[p.path][p.file_start :][: p.count]
            for o in parts_:
                there = got[o.result][t][o.file_start : o.file_start + o.count]
                assert np.isnan(there).all()  # nothing is written twice
                there[:] = memory[o.start : o.start + o.count]
    for n in range(lines):
        for t in (0, 1):
            np.testing.assert_array_equal(got[n][t], files[folder / f"{n}-{t}.raw"])
    assert sum(i.completes for i in inferences) == lines
    groups = -(-lines // parts)
    assert len(inferences) <= groups * multiplier


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "files"),
    [
        ([], {"total.raw", "positive.raw"}),
        (["--output_data_type", "float_only"], {"total.raw", "positive.raw"}),
        (["--output_data_type", "native_only"], {"total_native.raw", "positive_native.raw"}),
        (["--use_native_output_files"], {"total_native.raw", "positive_native.raw"}),
        (["--set_output_tensors", "sum:twice"], {"total.raw", "positive.raw", "twice.raw"}),
        (["--debug"], {"total.raw", "positive.raw", "twice.raw"}),
    ],
)
def test_which_files_are_written(
    option: list[str], files: set[str], model: Path, tmp_path: Path
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"))
    assert call(*run, *option, "--output_dir", "deep/er") == 0
    assert results(tmp_path / "deep/er") == {"Result_0": files}
    assert (tmp_path / "deep/er/execution_metadata.yaml").read_text() == "inferences_completed: 1\n"
    if "twice.raw" in files:
        twice = numbers(tmp_path / "deep/er/Result_0/twice.raw")
        np.testing.assert_array_equal(twice, 2 * B[0])


def test_several_graphs_have_folders_of_their_own(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = python_model(tmp_path)
    raw(tmp_path / "x.raw", np.arange(-8, 8))
    lists = f"{listed(tmp_path / 'one', 'a.raw b.raw', 'a.raw b.raw')}"
    two = listed(tmp_path / "two", "x.raw")
    run = ["net-run", "--model", f"{model},{other}", "--backend", "cpu", "--input_list"]
    found = report(capsys, *run, f"{lists},{two}")
    assert [g["name"] for g in found["graphs"]] == ["sum", "m"]
    assert results(tmp_path / "output") == {
        "m/Result_0": {"out_y.raw"},
        "sum/Result_0": {"total.raw", "positive.raw"},
        "sum/Result_1": {"total.raw", "positive.raw"},
    }
    metadata = (tmp_path / "output/execution_metadata.yaml").read_text()
    assert metadata == "inferences_completed: 3\ngraphs:\n  sum: 2\n  m: 1\n"
    found = report(capsys, *run, f"__,{two}", "--output_dir", "skipped")
    assert results(tmp_path / "skipped") == {"m/Result_0": {"out_y.raw"}}
    assert "1 list, but 2 graphs: sum, m" in complaint(capsys, *run, two)
    assert "every graph is left out" in complaint(capsys, *run, "__,__")


def test_outputs_whose_names_meet_are_all_kept(tmp_path: Path) -> None:
    model = python_model(
        tmp_path,
        "meet",
        "import numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (1, 2), np.float32, type="app_write")\n'
        '    for i, name in enumerate(("a/b", "a:b", "a_b", "a_b_native", "a_b_2")):\n'
        '        y = graph.add_tensor(name, (1, 2), np.float32, type="app_read")\n'
        '        graph.add_node(f"n{i}", "Relu", [x], [y])\n',
    )
    raw(tmp_path / "x.raw", [1, 2])
    run = net_run(model, "--input_list", listed(tmp_path / "l", "x.raw"), "--output_data_type")
    assert call(*run, "float_only") == 0
    (files,) = results(tmp_path / "output").values()
    assert files == {"a_b.raw", "a_b_1.raw", "a_b_2.raw", "a_b_native.raw", "a_b_2_4.raw"}
    assert call(*run, "float_and_native", "--output_dir", "both") == 0
    (files,) = results(tmp_path / "both").values()
    assert len(files) == 10


@pytest.mark.parametrize(("n", "kept"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_keep_num_outputs_limits_what_is_on_disk(
    n: int, kept: int, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = listed(tmp_path / "l", *["a.raw b.raw"] * 3)
    run = net_run(model, "--input_list", given, "--keep_num_outputs", n)
    assert report(capsys, *run)["inferences_completed"] == 3
    assert set(results(tmp_path / "output")) == {f"Result_{i}" for i in range(kept)}


@pytest.mark.parametrize("n", [1, 3, 7])
def test_num_inferences_repeats_the_list(
    n: int, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    raw(tmp_path / "b2.raw", 3 * B)
    given = listed(tmp_path / "l", "a.raw b.raw", "a.raw b2.raw", "b.raw a.raw")
    run = net_run(model, "--input_list", given, "--num_inferences", n)
    found = report(capsys, *run, "--max_input_cache_tensor_sets", 2)
    assert found["inferences_completed"] == n
    assert set(results(tmp_path / "output")) == {f"Result_{i}" for i in range(min(n, 3))}
    for i, expected in enumerate((TOTAL, A + 6 * B, B + 2 * A)[:n]):
        total = numbers(tmp_path / f"output/Result_{i}/total.raw")
        np.testing.assert_array_equal(total, expected[0])


def test_duration_repeats_the_list_for_so_long(
    model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that is a second later at each look: a real one may be so on a busy machine."""
    clock = SimpleNamespace(monotonic=itertools.count(100).__next__, perf_counter=time.perf_counter)
    monkeypatch.setattr(_net_jobs, "time", clock)
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"))
    found = report(capsys, *run, "--duration", 4, "--keep_num_outputs", 0)
    assert found["inferences_completed"] == 3  # after 1, 2 and 3 seconds
    assert results(tmp_path) == {}


@pytest.mark.parametrize(
    ("option", "sets", "reads"),
    [
        ([], 1, 80),  # the two lines take turns in one set: 40 executions with two files each
        (["--max_input_cache_tensor_sets", "100"], 2, 4),
        (["--max_input_cache_size_mb", "1"], 2, 4),
    ],
)
def test_inputs_in_memory_are_not_read_again(
    option: list[str],
    sets: int,
    reads: int,
    model: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 0
    original = _io_sets._read

    def counted(*args: object) -> None:
        nonlocal count
        count += 1
        original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(_io_sets, "_read", counted)
    lines = listed(tmp_path / "l", "a.raw b.raw", "b.raw a.raw")
    run = net_run(model, "--input_list", lines, "--num_inferences", 40)
    assert report(capsys, *run, *option)["graphs"][0]["tensor_sets"] == sets
    assert count == reads
    for n, expected in enumerate((TOTAL, B + 2 * A)):
        total = numbers(tmp_path / f"output/Result_{n}/total.raw")
        np.testing.assert_array_equal(total, expected[0])


def test_a_graph_without_inputs_needs_no_list(tmp_path: Path, capsys: Capture) -> None:
    model = python_model(
        tmp_path,
        "fixed",
        "import numpy as np\n"
        "def compose(graph):\n"
        '    c = graph.add_tensor("c", (2,), np.float32, type="static", '
        "data=np.array([-1, 2], np.float32))\n"
        '    y = graph.add_tensor("y", (2,), np.float32, type="app_read")\n'
        '    graph.add_node("relu", "Relu", [c], [y])\n',
    )
    found = report(capsys, *net_run(model))
    assert found["inferences_completed"] == 1
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/y.raw"), [0, 2])
