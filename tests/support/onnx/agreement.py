"""ONNX models that the importer, ONNX Runtime and numpy agree on."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.model import Model
from support.onnx.models import model_of
from support.reference import run as run_in_numpy


def make(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[object, ...]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    types: dict[str, int] | None = None,
) -> onnx.ModelProto:
    domains = sorted({n.domain for n in nodes} - {""})
    return model_of(nodes, inputs, outputs, constants or {}, opset, types or {}, domains)


def agree(
    proto: onnx.ModelProto, feeds: dict[str, np.ndarray], atol: float = 1e-5, **options: object
) -> Model:
    """The imported model gives what ONNX Runtime gives, on the backend and in numpy."""
    reference = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = reference.run(None, feeds)
    model = importer.load(proto, **options)
    given = {name: feeds[name] for name in model.inputs}
    with qnnrt.Session(model, backend="cpu") as session:
        found = session.run(given)
    plain = run_in_numpy(model, given)
    for key, ref in zip(model.outputs, wanted, strict=True):
        for label, y in (("backend", found[key]), ("numpy", plain[key])):
            assert y.dtype == ref.dtype, f"{key} ({label})"
            np.testing.assert_allclose(
                y.reshape(ref.shape), ref, rtol=1e-3, atol=atol, err_msg=f"{key} ({label})"
            )
    return model


def steps_and_result(
    proto: onnx.ModelProto, feeds: dict[str, np.ndarray], precision: str = "float32"
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """What the graph on cpu does, op by op, its output, and that of ONNX's evaluator."""
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    with qnnrt.Session(importer.load(proto), backend="cpu", precision=precision) as session:
        assert session.graph is not None
        steps = json.loads(session.graph.describe() or "")["steps"]
        (found,) = session.run(feeds).values()
    return [s["op"] for s in steps], found, expected


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
