"""net-run: input lists, element types, sizes and batches, results in files, options."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st

import qnnrt
from qnnrt import _core
from qnnrt.cli import _io_sets, _parser
from qnnrt.cli._input_list import FileTypes, plan, sanitized
from qnnrt.cli._tools import verdict
from qnnrt.cli._values import CHUNK, decode, encode
from qnnrt.dtypes import data_type, numpy_dtype
from qnnrt.model import Quantization
from qnnrt.profile_log import ProfileLogContents
from support.tool_cases import (
    PYTHON_MODEL,
    TYPES,
    TYPES_MODEL,
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

A = np.array([[1, -2, 3, -4]], np.float32)
B = np.array([[0.5, 0.25, -8, 1]], np.float32)
TOTAL = A + 2 * B


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    raw(tmp_path / "a.raw", A)
    raw(tmp_path / "b.raw", B)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return onnx_model(tmp_path)


def net_run(model: Path, *more: object, backend: str = "cpu") -> tuple[object, ...]:
    return ("net-run", "--model", model, "--backend", backend, *more)


# ---- input lists ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "a.raw b.raw",
        "a:=a.raw in/b:=b.raw",
        "in/b:=b.raw a:=a.raw",
        "in_b:=b.raw a:=a.raw",
        "  a.raw b.raw  ",
    ],
)
def test_files_find_their_inputs_by_order_or_by_name(
    line: str, model: Path, tmp_path: Path
) -> None:
    assert call(*net_run(model, "--input_list", listed(tmp_path / "l", "", line, "", ""))) == 0
    assert results(tmp_path / "output") == {"Result_0": {"total.raw", "positive.raw"}}
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])
    positive = numbers(tmp_path / "output/Result_0/positive.raw")
    np.testing.assert_array_equal(positive, np.maximum(TOTAL[0], 0))


def test_names_count_only_when_every_entry_of_the_first_line_has_one(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    found = report(
        capsys, *net_run(model, "--input_list", listed(tmp_path / "l", "in/b:=a.raw b.raw"))
    )
    assert any("l:1: not every file has a name" in line for line in found["warnings"])
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])


def test_later_lines_follow_the_first_or_their_own_names(model: Path, tmp_path: Path) -> None:
    lines = ["in/b:=b.raw a:=a.raw", "b.raw a.raw", "a:=b.raw in/b:=a.raw"]
    assert call(*net_run(model, "--input_list", listed(tmp_path / "l", *lines))) == 0
    for n, expected in enumerate((TOTAL, TOTAL, B + 2 * A)):
        total = numbers(tmp_path / f"output/Result_{n}/total.raw")
        np.testing.assert_array_equal(total, expected[0])


@pytest.mark.parametrize(
    ("head", "files"),
    [
        (["#positive"], {"positive.raw"}),
        (["%positive"], {"positive.raw"}),
        (["#cut", "%total"], {"positive.raw", "total.raw"}),
        (["#cut"], {"positive.raw"}),
        (["# nothing known"], {"positive.raw", "total.raw"}),
    ],
)
def test_the_first_lines_select_outputs(
    head: list[str], files: set[str], model: Path, tmp_path: Path
) -> None:
    assert call(*net_run(model, "--input_list", listed(tmp_path / "l", *head, "a.raw b.raw"))) == 0
    assert results(tmp_path / "output") == {"Result_0": files}


def test_a_mark_further_down_begins_a_file_name(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    raw(tmp_path / "#a.raw", A)
    raw(tmp_path / "%a.raw", A)
    lines = ["%positive", "a.raw b.raw", "#a.raw b.raw", "%a.raw b.raw"]
    found = report(capsys, *net_run(model, "--input_list", listed(tmp_path / "l", *lines)))
    assert found["inferences_completed"] == 3
    wrong = listed(tmp_path / "w", "%positive", "#total", "a.raw b.raw")
    assert "w:2: 1 files, but the graph has 2 inputs: a, in/b" in complaint(
        capsys, *net_run(model, "--input_list", wrong)
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a.raw"], "l:1: 1 files, but the graph has 2 inputs: a, in/b"),
        (["a.raw b.raw a.raw"], "l:1: 3 files, but the graph has 2 inputs"),
        (["a.raw b.raw", "a.raw"], "l:2: 1 files"),
        (["a:=a.raw c:=b.raw"], "l:1: the graph has no input 'c'; it has a, in/b"),
        (["a:=a.raw a:=b.raw"], "l:1: an input is given twice"),
        (["a:=a.raw in/b:=b.raw", "a:=a.raw b.raw"], "l:2: only some files have names"),
        (["a.raw none.raw"], "l:1: none.raw: No such file or directory"),
        (["a.raw ."], "l:1: .: not a file"),
        ([], "the input list names no files"),
        (["#total"], "the input list names no files"),
    ],
)
def test_a_bad_list_is_one_line_that_says_where(
    lines: list[str], words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert words in complaint(
        capsys, *net_run(model, "--input_list", listed(tmp_path / "l", *lines))
    )
    assert results(tmp_path) == {}


def test_names_are_sanitised_as_the_converter_does_it() -> None:
    names = {"x": "x", "a/b:0": "a_b_0", "1x": "_1x", "_x": "_x", "é": "_", "a..b": "a__b"}
    assert {name: sanitized(name) for name in names} == names


# ---- element types -------------------------------------------------------------------------------


def test_float32_files_become_every_type_and_come_back(tmp_path: Path) -> None:
    model = python_model(tmp_path, "types", TYPES_MODEL)
    values = {name: np.array([0, 1, 2, 3, 100, 7], np.float32) for name in TYPES}
    values["float16"] = np.array([0, 1.5, -2.25, 65504, 1e-7, 0.1], np.float32)
    values["float64"] = np.array([0, 1.5, -2.25, 1e30, 1e-30, 0.1], np.float32)
    values["int8"][:] = [-128, 127, 0, 1, -1, 5]
    values["int32"][:] = [-(2**31), 2**24, 0, 1, -1, 5]
    values["int64"][:] = [-(2**63), 2**62, 0, 1, -1, 5]
    values["uint16"][:] = [0, 65535, 3, 1, 9, 5]
    for name, array in values.items():
        raw(tmp_path / f"{name}.raw", array)
    line = " ".join(f"in_{name}:={name}.raw" for name in TYPES)
    more = ("--input_list", listed(tmp_path / "l", line), "--output_data_type", "float_and_native")
    assert call(*net_run(model, *more)) == 0
    for name in TYPES:
        own = values[name].astype(np.dtype(name))
        native = numbers(tmp_path / f"output/Result_0/out_{name}_native.raw", np.dtype(name))
        np.testing.assert_array_equal(native, own, name)
        back = numbers(tmp_path / f"output/Result_0/out_{name}.raw")
        np.testing.assert_array_equal(back, own.astype(np.float32), name)


def test_native_files_are_taken_as_they_are(tmp_path: Path) -> None:
    model = python_model(tmp_path, "types", TYPES_MODEL)
    rng = np.random.default_rng(5)
    for name in TYPES:
        low = 2 if name == "bool" else 120
        raw(tmp_path / f"{name}.raw", rng.integers(0, low, 6), np.dtype(name))
    line = " ".join(f"in_{name}:={name}.raw" for name in TYPES)
    some = ",".join(f"in_{name}" for name in TYPES)
    for option in (
        ["--use_native_input_files"],
        ["--input_data_type", "native"],
        ["--native_input_tensor_names", f"types:{some}"],
        ["--native_input_tensor_names", some],
    ):
        more = ("--input_list", listed(tmp_path / "l", line), "--use_native_output_files")
        assert call(*net_run(model, *more, *option)) == 0
        for name in TYPES:
            given = (tmp_path / f"{name}.raw").read_bytes()
            assert (tmp_path / f"output/Result_0/out_{name}_native.raw").read_bytes() == given
    assert not (tmp_path / "output/Result_0/out_int8.raw").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("int8", 128, "element 3 is 128, which 'in_int8' (INT_8[1, 6]) cannot hold"),
        ("uint8", -1, "element 3 is -1"),
        ("int32", 2.5, "element 3 is 2.5"),
        ("int32", float("nan"), "element 3 is nan"),
        ("int64", 2.0**63, "element 3 is 9.22337e+18"),
        ("bool", float("nan"), "element 3 is nan"),
        ("uint16", float("inf"), "element 3 is inf"),
    ],
)
def test_a_number_that_a_type_cannot_hold_is_refused(
    name: str, value: float, words: str, tmp_path: Path, capsys: Capture
) -> None:
    model = python_model(tmp_path, "types", TYPES_MODEL)
    for each in TYPES:
        raw(tmp_path / f"{each}.raw", np.zeros(6))
    raw(tmp_path / f"{name}.raw", [0, 0, 0, value, 0, 0])
    line = " ".join(f"in_{each}:={each}.raw" for each in TYPES)
    error = complaint(capsys, *net_run(model, "--input_list", listed(tmp_path / "l", line)))
    assert f"{name}.raw: {words}" in error


def tensor(dtype: str, shape: tuple[int, ...], quantization: Quantization) -> _core.Tensor:
    code = data_type(dtype) if dtype.isupper() else data_type(dtype, quantized=True)
    return _core.Tensor("q", shape, code, 0, quantization=quantization, dtype=numpy_dtype(code))


@pytest.mark.parametrize(
    ("dtype", "quantization", "low", "high"),
    [
        ("uint8", Quantization(0.5, -10), 0, 255),
        ("int8", Quantization(0.125, 0), -128, 127),
        ("uint16", Quantization(0.25, -30000), 0, 65535),
        ("int16", Quantization(2.0, 5), -32768, 32767),
        ("int32", Quantization(0.5, 0), -(2**31), 2**31 - 1),
        ("UFIXED_POINT_4", Quantization(1.0, -8), 0, 15),
        ("SFIXED_POINT_4", Quantization(1.0, 0), -8, 7),
        ("int8", Quantization(0.5, 0, bitwidth=4), -8, 7),
    ],
)
def test_fixed_point_rounds_halves_away_from_zero_and_clamps(
    dtype: str, quantization: Quantization, low: int, high: int
) -> None:
    steps = np.array([-2.5, -1.5, -0.5, -0.49, 0, 0.49, 0.5, 1.5, 2.5, 3.25, -1e12, 1e12])
    scale, offset = float(quantization.scale), int(quantization.offset)
    values = ((steps + offset) * scale).astype(np.float32)
    t = tensor(dtype, (len(values),), quantization)
    out = np.zeros(len(values), t.dtype)
    encode(t, values, out, 0, "file")
    exact = values.astype(np.float64) / scale - offset
    away = [int(v + 0.5) if v >= 0 else -int(-v + 0.5) for v in exact]
    np.testing.assert_array_equal(out, np.clip(away, low, high))
    np.testing.assert_array_equal(
        decode(t, out, 0), ((out.astype(np.float64) + offset) * scale).astype(np.float32)
    )


def test_encodings_along_an_axis_are_kept_apart_in_every_part() -> None:
    scales, offsets = np.array([0.5, 2.0, 0.25], np.float32), np.array([0, -5, 3], np.int32)
    t = tensor("int8", (2, 3, 4), Quantization(scales, offsets, axis=1))
    values = np.random.default_rng(7).uniform(-20, 20, (2, 3, 4)).astype(np.float32)
    s, o = scales.reshape(3, 1).astype(np.float64), offsets.reshape(3, 1)
    exact = values / s - o
    expected = np.clip(np.trunc(exact + np.copysign(0.5, exact)), -128, 127).ravel()
    out = np.zeros(24, np.int8)
    for at in range(0, 24, 5):  # parts begin anywhere
        encode(t, values.ravel()[at : at + 5], out[at : at + 5], at, "file")
    np.testing.assert_array_equal(out, expected)
    real = ((expected.reshape(2, 3, 4) + o) * s).astype(np.float32).ravel()
    back = np.concatenate([decode(t, out[at : at + 7], at) for at in range(0, 24, 7)])
    np.testing.assert_array_equal(back, real)


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


@settings(max_examples=150, deadline=None)
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
    assert "1 lists, but 2 graphs: sum, m" in complaint(capsys, *run, two)
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
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"))
    start = time.monotonic()
    found = report(capsys, *run, "--duration", 0.3, "--keep_num_outputs", 0)
    assert time.monotonic() - start >= 0.3
    assert found["inferences_completed"] > 1
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


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [[], ["--synchronous"], ["--asynchronous"]])
@pytest.mark.parametrize("kind", [None, "ion", "dma_buf", "shared_buffer"])
def test_results_do_not_depend_on_how_memory_is_bound(
    kind: str | None, way: list[str], model: Path, tmp_path: Path, capsys: Capture
) -> None:
    random = np.random.default_rng(3)
    pairs = [random.standard_normal((2, 4)).astype(np.float32) for _ in range(13)]
    for n, (a, b) in enumerate(pairs):
        raw(tmp_path / f"a{n}.raw", a)
        raw(tmp_path / f"b{n}.raw", b)
    given = listed(tmp_path / "l", *(f"a{n}.raw b{n}.raw" for n in range(len(pairs))))
    option = [] if kind is None else [f"--io_tensor_mem_handle_type={kind}"]
    found = report(capsys, *net_run(model, "--input_list", given, *option, *way, backend="htp"))
    for n, (a, b) in enumerate(pairs):
        total = numbers(tmp_path / f"output/Result_{n}/total.raw")
        np.testing.assert_array_equal(total, a + 2 * b)
    (graph,) = found["graphs"]
    assert graph["copied_bytes_per_execution"] == (0 if kind else 4 * 4 * 4)
    assert {(c["tensor"], c["direction"]) for c in graph["copies"]} == (
        set() if kind else {("a", "in"), ("in/b", "in"), ("total", "out"), ("positive", "out")}
    )


def test_a_backend_without_handles_says_so(model: Path, tmp_path: Path, capsys: Capture) -> None:
    from qnnrt.errors import make_error

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise make_error(8005, "mem", "memRegister", "", "not here")

    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), "--shared_buffer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qnnrt.qnn.Context, "register", refuse)
        error = complaint(capsys, *run)
    assert "takes no memory handles of type shared_buffer" in error


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--use_native_input_files", "--native_input_tensor_names", "sum:a"], "not allowed with"),
        (["--input_data_type", "float", "--use_native_input_files"], "contradicts"),
        (["--use_native_output_files", "--output_data_type", "float_only"], "contradicts"),
        (["--native_input_tensor_names", "sum:zzz"], "graph sum has no input 'zzz'"),
        (["--native_input_tensor_names", "other:a"], "no graph 'other'; there are sum"),
        (["--native_input_tensor_names", "sum:"], "expected GRAPH:TENSOR[,TENSOR...]"),
        (["--set_output_tensors", "sum:zzz"], "has no tensor 'zzz' that a node produces"),
        (["--set_output_tensors", "zzz:a"], "--set_output_tensors: no graph 'zzz'"),
        (["--debug", "--set_output_tensors", "sum:twice"], "leave --set_output_tensors out"),
        (["--num_inferences", "0"], "'0' is not a whole number of at least 1"),
        (["--num_inferences", "2", "--duration", "1"], "give one of them"),
        (["--duration", "-1"], "'-1' is not a number of seconds"),
        (["--duration", "nan"], "'nan' is not a number of seconds"),
        (["--keep_num_outputs", "-1"], "'-1' is not a whole number"),
        (["--synchronous", "--asynchronous"], "not allowed with"),
        (
            ["--max_input_cache_tensor_sets", "1", "--max_input_cache_size_mb", "1"],
            "not allowed with",
        ),
        (["--shared_buffer", "--io_tensor_mem_handle_type", "ion"], "contradict each other"),
        (["--device_options", "device_id:1"], "there is one device, number 0"),
        (["--device_options", "speed:9"], "expected device_id:N or core_id:N"),
        (["--profiling_option", "optrace"], "needs --profiling_level detailed"),
        (["--profiling_level", "much"], "invalid choice: 'much'"),
        (["--op_packages", "lib.so"], "'lib.so': expected PATH:PROVIDER[:TARGET]"),
        (["--op_packages", "lib.so:Provider"], "lib.so"),
        (["--platform_options", "no_such_key:1"], "no_such_key"),
        (["--dlc_path", "m.dlc"], "--dlc_path is not supported"),
        (["--binary_updates", "u.bin"], "--binary_updates is not supported"),
        (["--retrieve_context", "c.bin"], "not allowed with argument"),
        (["--num_inf", "3"], "unrecognized arguments: --num_inf"),
        (["--save_context_binary", "x"], "unrecognized arguments: --save_context_binary"),
        (["--asynchronous"], "has no asynchronous execution"),
        (["--input_list", "missing.txt"], "missing.txt: no such input list"),
        (["--config_file", "missing.json"], "missing.json: no such file"),
        (["--backend", "libNothing.so"], "libNothing.so"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(
    option: list[str], words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = listed(tmp_path / "l", "a.raw b.raw")
    error = complaint(capsys, *net_run(model, "--input_list", given, *option))
    assert words in error
    assert results(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.onnx", "no such file"),
        ("libmodel.so", "model libraries call the vendor's code"),
        ("m.dlc", "the vendor's own format"),
        ("m.bin", "a context binary goes to --retrieve_context"),
        ("bad.onnx", "bad.onnx"),
        ("notes.txt", "notes.txt"),
        ("sum.onnx,sub/sum.onnx", "there is a graph 'sum' already"),
        ("syntax.py", "syntax.py"),
        ("nothing.py", "has no function compose(graph)"),
        ("raises.py", "raises.py:3: compose() failed: ZeroDivisionError: division by zero"),
        ("empty.py", "the graph has no output"),
    ],
)
def test_a_model_that_cannot_be_used_is_named(
    name: str, words: str, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    for other in ("libmodel.so", "m.dlc", "m.bin", "bad.onnx", "notes.txt"):
        (tmp_path / other).write_bytes(b"this is no model \xff")
    (tmp_path / "sub").mkdir()
    onnx_model(tmp_path / "sub")
    python_model(tmp_path, "syntax", "def compose(:\n")
    python_model(tmp_path, "nothing", "x = 1\n")
    python_model(tmp_path, "raises", "\ndef compose(graph):\n    1 / 0\n")
    python_model(tmp_path, "empty", "def compose(graph):\n    pass\n")
    run = ["net-run", "--model", name, "--backend", "cpu", "--input_list"]
    assert words in complaint(capsys, *run, listed(tmp_path / "l", "a.raw b.raw"))


def test_a_python_model_may_import_what_lies_beside_it(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "width_of_it.py").write_text("WIDTH = 8\n")
    text = (
        "import width_of_it, numpy as np\n"
        "def compose(graph):\n"
        '    x = graph.add_tensor("x", (1, width_of_it.WIDTH), np.float32, type="app_write")\n'
        '    y = graph.add_tensor("y", (1, width_of_it.WIDTH), np.float32, type="app_read")\n'
        '    graph.add_node("relu", "Relu", [x], [y])\n'
    )
    raw(tmp_path / "x.raw", np.arange(8))
    path = list(sys.path)
    run = net_run(python_model(folder, "2 b", text))
    found = report(capsys, *run, "--input_list", listed(tmp_path / "l", "x.raw"))
    assert found["graphs"][0]["name"] == "_2_b"
    assert sys.path == path


def test_harmless_options_are_accepted_with_a_warning(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"))
    options = ["--model_prefix=QnnModel", "--direct_mode", "--perf_profile", "burst"]
    options += ["--validate_binary", "--use_mmap", "--device_options", "device_id:0;core_id:0"]
    assert call(*run, *options) == 0
    warnings = capsys.readouterr().err.splitlines()
    assert all(line.startswith("qnnrt net-run: warning: ") for line in warnings)
    for name in ("--model_prefix", "--direct_mode", "burst", "--validate_binary", "--use_mmap"):
        assert sum(name in line for line in warnings) == 1, (name, warnings)
    assert len(warnings) == 5


def test_the_version_is_printed(capsys: Capture) -> None:
    assert call("net-run", "--version") == 0
    assert capsys.readouterr().out == f"qnnrt {qnnrt.__version__}\n"


TOOLS = ("context-binary-generator", "context-binary-utility", "net-run", "profile-viewer")
TOOLS += ("platform-validator", "throughput-net-run")


def tools(names: set[str]) -> list[tuple[str, str, str]]:
    """(command, option, verdict) for every option of some commands."""
    (commands,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return [
        (name, option, verdict(action))
        for name in names
        for action in commands.choices[name]._actions
        for option in action.option_strings
        if option not in ("-h", "--help") and action.help != argparse.SUPPRESS
    ]


def test_the_tables_of_options_are_those_of_the_parsers() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/tools.md").read_text(encoding="utf-8")
    listed_there = []
    for section in re.split(r"^## qnnrt ", text, flags=re.MULTILINE)[1:]:
        command = section.split("\n", 1)[0]
        rows = re.findall(r"^\| `(--\w+)` \| ([a-z ]+) \|", section, re.MULTILINE)
        listed_there += [(command, option, word) for option, word in rows]
    described = {command for command, _, _ in listed_there}
    assert described >= set(TOOLS)
    assert sorted(listed_there) == sorted(tools(described))


# ---- profiles, logs, a process of its own --------------------------------------------------------


@pytest.mark.parametrize("level", ["basic", "detailed", "client", "backend"])
@pytest.mark.parametrize("way", [[], ["--asynchronous"]])
def test_profiles_hold_every_call(
    level: str, way: list[str], model: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = listed(tmp_path / "l", *["a.raw b.raw"] * 3)
    run = net_run(model, "--input_list", given, "--profiling_level", level, *way, backend="htp")
    report(capsys, *run)
    log = ProfileLogContents.read(tmp_path / "output/qnn-profiling-data_0.log")
    assert log.complete
    assert log.app == "qnnrt net-run"
    execute = "execute_async" if way else "execute"
    assert [m.method_name for m in log.messages] == ["compose_graphs", "finalize", *[execute] * 3]
    assert all(m.graph == "sum" for m in log.messages)
    assert all(m.stop_us >= m.start_us > 0 for m in log.messages)
    measured = [bool(m.events) for m in log.messages if m.method_name == execute]
    assert measured == [level != "client"] * 3


def test_the_log_of_copies_goes_to_stderr_at_its_level(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), backend="htp")
    assert call(*run) == 0
    out, err = capsys.readouterr()
    assert "64 bytes copied per execution" in out
    assert err.count("prepared raw, executed raw") == 4
    assert call(*run, "--log_level", "error") == 0
    assert capsys.readouterr().err == ""


def test_platform_options_reach_the_backend(model: Path, tmp_path: Path) -> None:
    """In a process of its own: a budget is the process's."""
    listed(tmp_path / "l", "a.raw b.raw")
    run = net_run(model, "--input_list", "l", "--platform_options", "domain_bytes:100")
    command = [sys.executable, "-m", "qnnrt.cli", *map(str, run[:-1]), "domain_bytes:100"]
    command[command.index("cpu")] = "htp"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "8003" in done.stderr
    assert "of its 100 bytes are in use" in done.stderr


