"""From a model, a context binary or a model library to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from ..abi import constants as abi
from ..errors import ModelError
from ..model import BinaryGraph, ContextBinary, Model, ModelLibrary, Node, Tensor
from ..model.mapped import is_mapped
from ..qnn.backend import Backend
from ..qnn.context import Context
from ..qnn.graph import Graph
from ..qnn.graph import Tensor as Added
from ..quantization import dequantize, unpacked
from .options import Choice, Options
from .policies import MemoryPolicy

_BACKEND_NAMES: Final = {
    abi.QNN_BACKEND_ID_CPU: "cpu",
    abi.QNN_BACKEND_ID_GPU: "gpu",
    abi.QNN_BACKEND_ID_HTP: "htp",
    abi.QNN_BACKEND_ID_LPAI: "lpai",
}
#: qnnrt's backends that read each other's context binaries.
_PORTABLE: Final = (abi.QNN_BACKEND_ID_CPU, abi.QNN_BACKEND_ID_HTP, abi.QNN_BACKEND_ID_LPAI)


#: Constants of so many bytes move to a graph one by one.
_LARGE: Final = 4096


def with_real_constants(model: Model) -> Model:
    """Without Dequantize operations of constants, for backends that multiply floats by floats.

    The real numbers are made here, in the type of what the operation writes.
    """
    tensors, gone = dict(model.tensors), set()
    for node in model.nodes:
        source = tensors[node.inputs[0]] if node.inputs and node.inputs[0] else None
        if node.type != "Dequantize" or source is None or source.data is None:
            continue
        q, out = source.quantization, tensors[node.outputs[0]]
        if q is None or out.name in model.outputs:
            continue
        codes = source.data
        if q.packed:
            codes = unpacked(codes, source.shape, np.dtype(source.dtype).kind == "i")
        tensors[out.name] = replace(out, data=dequantize(codes, q).astype(out.dtype, copy=False))
        gone.add(node.name)
    nodes = [n for n in model.nodes if n.name not in gone]
    return replace(model, tensors=tensors, nodes=nodes) if gone else model


def add_model(
    graph: Graph,
    model: Model,
    prepare: Mapping[str, str],
    scalar: tuple[int, ...] = (),
    *,
    consume: bool = False,
) -> None:
    """A model's tensors and nodes, into a graph that has none yet.

    Args:
        graph: where to; not finalized here. It reads constants in place until it is: the model does
            not change before.
        model: a valid one.
        prepare: "raw" or "memhandle" for each input and output.
        scalar: the shape of a tensor without dimensions: () or (1,).
        consume: constants in memory of their own move to the graph, one by one; the model is of no
            use after that.
    """
    if not graph._library.has_extensions:
        model = with_real_constants(model)
    new = set(model.state.values())
    outputs = [name for name in model.outputs if name not in new]
    types = dict.fromkeys(model.inputs, "app_write") | dict.fromkeys(outputs, "app_read")
    types |= dict.fromkeys(model.state, "app_readwrite")
    # Behind all nodes that read the old value. Nothing is left of it where the new one is computed
    # in its place.
    nodes = [
        *model.nodes,
        *(Node(f"{name}:update", "Reshape", [new], [name]) for name, new in model.state.items()),
    ]
    used: set[str] = set()
    for node in nodes:
        used.update(node.inputs)
        used.update(node.outputs)
    used.discard("")

    def moves(t: Tensor) -> bool:  # small ones go with the model
        data = t.data
        if not consume or data is None or data.nbytes < _LARGE:
            return False
        return data.flags.writeable or not is_mapped(data)

    def add(t: Tensor) -> Added:
        kind, goes = types.get(t.name), moves(t)
        tensor = graph.add_tensor(
            t.name,
            t.shape or scalar,
            t.dtype,
            type=kind or ("native" if t.data is None else "static"),
            data=t.data,
            quantization=t.quantization,
            mem_type=prepare[t.name] if kind is not None else "raw",
            copy=goes,
        )
        if goes:
            t.data = None
            tensor.release_data()
        elif kind is None and graph._is_ours:
            tensor.release_encoding()
        if consume and t.quantization is not None and t.quantization.block is not None:
            t.quantization = None  # with a scale for 32 bytes, a fifth of them
            tensor.release_encoding(forget=True)
        return tensor

    names = (*model.inputs, *outputs, *sorted(used - types.keys()))
    given = [model.tensors[name] for name in names]
    graph._add_model(given, nodes, types, scalar, add, moves, consume)


def compose_library(
    context: Context,
    library: ModelLibrary,
    options: Options,
    policy: MemoryPolicy,
    io: Choice,
    prepare: Choice | None,
) -> tuple[Graph, BinaryGraph, list[Graph]]:
    """The graph of a model library that the options name, what it takes and gives, and all graphs
    of the library; none of them finalized.

    Raises:
        ValueError: there is no such graph, or there are several and none was named.
        ModelError, QnnError: as ``Context.compose``.
    """
    ios = {"": io} if isinstance(io, str) else io
    custom = options.for_graph(context.backend.library, policy, ios)
    graphs = context.compose(
        library,
        mem_type=prepare,
        options=lambda name: {"priority": options.priority, "custom": custom},
    )
    wanted = options.graph
    found = [g for g in graphs if wanted in (None, g.name)]
    if len(found) != 1:
        there = ", ".join(repr(g.name) for g in graphs)
        if wanted is None:
            raise ValueError(f"{library.path} has {len(graphs)} graphs, say which: {there}")
        raise ValueError(f"{library.path} has no graph {wanted!r}; there are {there}")
    return found[0], context.described(found[0].name), graphs


def check_maker(binary: ContextBinary, backend: Backend) -> None:
    """Raises ``ModelError`` for a context binary of another kind of backend."""
    made_for = binary.info["backend_id"]
    # Those of qnnrt's own are portable; what another maker's is shows when it is loaded.
    portable = backend.library.has_extensions and made_for in _PORTABLE
    if made_for != backend.id and not portable:
        raise ModelError(
            f"{binary.path} was made for {_backend_name(made_for)}, not for "
            f"{_backend_name(backend.id)}"
        )


def _backend_name(number: int) -> str:
    name = _BACKEND_NAMES.get(number)
    return f"the {name} backend" if name else f"backend {number}"
