"""The importer's own shapes and types beside those that the ``onnx`` package infers.

On valid nodes only, where onnx's native code is safe: its own test cases and the networks.
"""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from qnnrt.errors import ModelError
from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx.constants import FOLDED_OPS
from qnnrt.importers.onnx.infer import RULES
from qnnrt.importers.onnx.nodes import TABLE
from support.onnx import cases as onnx_cases
from support.onnx import models, native_inference

#: Nodes whose outputs are compared in the cases of the release that this was checked with.
CHECKED = {"1.23.2": 20000}

#: onnx has a rule for a Range of scalars only; some exporters give tensors of one element.
EXPLAINED = ("Range-",)

#: Operators of which no case gives onnx a shape to compare: Compress depends on a value that it
#: does not look at, random numbers have no cases, the others occur in none but as functions.
NOT_COMPARED = {
    *("Compress", "GlobalLpPool", "GroupNormalization", "MeanVarianceNormalization"),
    *("RandomNormal", "RandomNormalLike", "RandomUniform"),
}


def test_every_operator_that_is_lowered_has_a_rule() -> None:
    assert set(TABLE) | (FOLDED_OPS - {"Constant"}) == set(RULES)


@pytest.mark.parametrize("part", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_the_rules_give_what_onnx_infers_for_its_own_cases(part: int) -> None:
    """A fifth of the cases, and all of them."""
    with native_inference.beside_the_importers_own() as compared:
        for case in list(onnx_cases.cases().values())[::part]:
            _load(case)
    differences = [d for d in compared.differences if not d.startswith(EXPLAINED)]
    assert not differences, "\n".join(sorted(set(differences)))
    assert sum(compared.agreed.values()) >= CHECKED.get(onnx.__version__, 10000) // part // 2
    if part == 1:
        assert set(RULES) - set(compared.agreed) <= NOT_COMPARED


def _load(case: onnx_cases.Case) -> None:
    given = {
        value.name: numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x
        for value, x in zip(case.model.graph.input, case.inputs, strict=True)
    }
    constants = {k: np.asarray(v) for k, v in given.items() if k in case.parameters}
    shapes = {
        k: v.shape for k, v in given.items() if k not in constants and isinstance(v, np.ndarray)
    }
    with contextlib.suppress(ModelError):  # what QNN does not have is another test's
        importer.load(onnx_cases._current(case.model), constants=constants, shapes=shapes)


@pytest.mark.parametrize("opset", [13, 17])
def test_the_rules_give_what_onnx_infers_for_a_transformer(opset: int) -> None:
    with native_inference.beside_the_importers_own() as compared:
        importer.load(models.transformer_encoder(7, opset=opset))
    assert not compared.differences
    assert sum(compared.agreed.values()) >= 100
