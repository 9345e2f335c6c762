"""Files that were converted from channels first: transposes between operators vanish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from support.tflite.blocks import Blocks, steps
from support.tflite.quantizer import quantized_network

pytestmark = pytest.mark.foreign

C = 24
SHAPE = (1, C, 9, 7)


def _conv(g: Blocks, x: int, inner: int = C, channels: int = C, kernel: int = 3) -> int:
    """Between transposes, as it is converted."""
    return g.transpose(
        g.conv(g.transpose(x, 0, 2, 3, 1), inner, channels, kernel), 0, 3, 1, 2
    )  # fmt: skip


def _residual(g: Blocks, x: int) -> int:
    for _ in range(2):
        x = g("RELU", g.add(_conv(g, g("RELU", _conv(g, x))), x))
    return _conv(g, x)


def _batch_norm(g: Blocks, x: int) -> int:
    y = g.add(g.mul(_conv(g, x), g.weights(1, C, 1, 1)), g.weights(C, 1, 1))
    return _conv(g, g.mul(y, g("LOGISTIC", y)))


def _concat(g: Blocks, x: int) -> int:
    parts = [_conv(g, x), _conv(g, x, C, 16, 1)]
    y = g("CONCATENATION", *parts, options="ConcatenationOptions", axis=1)
    return _conv(g, y, C + 16)


def _split(g: Blocks, x: int) -> int:
    y = _conv(g, x)
    a, b = g.parts("SPLIT", 2, g.const(1, np.int32), y, options="SplitOptions", numSplits=2)
    return _conv(g, g.mul(g("TANH", a), g("LOGISTIC", b)), C // 2)


def _excite(g: Blocks, x: int) -> int:
    x = g("RELU", _conv(g, x))
    y = g("RELU", _conv(g, g.mean(x, 2, 3), C, 8, 1))
    return _conv(g, g.mul(x, g("LOGISTIC", _conv(g, y, 8, C, 1))))


def _shuffle(g: Blocks, x: int) -> int:
    y = g.reshape(g("RELU", _conv(g, x)), 1, 2, C // 2, *SHAPE[2:])
    return _conv(g, g.reshape(g.transpose(y, 0, 2, 1, 3, 4), *SHAPE))


def _slice(g: Blocks, x: int) -> int:
    y = g("PAD", g("RELU", _conv(g, x)), g.ints([0, 0], [0, 0], [1, 2], [0, 3]))
    y = g("SLICE", y, g.ints(0, 4, 1, 0), g.ints(1, 20, 7, 9))
    return _conv(g, y, 20)


def _softmax(g: Blocks, x: int) -> int:
    y = g.transpose(g.softmax(g.transpose(g("RELU", _conv(g, x)), 0, 2, 3, 1)), 0, 3, 1, 2)
    return _conv(g, y)


#: The steps between the transposes of the input and of the output.
BLOCKS: dict[Callable[[Blocks, int], int], list[str]] = {
    _residual: ["Conv2d+Relu", "Conv2d+Add+Relu"] * 2 + ["Conv2d"],
    _batch_norm: ["Conv2d+Swish", "Conv2d"],
    _concat: ["Conv2d", "Conv2d", "Concat", "Conv2d"],
    _split: ["Conv2d", "Split", "Tanh", "Sigmoid", "ElementWiseMultiply", "Conv2d"],
    _excite: ["Conv2d+Relu", "ReduceMean", "Conv2d+Relu", "Conv2d+Sigmoid", "ElementWiseMultiply",
              "Conv2d"],
    _shuffle: ["Conv2d+Relu", "ChannelShuffle", "Conv2d"],
    _slice: ["Conv2d+Relu", "Pad", "StridedSlice", "Conv2d"],
    _softmax: ["Conv2d+Relu", "Softmax", "Conv2d"],
}  # fmt: skip


@pytest.mark.parametrize("build", BLOCKS)
def test_only_the_ends_are_transposed(build: Callable[[Blocks, int], int]) -> None:
    g = Blocks(SHAPE)
    assert steps(*g.finish(build(g, *g.inputs))) == ["Transpose", *BLOCKS[build], "Transpose"]


@pytest.mark.parametrize("build", [_residual, _batch_norm, _concat, _slice])
def test_of_bytes_too(build: Callable[[Blocks, int], int]) -> None:
    g = Blocks(SHAPE)
    data, feeds = quantized_network(*g.finish(build(g, *g.inputs)), np.int8)
    assert steps(data, feeds, exact=False).count("Transpose") == 2


def test_a_tensor_that_is_wanted_as_it_is_stays_transposed() -> None:
    g = Blocks(SHAPE)
    y = g("RELU", _conv(g, *g.inputs))
    found = steps(*g.finish(y, _conv(g, y)))
    assert found == ["Transpose", "Conv2d+Relu", "Transpose", "Conv2d", "Transpose"]


def test_pooled_channels_need_no_order() -> None:
    g = Blocks(SHAPE)
    y = g.dense(g.mean(g("RELU", _conv(g, *g.inputs)), 2, 3, keep=False), C, 10)
    assert steps(*g.finish(y)) == ["Transpose", "Conv2d+Relu", "ReduceMean", "FullyConnected"]


def test_nothing_is_turned_where_that_saves_nothing() -> None:
    """A transposed operand and one that is not: as many transposes either way."""
    g = Blocks(SHAPE, (1, 9, 7, C))
    x, y = g.inputs
    z = g.add(g.transpose(x, 0, 2, 3, 1), g("RELU", y))
    assert steps(*g.finish(z)).count("Transpose") == 1


@pytest.mark.parametrize("form", ["times", "over"])
def test_a_sum_over_the_number_of_its_terms_is_a_mean(form: str) -> None:
    g = Blocks(SHAPE)
    total = g.reduce("SUM", g.inputs[0], 2, 3)
    y = g.times(total, 1 / 63) if form == "times" else g.div(total, g.const(63))
    assert steps(*g.finish(y)) == ["ReduceMean"]
    g = Blocks(SHAPE)
    y = g.times(g.reduce("SUM", g.inputs[0], 2, 3), 1 / 62)
    assert steps(*g.finish(y)) == ["ReduceSum", "ElementWiseMultiply"]
