"""Context binaries that tests write, and ones that were altered with a header that is sound."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import qnn
from qnnrt.cli._network import mobilenet_v2
from qnnrt.model import Model, Node, Tensor
from support.one_node import add_to
from support.toy import F32, add_model, conv_model, relu_model, tensors

#: Models by name, and the backends of this runtime that binaries of floats are for.
MODELS = {
    "relu": relu_model,
    "add": add_model,
    "conv": conv_model,
    "mobilenet_v2": lambda: mobilenet_v2(64, 16),
}
OWN = pytest.mark.parametrize("backend", ["cpu", "htp"])

# Where in the header, see docs/context-binary.md.
_BACKEND, _BACKEND_API, _BUILD_ID, _HEADER_CHECKSUM = 56, 76, 96, 252


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def made_for(data: bytes, backend_id: int) -> bytes:
    """The binary as if it had been made for the backend with this id."""
    return _with_header(data, {_BACKEND: struct.pack("<I", backend_id)})


def made_by(data: bytes, backend_api: tuple[int, int, int], build_id: str) -> bytes:
    """The binary as if another version of the libraries had written it."""
    api, build = struct.pack("<III", *backend_api), struct.pack("48s", build_id.encode())
    return _with_header(data, {_BACKEND_API: api, _BUILD_ID: build})


def _with_header(data: bytes, fields: dict[int, bytes]) -> bytes:
    altered = bytearray(data)
    for at, field in fields.items():
        altered[at : at + len(field)] = field
    struct.pack_into("<I", altered, _HEADER_CHECKSUM, crc32c(bytes(altered[:_HEADER_CHECKSUM])))
    return bytes(altered)


def save(model: Model, path: Path, backend: str = "htp", **given: object) -> Path:
    with qnnrt.Session(model, backend, **given) as s:
        s.save_binary(path)
    return path


def feeds(s: qnnrt.Session, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal(t.shape).astype(t.dtype) for n, t in s.inputs.items()}


PAGE = 4096


BACKENDS = pytest.mark.parametrize("name", ["cpu", "htp"])


def prepared(model: Any, backend: str = "htp", **given: Any) -> bytes:
    with qnnrt.Session(model, backend, **given) as s:
        return s.context.binary()


def dense(name: str = "dense", size: int = 64, seed: int = 0) -> Model:
    """y = relu(x @ w): weights of 4 * size * size bytes."""
    weights = np.random.default_rng(seed).standard_normal((size, size), np.float32)
    return Model(
        name,
        tensors(
            Tensor("x", (1, size), F32),
            Tensor("w", (size, size), F32, weights),
            Tensor("m", (1, size), F32),
            Tensor("y", (1, size), F32),
        ),
        [Node("matmul", "MatMul", ["x", "w"], ["m"]), Node("relu", "Relu", ["m"], ["y"])],
        ["x"],
        ["y"],
    )


def deep(name: str, seed: int) -> Model:
    """The same of -x, which is held in an arena."""
    model = dense(name, seed=seed)
    model.tensors["n"] = Tensor("n", (1, 64), F32)
    model.nodes.insert(0, Node("neg", "ElementWiseNeg", ["x"], ["n"]))
    model.nodes[1].inputs[0] = "n"
    return model


def binary_of(backend: qnn.Backend, *models: Model) -> bytes:
    """Several graphs in one context, named after their models."""
    with backend.create_context() as context:
        for model in models:
            graph = context.create_graph(model.name)
            add_to(graph, model)
            graph.finalize()
        return context.binary()


def run(graph: qnn.Graph, size: int = 64, value: float = 0.5) -> np.ndarray:
    y = np.empty((1, size), np.float32)
    graph.execute([np.full((1, size), value, np.float32)], [y])
    return y


def expect(model: Model, value: float = 0.5) -> np.ndarray:
    weights = model.tensors["w"].data
    return np.maximum(np.full((1, weights.shape[0]), value, np.float32) @ weights, 0)


def aligned(data: bytes) -> memoryview:
    """The same bytes where a mapping of a file would have them."""
    space = mmap.mmap(-1, len(data))
    space[:] = data
    return memoryview(space)
