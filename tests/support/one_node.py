"""One node as a graph of its own: its model, its outputs, or where a backend refuses it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qnnrt import qnn
from qnnrt.errors import QnnError
from qnnrt.model import Model, Node, Quantization, Tensor

_MAGIC = 0x54524E51  # QNNRT_GRAPH_CONFIG_MAGIC
_NUM_THREADS, _KERNELS = 1, 2

KERNELS = ("portable", "auto")


@dataclass
class Case:
    """A model and what it is fed."""

    model: Model
    feeds: dict[str, np.ndarray]


@dataclass
class Outcome:
    """What came of a case: the step that failed and its code, or the outputs."""

    stage: str  # "tensor", "validate", "node", "finalize", "execute", "crash" or "ran"
    code: int = 0
    text: str = ""
    outputs: list[np.ndarray] = field(default_factory=list)


def case(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[tuple[int, ...] | None],
    params: Mapping[str, Any] | None = None,
    *,
    static: Collection[int] = (),
    dtype: Any = None,
    then: Sequence[tuple[str, Mapping[str, Any]]] = (),
    encodings: Mapping[str, Quantization | None] | None = None,
    name: str = "",
) -> Case:
    """One node.

    inputs: None for one left out. outputs: shapes. static: numbers of the constant inputs.
    dtype: of the outputs (a list: of each one), input 0's when not given. then: (type, params) of
    nodes of one input behind output 0, which a graph may merge into the node. encodings: how the
    integers of fixed-point tensors stand for real numbers, by tensor: "in0", "out1", "then0".
    name: begins the tensors' names, which are "in0", "out0", "then0" otherwise.
    """
    if dtype is None and outputs:
        assert inputs[0] is not None
        dtype = inputs[0].dtype
    dtypes = [np.dtype(d) for d in (dtype if isinstance(dtype, list) else [dtype] * len(outputs))]
    encoding = (encodings or {}).get
    at = f"{name}." if name else ""
    model = Model(name or op)
    feeds = {}

    def add(which: str, shape: tuple[int, ...], dtype: Any, data: Any = None) -> str:
        full = at + which
        model.tensors[full] = Tensor(full, shape, np.dtype(dtype), data, encoding(which))
        return full

    ins = []
    for i, value in enumerate(inputs):
        if value is None:
            ins.append("")
            continue
        value = np.ascontiguousarray(value).reshape(np.shape(value))  # rank 0 stays rank 0
        ins.append(add(f"in{i}", value.shape, value.dtype, value if i in static else None))
        if i not in static:
            feeds[ins[-1]] = value
            model.inputs.append(ins[-1])
    outs = [
        "" if shape is None else add(f"out{i}", shape, d)
        for i, (shape, d) in enumerate(zip(outputs, dtypes, strict=True))
    ]
    model.nodes.append(Node(f"{at}node", op, ins, outs, dict(params or {})))
    last = outs[:1]
    for i, (after, after_params) in enumerate(then):
        y = [add(f"then{i}", outputs[0] or (), dtypes[0])]
        model.nodes.append(Node(f"{at}after{i}", after, last, y, dict(after_params)))
        last = y
    model.outputs = [o for o in (*last, *outs[1:]) if o]
    return Case(model, feeds)


def add_to(graph: qnn.Graph, model: Model, check: Callable[..., object] | None = None) -> None:
    """The tensors of a model in their order, then its nodes, each of which ``check`` is told of."""
    kinds = dict.fromkeys(model.inputs, "app_write") | dict.fromkeys(model.outputs, "app_read")
    made: dict[str, Any] = {"": None}
    for t in model.tensors.values():
        kind = kinds.get(t.name, "native" if t.data is None else "static")
        made[t.name] = graph.add_tensor(
            t.name, t.shape, t.dtype, type=kind, data=t.data, quantization=t.quantization
        )
    for n in model.nodes:
        args = n.type, [made[i] for i in n.inputs], [made[o] for o in n.outputs], n.params
        if check is not None:
            check(*args)
        graph.add_node(n.name, *args)


def _execute(graph: qnn.Graph, what: Case) -> list[np.ndarray]:
    results = {t.name: np.full(t.shape, 77, t.dtype) for t in graph.outputs}
    graph.execute(what.feeds, results)
    return [results[name] for name in what.model.outputs]


def graph_options(kernels: str, threads: int) -> list[bytes]:
    """The runtime's own graph options, as in csrc/abi/qnnrt_ext.h."""
    return [
        struct.pack("<III", _MAGIC, _KERNELS, KERNELS.index(kernels) ^ 1),
        struct.pack("<III", _MAGIC, _NUM_THREADS, threads),
    ]


def run_op(
    *args: Any, kernels: str = "portable", threads: int = 2, **more: Any
) -> list[np.ndarray]:
    """The outputs of a ``case``, on the cpu backend through the QNN API, as a client would."""
    what = case(*args, **more)
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g", custom=graph_options(kernels, threads))
        add_to(graph, what.model)
        graph.finalize()
        return _execute(graph, what)


def outcome(backend: qnn.Backend, what: Case, custom: Sequence[bytes] = ()) -> Outcome:
    """What comes of making, checking, finalizing and executing a case, on any backend.

    custom: structs of the graph's own options.
    """
    stage = "tensor"

    def check(*node: Any) -> None:
        nonlocal stage
        stage = "validate"
        backend.validate_op(*node)
        stage = "node"

    try:
        with backend.create_context() as context:
            graph = context.create_graph("g", custom=list(custom))
            add_to(graph, what.model, check)
            stage = "finalize"
            graph.finalize()
            stage = "execute"
            return Outcome("ran", outputs=_execute(graph, what))
    except QnnError as e:
        return Outcome(stage, e.code, str(e))


def u32(*values: Any) -> np.ndarray:
    return np.array(values, np.uint32)


def pairs(before: Sequence[int], after: Sequence[int]) -> np.ndarray:
    """pad_amount: before and after of each dimension."""
    return np.array(list(zip(before, after, strict=True)), np.uint32)


def close(got: np.ndarray, expected: np.ndarray, tolerance: float = 1e-4) -> None:
    if got.dtype == np.float16:
        tolerance = max(tolerance, 4e-3)
    scale = float(np.max(np.abs(expected), initial=1.0))
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=tolerance, atol=tolerance * scale
    )
