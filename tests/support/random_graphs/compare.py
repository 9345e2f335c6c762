"""Graphs beside ONNX Runtime, in every way in which they can be run here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer

from .generate import Graph

Outputs = Mapping[str, np.ndarray]

#: The name of the open dimension.
BATCH = "N"
#: How far results may be off, in the largest number, by precision; and relative changes of what is
#: given to a graph that say how much of a difference rounding explains.
TOLERANCE = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}
ROUNDING = {"float32": 1e-6, "bfloat16": 4e-3, "float16": 5e-4}
#: Of ways whose precision is another than that of the file.
PRECISIONS = {
    "bfloat16": "bfloat16",
    **dict.fromkeys(("float16", "gpu_fp16", "gpu_hybrid", "gpu_tf32"), "float16"),
}
#: Of what such a change does how much is allowed, and how many are tried.
TIMES, SAMPLES = 10, 4
#: Numbers above this are none of networks: halves overflow.
HIGHEST = 1e4


def theirs(
    proto: onnx.ModelProto, feeds: Outputs, optimized: Path | None = None
) -> dict[str, np.ndarray] | None:
    """ONNX Runtime's results; None: it does not take the graph. `optimized`: where it writes what
    it makes of the graph."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if optimized is not None:
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(optimized)
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        found = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    except Exception:
        return None
    return dict(zip((o.name for o in session.get_outputs()), found, strict=True))


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, in the largest number of `b`."""
    if a.size != b.size:
        return np.inf
    a, b = a.astype(np.float64).reshape(b.shape), b.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(b)
    largest = max(float(np.abs(b[finite]).max(initial=0)), 1e-2)
    return float(np.abs(a - b)[finite].max(initial=0)) / largest


def _moved(graph: Graph, wanted: Outputs, precision: str) -> dict[str, float]:
    """How far results move when weights and inputs are changed by a rounding."""
    rng, most = np.random.default_rng(0), dict.fromkeys(wanted, 0.0)

    def changed(x: np.ndarray) -> np.ndarray:
        noise = ROUNDING[precision] * rng.uniform(-1, 1, x.shape)
        return np.asarray(x * (1 + noise), x.dtype)

    for _ in range(SAMPLES):
        proto = onnx.ModelProto()
        proto.CopyFrom(graph.proto)
        for t in proto.graph.initializer:
            x = numpy_helper.to_array(t)
            # Scales of Resize have to stay what they are.
            if x.dtype == np.float32 and x.shape != (4,):
                t.CopyFrom(numpy_helper.from_array(changed(x), t.name))
        other = theirs(proto, {n: changed(x) for n, x in graph.feeds.items()})
        for name, x in wanted.items():
            most[name] = max(most[name], np.inf if other is None else apart(other[name], x))
    return most


# ---- ways


def _run(proto: onnx.ModelProto, feeds: Outputs, **options: Any) -> Outputs:
    with qnnrt.Session(importer.load(proto), **({"threads": 1} | options)) as s:
        return twice(s, feeds)


def twice(s: qnnrt.Session, feeds: Outputs) -> Outputs:
    given = {n: feeds[n].reshape(t.shape) for n, t in s.inputs.items()}
    first, second = ({n: np.array(y) for n, y in s.run(given).items()} for _ in range(2))
    for name, y in first.items():
        assert y.tobytes() == second[name].tobytes(), f"{name}: the second run gives other numbers"
    return first


def plain(graph: Graph, folder: Path) -> Outputs:
    return _run(graph.proto, graph.feeds)


def two_threads(graph: Graph, folder: Path) -> Outputs:
    return _run(graph.proto, graph.feeds, threads=2)


def portable(graph: Graph, folder: Path) -> Outputs:
    return _run(graph.proto, graph.feeds, options={"kernels": "portable"})


def bfloat16(graph: Graph, folder: Path) -> Outputs:
    return _run(graph.proto, graph.feeds, precision="bfloat16")


def float16(graph: Graph, folder: Path) -> Outputs:
    return _run(graph.proto, graph.feeds, precision="float16")


def binary(graph: Graph, folder: Path) -> Outputs:
    """Through a context binary, the same to the bit."""
    path = folder / "model.bin"
    with qnnrt.Session(importer.load(graph.proto), threads=1) as s:
        s.save_binary(path)
        wanted = twice(s, graph.feeds)
    with qnnrt.Session(qnnrt.load(path), threads=1) as s:
        found = twice(s, graph.feeds)
    assert all(found[n].tobytes() == y.tobytes() for n, y in wanted.items())
    return found


def open_batch(graph: Graph, folder: Path) -> Outputs:
    """The file leaves the batch open, and says it when it is loaded."""
    proto, sizes = onnx.ModelProto(), set()
    proto.CopyFrom(graph.proto)
    for i in proto.graph.input:
        if i.name.startswith("x"):
            first = i.type.tensor_type.shape.dim[0]
            sizes.add(first.dim_value)
            first.dim_param = BATCH
    (size,) = sizes or {1}
    shapes = {BATCH: size} if sizes else None
    with qnnrt.Session(importer.load(proto, shapes=shapes), threads=1) as s:
        return twice(s, graph.feeds)


def optimized(graph: Graph, folder: Path) -> Outputs:
    """What ONNX Runtime's optimizer writes; where it is wrong itself, what it gives."""
    path = folder / "optimized.onnx"
    their = theirs(graph.proto, graph.feeds, path)
    if their is None:
        return {}
    found = _run(onnx.load(path), graph.feeds)
    wanted = theirs(graph.proto, graph.feeds) or {}
    wrong = any(apart(their[n], y) > TOLERANCE["float32"] for n, y in wanted.items())
    return {} if wrong else found


Way = Callable[[Graph, Path], Outputs]
WAYS: dict[str, Way] = {
    f.__name__: f
    for f in (plain, two_threads, portable, bfloat16, float16, binary, open_batch, optimized)
}


def check(graph: Graph, ways: Mapping[str, Way] = WAYS) -> list[str] | None:
    """What is wrong, by way and output; None where there is nothing to compare."""
    wanted = theirs(graph.proto, graph.feeds)
    if wanted is None or not all(np.abs(y).max(initial=0) < HIGHEST for y in wanted.values()):
        return None
    wrong = []
    moved: dict[str, dict[str, float]] = {}
    for way, run in ways.items():
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = run(graph, Path(folder))
        except UnsupportedOpError:
            continue
        except Exception as e:
            wrong.append(f"{way}: {type(e).__name__}: {e}")
            continue
        precision = PRECISIONS.get(way, "float32")
        for name, y in found.items():
            if y.dtype != wanted[name].dtype:
                wrong.append(f"{way}, {name}: {y.dtype} and not {wanted[name].dtype}")
            off = apart(y, wanted[name])
            if off <= TOLERANCE[precision]:
                continue
            if precision not in moved:
                moved[precision] = _moved(graph, wanted, precision)
            if off > TOLERANCE[precision] + TIMES * moved[precision][name]:
                wrong.append(f"{way}, {name}: {off:.3g} off")
    return wrong
