"""What the delegate takes of a graph, its state, sizes and signatures, through qnnrt.tflite."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from test_tflite_quantized_state import lstm as lstm8

from qnnrt.tflite import (
    Interpreter,
    QnnDelegate,
    QnnDelegateOptions,
    SkipOptions,
    TfLiteCustomAllocation,
    alloc_custom_mem,
)
from support.tflite import reference
from support.tflite.models import ends, expected, open_batch, toy, two_entries
from support.tflite.networks import NETWORKS
from support.tflite.quantizer import quantized_network
from support.tflite.recurrent import lstm, rnn, svdf

pytestmark = pytest.mark.foreign

F32 = np.float32


# ---- partitions


def test_a_refused_operator_in_the_middle_runs_on_the_cpu(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(1, "qnnrt.tflite")
    skip = SkipOptions(ops=["relu"])
    options = QnnDelegateOptions(backend_type="htp", log_level="verbose", skip_options=skip)
    with QnnDelegate(options) as delegate:
        with Interpreter(model_content=toy(), experimental_delegates=[delegate]) as it:
            it.allocate_tensors()
            name = QnnDelegate.name
            assert it.partitions == [(name, 1), ("cpu", 1), (name, 1)]
            x = np.linspace(-3, 3, 32, dtype=F32).reshape(1, 32)
            it.set_tensor(0, x)
            it.invoke()
            np.testing.assert_array_equal(it.get_tensor(ends(it)[1]), expected(x))
            assert it.copied_bytes == 4 * 128  # two partitions, each with an input and an output
            # The tensors between partitions can be the application's, too.
            between = [i for p in it._graph.plan for i in p.outputs]
            memories = [alloc_custom_mem(128) for _ in (0, *between)]
            for index, memory in zip((0, *between), memories, strict=True):
                it.set_custom_allocation_for_tensor(index, TfLiteCustomAllocation(memory, 128))
            it.allocate_tensors()
            before = it.copied_bytes
            it.set_tensor(0, x)
            it.invoke()
            assert it.copied_bytes == before
            np.testing.assert_array_equal(it.get_tensor(ends(it)[1]), expected(x))
        for memory in memories:
            memory.free()
    lines = [r.getMessage() for r in caplog.records]
    assert "node 1 (RELU) runs on the CPU: skip_options name it" in lines
    assert (
        "TfLiteQnnDelegate delegate: 2 nodes delegated out of 3 nodes with 2 partitions.\n" in lines
    )


def test_nodes_are_skipped_by_number_and_by_code() -> None:
    for skip in (SkipOptions(node_ids=[0, 2]), SkipOptions(ops=[0, 18])):  # ADD, MUL
        options = QnnDelegateOptions(backend_type="htp", skip_options=skip)
        with (
            QnnDelegate(options) as delegate,
            Interpreter(model_content=toy(), experimental_delegates=[delegate]) as it,
        ):
            it.allocate_tensors()
            assert it.partitions == [("cpu", 1), (QnnDelegate.name, 1), ("cpu", 1)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["f32", "i8", "u8", "i16"])
def test_networks_give_what_tflite_gives(name: str, kind: str, delegate: QnnDelegate) -> None:
    data, shape = NETWORKS[name]()
    feed = np.random.default_rng(7).uniform(-1, 1, shape).astype(F32)
    if kind != "f32":
        dtype = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}[kind]
        data, (feed,) = quantized_network(data, [feed], dtype)
    (wanted,) = reference.reference(data, [feed])
    results = []
    for delegates in ([], [delegate]):
        with Interpreter(model_content=data, experimental_delegates=delegates) as it:
            x, y = ends(it)
            memories = {x: alloc_custom_mem(feed.nbytes), y: alloc_custom_mem(wanted.nbytes)}
            for i, memory in memories.items():
                it.set_custom_allocation_for_tensor(
                    i, TfLiteCustomAllocation(memory, memory.nbytes)
                )
            it.allocate_tensors()
            memories[x].array(feed.shape, feed.dtype)[...] = feed
            it.invoke()
            results.append(memories[y].array(wanted.shape, wanted.dtype).copy())
            assert it.copied_bytes == 0
            assert len(it.partitions) == 1
        for memory in memories.values():
            memory.free()
    for found in results:
        if kind == "f32":
            reference.close(found, wanted)
        else:
            steps = np.abs(found.astype(int) - wanted.astype(int)).max()
            assert steps <= (2 if kind == "i16" else 1)  # TFLite's 16-bit softmax is 2 off


# ---- state, sizes, signatures


STATEFUL = {
    "lstm": lstm,
    "svdf": lambda: svdf(1, 0, True),
    "quantized": lstm8,
    "rnn": lambda: rnn("UNIDIRECTIONAL_SEQUENCE_RNN"),
}


@pytest.mark.parametrize("make", STATEFUL.values(), ids=STATEFUL)
def test_state_lasts_from_run_to_run_until_it_is_reset(make: object, delegate: QnnDelegate) -> None:
    data = make()  # type: ignore[operator]
    theirs = reference.interpreter(data)
    detail = theirs.get_input_details()[0]
    rng = np.random.default_rng(3)
    frames = [
        rng.integers(-90, 90, detail["shape"]).astype(np.int8)
        if detail["dtype"] is np.int8
        else rng.uniform(-1, 1, detail["shape"]).astype(F32)
        for _ in range(4)
    ]
    with Interpreter(model_content=data, experimental_delegates=[delegate]) as it:
        it.allocate_tensors()
        _, y = ends(it)
        for round_ in range(2):
            for frame in frames:
                for runner in (theirs, it):
                    runner.set_tensor(detail["index"], frame)
                    runner.invoke()
                wanted = theirs.get_tensor(y)
                found = it.get_tensor(y)
                if wanted.dtype == np.int8:
                    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
                else:
                    reference.close(found, wanted)
            if round_ == 0:
                theirs.reset_all_variables()
                it.reset_all_variables()


def test_an_open_batch_is_resized(delegate: QnnDelegate) -> None:
    with Interpreter(model_content=open_batch()) as it:
        x, y = ends(it)
        it.allocate_tensors()
        for batch in (3, 1, 5):
            it.resize_tensor_input(x, (batch, 4, 6), strict=True)
            with pytest.raises(RuntimeError, match="not ready"):
                it.invoke()
            it.allocate_tensors()
            values = np.random.default_rng(batch).random((batch, 4, 6), F32)
            it.set_tensor(x, values)
            it.invoke()
            np.testing.assert_array_equal(it.get_tensor(y), values.reshape(batch, 24))
            assert list(it.get_output_details()[0]["shape"]) == [batch, 24]
        with pytest.raises(ValueError, match=r"tensor 0 is \[-1, 4, 6\], where -1 is open"):
            it.resize_tensor_input(x, (2, 5, 6), strict=True)
        with pytest.raises(ValueError, match="is no input"):
            it.resize_tensor_input(y, (2, 24))
        # Custom memory of the old size is too small for the new one.
        memory = alloc_custom_mem(480)
        it.set_custom_allocation_for_tensor(x, TfLiteCustomAllocation(memory, 480))
        it.allocate_tensors()
        it.resize_tensor_input(x, (6, 4, 6))
        with pytest.raises(ValueError, match="has 480 bytes; it needs 576"):
            it.allocate_tensors()
    memory.free()


def test_signatures_run_by_name(delegate: QnnDelegate) -> None:
    with Interpreter(model_content=two_entries(), experimental_delegates=[delegate]) as it:
        assert it.get_signature_list()["other"] == {
            "inputs": ["left", "right"],
            "outputs": ["minus", "plus"],
        }
        run = it.get_signature_runner("other")
        a, b = np.full((2, 3), 5, F32), np.full((2, 3), 2, F32)
        found = run(left=a, right=b)
        assert found["plus"].max() == 7
        assert found["minus"].max() == 3
        with pytest.raises(ValueError, match="takes left, right, not left"):
            run(left=a)
        with pytest.raises(ValueError, match="'left' needs float32, not float64"):
            run(left=np.zeros((2, 3)), right=b)
        with pytest.raises(ValueError, match="no signature 'nosuch'; there are 'serving_default'"):
            it.get_signature_runner("nosuch")


def test_details_are_those_of_tflite() -> None:
    data, shape = NETWORKS["depthwise"]()
    feed = np.random.default_rng(7).uniform(-1, 1, shape).astype(F32)
    data, _ = quantized_network(data, [feed], np.int8)
    theirs = reference.interpreter(data)
    with Interpreter(model_content=data) as it:
        for mine, other in zip(
            (*it.get_input_details(), *it.get_output_details()),
            (*theirs.get_input_details(), *theirs.get_output_details()),
            strict=True,
        ):
            assert mine.keys() == other.keys()
            for key in ("name", "index", "dtype", "quantization"):
                assert mine[key] == other[key], key
            np.testing.assert_array_equal(mine["shape"], other["shape"])
            np.testing.assert_array_equal(mine["shape_signature"], other["shape_signature"])
