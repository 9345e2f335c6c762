"""Runs one op through the QNN API, on the cpu backend, as a client would."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from qnnrt import qnn

_MAGIC = 0x54524E51  # QNNRT_GRAPH_CONFIG_MAGIC
_NUM_THREADS, _KERNELS = 1, 2

KERNELS = ("portable", "auto")


def graph_options(kernels: str, threads: int) -> list[bytes]:
    """The runtime's own graph options, as in csrc/abi/qnnrt_ext.h."""
    return [
        struct.pack("<III", _MAGIC, _KERNELS, KERNELS.index(kernels) ^ 1),
        struct.pack("<III", _MAGIC, _NUM_THREADS, threads),
    ]


def run_op(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[tuple[int, ...] | None],
    params: Mapping[str, Any] | None = None,
    *,
    static: Collection[int] = (),
    dtype: Any = None,
    kernels: str = "portable",
    threads: int = 2,
    then: Sequence[tuple[str, Mapping[str, Any]]] = (),
    encodings: Mapping[str, Any] | None = None,
) -> list[np.ndarray]:
    """The outputs of one node.

    inputs: None for one left out. outputs: shapes. static: numbers of the constant inputs.
    dtype: of the outputs (a list: of each one), input 0's when not given. then: (type, params) of
    elementwise ops after output 0, which the graph may merge into the node. encodings: how the
    integers of fixed-point tensors stand for real numbers, by tensor: "in0", "out1", "then0".
    """
    encoding = (encodings or {}).get
    if dtype is None:
        dtype = inputs[0].dtype
    dtypes = [np.dtype(d) for d in (dtype if isinstance(dtype, list) else [dtype] * len(outputs))]
    with qnn.Backend.open("cpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g", custom=graph_options(kernels, threads))
        ins: list[Any] = []
        feeds = []
        for i, value in enumerate(inputs):
            if value is None:
                ins.append(None)
                continue
            value = np.ascontiguousarray(value).reshape(np.shape(value))  # rank 0 stays rank 0
            kind = "static" if i in static else "app_write"
            data = value if i in static else None
            ins.append(
                graph.add_tensor(
                    f"in{i}",
                    value.shape,
                    value.dtype,
                    type=kind,
                    data=data,
                    quantization=encoding(f"in{i}"),
                )
            )
            if i not in static:
                feeds.append(value)
        outs: list[Any] = []
        results = []
        for i, shape in enumerate(outputs):
            if shape is None:
                outs.append(None)
                continue
            kind = "native" if i == 0 and then else "app_read"
            q = encoding(f"out{i}")
            outs.append(graph.add_tensor(f"out{i}", shape, dtypes[i], type=kind, quantization=q))
            results.append(np.full(shape, 77, dtypes[i]))
        graph.add_node("node", op, ins, outs, params)
        last = outs[0]
        for i, (after, after_params) in enumerate(then):
            kind = "app_read" if i + 1 == len(then) else "native"
            q = encoding(f"then{i}")
            tensor = graph.add_tensor(
                f"then{i}", outputs[0] or (), dtypes[0], type=kind, quantization=q
            )
            graph.add_node(f"after{i}", after, [last], [tensor], after_params)
            last = tensor
        if then:
            results.append(results.pop(0))  # output 0 comes from the last node added
        graph.finalize()
        graph.execute(feeds, results)
        return [results.pop(), *results] if then else results


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
