"""ONNX Runtime's operators of networks with linear attention, as its model builder writes them:
recurrences step by step, convolutions with a state, and the gates and norms around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .bodies import MICROSOFT, Body, body, first_channels, last_channels
from .expanded import OPSET, array, ints, reshaped
from .expanded_recurrent import LONGEST
from .fused import typed
from .nodes import OnnxNode, Unsupported

_FLOAT = onnx.TensorProto.FLOAT


def _no_window(n: OnnxNode) -> None:
    if n.integer("state_window"):
        raise Unsupported("states of several positions (state_window)")


def _kind(n: OnnxNode) -> int:
    return int(helper.np_dtype_to_tensor_dtype(n.input(0).dtype))


def _silu(b: Body, x: str) -> str:
    return b.op("Mul", [x, b.op("Sigmoid", [x])])


# ---- attention -----------------------------------------------------------------------------------


def _heads(b: Body, index: int, heads: int, wanted: int) -> str:
    """[batch, T, heads * size] as [batch, wanted, T, size], each head as often as it is needed."""
    batch, steps, width = b.node.input(index).shape
    if heads < 1 or width % heads or wanted % heads:
        raise ValueError(f"input {index} of width {width} for {heads} heads of {wanted}")
    x = reshaped(b, b.given(index), [batch, steps, heads, width // heads])
    x = b.op("Transpose", [x], perm=[0, 2, 1, 3])
    return x if heads == wanted else _repeated(b, x, heads, wanted)


def _repeated(b: Body, x: str, heads: int, wanted: int) -> str:
    which = np.repeat(np.arange(heads), wanted // heads)
    return b.op("Gather", [x, array(b, which)], axis=1)


@body(MICROSOFT, "LinearAttention")
def _linear_attention(n: OnnxNode) -> onnx.FunctionProto:
    """Each step of the recurrence: the state is [batch, heads, key size, value size]."""
    _no_window(n)
    b, rule = Body(n), n.text("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"update_rule {rule!r}")
    queries, own = n.integer("q_num_heads"), n.integer("kv_num_heads")
    batch, steps, width = n.input(0).shape
    if min(queries, own) < 1 or width % queries or max(queries, own) % min(queries, own):
        raise ValueError(f"{queries} heads of queries, {own} of keys, a width of {width}")
    if steps > LONGEST:
        raise Unsupported(f"{steps} steps of what is done step by step, up to {LONGEST}")
    size, room = width // queries, n.input(2).shape[2] // own
    heads = max(queries, own)
    q = _heads(b, 0, queries, heads)
    k = _heads(b, 1, n.input(1).shape[2] // size, own)
    v = _heads(b, 2, own, own)
    state = b.given(3)
    if not state:
        state = array(b, np.zeros((batch, own, size, room), n.input(0).dtype))
    decay = beta = ""
    if rule.startswith("gated"):
        decay = b.op("Exp", [_heads(b, 4, own, own)])
    if rule.endswith("delta"):
        beta = _heads(b, 5, n.input(5).shape[2], own)
    scale = typed(b, n.number("scale") or size**-0.5)
    found = []
    for t in range(steps):
        at = ints(b, [t])
        now = {
            name: b.op("Gather", [x, at], axis=2)  # [batch, heads, 1, size]
            for name, x in (("q", q), ("k", k), ("v", v), ("g", decay), ("b", beta))
            if x
        }
        column = b.op("Transpose", [now["k"]], perm=[0, 1, 3, 2])
        if decay:
            state = b.op("Mul", [state, b.op("Transpose", [now["g"]], perm=[0, 1, 3, 2])])
        new = now["v"]
        if beta:
            new = b.op("Sub", [new, b.op("MatMul", [now["k"], state])])
            new = b.op("Mul", [new, now["b"]])
        state = b.op("Add", [state, b.op("Mul", [column, new])])
        seen = state if own == heads else _repeated(b, state, own, heads)
        found.append(b.op("Mul", [b.op("MatMul", [now["q"], seen]), scale]))
    y = b.op("Transpose", [b.op("Concat", found, axis=2)], perm=[0, 2, 1, 3])
    y = reshaped(b, y, [batch, steps, heads * room])
    return b.proto(*[y, state][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "LinearAttentionGate")
def _linear_gate(n: OnnxNode) -> onnx.FunctionProto:
    b, kind = Body(n), _kind(n)
    a, bias, scale = (b.op("Cast", [b.given(i)], to=_FLOAT) for i in range(3))
    decay = b.op("Mul", [scale, b.op("Softplus", [b.op("Add", [a, bias])])])
    outputs = [b.op("Cast", [decay], to=kind)]
    if n.has(3):
        outputs.append(b.op("Sigmoid", [b.given(3)]))
    return b.proto(*outputs[: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "MRotaryEmbedding")
def _rotary(n: OnnxNode) -> onnx.FunctionProto:
    """A rotary embedding whose angles come from three places of each token."""
    b, x = Body(n), n.input(0)
    if n.number("scale", 1.0) != 1 or n.integer("is_packed_batching"):
        raise Unsupported("a scale, or batches that are packed (is_packed_batching)")
    sections, half = n.integers("mrope_section") or [], n.input(2).shape[1]
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        raise ValueError(f"mrope_section {sections} of {half} angles")
    which = np.repeat(np.arange(3), sections)
    if n.integer("mrope_layout"):
        which = np.zeros(half, np.int64)
        for i in (1, 2):
            which[i : sections[i] * 3 : 3] = i
    caches = []
    for index in (2, 3):
        of = b.op("Gather", [b.given(index), b.given(1)], axis=0)  # [3, batch, T, half]
        first, second, third = (b.op("Gather", [of, array(b, np.array(i))]) for i in range(3))
        angle = b.op("Where", [array(b, which == 2), third, first])
        caches.append(b.op("Where", [array(b, which == 1), second, angle]))
    how: dict[str, Any] = {
        "interleaved": n.integer("interleaved"),
        "rotary_embedding_dim": n.integer("rotary_embedding_dim"),
    }
    if x.rank == 3:
        how["num_heads"] = n.integer("num_heads") or x.shape[-1] // (2 * half)
    return b.proto(b.op("RotaryEmbedding", [b.given(0), *caches], **how), opset=OPSET)


# ---- around it -----------------------------------------------------------------------------------


@body(MICROSOFT, "CausalConvWithState")
def _causal_conv(n: OnnxNode) -> onnx.FunctionProto:
    """A convolution of each channel over what came before, of which the end is the next state."""
    _no_window(n)
    b, shape, last = Body(n), n.input(0).shape, n.integer("channels_last")
    activation = n.text("activation", "none")
    if n.integer("ndim", 1) != 1:
        raise Unsupported("more dimensions than the causal one (ndim)")
    if activation not in ("none", "", "silu", "swish"):
        raise ValueError(f"activation {activation!r}")
    channels, _, taps = n.input(1).shape
    dilation = n.integer("dilation", 1)
    kept = (taps - 1) * dilation
    x, past = b.given(0), b.given(3)
    batch, state = shape[0], list(n.input(3).shape) if n.has(3) else []
    if last:
        x = first_channels(b, reshaped(b, x, [batch, shape[1], channels]), 3)
        if past:
            past = first_channels(b, reshaped(b, past, [batch, kept, channels]), 3)
    if not past:
        past = array(b, np.zeros((batch, channels, kept), n.input(0).dtype))
        state = [batch, kept, *shape[2:]] if last else [batch, channels, kept]
    whole = b.op("Concat", [past, x], axis=2)
    inputs = [whole, b.given(1), *([b.given(2)] if n.has(2) else [])]
    y = b.op("Conv", inputs, group=channels, dilations=[dilation])
    if activation in ("silu", "swish"):
        y = _silu(b, y)
    steps = shape[1] if last else shape[2]
    new = b.op("Slice", [whole, *(ints(b, [v]) for v in (steps, steps + kept, 2))])
    if last:
        y, new = (last_channels(b, v, 3) for v in (y, new))
        y, new = reshaped(b, y, shape), reshaped(b, new, state)
    return b.proto(*[y, new][: len(n.outputs)], opset=OPSET)


@body(MICROSOFT, "GatedRMSNorm")
def _gated_norm(n: OnnxNode) -> onnx.FunctionProto:
    b, shape, size = Body(n), n.input(0).shape, n.input(1).shape[-1]
    activation = n.text("activation", "silu")
    if activation not in ("silu", "swish", "sigmoid"):
        raise ValueError(f"activation {activation!r}")
    if not shape or shape[-1] % size:
        raise ValueError(f"a scale of {size} elements for the shape {list(shape)}")
    x, scale, gate = (b.op("Cast", [b.given(i)], to=_FLOAT) for i in range(3))
    x = reshaped(b, x, [*shape[:-1], shape[-1] // size, size])
    y = b.op("RMSNormalization", [x, scale], axis=-1, epsilon=n.number("epsilon", 1e-5))
    gate = b.op("Sigmoid", [gate]) if activation == "sigmoid" else _silu(b, gate)
    y = b.op("Mul", [reshaped(b, y, shape), gate])
    return b.proto(b.op("Cast", [y], to=_kind(n)), opset=OPSET)


@body(MICROSOFT, "BranchwiseRMSNorm")
def _branchwise_norm(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    grouped, branches = list(shape), n.integer("num_branches")
    if branches > 0:
        grouped[-1:] = [branches, shape[-1] // branches]
    if branches > 0 and shape[-1] % branches:
        raise ValueError(f"{branches} branches of {shape[-1]} elements")
    x = reshaped(b, b.op("Cast", [b.given(0)], to=_FLOAT), grouped)
    one = array(b, np.ones(grouped[-1], np.float32))
    y = b.op("RMSNormalization", [x, one], axis=-1, epsilon=n.number("epsilon", 1e-5))
    if n.has(1):
        scale = b.op("Cast", [b.given(1)], to=_FLOAT)
        if n.input(1).shape != tuple(grouped[-1:]):
            scale = reshaped(b, scale, grouped[-2:])
        y = b.op("Mul", [y, scale])
    return b.proto(b.op("Cast", [reshaped(b, y, shape)], to=_kind(n)), opset=OPSET)


@body(MICROSOFT, "GatedAdd")
def _gated_add(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(b.op("Add", [b.given(0), b.op("Mul", [b.given(1), b.given(2)])]))


@body(MICROSOFT, "ScaledSiLU")
def _scaled_silu(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    scale = b.given(1) or typed(b, n.number("alpha", 1.0))
    return b.proto(_silu(b, b.op("Mul", [b.given(0), scale])))
