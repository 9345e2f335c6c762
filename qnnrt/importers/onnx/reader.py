"""ONNX files to a checked ModelProto: every way in which a file can be bad is one ModelError."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from ...errors import ModelError
from ...model.mapped import MappedFile
from ..budget import Budget
from ..guard import map_or_read, name_of, shortened
from . import wire
from .order import in_order
from .written import (
    ELEMENTS,
    Initializer,
    Written,
    initializers,
    parts,
    tensor_array,
    written,
)

#: The operator sets of the default domain that are understood.
FIRST_OPSET = 7


@dataclass
class Source:
    """A file as it was read.

    Attributes:
        where: the name to use for it in messages.
        size: the bytes of its files; 0: not known.
        nodes: those of the graph.
        initializers: those of the graph.
        apart: raw data of initializers of the graph that is not in `model`, by their index.
        mapped: the files that `apart` lies in.
    """

    model: onnx.ModelProto
    where: str
    size: int = 0
    nodes: list[Written] = field(default_factory=list)
    initializers: list[Initializer] = field(default_factory=list)
    apart: dict[int, memoryview] = field(default_factory=dict)
    mapped: list[MappedFile] = field(default_factory=list)


def read(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> Source:
    """The model, checked.

    Raises `ModelError`, and `OSError` when the file cannot be opened.
    """
    path: Path | None = None
    where = name_of(source)
    if isinstance(source, onnx.ModelProto):
        found = Source(source, where)
    elif isinstance(source, bytes | bytearray | memoryview):
        found = _parse(memoryview(bytes(source)), where)
    else:
        path = Path(source)
        data, mapped = map_or_read(path, "an ONNX model")
        found = _parse(data, where)
        if mapped is not None and found.apart:
            found.mapped.append(mapped)
    try:
        found.nodes = in_order(written(found.model.graph.node))
        if not found.initializers:
            found.initializers = initializers(found.model.graph)
        _check(found.model, found.nodes, found.initializers, where)
        external = onnx.TensorProto.EXTERNAL
        others = list(_other_tensors(found.model, found.nodes))
        unread = [i.proto for i in found.initializers if i.array is None]
        if any(t.data_location == external for t in (*unread, *others)):
            from .external import load_external

            constants = found.model.graph.initializer
            beside = load_external((*constants, *others), len(constants), where, path)
            found.size += beside.distinct
            found.apart |= beside.apart
            found.mapped += beside.mapped
    except UnicodeDecodeError as exc:
        raise ModelError(f"{where}: a name or text in it is not UTF-8: {exc}") from exc
    return found


def _parse(data: memoryview, where: str) -> Source:
    if not data:
        raise ModelError(f"{where} is empty: not an ONNX model")
    parts = wire.split(data)
    model = _message(parts.text, len(data), where)
    constants = initializers(model.graph, parts.read, parts.apart)
    return Source(model, where, len(data), initializers=constants, apart=parts.apart)


def _message(data: bytes, size: int, where: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as exc:
        raise ModelError(
            f"{where} is not an ONNX model, or is truncated or corrupted: the protobuf message "
            f"of {size} bytes cannot be decoded ({exc})"
        ) from exc
    return model


def opset_of(model: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Domain -> version, with the default domain as ""."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}


def _check(
    model: onnx.ModelProto, nodes: list[Written], constants: list[Initializer], where: str
) -> None:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(f"{where} holds no graph: not an ONNX model, or truncated")
    if not model.graph.output:
        raise ModelError(f"{where}: the graph has no output; the file may be truncated")
    for found in (model.graph, *model.functions):
        _check_name(found.name, where)
    for imported in model.opset_import:
        _check_name(imported.domain, where)
    _check_opset(model, nodes, where)
    for function in model.functions:
        for name in (function.domain, *function.input, *function.output, *function.attribute):
            _check_name(name, where)
        if not function.name:
            raise ModelError(f"{where}: a function has no name")
        if function.node:
            label = f"{where}: function {shortened(repr(function.name))}"
            _check_opset(function, function.node, label, model)
    names: list[str | bytes] = []
    for node in _all_nodes(model, nodes):
        names += (node.name, node.op_type, node.domain)
        names += node.input
        names += node.output
        names += node.names
    _check_each(names, where)
    _check_names(model.graph, nodes, constants, where)


def _check_opset(
    model: onnx.ModelProto | onnx.FunctionProto,
    nodes: Iterable[Written | onnx.NodeProto],
    where: str,
    outer: onnx.ModelProto | None = None,
) -> None:
    newest = onnx.defs.onnx_opset_version()
    versions = opset_of(model)
    version = versions.get("", None if outer is None else opset_of(outer).get(""))
    if version is None:
        if any(node.domain in ("", "ai.onnx") for node in nodes):
            raise ModelError(f"{where} does not say which ONNX opset it uses (opset_import)")
    elif not FIRST_OPSET <= version <= newest:
        raise ModelError(
            f"{where} uses ONNX opset {version}; opsets {FIRST_OPSET} to {newest} are understood "
            f"(onnx {onnx.__version__}). Convert the model with onnx.version_converter"
            + (", or install a newer onnx" if version > newest else "")
        )


def _check_names(
    graph: onnx.GraphProto, nodes: list[Written], constants: list[Initializer], where: str
) -> None:
    """Single assignment, in order: what everything after this relies on."""
    inputs: set[str | bytes] = set()
    for given in graph.input:
        if given.name in inputs:
            raise ModelError(f"{where} lists the input {shortened(repr(given.name))} twice")
        inputs.add(given.name)
    known = {i.name for i in constants} | inputs
    known |= {s.values.name for s in graph.sparse_initializer}
    _check_each((*known, *(o.name for o in graph.output)), where)
    for index, node in enumerate(nodes):
        if not node.op_type:
            raise ModelError(f"{where}: node {shortened(repr(node.name or index))} has no op type")
        for name in node.input:
            if name not in known and name:
                raise ModelError(
                    f"{where}: {_label(node, index)} reads {shortened(repr(name))}, which is "
                    "neither an input, an initializer nor the output of an earlier node"
                )
        for name in node.output:
            if not name:
                continue
            if name in known:
                raise ModelError(
                    f"{where}: {_label(node, index)} writes {shortened(repr(name))}, which has a "
                    "value already"
                )
            known.add(name)
    for output in graph.output:
        if output.name not in known:
            raise ModelError(
                f"{where}: nothing produces the graph's output {shortened(repr(output.name))}"
            )


def _label(node: Written, index: int) -> str:
    return f"node {shortened(repr(node.name or index))} ({shortened(node.op_type)})"


def _check_each(names: Sequence[str | bytes], where: str) -> None:
    try:
        if "\0" not in "".join(names):  # type: ignore[arg-type]
            return
    except TypeError:  # bytes among them
        pass
    for name in names:
        _check_name(name, where)


def _check_name(name: str | bytes, where: str) -> None:
    if isinstance(name, bytes):  # what protobuf gives when it cannot decode a text
        raise ModelError(f"{where}: the name {shortened(repr(name))} is not UTF-8")
    if "\0" in name:
        raise ModelError(
            f"{where}: the name {shortened(repr(name))} has a NUL in it; names are texts of C there"
        )


def _other_tensors(model: onnx.ModelProto, nodes: list[Written]) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model beside its graph's initializers, wherever it lies: in functions and
    attributes of any kind, too."""
    graphs: list[onnx.GraphProto] = []
    found: list[onnx.TensorProto] = []
    for function in model.functions:
        for attr in function.attribute_proto:
            parts(attr, graphs, found)
    for node in _all_nodes(model, nodes):
        if node.value is None:
            found += node.tensors
            graphs += node.graphs
    for sparse in model.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for graph in graphs:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    yield from found


