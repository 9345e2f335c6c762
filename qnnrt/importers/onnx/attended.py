"""Attention without what ONNX's own function does for options that a node does not use.

That function adds zeros where there is no mask, scales both sides of a product, copies the heads of
keys for each head of queries, and asks of every row whether all of it is masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from .bodies import AsDefined, Body, body
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported

#: No mask that is made has more elements.
LARGEST_MASK = 2**26


@dataclass
class Heads:
    """How many there are of what.

    Attributes:
        groups: heads of keys and values, each for as many of queries.
        size: of a head of queries.
        kind: the type of the elements.
    """

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int
    size: int
    kind: np.dtype


def as_heads(b: Body, x: str, count: int) -> str:
    """[batch, length, count * size] as [batch, count, length, size]."""
    x = b.op("Reshape", [x, ints(b, [0, 0, count, -1])])
    return b.op("Transpose", [x], perm=[0, 2, 1, 3])


def as_rows(b: Body, x: str) -> str:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    return b.op("Reshape", [b.op("Transpose", [x], perm=[0, 2, 1, 3]), ints(b, [0, 0, -1])])


def in_order(queries: int, keys: int, before: int) -> np.ndarray:
    """Which keys each query sees: its own, behind `before` others, and those before it."""
    if queries * keys > LARGEST_MASK:
        raise Unsupported(f"a mask of {queries} x {keys}: it would be too large")
    return np.arange(keys) <= np.arange(queries)[:, None] + before


def number(b: Body, value: float, kind: np.dtype) -> str:
    """A constant without dimensions."""
    type = helper.np_dtype_to_tensor_dtype(kind)
    return b.op("Constant", [], value=helper.make_tensor("", type, (), [value]))


def attended(
    b: Body,
    parts: tuple[str, str, str],
    sizes: Heads,
    bias: str = "",
    bias_shape: tuple[int, ...] = (),
    scale: float = 0.0,
    softcap: float = 0.0,
) -> str:
    """Queries, keys and values in heads, [batch, heads, length, size], as values for each query.

    Args:
        bias: what is added to the scores, or "": of rank 4 with one head or as many as of queries.
        scale: 1 / sqrt(size) unless given.
    """
    q, k, v = parts
    factor = number(b, scale or sizes.size**-0.5, sizes.kind)
    narrow = sizes.kind.itemsize < 4  # products of what is not scaled may be too large
    if narrow:
        q = b.op("Mul", [q, factor])
    share = sizes.heads // sizes.groups
    if share > 1:  # the heads that share keys, one below the other
        q = reshaped(b, q, [sizes.batch, sizes.groups, share * sizes.queries, sizes.size])
    s = b.op("MatMul", [q, b.op("Transpose", [k], perm=[0, 1, 3, 2])])
    if not narrow:
        s = b.op("Mul", [s, factor])
    if softcap:
        cap = number(b, softcap, sizes.kind)
        s = b.op("Mul", [b.op("Tanh", [b.op("Div", [s, cap])]), cap])
    if bias:
        if share > 1 and bias_shape[1] == 1 and bias_shape[2] > 1:  # for the heads below each other
            bias = b.op("Tile", [bias, ints(b, [1, 1, share, 1])])
            bias_shape = (bias_shape[0], 1, share * bias_shape[2], bias_shape[3])
        apart = share > 1 and bias_shape[1] > 1
        if apart:
            s = reshaped(b, s, [sizes.batch, sizes.groups, share, sizes.queries, sizes.keys])
            split = [sizes.groups, share] if bias_shape[1] > 1 else [1, 1]
            bias = reshaped(b, bias, [bias_shape[0], *split, *bias_shape[2:]])
        s = b.op("Add", [s, bias])
        if apart:
            s = reshaped(b, s, [sizes.batch, sizes.groups, share * sizes.queries, sizes.keys])
    y = b.op("MatMul", [b.op("Softmax", [s], axis=-1), v])
    if share > 1:
        y = reshaped(b, y, [sizes.batch, sizes.heads, sizes.queries, -1])
    return y


#: Attributes that the common forms have.
_TAKEN = {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softcap"}


@body("", "Attention", to="MatMul, Softmax")
def _attention(n: OnnxNode) -> onnx.FunctionProto:
    """The common forms; the others go by ONNX's function."""
    b = Body(n)
    known = n.input(3).data if n.has(3) else None
    computed = n.has(6) or (n.has(3) and known is None)
    if n.wants(3) or set(n.written.names) - _TAKEN:
        raise AsDefined
    x, keys, values = (n.input(i) for i in range(3))
    if not x.rank == keys.rank == values.rank or x.rank not in (3, 4) or n.has(4) != n.has(5):
        raise AsDefined
    if x.rank == 3:
        heads, groups = n.integer("q_num_heads"), n.integer("kv_num_heads")
    else:
        heads, groups = x.shape[1], keys.shape[1]
    if min(heads, groups) < 1 or heads % groups:
        raise AsDefined
    if x.dtype.itemsize < 4 and (x.dtype != np.float16 or not computed):
        raise AsDefined
    kept = n.input(4).shape[2] if n.has(4) else 0
    queries, new = x.shape[-2], keys.shape[-2]
    size = x.shape[-1] if x.rank == 4 else x.shape[-1] // heads
    sizes = Heads(x.shape[0], heads, groups, queries, kept + new, size, x.dtype)
    bias = None if computed else _bias(known, n.integer("is_causal"), sizes, kept)
    q, k, v = (
        b.given(i) if x.rank == 4 else as_heads(b, b.given(i), count)
        for i, count in enumerate((heads, groups, groups))
    )
    if kept:
        k, v = b.op("Concat", [b.given(4), k], axis=2), b.op("Concat", [b.given(5), v], axis=2)
    given: tuple[str, tuple[int, ...]] = ("", ())
    sees = ""  # which queries see a key: the others get zeros
    if computed:
        given = _computed_bias(b, sizes, kept)
        most = b.op("ReduceMax", [given[0], ints(b, [3])], keepdims=1)
        sees = b.op("Greater", [most, number(b, -np.inf, x.dtype)])
    elif bias is not None:
        seen = bias.max(-1, keepdims=True, initial=-np.inf) != -np.inf
        if not seen.all():
            sees = array(b, seen)
            bias = np.where(seen, bias, 0.0)
        given = (array(b, bias.astype(x.dtype)), bias.shape)
    y = attended(b, (q, k, v), sizes, *given, n.number("scale"), n.number("softcap"))
    if sees:
        y = b.op("Where", [sees, y, number(b, 0.0, x.dtype)])
    y = y if x.rank == 4 else as_rows(b, y)
    return b.proto(*[y, k, v][: len(n.outputs)], opset=OPSET)


