"""net-run: input lists and element types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qnnrt import _core
from qnnrt.cli._input_list import sanitized
from qnnrt.cli._values import decode, encode
from qnnrt.dtypes import data_type, numpy_dtype
from qnnrt.model import Quantization
from support.net_run import TOTAL, A, B, net_run
from support.tool_cases import (
    TYPES,
    TYPES_MODEL,
    Capture,
    call,
    complaint,
    listed,
    numbers,
    python_model,
    raw,
    report,
    results,
)

pytestmark = pytest.mark.usefixtures("inputs_here")

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


def test_a_list_may_begin_with_a_byte_order_mark(model: Path, tmp_path: Path) -> None:
    given = listed(tmp_path / "l", "\ufeff#total", "a.raw b.raw")
    assert call(*net_run(model, "--input_list", given)) == 0
    assert results(tmp_path / "output") == {"Result_0": {"total.raw"}}


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
    assert "w:2: 1 file, but the graph has 2 inputs: a, in/b" in complaint(
        capsys, *net_run(model, "--input_list", wrong)
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a.raw"], "l:1: 1 file, but the graph has 2 inputs: a, in/b"),
        (["a.raw b.raw a.raw"], "l:1: 3 files, but the graph has 2 inputs"),
        (["a.raw b.raw", "a.raw"], "l:2: 1 file,"),
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