def _all_nodes(model: onnx.ModelProto, nodes: list[Written]) -> Iterator[Written]:
    """The nodes of a model, whose graph has `nodes`, and of its functions and branches."""
    yield from nodes
    left = [graph for node in nodes for graph in node.graphs]
    for function in model.functions:
        for attr in function.attribute_proto:
            parts(attr, left, [])
        for node in written(function.node):
            yield node
            left += node.graphs
    while left:
        for node in written(left.pop().node):
            yield node
            left += node.graphs


def size_of(source: Source) -> tuple[int, int]:
    """Bytes and nodes of a model."""
    size = source.size
    if not size:
        try:
            size = source.model.ByteSize()
        except Exception:
            size = 2**31  # more than a message can have: its tensors are that large
    return size, sum(1 for _ in _all_nodes(source.model, source.nodes))


def array_of(tensor: onnx.TensorProto, where: str, raw: memoryview | None = None) -> np.ndarray:
    """The elements of a TensorProto, whose raw data is `raw` if that is not in it. Raises
    `ModelError` when bytes and shape disagree."""
    try:
        if raw is None:
            array = tensor_array(tensor.SerializeToString())
            if array is not None:
                return array
        dims = tuple(tensor.dims)
        if min(dims, default=0) < 0:
            raise ValueError("a dimension is negative")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError("its data lies in a file of its own")
        dtype = None if tensor.HasField("segment") else ELEMENTS.get(tensor.data_type)
        if dtype is not None and raw is None and tensor.HasField("raw_data"):
            return np.frombuffer(tensor.raw_data, dtype).reshape(dims)
        if raw is not None:
            if dtype is not None:
                return np.frombuffer(raw, dtype).reshape(dims)
            tensor.raw_data = bytes(raw)
        return numpy_helper.to_array(tensor)
    except MemoryError:
        raise MemoryError(f"{where}: no memory for tensor {shortened(repr(tensor.name))}") from None
    except Exception as exc:
        raise ModelError(
            f"{where}: tensor {shortened(repr(tensor.name))} of shape "
            f"{shortened(str(list(tensor.dims[:64])))} cannot be read: {shortened(str(exc))}"
        ) from exc


def dense_of(sparse: onnx.SparseTensorProto, where: str, budget: Budget) -> np.ndarray:
    """A sparse tensor with its zeros written out."""
    values, index = array_of(sparse.values, where), array_of(sparse.indices, where)
    shape = tuple(sparse.dims)
    label = f"sparse tensor {shortened(repr(sparse.values.name))}"

    def wrong(why: str) -> ModelError:
        return ModelError(f"{where}: {label} of shape {shortened(str(list(shape)))}: {why}")

    if values.ndim != 1 or index.dtype != np.int64:
        raise wrong(
            "its values have to be one list and its indices int64, not "
            f"{list(values.shape)} and {index.dtype.name}"
        )
    if any(d < 0 for d in shape) or len(shape) > 32:
        raise wrong("that is no shape")
    expected = ((values.size,), (values.size, len(shape)))
    if index.shape not in expected:
        raise wrong(f"indices of shape {list(index.shape)} for {values.size} values")
    size = np.array([math.prod(shape)] if index.ndim == 1 else shape, object)
    if index.size and (np.any(index < 0) or np.any(index >= size)):
        raise wrong("an index is outside of it")
    budget.array(shape, values.dtype, f"{label} of shape {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    if index.ndim == 1:
        dense.reshape(-1)[index] = values
    else:
        dense[tuple(index.T)] = values
    return dense
