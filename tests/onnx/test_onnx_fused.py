"""ONNX Runtime's fused operators, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

MICROSOFT = "com.microsoft"


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def model_of(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int | Sequence[str] = 1,
    static: Sequence[int] = (),
    domain: str = MICROSOFT,
    opset: int = 20,
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The node, and what it is fed."""
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
    outs = [f"o{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    fixed = {names[i] for i in static}
    graph = helper.make_graph(
        [helper.make_node(op, names, outs, domain=domain, **attrs)],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in given.items()
            if n not in fixed
        ],
        [onnx.ValueInfoProto(name=o) for o in outs if o],
        [numpy_helper.from_array(x, n) for n, x in given.items() if n in fixed],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return proto, {n: x for n, x in given.items() if n not in fixed}


def ours(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        found = session.run(dict(feeds))
    return [found[o.name] for o in proto.graph.output]


def check(
    op: str, inputs: Sequence[np.ndarray | None], *args: Any, tolerance: float = 2e-5, **more: Any
) -> None:
    proto, feeds = model_of(op, inputs, *args, **more)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)
    for name, a, b in zip(proto.graph.output, ours(proto, feeds), theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.0]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("added", [False, True])
def test_convolutions_with_an_activation(
    activation: str, parameters: list[float], added: bool
) -> None:
    z = values(2, 6, 5, 5) if added else None
    inputs = [values(2, 4, 9, 9), values(6, 2, 3, 3), values(6), *([z] if added else [])]
    how = {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if parameters:
        how["activation_params"] = parameters  # type: ignore[assignment]
    check("FusedConv", inputs, static=(1, 2), activation=activation, **how)


def test_products() -> None:
    a, b = values(2, 3, 4, 5), values(2, 3, 5, 6)
    check("FusedMatMul", [a, b], alpha=0.5)
    check("FusedMatMul", [a.swapaxes(-1, -2).copy(), b], transA=1)
    check("FusedMatMul", [a, b.swapaxes(-1, -2).copy()], alpha=2.0, transB=1)
    check("FusedMatMul", [values(4, 5), values(7, 5)], static=(1,), transB=1)
    for activation, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3})):
        inputs = [values(5, 4), values(5, 6), values(6)]
        check("FusedGemm", inputs, transA=1, alpha=0.5, beta=2.0, activation=activation, **more)


@pytest.mark.parametrize("shape", [(7,), (3, 8), (2, 5, 64)])
def test_forms_of_gelu(shape: tuple[int, ...]) -> None:
    x, bias = 3 * values(*shape), values(shape[-1], seed=1)
    check("Gelu", [x])
    check("FastGelu", [x])
    check("FastGelu", [x, bias])
    check("BiasGelu", [x, bias])
    check("QuickGelu", [x])
    check("QuickGelu", [x], alpha=1.1)


def test_forms_that_onnx_runtime_has_no_kernels_of() -> None:
    """Against their definitions: its CPU provider does not have them."""
    x, bias, skip = values(2, 5, 12), values(12), values(2, 5, 12, seed=1)
    (got,) = ours(*model_of("BiasAdd", [x, bias, skip]))
    np.testing.assert_allclose(got, x + bias + skip, rtol=1e-6)
    (got,) = ours(*model_of("BiasSplitGelu", [x, bias]))
    first, second = np.split((x + bias).astype(np.float64), 2, -1)
    erf = np.vectorize(__import__("math").erf)
    np.testing.assert_allclose(
        got, first * second * (1 + erf(second / 2**0.5)) / 2, rtol=1e-4, atol=1e-5
    )
    image, scale, shift = values(2, 3, 4, 8), values(8), values(8, seed=1)
    for last in (1, 0):
        for silu in (0, 1):
            how = {"groups": 2, "activation": silu, "channels_last": last, "epsilon": 1e-4}
            given = image if last else np.moveaxis(image, -1, 1).copy()
            (got,) = ours(*model_of("GroupNorm", [given, scale, shift], **how))
            parts = image.astype(np.float64).reshape(2, 12, 2, 4)
            y = parts - parts.mean((1, 3), keepdims=True)
            y = y / np.sqrt(y.var((1, 3), keepdims=True) + 1e-4)
            y = y.reshape(image.shape) * scale + shift
            y = y / (1 + np.exp(-y)) if silu else y
            got = got if last else np.moveaxis(got, 1, -1)
            np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 5, 16), (1, 3, 64)])
def test_normalizations_of_sums(shape: tuple[int, ...]) -> None:
    x, skip, size = values(*shape), values(*shape, seed=1), shape[-1]
    scale, shift, bias = (values(size, seed=i) for i in range(2, 5))
    op = "SkipLayerNormalization"
    check(op, [x, skip, scale, shift], static=(2, 3))
    check(op, [x, skip, scale, shift, bias], ["y", "", "", "sum"], static=(2, 3), epsilon=1e-3)
    check(op, [x, skip, scale], epsilon=1e-3)
    op = "SkipSimplifiedLayerNormalization"
    check(op, [x, skip, scale], static=(2,), epsilon=1e-5)
    check(op, [x, skip, scale, bias], ["y", "", "", "sum"], static=(2,), epsilon=1e-5)
    check("SimplifiedLayerNormalization", [x, scale], domain="", epsilon=1e-5, axis=-1)


