"""Graphs with Quantize and Dequantize operations become graphs of fixed-point operations.

An importer lowers QuantizeLinear and DequantizeLinear each by itself. Here Dequantize sinks and
Quantize rises through whatever only moves elements or keeps their order, a Dequantize that meets a
Quantize is removed (or becomes a Convert), and an operation between the two computes on fixed-point
tensors (`quantized_ops`). What has no counterpart stays in float between Dequantize and Quantize.

An edge is fixed-point when it has a `quantization`; an edge of integers without one holds integers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np

from .._native.op_table import bounds, op_table
from ..dtypes import is_float
from ..model import Quantization
from ..quantization import limits, quantize, unpacked
from . import passes, quantized_ops, quantized_recurrent
from .encodings import alike, decode
from .graph import Edge, Op
from .passes import Graph

#: Operations of which the integers give the result that the real numbers give.
_POSITIONS = {"Argmax", "Argmin"}

#: Products of integers that the runtime finds.
_PRODUCTS = {"Conv2d", "DepthWiseConv2d", "FullyConnected", "MatMul"}


def run(graph: Graph, quantized_io: bool = False) -> None:
    """Fixed-point operations wherever the graph says so.

    With `quantized_io` the inputs that are quantized first and the outputs that are dequantized
    last are fixed-point tensors themselves.
    """
    if any(op.type in passes.CODED for op in graph.ops):
        _mark(graph)
        passes.drop_dead(graph)
        _merge(graph)
        _sink(graph)
        _cancel(graph)
        while _rise(graph):
            _merge(graph)
            _cancel(graph)
        quantized_ops.fuse(graph)
        quantized_recurrent.fuse(graph)
        _sink(graph)
        _cancel(graph)
        passes.drop_dead(graph)
        _real_constants(graph)
    if quantized_io:
        fixed_io(graph)


def fixed_io(graph: Graph) -> None:
    """Inputs that are quantized first and outputs that are dequantized last become fixed-point."""
    _inputs(graph)
    _outputs(graph)
    passes.drop_dead(graph)


def encoded(edge: Edge | None) -> Quantization | None:
    """The encoding of a fixed-point tensor that has one for all of it."""
    q = None if edge is None else edge.quantization
    return q if q is not None and q.axis is None and q.block is None else None


# ---- integers and fixed-point numbers --------------------------------------------------------


def _mark(graph: Graph) -> None:
    """Encodings for what integers are moved through, casts to integers where they are computed on.

    The codes of a Quantize go to other operators than DequantizeLinear in few models.
    """
    ops: list[Op] = []
    plain: dict[Edge, Edge] = {}
    for op in graph.ops:
        source = op.inputs[0] if op.inputs else None
        q = encoded(source)
        if op.type == "Cast" and q is not None and alike(q, encoded(op.outputs[0])):
            assert source is not None
            assert op.outputs[0] is not None
            graph.replace(op.outputs[0], source)
        elif q is not None and _moved(op) == range(1) and op.type != "Pad" and not _clamps(op):
            for out in op.outputs:
                if out is not None and source is not None and out.dtype == source.dtype:
                    out.quantization = q
        elif _is_wide_cast(op) or (
            op.type not in ("Cast", "Dequantize") and op.type not in _POSITIONS
        ):
            for i, edge in enumerate(op.inputs):
                if edge is None or edge.quantization is None:
                    continue
                if edge not in plain:
                    plain[edge] = Edge(edge.shape, edge.dtype)
                    ops.append(Op("Cast", [edge], [plain[edge]], {}, op.name))
                op.inputs[i] = plain[edge]
        ops.append(op)
    graph.ops = ops
    graph.index()
    for edge in graph.inputs:  # integers that are only ever read as fixed-point numbers
        readers = list(graph.consumers.get(edge, []))
        codes = [encoded(op.outputs[0]) for op in readers if op.type == "Cast"]
        if codes and len(codes) == len(readers) and all(alike(q, codes[0]) for q in codes):
            edge.quantization = codes[0]
            for op in readers:
                if op.outputs[0] is not None:
                    graph.replace(op.outputs[0], edge)
    graph.index()


def _is_wide_cast(op: Op) -> bool:
    """A Cast to INT_64, by which QNN has the numbers that codes stand for, and not the codes."""
    out = op.outputs[0]
    return op.type == "Cast" and out is not None and out.dtype == np.int64


def _merge(graph: Graph) -> None:
    """One Quantize of a tensor to an encoding, one Dequantize of a tensor."""
    first: dict[tuple[object, ...], Edge] = {}
    dropped: set[int] = set()
    for op in graph.ops:
        source, out = op.inputs[0] if op.inputs else None, op.outputs[0]
        q = encoded(out if op.type == "Quantize" else source)
        if op.type not in ("Quantize", "Dequantize") or q is None or out is None:
            continue
        key = (op.type, source, out.dtype, float(q.scale), int(q.offset), q.bitwidth)
        if key not in first:
            first[key] = out
        elif out not in graph.outputs:
            graph.replace(out, first[key])
            dropped.add(id(op))
    if dropped:
        graph.keep(dropped)


# ---- Dequantize sinks, Quantize rises --------------------------------------------------------


@functools.lru_cache(maxsize=1024)  # asked of every operation, several times
def _traits(op: str) -> tuple[bool, slice]:
    """Whether it cuts off at constants, and which inputs the elements of its outputs come from."""
    record = op_table().get(op)
    if record is None:
        return False, slice(0)
    # A maximum of rounded numbers is the rounded maximum, so that pools move elements, too.
    if record.get("clamps"):
        return True, slice(1)
    if not record["moves"] or "FLOAT_32" not in record["outputs"][0]["types"]:
        return False, slice(0)
    ports = [port for port in record["inputs"] if "FLOAT_32" in port["types"]]
    if ports != record["inputs"][:1]:  # ElementWiseSelect computes in one encoding
        return False, slice(0)
    return False, slice(None) if ports[0]["count"] == "variadic" else slice(1)


def _clamps(op: Op) -> bool:
    """Whether it cuts off at constants."""
    return _traits(op.type)[0]


def _moved(op: Op) -> range:
    """Which inputs the elements of the output come from, if they come as they are."""
    return range(len(op.inputs))[_traits(op.type)[1]]


def _constants(op: Op) -> list[float]:
    """Numbers that the output may hold beside the elements of the input."""
    if op.type == "Pad" and not np.asarray(op.params.get("scheme", 0)).any():
        return [float(np.asarray(op.params.get("pad_constant_value", 0.0)))]
    if _clamps(op):
        return [x for x in bounds(op.type, op.params) if abs(x) < 3e38]
    return []


def _exact(values: list[float], edge: Edge) -> bool:
    """Whether every number is one that the encoding has, or beyond all that it has."""
    if not values:
        return True
    q = encoded(edge)
    assert q is not None
    low, high = (float(q.scale) * (end + int(q.offset)) for end in limits(edge.dtype, q.bitwidth))
    inside = np.array([v for v in values if low < v < high], np.float32)
    return bool(np.all(decode(quantize(inside, q, edge.dtype), q, inside.dtype) == inside))


def _idle(op: Op, edge: Edge) -> bool:
    """A clamp that lets every number of the encoding through."""
    q = encoded(edge)
    assert q is not None
    ends = quantize(np.array(bounds(op.type, op.params), np.float32), q, edge.dtype)
    return tuple(int(e) for e in ends) == limits(edge.dtype, q.bitwidth)


def _sink(graph: Graph) -> None:
    """A Dequantize in front of what moves elements is moved behind it."""
    codes: dict[Edge, Edge] = {}  # real numbers -> the fixed-point numbers that they come from
    ops: list[Op] = []
    for op in graph.ops:
        if op.type == "Dequantize" and op.outputs[0] is not None and encoded(op.inputs[0]):
            assert op.inputs[0] is not None
            codes[op.outputs[0]] = op.inputs[0]
        elif op.type in _POSITIONS and op.inputs[0] in codes:
            op.inputs[0] = codes[op.inputs[0]]
        elif _sinks(graph, op, codes):
            for i in _moved(op):
                op.inputs[i] = codes[op.inputs[i]]  # type: ignore[index]
            ops.append(op)
            ops += _decoded(op, codes)
            continue
        ops.append(op)
    graph.ops = ops
    graph.index()


def _sinks(graph: Graph, op: Op, codes: dict[Edge, Edge]) -> bool:
    if codes.keys().isdisjoint(op.inputs):
        return False
    moved = [op.inputs[i] for i in _moved(op)]
    fixed = [codes[e] for e in moved if e is not None and e in codes]
    if not fixed or len(fixed) < len(moved):
        return False
    if not all(e.dtype == fixed[0].dtype for e in fixed):
        return False
    if not all(alike(e.quantization, fixed[0].quantization) for e in fixed):
        return False
    if _clamps(op) and op.outputs[0] is not None:
        # Between two encodings a clamp is one fixed-point operation.
        readers = graph.consumers.get(op.outputs[0], [])
        if readers and all(r.type == "Quantize" for r in readers):
            return any(alike(encoded(r.outputs[0]), encoded(fixed[0])) for r in readers)
    return _exact(_constants(op), fixed[0])


def _decoded(op: Op, codes: dict[Edge, Edge]) -> list[Op]:
    """Fixed-point outputs for `op`, and the operations that give the real ones."""
    source = op.inputs[0]
    assert source is not None
    made = []
    for i, out in enumerate(op.outputs):
        if out is None or not is_float(out.dtype):
            continue
        fixed = Edge(out.shape, source.dtype, quantization=source.quantization)
        op.outputs[i] = codes[out] = fixed
        made.append(Op("Dequantize", [fixed], [out], {}, op.name))
    return made


def _cancel(graph: Graph) -> None:
    """Quantize of a Dequantize: nothing, or a change of encoding."""
    dropped: set[int] = set()
    changed = False
    for op in graph.ops:
        source, out = op.inputs[0] if op.inputs else None, op.outputs[0]
        if op.type != "Quantize" or source is None or out is None:
            continue
        before = graph.producer.get(source)
        if before is None or before.type != "Dequantize" or before.inputs[0] is None:
            continue
        fixed, changed = before.inputs[0], True
        if fixed.dtype != out.dtype or not alike(fixed.quantization, out.quantization):
            op.type, op.inputs = "Convert", [fixed]
            graph.consumers.setdefault(fixed, []).append(op)
        elif out not in graph.outputs:
            graph.replace(out, fixed)
            dropped.add(id(op))
        elif fixed in graph.outputs or fixed not in graph.producer:
            op.type, op.inputs = "Reshape", [fixed]
        else:
            _rename(graph, fixed, out)
            dropped.add(id(op))
    if changed:
        graph.keep(dropped)


def _rename(graph: Graph, old: Edge, new: Edge) -> None:
    """`new` replaces `old`, which an operation writes."""
    writer = graph.producer.pop(old)
    writer.outputs = [new if e is old else e for e in writer.outputs]
    graph.producer[new] = writer
    graph.replace(old, new)


def _rise(graph: Graph) -> bool:
    """A Quantize behind what moves elements is moved in front of it. Was there one?"""
    todo = [op for op in graph.ops if op.type == "Quantize"]
    gone: dict[int, Op] = {}  # kept alive: they are identified by id
    before: dict[int, list[Op]] = {}  # what comes in front of which operation
    while todo:
        op = todo.pop()
        mover = graph.producer.get(op.inputs[0]) if op.inputs[0] is not None else None
        if mover is None or id(op) in gone or not (found := _rises(graph, mover)):
            continue
        graph.budget.check_time()
        for reader in found:
            gone[id(reader)] = reader
            graph.forget(reader)
        graph.forget(mover)
        like = found[0].outputs[0]
        assert like is not None
        if _clamps(mover) and _idle(mover, like):
            fresh = [Op("Quantize", [mover.inputs[0]], found[0].outputs, {}, mover.name)]
            gone[id(mover)] = mover
        else:
            fresh = [_quantized(mover, i, like) for i in _moved(mover)]
            readers = {q.inputs[0]: q.outputs[0] for q in found}
            mover.outputs = [readers.get(e, e) for e in mover.outputs]
            graph.note(mover)
        for reader in fresh:
            graph.note(reader)
        todo += fresh
        before[id(mover)] = fresh
    if gone:
        graph.ops = [
            o for op in graph.ops for o in (*before.get(id(op), ()), op) if id(o) not in gone
        ]
        graph.index()
    return bool(gone)


def _quantized(op: Op, i: int, like: Edge) -> Op:
    """A Quantize in front of input `i`, which reads its result from then on."""
    source = op.inputs[i]
    assert source is not None
    fixed = Edge(source.shape, like.dtype, quantization=like.quantization)
    op.inputs[i] = fixed
    return Op("Quantize", [source], [fixed], {}, op.name)


def _rises(graph: Graph, op: Op) -> list[Op]:
    """The Quantize operations behind `op`, if they can go in front of it; else none."""
    moved = [op.inputs[i] for i in _moved(op)]
    makers = [graph.producer.get(e) for e in moved if e is not None]
    decoded = [m is not None and m.type == "Dequantize" for m in makers]
    if not moved or all(decoded) or any(e is None or e.data is not None for e in moved):
        return []
    if _clamps(op) and graph.only_consumer(moved[0]) is None:
        return []
    readers: list[Op] = []
    for out in op.outputs:
        if out is None:
            continue
        if not is_float(out.dtype):  # indices of the greatest: rounded first, other ones are equal
            return []
        reader = graph.only_consumer(out)
        if reader is None or reader.type != "Quantize":
            return []
        readers.append(reader)
    first = readers[0].outputs[0] if readers else None
    same = first is not None and all(
        r.outputs[0] is not None
        and r.outputs[0].dtype == first.dtype
        and alike(encoded(r.outputs[0]), encoded(first))
        for r in readers
    )
    return readers if same else []


# ---- the rest --------------------------------------------------------------------------------


def _is_integer_factor(graph: Graph, codes: Edge, real: Edge) -> bool:
    """Bytes that are multiplied as the integers that they are: of MatMulInteger and the like.

    They stay bytes, with a Dequantize behind them, for the runtime to multiply as such.
    """
    q, readers = codes.quantization, graph.consumers.get(real, [])
    return (
        q is not None
        and codes.dtype.itemsize == 1
        and q.block is None
        and q.bitwidth in (None, 8)
        and bool(np.all(np.asarray(q.scale) == 1))
        and bool(readers)
        and all(op.type in _PRODUCTS and op.inputs[1] is real for op in readers)
    )


#: Smaller weights are made real numbers: the runtime would, too.
_LEAST_NARROW = 4096


def _is_narrow_factor(graph: Graph, codes: Edge, real: Edge) -> bool:
    """A matrix of 4 or 8 bits that floats are multiplied by.

    It stays as it is, with a Dequantize behind it, for the runtime to multiply by it as such.
    """
    readers = graph.consumers.get(real, [])
    return (
        codes.dtype.itemsize == 1
        and math.prod(codes.shape) >= _LEAST_NARROW
        and all(d == 1 for d in codes.shape[:-2])
        and bool(readers)
        and all(op.type in ("FullyConnected", "MatMul") and op.inputs[1] is real for op in readers)
        and all(op.inputs[0] is not real for op in readers)
    )


def _real_constants(graph: Graph) -> None:
    """Constants that are wanted as real numbers are made such."""
    dropped: set[int] = set()
    for op in graph.ops:
        source, out = op.inputs[0] if op.inputs else None, op.outputs[0]
        if op.type != "Dequantize" or source is None or out is None or out in graph.outputs:
            continue
        if source.data is not None and source.quantization is not None:
            if _is_integer_factor(graph, source, out) or _is_narrow_factor(graph, source, out):
                continue
            graph.budget.array(out.shape, out.dtype)
            codes = source.data
            if source.quantization.packed:
                codes = unpacked(codes, source.shape, source.dtype.kind == "i")
            out.data = decode(codes, source.quantization, out.dtype)
            out.name = ""
            dropped.add(id(op))
    if dropped:
        graph.keep(dropped)


def _alike_all(edges: Iterable[Edge | None]) -> bool:
    found = list(edges)
    first = found[0] if found else None
    return first is not None and all(
        e is not None and e.dtype == first.dtype and alike(e.quantization, first.quantization)
        for e in found
    )


def _inputs(graph: Graph) -> None:
    """An input that is quantized, in one way, is given as fixed-point numbers."""
    dropped: set[int] = set()
    for edge in graph.inputs - graph.outputs:
        readers = list(graph.consumers.get(edge, []))
        codes = [op.outputs[0] for op in readers if op.type == "Quantize"]
        if len(codes) != len(readers) or not _alike_all(codes) or codes[0] is None:
            continue
        if not graph.outputs.isdisjoint(filter(None, codes)):
            continue
        edge.dtype, edge.quantization = codes[0].dtype, codes[0].quantization
        for op in readers:
            assert op.outputs[0] is not None
            graph.replace(op.outputs[0], edge)
            dropped.add(id(op))
    graph.keep(dropped)


def _outputs(graph: Graph) -> None:
    """An output that is dequantized last stays the fixed-point numbers that it comes from."""
    dropped: set[int] = set()
    for out in graph.outputs:
        op = graph.producer[out]
        if op.type != "Dequantize" or op.inputs[0] is None or graph.consumers.get(out):
            continue
        fixed = op.inputs[0]
        if fixed in graph.outputs or fixed not in graph.producer or encoded(fixed) is None:
            continue
        out.dtype, out.quantization = fixed.dtype, fixed.quantization
        dropped.add(id(op))
        _rename(graph, fixed, out)
    graph.keep(dropped)
