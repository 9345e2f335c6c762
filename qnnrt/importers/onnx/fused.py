"""ONNX Runtime's fused operators (domain com.microsoft) as the operators that they were made of.

Its optimizers write them into files. The definitions are those of ONNX Runtime's documentation of
its contrib operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .expanded import OPSET, array, ints
from .nodes import OnnxNode, Unsupported
from .qlinear import MICROSOFT, Body, body


def _only_first(n: OnnxNode, *others: str) -> None:
    """Refuses a node of which results are used that only training needs."""
    for index, what in enumerate(others, 1):
        if what and n.wants(index):
            raise Unsupported(f"output {index} ({what}), which is used")


def _typed(b: Body, value: float, index: int = 0) -> str:
    """A constant of the type of an input."""
    kind = helper.np_dtype_to_tensor_dtype(b.node.input(index).dtype)
    return b.op("Constant", [], value=helper.make_tensor("", kind, (), [value]))


def _sum(b: Body, *names: str) -> str:
    """Of those that are there; "" where none is."""
    total = ""
    for name in names:
        total = b.op("Add", [total, name]) if total and name else total or name
    return total


#: Activation -> the attributes of its ONNX operator that it has parameters for, in order.
_ACTIVATIONS = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
}


def _activated(b: Body, x: str, parameters: list[float]) -> str:
    kind = b.node.text("activation")
    if not kind:
        return x
    if kind == "Clip":
        if len(parameters) != 2:
            raise ValueError(f"activation Clip has {len(parameters)} parameters, not 2")
        return b.op("Clip", [x, *(_typed(b, p) for p in parameters)])
    if kind not in _ACTIVATIONS:
        raise Unsupported(f"activation {kind!r}")
    how: dict[str, Any] = dict(zip(_ACTIVATIONS[kind], parameters, strict=False))
    return b.op(kind, [x], **how)


@body(MICROSOFT, "FusedConv")
def _conv(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    inputs = [b.given(i) for i in range(3)]
    y = _sum(b, b.like("Conv", inputs, "activation", "activation_params"), b.given(3))
    given: list[float] = list(n.attrs.get("activation_params") or [])  # type: ignore[call-overload]
    return b.proto(_activated(b, y, given), opset=OPSET)


@body(MICROSOFT, "FusedGemm")
def _gemm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    y = b.like("Gemm", [b.given(i) for i in range(3)], "activation", *names)
    given = [n.number(name) for name in names[:2] if name in n.attrs]
    return b.proto(_activated(b, y, given), opset=OPSET)


@body(MICROSOFT, "FusedMatMul")
def _matmul(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    sides = []
    for index, side in enumerate("AB"):
        if n.integer(f"transBatch{side}"):
            raise Unsupported(f"transBatch{side}")
        name, rank = b.given(index), n.input(index).rank
        if n.integer(f"trans{side}") and rank > 1:
            name = b.op("Transpose", [name], perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(name)
    y, alpha = b.op("MatMul", sides), n.number("alpha", 1.0)
    return b.proto(y if alpha == 1 else b.op("Mul", [y, _typed(b, alpha)]))


# ---- activations ---------------------------------------------------------------------------------


@body(MICROSOFT, "Gelu", "BiasGelu", "FastGelu")
def _gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    how: dict[str, Any] = {"approximate": "tanh"} if n.op == "FastGelu" else {}
    return b.proto(b.op("Gelu", [_sum(b, b.given(0), b.given(1))], **how), opset=OPSET)


@body(MICROSOFT, "QuickGelu")
def _quick_gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    scaled = b.op("Mul", [b.given(0), _typed(b, n.number("alpha", 1.702))])
    return b.proto(b.op("Mul", [b.given(0), b.op("Sigmoid", [scaled])]))


@body(MICROSOFT, "BiasSplitGelu")
def _split_gelu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    size = n.input(0).shape[-1]
    if size % 2:
        raise ValueError(f"its last dimension of {size} has no two halves")
    both = _sum(b, b.given(0), b.given(1))
    halves = ["first", "second"]
    b.nodes.append(helper.make_node("Split", [both], halves, axis=-1, num_outputs=2))
    return b.proto(b.op("Mul", [halves[0], b.op("Gelu", [halves[1]])]), opset=OPSET)


@body(MICROSOFT, "BiasAdd")
def _bias_add(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(_sum(b, *(b.given(i) for i in range(3))))


# ---- normalizations ------------------------------------------------------------------------------


def _normalized(b: Body, x: str, scale: int, bias: int | None, epsilon: float) -> str:
    if bias is None:
        how: dict[str, Any] = {"axis": -1, "epsilon": epsilon}
        return b.op("RMSNormalization", [x, b.given(scale)], **how)
    inputs = [x, b.given(scale), b.given(bias)]
    return b.op("LayerNormalization", inputs, axis=-1, epsilon=epsilon)


@body("", "SimplifiedLayerNormalization", to="RmsNorm")
def _simplified(n: OnnxNode) -> onnx.FunctionProto:
    """ONNX Runtime writes it into ONNX's own domain, which has no such operator."""
    b = Body(n)
    _only_first(n, "inv_std_var")
    how: dict[str, Any] = {"axis": n.integer("axis", -1), "epsilon": n.number("epsilon", 1e-5)}
    return b.proto(b.op("RMSNormalization", [b.given(0), b.given(1)], **how), opset=OPSET)


