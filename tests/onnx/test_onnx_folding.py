"""Evaluation of constants: the results are ONNX's, for every operator that is evaluated here."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.importers.budget import Budget
from qnnrt.importers.onnx import checks, fold
from qnnrt.importers.onnx.fold_table import EVALUATORS
from qnnrt.importers.onnx.nodes import OnnxNode
from qnnrt.importers.onnx.written import Written
from support.onnx import cases as onnx_cases
from support.onnx.models import model_of, node


def _node(model: onnx.ModelProto) -> OnnxNode | None:
    """The one node of a case, when it is evaluated here."""
    if len(model.graph.node) != 1 or model.graph.node[0].op_type not in EVALUATORS:
        return None
    proto = Written(model.graph.node[0])
    version = {o.domain: o.version for o in model.opset_import}.get("", 0)
    spec = checks.spec_of(proto.op_type, version, proto.domain)
    if spec is None:
        return None
    outputs = proto.output
    attrs = spec.defaults | checks.attributes_of(proto)
    unknown: list[None] = [None] * len(outputs)
    return OnnxNode("n", proto.op_type, "", version, [], outputs, unknown, proto, attrs)


def _array(x: object) -> np.ndarray:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


#: Operators of which no case is left: their cases have other inputs than tensors.
LEFT_OUT = {"Scatter"}


@pytest.mark.parametrize("op", sorted(EVALUATORS))
def test_constants_are_what_the_cases_of_the_operator_expect(op: str) -> None:
    tried, failed = 0, []
    for case in onnx_cases.cases().values():
        node = _node(case.model) if case.model.graph.node[0].op_type == op else None
        if node is None or any(isinstance(x, list) or x is None for x in case.inputs):
            continue
        given = dict(
            zip((i.name for i in case.model.graph.input), map(_array, case.inputs), strict=True)
        )
        inputs = [given[name] if name else None for name in node.written.input]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = fold.evaluated(node, inputs, Budget())
        if found is None:
            continue  # onnx's evaluator does it, in a process of its own
        tried += 1
        wanted = iter(case.outputs)
        for name, y in zip(node.outputs, found, strict=True):
            if not name:
                continue
            ref = _array(next(wanted))
            try:
                assert y.dtype == ref.dtype, f"{y.dtype}, expected {ref.dtype}"
                assert y.shape == ref.shape, f"{y.shape}, expected {ref.shape}"
                if ref.dtype.kind in "OUS":
                    assert y.tolist() == ref.tolist()
                    continue
                kind = np.float64 if ref.dtype.kind in "fV" else ref.dtype
                np.testing.assert_allclose(
                    y.astype(kind), ref.astype(kind), rtol=case.rtol, atol=case.atol
                )
            except AssertionError as exc:
                failed.append(f"{case.name}: {exc}")
    assert not failed, f"{len(failed)} of {tried} failed\n" + "\n".join(failed)
    assert tried or op in LEFT_OUT


@pytest.mark.parametrize("opset", [18, 22])
def test_softplus_of_large_constants_is_no_infinity(opset: int) -> None:
    """The function that ONNX defines it by, log(exp(x) + 1), overflows."""
    large = np.array([1.0, 88.0, 90.0, 118.0], np.float32)
    nodes = [node("Softplus", ["c"], ["s"]), node("Add", ["x", "s"], ["y"])]
    model = importer.load(model_of(nodes, {"x": (4,)}, ["y"], {"c": large}, opset, {}, []))
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run({"x": np.zeros(4, np.float32)})["y"]
    wanted = np.logaddexp(0, large.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
