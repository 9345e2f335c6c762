"""The coverage page says what the library, the importer and the node cases say."""

from __future__ import annotations

from pathlib import Path

import onnx
import op_coverage as coverage

from qnnrt._native.op_table import op_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    text = (ROOT / "docs" / "op-coverage.md").read_text()
    again = "run python tests/docs/op_coverage.py"
    if f"in onnx {onnx.__version__})" in text:
        assert text == coverage.page(), again
    else:  # another release of onnx has other operators and cases; the backend's part stays
        assert text.endswith("\n".join(coverage.qnn_section()) + "\n"), again


def test_everything_that_the_importers_emit_is_in_the_op_table() -> None:
    known = set(op_table())
    named = {
        word
        for target in (
            *coverage.importer.supported_ops().values(),
            *(to for to, _ in coverage.tflite_importer.supported_ops().values()),
        )
        for word in target.replace(",", " ").split()
        if word[0].isupper()
    }
    assert named
    assert named <= known


def test_every_mapped_tflite_operator_is_compared_with_the_interpreter() -> None:
    # Compared in tests of their own, test_tflite_control_flow.py and test_tflite_variables.py.
    from qnnrt.importers.tflite import control_flow, variables
    from support.tflite import cases as tflite_cases

    several = {*control_flow.TABLE, *variables.TABLE}
    single = set(coverage.tflite_importer.supported_ops()) - several
    assert single == set(tflite_cases.tried())
