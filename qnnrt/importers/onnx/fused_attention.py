"""ONNX Runtime's attentions (domain com.microsoft) as the operators that they were made of.

The definitions are those of ONNX Runtime's documentation of its contrib operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .attended import Heads, as_heads, as_rows, attended, in_order
from .bodies import MICROSOFT, Body, body
from .expanded import OPSET, array, ints
from .fused import only_first, total_of, typed
from .nodes import OnnxNode, Unsupported


def _refuse(n: OnnxNode, inputs: dict[int, str], *attributes: str) -> None:
    """A node that has one of these inputs, or an attribute of these that is on."""
    for index, what in inputs.items():
        if n.has(index):
            raise Unsupported(what)
    for name in attributes:
        if n.integer(name):
            raise Unsupported(f"{name}={n.integer(name)}")


def _split(b: Body, x: str, sizes: list[int], names: str) -> list[str]:
    """`x` taken apart along its last dimension."""
    parts = [f"{names}_{kind}" for kind in "qkv"[: len(sizes)]]
    b.nodes.append(helper.make_node("Split", [x, ints(b, sizes)], parts, axis=-1))
    return parts


def _one_of(b: Body, x: str, index: int, axis: int) -> str:
    """`x` at one place of an axis, without that."""
    return b.op("Gather", [x, b.op("Constant", [], value_int=index)], axis=axis)


@body(MICROSOFT, "RotaryEmbedding")
def _rotary(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    if n.number("scale", 1.0) != 1:
        raise Unsupported(f"scale {n.number('scale')}")
    _refuse(n, {}, "is_packed_batching")
    x, turned = n.input(0), n.integer("rotary_embedding_dim")
    batch, length = x.shape[0], x.shape[-2]
    places = b.given(1)
    if n.input(1).shape == (1,):  # where the first one lies
        places = b.op("Add", [array(b, np.arange(length, dtype=np.int64)[None]), places])
        places = b.op("Expand", [places, ints(b, [batch, length])])
    how: dict[str, Any] = {"interleaved": n.integer("interleaved"), "rotary_embedding_dim": turned}
    if x.rank == 3:
        heads = n.integer("num_heads")
        if not heads:
            heads = x.shape[-1] // (2 * n.input(2).shape[-1])
        how["num_heads"] = heads
    inputs = [b.given(0), b.given(2), b.given(3), places]
    return b.proto(b.op("RotaryEmbedding", inputs, **how), opset=OPSET)


# ---- as many heads of keys as of queries ---------------------------------------------------------


def _mask_of(b: Body, mask: int, queries: int, keys: int, kind: int) -> str:
    """A mask of keys, as what is added to scores of [batch, heads, queries, keys]; "" for none."""
    if not b.node.has(mask):
        return ""
    shape: tuple[int, ...] = b.node.input(mask).shape
    batch = b.node.input(0).shape[0]
    row = np.arange(keys, dtype=np.int32)[None]
    if shape == (batch,):  # how many keys count
        ends = b.op("Unsqueeze", [b.given(mask), ints(b, [1])])
        counts = b.op("Less", [array(b, row), ends])
    elif shape == (2 * batch,):  # up to which, and from which
        both = b.op("Reshape", [b.given(mask), ints(b, [2, batch, 1])])
        ends, starts = (
            b.op("Gather", [both, b.op("Constant", [], value_int=i)], axis=0) for i in (0, 1)
        )
        near = b.op("Less", [array(b, row), ends])
        counts = b.op("And", [near, b.op("GreaterOrEqual", [array(b, row), starts])])
    elif shape in ((batch, keys), (batch, queries, keys)):
        counts = b.op("Cast", [b.given(mask)], to=onnx.TensorProto.BOOL)
    elif len(shape) == 4 and shape[:2] == (batch, 1) and shape[2] == shape[3] >= keys:
        last = [ints(b, v) for v in ([keys - queries, 0], [keys, keys], [2, 3])]
        counts = b.op("Slice", [b.given(mask), *last])
        counts = b.op("Cast", [counts], to=onnx.TensorProto.BOOL)
    else:
        raise Unsupported(f"a mask of shape {list(shape)}")
    if len(shape) < 4:
        counts = b.op("Unsqueeze", [counts, ints(b, [1] if len(shape) == 3 else [1, 2])])
    far = b.node.number("mask_filter_value", -10000.0)
    return b.op("Where", [counts, typed(b, 0.0, kind), typed(b, far, kind)])


def _attended(
    b: Body,
    parts: list[str],
    mask: int,
    added: str,
    lengths: tuple[int, int],
    size: int,
    past: list[str],
    kept: int = 0,
    in_heads: str = "",
    kind: int = 0,
) -> tuple[str, list[str]]:
    """Attention of queries, keys and values in rows; of keys and values in heads, too.

    Args:
        mask: the input that is a mask of keys.
        lengths: how many queries there are, and keys beside the `kept` ones in `past`.
        size: of a query with all its heads.
        in_heads: which of "kv" are in heads already.
        kind: the input whose element type the floats have.

    Returns:
        the result in rows, and all keys and values in heads.
    """
    n = b.node
    heads, (queries, new) = n.integer("num_heads"), lengths
    keys = kept + new
    bias = total_of(b, _mask_of(b, mask, queries, keys, kind), added)
    q, k, v = (
        x if name in in_heads else as_heads(b, x, heads)
        for name, x in zip("qkv", parts, strict=True)
    )
    if past:
        k, v = (b.op("Concat", [old, x], axis=2) for old, x in zip(past, (k, v), strict=True))
    if n.integer("unidirectional"):
        if queries != new:
            raise Unsupported(
                f"unidirectional=1 with {queries} queries and {new} keys: which of them each sees "
                "is not defined"
            )
        seen = in_order(queries, keys, kept)
        far = typed(b, -np.inf, kind)
        bias = b.op("Where", [array(b, seen), bias or typed(b, 0.0, kind), far])
    dtype = n.input(kind).dtype
    sizes = Heads(n.input(0).shape[0], heads, heads, queries, keys, size // heads, dtype)
    y = attended(b, (q, k, v), sizes, bias, scale=n.number("scale"))
    return as_rows(b, y), [k, v]


def _check_heads(n: OnnxNode, sizes: list[int]) -> None:
    heads = n.integer("num_heads")
    if heads < 1 or any(size % heads for size in sizes):
        raise ValueError(f"num_heads is {heads}, which does not divide {sizes}")


def _sizes_of(n: OnnxNode, columns: int) -> list[int]:
    """Of queries, keys and values in the columns of one matrix."""
    sizes = n.integers("qkv_hidden_sizes") or [columns // 3] * 3
    if len(sizes) != 3 or sum(sizes) != columns:
        raise ValueError(f"sizes {sizes} of queries, keys and values in {columns} columns")
    _check_heads(n, sizes)
    return sizes


def _one_product(
    b: Body, y: str, mask: int, added: str, past: int, kind: int = 0
) -> onnx.FunctionProto:
    """Of queries, keys and values `y`, which are the products of one input and one matrix."""
    n = b.node
    sizes = _sizes_of(n, n.input(1).shape[-1])
    length, kept, earlier = n.input(0).shape[1], 0, []
    if n.has(past):
        kept = n.input(past).shape[3]
        both = b.given(past)
        earlier = [
            b.op("Gather", [both, b.op("Constant", [], value_int=i)], axis=0) for i in (0, 1)
        ]
    parts = _split(b, y, sizes, "of")
    y, found = _attended(
        b, parts, mask, added, (length, length), sizes[0], earlier, kept, kind=kind
    )
    outputs = [y]
    if n.wants(1):
        outputs.append(
            b.op("Concat", [b.op("Unsqueeze", [x, ints(b, [0])]) for x in found], axis=0)
        )
    return b.proto(*outputs, opset=OPSET)


@body(MICROSOFT, "Attention")
def _attention(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    _refuse(n, {6: "past_sequence_length"}, "do_rotary", "past_present_share_buffer")
    y = total_of(b, b.op("MatMul", [b.given(0), b.given(1)]), b.given(2))
    return _one_product(b, y, 3, b.given(5), 4)


@body(MICROSOFT, "QAttention")
def _quantized_attention(n: OnnxNode) -> onnx.FunctionProto:
    """Of products of integers; the rest is computed in floats."""
    b = Body(n)
    _refuse(n, {}, "do_rotary", "past_present_share_buffer")
    if n.input(4).rank < 2 and np.prod(n.input(4).shape) == 1:
        y = b.scaled([b.given(0), b.given(1), b.given(6), b.given(7)], [b.given(3), b.given(4)])
    else:
        y = b.op("MatMul", [b.real(0, 3, 6), b.real(1, 4, 7, axis=1)])
    return _one_product(b, total_of(b, y, b.given(2)), 5, "", 8, kind=2)


@body(MICROSOFT, "MultiHeadAttention")
def _multi_head_attention(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    _refuse(n, {8: "past_sequence_length", 9: "cache_indirection"})
    only_first(n, "", "", "qk")
    queries = n.input(0).shape[1]
    new, in_heads = queries, ""
    if n.input(0).rank == 5:
        parts, sizes = _packed(b, 0, 3)
    elif n.input(0).rank != 3 or not n.has(1):
        raise Unsupported("queries and keys of rank 3 in one tensor, or of rank 4")
    elif n.input(1).rank == 5:
        new = n.input(1).shape[1]
        parts, sizes = _packed(b, 1, 2)
        parts, sizes = [b.given(0), *parts], [n.input(0).shape[-1], *sizes]
    elif not n.has(2):
        raise Unsupported("keys without values")
    else:
        parts = [b.given(i) for i in range(3)]
        sizes = [n.input(i).shape[-1] for i in range(3)]
        new = n.input(1).shape[1]
        if n.input(1).rank == 4:
            in_heads, new = "kv", n.input(1).shape[2]
            sizes = [sizes[0], *(n.integer("num_heads") * size for size in sizes[1:])]
    _check_heads(n, sizes)
    if n.has(3):
        if in_heads:
            raise Unsupported("bias beside keys in heads")
        added = _split(b, b.given(3), sizes, "bias")
        parts = [b.op("Add", [x, more]) for x, more in zip(parts, added, strict=True)]
    past, kept = [], 0
    if n.has(6) and n.has(7):
        past, kept = [b.given(6), b.given(7)], n.input(6).shape[2]
    y, found = _attended(b, parts, 4, b.given(5), (queries, new), sizes[0], past, kept, in_heads)
    outputs = [y, *found]
    return b.proto(*outputs[: len(n.outputs)], opset=OPSET)


def _packed(b: Body, index: int, count: int) -> tuple[list[str], list[int]]:
    """[batch, length, heads, count, size] as `count` tensors of rows."""
    batch, length, heads, found, size = b.node.input(index).shape
    if found != count:
        raise ValueError(f"input {index} holds {found} tensors in one; it has to hold {count}")
    parts = []
    for i in range(count):
        x = _one_of(b, b.given(index), i, 3)
        parts.append(b.op("Reshape", [x, ints(b, [batch, length, heads * size])]))
    return parts, [heads * size] * count


# ---- fewer heads of keys than of queries ---------------------------------------------------------


@body(MICROSOFT, "GroupQueryAttention")
def _group_query_attention(n: OnnxNode) -> onnx.FunctionProto:
    """With keys and values of earlier steps in buffers, in which the new ones take their places.

    How many there are in all decides how long the buffers become; where that is not a constant,
    they have to be long enough.
    """
    b = Body(n)
    _refuse(n, {12: "k_scale", 13: "v_scale"}, "sliding_window_cache", "qk_output")
    for name in ("k_quant_type", "v_quant_type"):
        if n.text(name, "NONE") not in ("", "NONE"):
            raise Unsupported(f"{name}={n.text(name)}")
    batch, length, columns = n.input(0).shape
    heads, groups = n.integer("num_heads"), n.integer("kv_num_heads")
    shares = heads if n.has(1) else heads + 2 * groups
    if min(heads, groups) < 1 or heads % groups or columns % shares:
        raise ValueError(f"{heads} heads of queries and {groups} of keys in {columns} columns")
    size = columns // shares
    kept = n.input(3).shape[2] if n.has(3) else 0
    whole = n.inputs[6].data if n.has(6) else None  # type: ignore[union-attr]
    room = max(kept or length, 0 if whole is None else int(whole.reshape(-1)[0]))
    if n.has(1):
        rows = [b.given(i) for i in range(3)]
    else:
        rows = _split(b, b.given(0), [heads * size, groups * size, groups * size], "of")
    q, k, v = (
        as_heads(b, x, count) for x, count in zip(rows, (heads, groups, groups), strict=True)
    )
    if n.has(14) and n.has(15):
        how: dict[str, Any] = {"axis": -1, "epsilon": n.number("qk_norm_epsilon", 1e-6)}
        q, k = (b.op("RMSNormalization", [x, b.given(i)], "", **how) for x, i in ((q, 14), (k, 15)))
    ends = b.op("Cast", [b.given(5)], to=onnx.TensorProto.INT64)
    ends = b.op("Reshape", [ends, ints(b, [batch, 1])])
    # Shorter rows of a first step begin at 0, too.
    first = b.op("Max", [b.op("Sub", [ends, ints(b, [length - 1])]), ints(b, [0])])
    places = b.op("Add", [first, ints(b, list(range(length)))])
    if n.integer("do_rotary"):
        q, k = _turned(b, q, k, places, size)
    if kept or room != length:
        at = b.op("Reshape", [first, ints(b, [batch])])
        k, v = (_kept(b, index, x, at, room, size) for index, x in ((3, k), (4, v)))
    outputs = [k, v]
    bias, shape = _seen(b, places if n.integer("causal", 1) else ends, room)
    sizes = Heads(batch, heads, groups, length, room, size, n.input(0).dtype)
    if n.has(11) or n.integer("smooth_softmax") == 1:
        k, v, bias = _with_sink(b, k, v, bias, sizes)
        sizes.keys += 1
        shape = (batch, heads, length, sizes.keys)
    scale, softcap = n.number("scale"), n.number("softcap")
    y = as_rows(b, attended(b, (q, k, v), sizes, bias, shape, scale, softcap))
    return b.proto(*[y, *outputs][: len(n.outputs)], opset=OPSET + 1)


def _turned(b: Body, q: str, k: str, places: str, size: int) -> list[str]:
    n = b.node
    how = {"interleaved": n.integer("rotary_interleaved")}
    turned = 2 * n.input(7).shape[-1]
    if turned != size:
        how["rotary_embedding_dim"] = turned
    caches = [b.given(7), b.given(8), b.given(9) or places]
    return [b.op("RotaryEmbedding", [x, *caches], "", **how) for x in (q, k)]


def _seen(b: Body, last: str, room: int) -> tuple[str, tuple[int, ...]]:
    """What is added to the scores of each query, so that it sees the keys up to `last`; its
    shape."""
    n = b.node
    batch, length = n.input(0).shape[:2]
    keys = array(b, np.arange(room, dtype=np.int64).reshape(1, 1, 1, room))
    own = b.op("Unsqueeze", [last, ints(b, [1, 3])])
    seen = b.op("LessOrEqual", [keys, own])
    window = n.integer("local_window_size", -1)
    if window > 0:
        near = b.op("Greater", [keys, b.op("Sub", [own, ints(b, [window])])])
        seen = b.op("And", [seen, near])
    if not n.has(10):
        bias = b.op("Where", [seen, typed(b, 0.0), typed(b, -np.inf)])
        return bias, (batch, 1, length if n.integer("causal", 1) else 1, room)
    bias, behind = b.given(10), room - n.input(10).shape[-1]
    if behind < 0:
        raise ValueError(f"attention_bias for {room - behind} keys, of {room}")
    if behind:
        bias = b.op("Pad", [bias, ints(b, [*[0] * 7, behind])])
    bias = b.op("Where", [seen, bias, typed(b, -np.inf)])
    return bias, (batch, n.input(10).shape[1], length, room)


def _with_sink(b: Body, k: str, v: str, bias: str, sizes: Heads) -> tuple[str, str, str]:
    """A further key that scores what the sink of each head says, and whose value is 0."""
    n, (batch, heads) = b.node, (sizes.batch, sizes.heads)
    nothing = array(b, np.zeros((batch, sizes.groups, 1, sizes.size), sizes.kind))
    k, v = (b.op("Concat", [x, nothing], axis=2) for x in (k, v))
    sink = b.op("Reshape", [b.given(11), ints(b, [1, heads, 1, 1])]) if n.has(11) else typed(b, 0.0)
    whole = ints(b, [batch, heads, sizes.queries, 1])
    sink, bias = b.op("Expand", [sink, whole]), b.op("Expand", [bias, whole])
    return k, v, b.op("Concat", [bias, sink], axis=3)


def _kept(b: Body, index: int, new: str, first: str, room: int, size: int) -> str:
    """A buffer of earlier keys or values, as long as it has to be, with the new ones."""
    n = b.node
    length = n.input(index).shape[2] if n.has(index) else 0
    if length:
        buffer = b.given(index)
        if room > length:
            buffer = b.op("Pad", [buffer, ints(b, [0, 0, 0, 0, 0, 0, room - length, 0])])
    else:
        shape = (n.input(0).shape[0], n.integer("kv_num_heads"), room, size)
        buffer = array(b, np.zeros(shape, n.input(0).dtype))
    return b.op("TensorScatter", [buffer, new, first], axis=2)