def _computed_bias(b: Body, sizes: Heads, kept: int) -> tuple[str, tuple[int, ...]]:
    """What a mask that is not known, how many keys there are, and their order add to scores; its
    shape. Queries stand behind `kept` keys, or where the keys that there are end."""
    n = b.node
    causal = bool(n.integer("is_causal"))
    none, zero = number(b, -np.inf, sizes.kind), number(b, 0.0, sizes.kind)
    bias = ""
    shape: tuple[int, ...] = (1, 1, 1, sizes.keys)
    if n.has(3):
        own: tuple[int, ...] = n.input(3).shape
        if not 2 <= len(own) <= 4 or own[-1] != sizes.keys:
            raise AsDefined
        shape = (1,) * (4 - len(own)) + own
        if shape[1] not in (1, sizes.heads):
            raise AsDefined
        bias = b.given(3) if len(own) == 4 else reshaped(b, b.given(3), list(shape))
        if n.input(3).dtype == bool:
            bias = b.op("Where", [bias, zero, none])
        elif n.input(3).dtype != sizes.kind:
            raise AsDefined
    if causal:
        if sizes.queries * sizes.keys > LARGEST_MASK:
            raise AsDefined
        shape = (*shape[:2], sizes.queries, sizes.keys)
    if n.has(6):
        keys = np.arange(sizes.keys, dtype=np.int64).reshape(1, 1, 1, -1)
        if causal:  # the last query sees as many keys as there are, each one before it one less
            keys = keys + np.arange(sizes.queries)[::-1].reshape(1, 1, -1, 1)
        lengths = b.op("Cast", [b.given(6)], to=onnx.TensorProto.INT64)
        ends = reshaped(b, lengths, [sizes.batch, 1, 1, 1])
        bias = b.op("Where", [b.op("Less", [array(b, keys), ends]), bias or zero, none])
        shape = (sizes.batch, *shape[1:])
    elif causal:
        seen = in_order(sizes.queries, sizes.keys, kept)[None, None]
        bias = b.op("Where", [array(b, seen), bias, none])
    return bias, shape


def _bias(mask: np.ndarray | None, causal: int, sizes: Heads, kept: int) -> np.ndarray | None:
    """What a known mask and the order of keys add to scores, of rank 4."""
    if mask is None and not causal:
        return None
    bias = np.zeros((1, 1, 1, 1))
    if mask is not None:
        if mask.ndim > 4 or mask.ndim < 2 or mask.shape[-1] != sizes.keys:
            raise AsDefined
        real = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        bias = real.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if causal:
        if sizes.queries * sizes.keys > LARGEST_MASK:
            raise AsDefined
        bias = np.where(in_order(sizes.queries, sizes.keys, kept), bias, -np.inf)
    if bias.shape[1] not in (1, sizes.heads):
        raise AsDefined
    return bias