def test_embeddings() -> None:
    rng = np.random.default_rng(0)
    ids, kinds = (rng.integers(0, n, (2, 5)).astype(np.int32) for n in (20, 2))
    tables = [values(20, 16), values(8, 16), values(2, 16)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    norm = [values(16, seed=5), values(16, seed=6)]
    op = "EmbedLayerNormalization"
    fixed = (2, 3, 4, 5, 6)
    check(op, [ids, kinds, *tables, *norm, mask], 2, fixed, epsilon=1e-3)
    check(op, [ids, kinds, *tables, *norm], 3, fixed)
    none = [ids, None, *tables[:2], None, *norm, mask, rng.integers(0, 8, (2, 5)).astype(np.int32)]
    check(op, none, 2, (2, 3, 5, 6))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embeddings(interleaved: int, turned: int) -> None:
    heads, size, length = 3, 8, 6
    angles = values(20, (turned or size) // 2)
    caches = [np.cos(angles), np.sin(angles)]
    how = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    if turned:
        how["num_heads"] = heads
    first = np.array([4], np.int64)
    each = np.random.default_rng(0).integers(0, 20, (2, length))
    for places in (first, each):
        flat, image = values(2, length, heads * size), values(2, heads, length, size)
        check("RotaryEmbedding", [flat, places, *caches], static=(2, 3), **how)
        check("RotaryEmbedding", [image, places, *caches], static=(1, 2, 3), **how)


def masks(batch: int, queries: int, keys: int) -> list[np.ndarray | None]:
    rng = np.random.default_rng(0)
    some = rng.integers(0, 2, (batch, keys)).astype(np.int32)
    some[:, 0] = 1
    return [None, some, np.arange(1, batch + 1, dtype=np.int32)]


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_one_product(causal: int) -> None:
    x, weights, bias = values(2, 5, 16), values(16, 48), values(48)
    for mask in masks(2, 5, 5):
        inputs = [x, weights, bias, mask] if mask is not None else [x, weights, bias]
        check("Attention", inputs, static=(1, 2), num_heads=4, unidirectional=causal)
    added = values(2, 4, 5, 5)
    inputs = [x, weights, bias, None, None, added]
    check("Attention", inputs, static=(1, 2), num_heads=4, scale=0.3)
    weights, bias = values(16, 40), values(40)
    sizes = {"qkv_hidden_sizes": [16, 16, 8], "num_heads": 4}
    check("Attention", [x, weights, bias], static=(1, 2), **sizes)


def test_attention_of_queries_keys_and_values() -> None:
    q, k, v = values(2, 5, 16), values(2, 7, 16, seed=1), values(2, 7, 24, seed=2)
    bias = values(56)
    for mask in masks(2, 5, 7):
        check("MultiHeadAttention", [q, k, v, bias, mask], num_heads=4, static=(3,))
    check("MultiHeadAttention", [q, k, v, None, None, values(1, 4, 5, 7)], num_heads=4, scale=0.2)
    same = [values(2, 5, 16, seed=i) for i in range(3)]
    check("MultiHeadAttention", same, num_heads=2, unidirectional=1)


@pytest.mark.parametrize(
    ("batch", "length", "kept", "ends", "total"),
    [
        (1, 4, 0, [3], 4), (2, 4, 0, [3, 3], 4), (1, 1, 6, [6], 7), (1, 1, 10, [6], 7),
        (2, 1, 10, [6, 3], 7), (1, 3, 10, [6], 7), (2, 3, 8, [2, 2], 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "how",
    [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 3},
     {"scale": 0.3, "softcap": 2.0}],
)  # fmt: skip
def test_queries_in_groups_with_a_buffer_of_keys(
    batch: int, length: int, kept: int, ends: list[int], total: int, how: dict[str, Any]
) -> None:
    """The rows of the buffers behind those that count may be anything."""
    heads, groups, size = 4, 2, 16
    angles = values(20, size // 2)
    caches = [np.cos(angles), np.sin(angles)] if "do_rotary" in how else [None, None]
    past = [values(batch, groups, kept, size, seed=i) if kept else None for i in (4, 5)]
    rows = [
        values(batch, length, n * size, seed=n + i) for i, n in enumerate((heads, groups, groups))
    ]
    counts = [np.array(ends, np.int32), np.array([total], np.int32)]
    more = {"num_heads": heads, "kv_num_heads": groups, **how}
    names = ["y", "keys", "values"]
    inputs = [*rows, *past, *counts, *caches]
    for static in ((6,), ()) if kept >= total or not kept else ((6,),):
        proto, feeds = model_of("GroupQueryAttention", inputs, names, static, **more)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        theirs = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)
        found = ours(proto, feeds)
        np.testing.assert_allclose(found[0], theirs[0], rtol=2e-5, atol=2e-5)
        for a, b in zip(found[1:], theirs[1:], strict=True):
            assert a.shape == b.shape
            for row, end in enumerate(ends):
                np.testing.assert_allclose(
                    a[row, :, : end + 1], b[row, :, : end + 1], rtol=2e-5, atol=2e-5
                )


def test_what_is_not_taken_is_said() -> None:
    x = values(2, 5, 16)
    for op, inputs, more, message in (
        ("FusedMatMul", [values(2, 3, 4), values(2, 4, 5)], {"transBatchA": 1}, "transBatchA"),
        ("FusedConv", [values(1, 1, 3, 3), values(1, 1, 3, 3)], {"activation": "Cos"}, "'Cos'"),
        ("SkipLayerNormalization", [x, x, x[0, 0]], {"outputs": 2}, r"output 1 \(mean\)"),
        ("MultiHeadAttention", [values(2, 5, 3, 16)], {"num_heads": 1}, "in one tensor"),
    ):
        with pytest.raises(UnsupportedOpError, match=message):
            importer.load(model_of(op, inputs, **more)[0])  # type: ignore[arg-type]
