"""Operators that are written as others, beside numpy, torch and onnx's reference evaluator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import qnnrt
from qnnrt.errors import Error
from qnnrt.importers import onnx as importer

pytestmark = pytest.mark.foreign


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def model_of(
    op: str, inputs: list[np.ndarray | None], fixed: tuple[int, ...], opset: int, **attrs: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    names = ["" if x is None else f"i{i}" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    static = {names[i] for i in fixed}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in given.items()
            if n not in static
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(x, n) for n, x in given.items() if n in static],
    )
    imports = [helper.make_opsetid("", opset)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return proto, {n: x for n, x in given.items() if n not in static}


def run(
    op: str, inputs: list[Any], fixed: tuple[int, ...] = (), opset: int = 22, **attrs: Any
) -> np.ndarray:
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    proto, feeds = model_of(op, arrays, fixed, opset, **attrs)
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        return session.run(feeds)["y"]


def of_onnx(op: str, inputs: list[Any], opset: int = 22, **attrs: Any) -> np.ndarray:
    proto, feeds = model_of(op, [np.asarray(x) for x in inputs], (), opset, **attrs)
    return np.asarray(ReferenceEvaluator(proto).run(None, feeds)[0])


def parts(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("length", [None, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("opset", [17, 20])
def test_fourier_transforms_are_numpys(length: int | None, axis: int, opset: int) -> None:
    real, z = values(7, 6, 8), values(7, 6, 8, 2)
    both = z[..., 0] + 1j * z[..., 1]
    along = {"axis": axis if axis >= 0 else axis + 1} if axis < 0 else {"axis": axis}

    def dft(x: np.ndarray, **how: Any) -> np.ndarray:
        count = None if length is None else np.int64(length)
        if opset == 17:
            return run("DFT", [x, count], (1,) if count is not None else (), 17, axis=axis, **how)
        fixed = (1, 2) if count is not None else (2,)
        return run("DFT", [x, count, np.int64(axis)], fixed, 20, **how)

    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(dft(z), parts(np.fft.fft(both, length, **along)), **close)
    np.testing.assert_allclose(
        dft(real[..., None]), parts(np.fft.fft(real, length, **along)), **close
    )
    half = parts(np.fft.rfft(real, length, **along))
    np.testing.assert_allclose(dft(real[..., None], onesided=1), half, **close)
    turned = parts(np.fft.ifft(both, length, **along))
    np.testing.assert_allclose(dft(z, inverse=1), turned, **close)
    back = np.fft.irfft(both, length, **along)[..., None]
    np.testing.assert_allclose(dft(z, inverse=1, onesided=1), back, **close)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", ["none", "constant", "given"])
def test_transforms_of_frames(onesided: int, window: str) -> None:
    for signal in (values(2, 50, 1), values(2, 50), *([] if onesided else [values(2, 50, 2)])):
        weights = None if window == "none" else values(16, seed=3)
        inputs = [signal, np.int64(7), weights, np.int64(16)]
        fixed = (1, 2, 3) if window == "constant" else (1, 3)
        got = run("STFT", inputs, fixed, 17, onesided=onesided)
        whole = signal if signal.ndim == 2 else signal[..., 0]
        if signal.ndim == 3 and signal.shape[2] == 2:
            whole = whole + 1j * signal[..., 1]
        frames = np.stack([whole[:, i : i + 16] for i in range(0, 35, 7)], 1)
        frames = frames if weights is None else frames * weights
        z = np.fft.rfft(frames.real) if onesided else np.fft.fft(frames)
        np.testing.assert_allclose(got, parts(z), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_columns_to_an_image(seed: int, torch: Any) -> None:
    r = np.random.default_rng(seed)
    block, stride = r.integers(1, 4, 2).tolist(), r.integers(1, 4, 2).tolist()
    pads, dilation = r.integers(0, 2, 2).tolist(), r.integers(1, 3, 2).tolist()
    image = r.integers(7, 12, 2).tolist()
    counts = [
        (i + 2 * p - d * (b - 1) - 1) // s + 1
        for i, p, d, b, s in zip(image, pads, dilation, block, stride, strict=True)
    ]
    x = values(2, 3 * block[0] * block[1], counts[0] * counts[1])
    fold = torch.nn.functional.fold
    expected = fold(torch.from_numpy(x), image, block, dilation, pads, stride).numpy()
    how = {"strides": stride, "pads": pads * 2, "dilations": dilation}
    got = run("Col2Im", [x, np.array(image), np.array(block)], (1, 2), **how)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_columns_to_an_image_of_any_rank(seed: int) -> None:
    r = np.random.default_rng(seed)
    rank = seed % 3 + 1
    block, stride, dilation = (r.integers(1, most, rank).tolist() for most in (5, 6, 4))
    before, after = (r.integers(0, 3, rank).tolist() for _ in range(2))
    image = [d * (k - 1) + 1 + int(r.integers(0, 5)) for k, d in zip(block, dilation, strict=True)]
    whole = [i + p + q for i, p, q in zip(image, before, after, strict=True)]
    counts = [
        (w - d * (k - 1) - 1) // s + 1
        for w, d, k, s in zip(whole, dilation, block, stride, strict=True)
    ]
    columns = values(2, 3, *block, *counts)
    expected = np.zeros((2, 3, *whole), np.float32)
    for tap in np.ndindex(*block):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, counts, stride, strict=True)
        )
        expected[(slice(None), slice(None), *at)] += columns[(slice(None), slice(None), *tap)]
    inside = tuple(slice(p, p + i) for p, i in zip(before, image, strict=True))
    x = columns.reshape(2, 3 * math.prod(block), math.prod(counts))
    how = {"strides": stride, "pads": before + after, "dilations": dilation}
    got = run("Col2Im", [x, np.array(image), np.array(block)], (1, 2), **how)
    np.testing.assert_allclose(
        got, expected[(slice(None), slice(None), *inside)], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_a_column_that_is_no_number_is_in_one_pixel(stride: int) -> None:
    x = np.ones((1, 2 * 9, (3 if stride == 1 else 2) ** 2), np.float32)
    x[0, 4, 0] = np.nan  # the middle of the first block of the first map
    got = run("Col2Im", [x, np.array([5, 5]), np.array([3, 3])], (1, 2), strides=[stride] * 2)
    assert np.argwhere(np.isnan(got)).tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maxima_go_back_to_their_places(rank: int, torch: Any) -> None:
    size = 9
    x = torch.from_numpy(values(2, 3, *[size] * rank))
    name = f"max_pool{rank}d"
    pooled, index = getattr(torch.nn.functional, name)(x, 3, 2, 1, return_indices=True)
    unpool = getattr(torch.nn.functional, f"max_unpool{rank}d")
    expected = unpool(pooled, index, 3, 2, 1).numpy()
    # ONNX's indices go through the batch and the channels, too.
    offset = np.arange(6).reshape(2, 3, *[1] * rank) * size**rank
    how = {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1] * (2 * rank)}
    got = run("MaxUnpool", [pooled.numpy(), index.numpy() + offset], **how)
    np.testing.assert_array_equal(got, expected)
    wanted = np.array([2, 3, *[size + 2] * rank])
    got = run("MaxUnpool", [pooled.numpy(), index.numpy() + offset, wanted], (2,), **how)
    np.testing.assert_array_equal(got, np.pad(expected, [(0, 0)] * 2 + [(0, 2)] * rank))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("pads", [0, 1])
def test_places_of_maxima(rank: int, pads: int, torch: Any) -> None:
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    how = {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [pads] * (2 * rank)}
    for dilation in (1, 2):
        x = np.rint(values(2, 3, *[9] * rank) * 2)  # equal ones, too
        kinds = [x, x.astype(np.float16)] if dilation == 1 else [x]
        for given in kinds:
            maxima, index = pool(
                torch.from_numpy(given.astype(np.float32)),
                3,
                2,
                pads,
                dilation,
                return_indices=True,
            )
            offset = np.arange(6).reshape(2, 3, *[1] * rank) * 9**rank
            proto, feeds = model_of("MaxPool", [given], (), 22, dilations=[dilation] * rank, **how)
            proto.graph.node[0].output.append("i")
            proto.graph.output.append(onnx.ValueInfoProto(name="i"))
            with qnnrt.Session(importer.load(proto), "cpu") as session:
                found = session.run(feeds)
            np.testing.assert_array_equal(found["y"], maxima.numpy())
            np.testing.assert_array_equal(found["i"], index.numpy() + offset)
    lowest = np.zeros((1, 1, *[4] * rank), np.uint8)  # as low as what stands for padding
    proto, feeds = model_of("MaxPool", [lowest], (), 22, **how)
    proto.graph.node[0].output.append("i")
    proto.graph.output.append(onnx.ValueInfoProto(name="i"))
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        assert (session.run(feeds)["i"] >= 0).all()


@pytest.mark.parametrize("seed", range(8))
def test_deformable_convolutions(seed: int) -> None:
    r = np.random.default_rng(seed)
    group, parts_ = int(r.choice([1, 2])), int(r.choice([1, 2]))
    kernel, stride = r.integers(1, 4, 2).tolist(), r.integers(1, 3, 2).tolist()
    pads, dilation = r.integers(0, 2, 4).tolist(), r.integers(1, 3, 2).tolist()
    size = [8, 9]
    out = [
        (size[i] + pads[i] + pads[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    x, w = values(2, 4, *size), values(6, 4 // group, *kernel)
    taps = kernel[0] * kernel[1]
    offset = values(2, parts_ * taps * 2, *out)
    bias, mask = values(6), values(2, parts_ * taps, *out)
    how = {
        "group": group, "offset_group": parts_, "strides": stride, "pads": pads,
        "dilations": dilation, "kernel_shape": kernel,
    }  # fmt: skip
    for inputs in ([x, w, offset, bias, mask], [x, w, offset, bias]):
        got = run("DeformConv", inputs, (1, 3), **how)
        expected = of_onnx("DeformConv", inputs, **how)
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_products(exclusive: int, reverse: int) -> None:
    for shape, axis in (((9,), 0), ((3, 8), 1), ((2, 5, 4), -2), ((1, 1), 0)):
        for dtype in (np.float32, np.int32):
            x = values(*shape)
            x = np.rint(x * 2).astype(dtype) if dtype == np.int32 else x
            y = np.flip(x, axis) if reverse else x
            y = np.cumprod(y, axis, dtype)
            if exclusive:
                ones = np.ones_like(np.take(y, [0], axis))
                y = np.concatenate([ones, np.delete(y, -1, axis)], axis)
            y = np.flip(y, axis) if reverse else y
            how = {"exclusive": exclusive, "reverse": reverse}
            got = run("CumProd", [x, np.int64(axis)], (1,), 26, **how)
            np.testing.assert_allclose(got, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2])
def test_rows_that_come_into_a_cache(mode: str, axis: int) -> None:
    cache, at = values(2, 3, 8, 4), axis % 4
    new = list(cache.shape)
    new[at] = 2
    update = values(*new, seed=1)
    first = np.array([1, 0 if mode == "linear" else cache.shape[at] - 1])
    expected = cache.copy()
    for batch, start in enumerate(first):
        for i in range(2):
            to = [batch, *[slice(None)] * 3]
            what = list(to)
            to[at], what[at] = (start + i) % cache.shape[at], i
            expected[tuple(to)] = update[tuple(what)]
    for fixed in ((), (2,)):
        got = run("TensorScatter", [cache, update, first], fixed, 24, mode=mode, axis=axis)
        np.testing.assert_array_equal(got, expected)
    head = cache.copy()
    head[(slice(None),) * at + (slice(0, 2),)] = update
    got = run("TensorScatter", [cache, update], (), 24, mode=mode, axis=axis)
    np.testing.assert_array_equal(got, head)


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "uint8", "bool"])
def test_extremes_that_are_scattered(reduction: str, dtype: str) -> None:
    def some(*shape: int, seed: int = 0) -> np.ndarray:
        low, high = (0, 2) if dtype == "bool" else (0 if dtype[0] == "u" else -50, 50)
        return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)

    best = np.maximum if reduction == "max" else np.minimum
    r = np.random.default_rng(1)
    x, updates = some(4, 5, 6), some(4, 7, 6, seed=1)
    index = r.integers(-5, 5, updates.shape)
    expected = x.copy()
    for where in np.ndindex(*updates.shape):
        at = (where[0], index[where], where[2])
        expected[at] = best(expected[at], updates[where])
    for fixed in ((), (1,)):
        got = run("ScatterElements", [x, index, updates], fixed, axis=1, reduction=reduction)
        np.testing.assert_array_equal(got, expected)
    for depth in (1, 2, 3):
        index = np.stack([r.integers(-d, d, (3, 3)) for d in x.shape[:depth]], -1)
        updates = some(3, 3, *x.shape[depth:], seed=2)
        expected = x.copy()
        for where in np.ndindex(3, 3):
            at = tuple(index[where])
            expected[at] = best(expected[at], updates[where])
        for fixed in ((), (1,)):
            got = run("ScatterND", [x, index, updates], fixed, reduction=reduction)
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint16", "uint32"])
def test_bits_turned_over(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, 77], dtype)
    np.testing.assert_array_equal(run("BitwiseNot", [x]), ~x)


def test_what_does_not_fit_is_said() -> None:
    x = values(2, 12, 9)
    frame, square = np.int64(10), {"kernel_shape": [2, 2]}
    for op, inputs, fixed, opset, attrs, message in (
        ("DFT", [values(2, 5)], (), 17, {}, r"one or two parts .*\[2, 5\]"),
        ("DFT", [values(1, 5000, 2)], (), 17, {}, "too large"),
        ("STFT", [values(1, 9, 1), np.int64(2), None, frame], (1, 3), 17, {}, "frames of 10"),
        ("Col2Im", [x, np.array([5, 5]), np.array([2, 2])], (1, 2), 18, {}, r"at \[4, 4\] places"),
        ("MaxUnpool", [x, np.zeros(x.shape, np.int64)], (), 11, square, "a kernel"),
        ("CumProd", [x, np.int64(3)], (1,), 26, {}, "axis 3"),
        ("TensorScatter", [x, x[:, :3, :4]], (), 24, {"axis": 1}, "an update"),
    ):  # fmt: skip
        with pytest.raises(Error, match=message):
            run(op, inputs, fixed, opset, **attrs)  # type: ignore[arg-type]
