"""ONNX Runtime's fused operators, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, ours, theirs, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


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
    check("TransposeMatMul", [a, b], alpha=0.5)
    check("FusedMatMul", [np.moveaxis(a, 2, 0).copy(), b], transBatchA=1)
    check("FusedMatMul", [a, np.moveaxis(b, 2, 0).copy()], transBatchB=1, alpha=3.0)
    turned = np.moveaxis(a.swapaxes(-1, -2), 2, 0).copy()
    check("FusedMatMul", [turned, b], transBatchA=1, transA=1)
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
    # From before it was ONNX's: ONNX Runtime merges into it in files of any opset.
    for opset in (11, 16):
        check("LayerNormalization", [x, scale, shift], domain="", opset=opset, epsilon=1e-5)


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


def test_tables_of_bytes_are_normalized_sums() -> None:
    rng = np.random.default_rng(0)
    ids, kinds = (rng.integers(0, n, (2, 5)).astype(np.int32) for n in (20, 2))
    tables = [rng.integers(0, 255, (n, 16)).astype(np.uint8) for n in (20, 8, 2)]
    norm = [rng.integers(0, 255, 16).astype(np.uint8) for _ in range(2)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    scales = [np.array(s, np.float32) for s in (0.02, 0.01, 0.03, 0.015, 0.01)]
    zeros = [np.array(z, np.uint8) for z in (120, 128, 100, 7, 130)]
    fixed = (2, 3, 4, 5, 6, *range(8, 18))
    inputs = [ids, kinds, *tables, *norm, mask, *scales, *zeros]
    check("QEmbedLayerNormalization", inputs, 2, fixed, epsilon=1e-3)
    some = [x if i not in (1, 4, 10, 15) else None for i, x in enumerate(inputs)]
    check("QEmbedLayerNormalization", some, 2, [i for i in fixed if some[i] is not None])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("flat", [False, True])
def test_groups_of_a_sum(last: int, flat: bool) -> None:
    """Against the parts: ONNX Runtime's CPU provider has no kernel of it."""
    image, skip, bias = values(2, 3, 4, 8), values(2, 1, 1, 8), values(8, seed=2)
    scale, shift = values(8), values(8, seed=1)
    total = image + skip + bias
    if flat:
        skip = skip.reshape(2, 8)
    if not last:
        image, total = (np.moveaxis(x, -1, 1).copy() for x in (image, total))
        skip = skip if flat else np.moveaxis(skip, -1, 1).copy()
    how = {"groups": 2, "activation": 1, "channels_last": last}
    found = ours(*model_of("SkipGroupNorm", [image, scale, shift, skip, bias], 2, **how))
    (alone,) = ours(*model_of("GroupNorm", [total, scale, shift], **how))
    np.testing.assert_allclose(found[0], alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], total, rtol=1e-6)


def test_convolutions_with_the_channels_last() -> None:
    """Against ONNX's own: ONNX Runtime's CPU provider has no kernels of them for floats."""
    x, w, bias, z = values(2, 4, 9, 9), values(6, 2, 3, 3), values(6), values(2, 6, 5, 5)
    how: dict[str, Any] = {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}

    def last(x: np.ndarray) -> np.ndarray:
        return np.moveaxis(x, 1, -1).copy()

    wanted = theirs(*model_of("Conv", [x, w, bias], domain="", **how))[0]
    (got,) = ours(*model_of("NhwcConv", [last(x), last(w), bias], static=(1, 2), **how))
    np.testing.assert_allclose(got, last(wanted), rtol=1e-4, atol=1e-5)
    inputs, more = [last(x), w, bias, last(z)], {"activation": "Relu", **how}
    (got,) = ours(*model_of("NhwcFusedConv", inputs, static=(1, 2), **more))
    np.testing.assert_allclose(got, last(np.maximum(wanted + z, 0)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "size"), [(4, 16), (8, 32), (4, 64)])
def test_rows_of_tables_in_blocks(bits: int, size: int, zeros: bool, axis: int) -> None:
    """Blocks along rows of bytes, and of 4-bit integers along either axis."""
    rng = np.random.default_rng(0)
    rows, columns = 32, 48
    indices = rng.integers(0, rows, (2, 3))
    how = {"block_size": size, "quantize_axis": axis, "gather_axis": 0}
    shape = [rows, columns]
    shape[axis] = -(-shape[axis] // size)
    scales = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    if bits == 4:
        four = [rng.integers(-8, 8, s).astype(ml_dtypes.int4) for s in ((rows, columns), shape)]
        given = [four[0], indices, scales, *([four[1]] if zeros else [])]
        check("GatherBlockQuantized", given, static=(0, 2, 3)[: 2 + zeros], **how)
    if axis == 1:
        packed = rng.integers(0, 256, (rows, columns * bits // 8)).astype(np.uint8)
        offsets = rng.integers(0, 256, (rows, -(-shape[1] * bits // 8))).astype(np.uint8)
        given = [packed, indices, scales, *([offsets] if zeros else [])]
        check("GatherBlockQuantized", given, static=(0, 2, 3)[: 2 + zeros], bits=bits, **how)


def test_what_is_not_taken_is_said() -> None:
    x = values(2, 5, 16)
    for op, inputs, more, message in (
        ("FusedConv", [values(1, 1, 3, 3), values(1, 1, 3, 3)], {"activation": "Cos"}, "'Cos'"),
        ("SkipLayerNormalization", [x, x, x[0, 0]], {"outputs": 2}, r"output 1 \(mean\)"),
        ("MultiHeadAttention", [values(2, 5, 3, 16)], {"num_heads": 1}, "of rank 4"),
    ):
        with pytest.raises(UnsupportedOpError, match=message):
            importer.load(model_of(op, inputs, **more)[0])  # type: ignore[arg-type]


def test_a_file_in_the_memory_layout_of_onnx_runtime_is_told_apart(tmp_path: Path) -> None:
    """Of optimization level ALL; the one below is read."""
    proto, _ = model_of(
        "Conv", [values(1, 16, 8, 8), values(32, 16, 3, 3)], static=(1,), domain="", opset=17
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "all.onnx")
    onnxruntime.InferenceSession(proto.SerializeToString(), options)
    written = onnx.load(tmp_path / "all.onnx")
    if not any(n.domain == "com.microsoft.nchwc" for n in written.graph.node):
        pytest.skip("ONNX Runtime has no layout of its own for this processor")
    with pytest.raises(UnsupportedOpError, match="at level ORT_ENABLE_EXTENDED") as error:
        importer.load(written)
    assert {node.reason for node in error.value.nodes} == {error.value.nodes[0].reason}