def test_a_vote_for_power_is_taken_where_there_are_votes(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = net_run(model, "--input_list", listed(tmp_path / "l", "a.raw b.raw"), backend="htp")
    found = report(capsys, *run, "--perf_profile", "burst", "--profiling_level", "detailed")
    assert found["warnings"] == []


def test_the_loader_finds_a_library_as_scripts_name_it(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    listed(tmp_path / "l", "a.raw b.raw")
    run = net_run(model, "--input_list", "l", backend="libQnnCpu.so")
    folder = Path(qnnrt.__file__).parent / "lib"
    command = [sys.executable, "-m", "qnnrt.cli", *map(str, run)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])
    error = complaint(capsys, *net_run(model, "--input_list", "l", backend="libQnnNone.so"))
    assert "libQnnNone.so" in error
    assert "`qnnrt lib-dir` prints that of this package's libraries" in error


def test_a_process_of_its_own(model: Path, tmp_path: Path) -> None:
    listed(tmp_path / "l", "a.raw b.raw")
    command = [sys.executable, "-m", "qnnrt.cli", *map(str, net_run(model, "--input_list", "l"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("sum: 1 inference, ")
    np.testing.assert_array_equal(numbers(tmp_path / "output/Result_0/total.raw"), TOTAL[0])


def test_what_a_library_prints_does_not_spoil_the_json(tmp_path: Path) -> None:
    """As the vendor's simulator does: a line on file descriptor 1, behind Python's back."""
    noisy = "import os\n" + PYTHON_MODEL + '    os.write(1, b"noise\\n")\n'
    python_model(tmp_path, "noisy", noisy)
    raw(tmp_path / "x.raw", np.zeros((2, 8)))
    listed(tmp_path / "l", "x.raw")
    arguments = net_run("noisy.py", "--input_list", "l", "--log_level", "error", "--json")
    command = [sys.executable, "-m", "qnnrt.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inferences_completed"] == 1
    assert done.stderr == "noise\n"