@body(MICROSOFT, "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    _only_first(n, "mean", "inv_std_var")
    simplified = n.op == "SkipSimplifiedLayerNormalization"
    total = _sum(b, b.given(0), b.given(1), b.given(3 if simplified else 4))
    bias = None if simplified else 3
    y = _normalized(b, total, 2, bias, n.number("epsilon", 1e-12))
    return b.proto(*[y, "", "", total][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "EmbedLayerNormalization")
def _embed_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    batch, length = n.input(0).shape
    places = b.given(8)
    if not places:
        row = np.arange(length, dtype=np.int64)
        places = array(b, row)
    parts = [b.op("Gather", [b.given(2), b.given(0)]), b.op("Gather", [b.given(3), places])]
    if n.has(1) and n.has(4):
        parts.append(b.op("Gather", [b.given(4), b.given(1)]))
    total = _sum(b, *parts)
    y = _normalized(b, total, 5, 6, n.number("epsilon", 1e-12))
    found = ""
    if n.wants(1):
        if n.has(7):
            found = b.op("ReduceSum", [b.given(7), ints(b, [1])], keepdims=0)
            found = b.op("Cast", [found], to=onnx.TensorProto.INT32)
        else:
            found = array(b, np.zeros(batch, np.int32))
    return b.proto(*[y, found, total][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "GroupNorm")
def _group_norm(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    x, rank = b.given(0), n.input(0).rank
    last = n.integer("channels_last", 1)
    if last:
        x = b.op("Transpose", [x], perm=[0, rank - 1, *range(1, rank - 1)])
    kind = helper.np_dtype_to_tensor_dtype(n.input(0).dtype)
    scale, bias = (b.op("Cast", [b.given(i)], to=kind) for i in (1, 2))
    how: dict[str, Any] = {"epsilon": n.number("epsilon", 1e-5), "num_groups": n.integer("groups")}
    y = b.op("GroupNormalization", [x, scale, bias], **how)
    if n.integer("activation"):
        y = b.op("Mul", [y, b.op("Sigmoid", [y])])
    if last:
        y = b.op("Transpose", [y], perm=[0, *range(2, rank), 1])
    return b.proto(y, opset=OPSET)


# ---- attention -----------------------------------------------------------------------------------


@body(MICROSOFT, "RotaryEmbedding")
def _rotary(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    if n.number("scale", 1.0) != 1:
        raise Unsupported(f"scale {n.number('scale')}")
    if n.integer("is_packed_batching"):
        raise Unsupported("is_packed_batching")
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


def _mask_of(b: Body, mask: int, lengths: tuple[int, int, int], far: float) -> str:
    """A mask of keys, as what is added to scores of [batch, heads, queries, keys]; "" for none."""
    if not b.node.has(mask):
        return ""
    batch, queries, keys = lengths
    shape: tuple[int, ...] = b.node.input(mask).shape
    if shape == (batch,) and keys != 1:  # how many keys count
        row = array(b, np.arange(keys, dtype=np.int32)[None])
        ends = b.op("Unsqueeze", [b.given(mask), ints(b, [1])])
        counts = b.op("Less", [row, ends])
    elif shape in ((batch, keys), (batch, queries, keys)):
        counts = b.op("Cast", [b.given(mask)], to=onnx.TensorProto.BOOL)
    else:
        raise Unsupported(f"a mask of shape {list(shape)}")
    axes = [1] if len(shape) == 3 else [1, 2]
    counts = b.op("Unsqueeze", [counts, ints(b, axes)])
    return b.op("Where", [counts, _typed(b, 0.0), _typed(b, far)])


@body(MICROSOFT, "Attention", "MultiHeadAttention")
def _attention(n: OnnxNode) -> onnx.FunctionProto:
    """Of static shapes, without earlier keys."""
    b = Body(n)
    past: tuple[int, ...]
    if n.op == "Attention":
        mask, added, past = 3, 5, (4,)
        sizes, (q, k, v) = _one_product(b)
        batch, queries, _ = n.input(0).shape
        keys = queries
    else:
        mask, added, past = 4, 5, (6, 7)
        if n.input(0).rank != 3 or not n.has(1) or not n.has(2) or n.input(1).rank != 3:
            raise Unsupported("queries, keys and values in one tensor, or of rank 4")
        batch, queries, _ = n.input(0).shape
        keys = n.input(1).shape[1]
        sizes = [n.input(i).shape[-1] for i in range(3)]
        q, k, v = (b.given(i) for i in range(3))
        if n.has(3):
            q, k, v = (
                b.op("Add", [x, part])
                for x, part in zip((q, k, v), _parts(b, 3, sizes), strict=True)
            )
    for index in past:
        if n.has(index):
            raise Unsupported("earlier keys and values")
    _only_first(n, "present", "present value")
    if n.integer("do_rotary"):
        raise Unsupported("do_rotary")
    heads = n.integer("num_heads")
    if heads < 1 or any(size % heads for size in sizes):
        raise ValueError(f"num_heads is {heads}, which does not divide {sizes}")
    far = n.number("mask_filter_value", -10000.0)
    bias = _sum(b, _mask_of(b, mask, (batch, queries, keys), far), b.given(added))
    how: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads}
    how["is_causal"] = n.integer("unidirectional")
    if n.number("scale"):
        how["scale"] = n.number("scale")
    return b.proto(b.op("Attention", [q, k, v, bias], **how), opset=OPSET)


def _parts(b: Body, index: int, sizes: list[int]) -> list[str]:
    """A vector of queries, keys and values, taken apart."""
    names = ["of_q", "of_k", "of_v"]
    node = helper.make_node("Split", [b.given(index), ints(b, sizes)], names, axis=-1)
    b.nodes.append(node)
    return names


def _one_product(b: Body) -> tuple[list[int], list[str]]:
    """Queries, keys and values of one input by one matrix."""
    n = b.node
    columns = n.input(1).shape[-1]
    sizes = n.integers("qkv_hidden_sizes") or [columns // 3] * 3
    if len(sizes) != 3 or sum(sizes) != columns:
        raise ValueError(f"sizes {sizes} of queries, keys and values in {columns} columns")
    y = _sum(b, b.op("MatMul", [b.given(0), b.given(1)]), b.given(2))
    names = ["q", "k", "v"]
    b.nodes.append(helper.make_node("Split", [y, ints(b, sizes)], names, axis=-1))
    return sizes, names


@body(MICROSOFT, "GroupQueryAttention")
def _group_query_attention(n: OnnxNode) -> onnx.FunctionProto:
    """With keys and values of earlier steps in buffers, in which the new ones take their places.

    How many there are in all decides how long the buffers become; where that is not a constant,
    they have to be long enough.
    """
    b = Body(n)
    if not n.has(1) or not n.has(2):
        raise Unsupported("queries, keys and values in one tensor")
    for index, what in ((9, "position_ids"), (10, "attention_bias"), (11, "head_sink")):
        if n.has(index):
            raise Unsupported(what)
    if n.integer("smooth_softmax") == 1 or n.integer("qk_output"):
        raise Unsupported("smooth_softmax or qk_output")
    batch, length, columns = n.input(0).shape
    heads, groups = n.integer("num_heads"), n.integer("kv_num_heads")
    if min(heads, groups) < 1 or heads % groups or columns % heads:
        raise ValueError(f"{heads} heads of queries and {groups} of keys in {columns} columns")
    size = columns // heads
    kept = n.input(3).shape[2] if n.has(3) else 0
    whole = n.inputs[6].data if n.has(6) else None  # type: ignore[union-attr]
    room = max(kept or length, 0 if whole is None else int(whole.reshape(-1)[0]))

    def split(index: int, count: int) -> str:
        x = b.op("Reshape", [b.given(index), ints(b, [batch, length, count, size])])
        return b.op("Transpose", [x], perm=[0, 2, 1, 3])

    q, k, v = split(0, heads), split(1, groups), split(2, groups)
    ends = b.op("Cast", [b.given(5)], to=onnx.TensorProto.INT64)
    first = b.op("Sub", [b.op("Reshape", [ends, ints(b, [batch])]), ints(b, [length - 1])])
    first = b.op("Max", [first, ints(b, [0])])  # shorter rows of a first step begin at 0, too
    places = b.op("Unsqueeze", [first, ints(b, [1])])
    places = b.op("Add", [places, ints(b, list(range(length)))])
    if n.integer("do_rotary"):
        how = {"interleaved": n.integer("rotary_interleaved")}
        caches = [b.given(7), b.given(8), places]
        turned = 2 * n.input(7).shape[-1]
        if turned != size:
            how["rotary_embedding_dim"] = turned
        q, k = (b.op("RotaryEmbedding", [x, *caches], "", **how) for x in (q, k))
    if kept or room != length:
        k, v = (_kept(b, index, x, first, room) for index, x in ((3, k), (4, v)))
    # Each query sees the keys up to its own.
    keys = array(b, np.arange(room, dtype=np.int64).reshape(1, 1, 1, room))
    own = b.op("Unsqueeze", [places, ints(b, [1, 3])])
    seen = b.op("LessOrEqual", [keys, own])
    window = n.integer("local_window_size", -1)
    if window > 0:
        near = b.op("Greater", [keys, b.op("Sub", [own, ints(b, [window])])])
        seen = b.op("And", [seen, near])
    more = {name: n.number(name) for name in ("scale", "softcap") if n.number(name)}
    y = b.op("Attention", [q, k, v, seen], "", **more)
    y = b.op("Reshape", [b.op("Transpose", [y], perm=[0, 2, 1, 3]), ints(b, [0, 0, -1])])
    return b.proto(*[y, k, v][: len(n.outputs)], opset=OPSET + 1)


def _kept(b: Body, index: int, new: str, first: str, room: int) -> str:
    """A buffer of earlier keys or values, as long as it has to be, with the new ones."""
    batch, groups, length, size = (
        b.node.input(index).shape
        if b.node.has(index)
        else (b.node.input(0).shape[0], b.node.integer("kv_num_heads"), 0, 0)
    )
    if length:
        buffer = b.given(index)
        if room > length:
            buffer = b.op("Pad", [buffer, ints(b, [0, 0, 0, 0, 0, 0, room - length, 0])])
    else:
        size = b.node.input(0).shape[-1] // b.node.integer("num_heads")
        zeros = np.zeros((batch, groups, room, size), b.node.input(0).dtype)
        buffer = array(b, zeros)
    return b.op("TensorScatter", [buffer, new, first], axis=2)
