"""libQnnTFLiteDelegate.so in TFLite's own interpreter: results, memory, copies, lifetimes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import qnnrt
from qnnrt.tflite import external
from support.tflite import delegated
from support.tflite import networks as tflite_networks
from support.tflite.builder import ModelBuilder

pytestmark = pytest.mark.foreign


def chain(rng: np.random.Generator, batch: int = 1, signature: bool = False) -> bytes:
    """CONV_2D, ADD, RELU, FULLY_CONNECTED of 32-bit floats; the first dimension may be open."""
    b = ModelBuilder()
    more: dict[str, Any] = {"signature": (-1, 6, 6, 3)} if signature else {}
    x = b.input((batch, 6, 6, 3), name="x", **more)
    w = b.const(rng.standard_normal((8, 3, 3, 3)), np.float32)
    c = b.const(rng.standard_normal(8), np.float32)
    [y] = b.op(
        "CONV_2D", [x, w, c], [((batch, 3, 3, 8), np.float32)], "Conv2DOptions",
        strideH=2, strideW=2,
    )  # fmt: skip
    [y] = b.op(
        "ADD", [y, b.const(rng.standard_normal(8), np.float32)],
        [((batch, 3, 3, 8), np.float32)], "AddOptions",
    )  # fmt: skip
    [y] = b.op("RELU", [y], [((batch, 3, 3, 8), np.float32)])
    w = b.const(rng.standard_normal((5, 72)), np.float32)
    [y] = b.op("FULLY_CONNECTED", [y, w, -1], [((batch, 5), np.float32)], "FullyConnectedOptions")
    b.output(y)
    return b.build()


@pytest.mark.parametrize("name", ["convolutional", "depthwise", "dense"])
def test_networks_give_the_runtimes_results_and_copy_nothing(name: str) -> None:
    data, shape = getattr(tflite_networks, name)()
    rng = np.random.default_rng(3)
    counted = delegated.agree(data, [rng.standard_normal(shape).astype(np.float32)])
    assert counted.delegated == counted.nodes > 3
    assert (counted.partitions, counted.invokes) == (1, 1)
    assert (counted.shared_tensors, counted.copied_tensors) == (2, 0)
    assert counted.copied_bytes == 0


def test_inputs_and_outputs_are_views_of_shared_memory() -> None:
    rng = np.random.default_rng(4)
    data = chain(rng)
    given = delegated.delegate()
    runner = delegated.interpreter(data, given)
    ([i], [o]) = delegated.indices(runner)
    feed = rng.standard_normal((1, 6, 6, 3)).astype(np.float32)
    with external.buffer(given, i) as source, external.buffer(given, o) as sink:
        source.array(feed.shape, np.float32)[...] = feed  # through a mapping of our own
        runner.invoke()
        found = sink.array((1, 5), np.float32).copy()
    np.testing.assert_array_equal(found, runner.get_tensor(o))
    np.testing.assert_array_equal(runner.tensor(i)(), feed)
    delegated.close(found, delegated.run(delegated.interpreter(data), [feed])[0])
    for t in external.tensors(given):
        assert t.memory == "shared"
        assert t.address == runner.tensor(t.index)().ctypes.data
        assert t.address % 64 == 0
    assert external.counters(given).copied_bytes == 0


def test_without_shared_memory_exactly_the_inputs_and_outputs_are_copied() -> None:
    rng = np.random.default_rng(5)
    data = chain(rng)
    given = delegated.delegate(qnnrt_shared_memory=0)
    runner = delegated.interpreter(data, given)
    feeds = [rng.standard_normal((1, 6, 6, 3)).astype(np.float32)]
    for _ in range(3):
        found = delegated.run(runner, feeds)
    delegated.close(found[0], delegated.run(delegated.interpreter(data), feeds)[0])
    inputs, outputs = delegated.io_bytes(runner)
    counted = external.counters(given)
    assert (counted.copied_in_bytes, counted.copied_out_bytes) == (3 * inputs, 3 * outputs)
    assert (counted.shared_tensors, counted.copied_tensors) == (0, 2)


def test_resizing_and_allocating_again_keep_the_tensors_shared() -> None:
    rng = np.random.default_rng(6)
    data = chain(rng, signature=True)
    given = delegated.delegate()
    runner, plain = delegated.interpreter(data, given), delegated.interpreter(data)
    index = delegated.indices(runner)[0][0]
    for batch in (1, 3, 1, 7):
        for each in (runner, plain):
            each.resize_tensor_input(index, (batch, 6, 6, 3))
            each.allocate_tensors()
        runner.allocate_tensors()
        for _ in range(3):
            feeds = [rng.standard_normal((batch, 6, 6, 3)).astype(np.float32)]
            delegated.close(delegated.run(runner, feeds)[0], delegated.run(plain, feeds)[0])
    counted = external.counters(given)
    assert (counted.invokes, counted.copied_bytes, counted.shared_tensors) == (12, 0, 2)


def test_a_bound_buffer_is_the_tensor() -> None:
    rng = np.random.default_rng(7)
    data = chain(rng)
    given = delegated.delegate()
    runner = delegated.interpreter(data, given)
    ([i], [o]) = delegated.indices(runner)
    feed = rng.standard_normal((1, 6, 6, 3)).astype(np.float32)
    wanted = delegated.run(delegated.interpreter(data), [feed])[0]
    source, sink = qnnrt.alloc(feed.nbytes), qnnrt.alloc(wanted.nbytes)
    external.bind(given, i, source)
    external.bind(given, o, sink)
    source.array(feed.shape, np.float32)[...] = feed
    runner.invoke()
    delegated.close(sink.array(wanted.shape, np.float32).copy(), wanted)
    assert {t.memory for t in external.tensors(given)} == {"bound"}
    runner.allocate_tensors()
    assert runner.tensor(i)().ctypes.data == source.address
    external.bind(given, i, None)
    assert runner.tensor(i)().ctypes.data != source.address
    delegated.close(delegated.run(runner, [feed])[0], wanted)
    assert external.counters(given).copied_bytes == 0
    with pytest.raises(qnnrt.QnnError, match="64 bytes for tensor 0, which has 432"):
        external.bind(given, i, qnnrt.alloc(64))
    with pytest.raises(qnnrt.QnnError, match="no input or output"):
        external.bind(given, 999, source)


def test_a_view_outlives_the_interpreter_and_the_delegate() -> None:
    rng = np.random.default_rng(8)
    data = chain(rng)
    given = delegated.delegate()
    runner = delegated.interpreter(data, given)
    view = runner.tensor(delegated.indices(runner)[0][0])()
    view[...] = 3
    del runner, given
    gc.collect()
    assert (view == 3).all()
    view[...] = 4
    del view
    gc.collect()


def test_a_buffer_is_bound_to_one_interpreter_whatever_its_sizes() -> None:
    rng = np.random.default_rng(9)
    data = chain(rng, signature=True)
    given, plain = delegated.delegate(), delegated.interpreter(data)
    buffer = qnnrt.alloc(4 * 4 * 6 * 6 * 3)
    for _ in range(3):  # the next one has the address of the one before, as a rule
        runner = delegated.interpreter(data, given)
        ([i], _) = delegated.indices(runner)
        assert runner.tensor(i)().ctypes.data != buffer.address
        external.bind(given, i, buffer)
        for batch in (4, 1):
            for each in (runner, plain):
                each.resize_tensor_input(i, (batch, 6, 6, 3))
                each.allocate_tensors()
            assert runner.tensor(i)().ctypes.data == buffer.address
            feeds = [rng.standard_normal((batch, 6, 6, 3)).astype(np.float32)]
            delegated.close(delegated.run(runner, feeds)[0], delegated.run(plain, feeds)[0])
        runner.resize_tensor_input(i, (5, 6, 6, 3))
        runner.allocate_tensors()
        assert runner.tensor(i)().ctypes.data != buffer.address
        external.bind(given, i, None)
        runner.resize_tensor_input(i, (1, 6, 6, 3))
        runner.allocate_tensors()
        external.bind(given, i, buffer)
        del runner
        gc.collect()
    assert external.counters(given).copied_bytes == 0
