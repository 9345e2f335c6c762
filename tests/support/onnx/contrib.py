"""Nodes of ONNX Runtime's own operators, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer

MICROSOFT = "com.microsoft"


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def model_of(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int | Sequence[str] = 1,
    static: Sequence[int] = (),
    domain: str = MICROSOFT,
    opset: int = 20,
    version: int = 3,
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The node, and what it is fed. `version`: of a domain that is none of the two."""
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
    outs = [f"o{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    fixed = {names[i] for i in static}
    graph = helper.make_graph(
        [helper.make_node(op, names, outs, domain=domain, **attrs)],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in given.items()
            if n not in fixed
        ],
        [onnx.ValueInfoProto(name=o) for o in outs if o],
        [numpy_helper.from_array(x, n) for n, x in given.items() if n in fixed],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    if domain not in ("", MICROSOFT):
        imports.append(helper.make_opsetid(domain, version))
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return proto, {n: x for n, x in given.items() if n not in fixed}


def ours(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        found = session.run(dict(feeds))
    return [found[o.name] for o in proto.graph.output]


def check(
    op: str, inputs: Sequence[np.ndarray | None], *args: Any, tolerance: float = 2e-5, **more: Any
) -> None:
    proto, feeds = model_of(op, inputs, *args, **more)
    for name, a, b in zip(
        proto.graph.output, ours(proto, feeds), theirs(proto, feeds), strict=True
    ):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def theirs(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    found: list[np.ndarray] = session.run(None, dict(feeds))
    return found
