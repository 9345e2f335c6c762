"""The shared-memory workflow of the TFLite delegate: its steps, and each in a wrong order."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from test_tflite_quantized_state import lstm as lstm8

import qnnrt
from qnnrt import tflite
from qnnrt.tflite import (
    DEFAULT_TENSOR_ALIGNMENT,
    Interpreter,
    QnnDelegate,
    QnnDelegateOptions,
    SkipOptions,
    TfLiteCustomAllocation,
    alloc_custom_mem,
    free_custom_mem,
)
from support.tflite import reference
from support.tflite.builder import ModelBuilder
from support.tflite.models import open_batch, two_entries
from support.tflite.networks import NETWORKS
from support.tflite.quantizer import quantized_network
from support.tflite.recurrent import lstm, rnn, svdf

pytestmark = pytest.mark.foreign

F32 = np.float32


def toy(elements: int = 32) -> bytes:
    """y = relu(x + 1) * 2, in three operators."""
    b = ModelBuilder()
    x = b.input((1, elements), name="x")
    one, two = b.const([1.0], F32), b.const([2.0], F32)
    (a,) = b.op("ADD", [x, one], [((1, elements), F32)], "AddOptions")
    (r,) = b.op("RELU", [a], [((1, elements), F32)])
    b.output(*b.op("MUL", [r, two], [((1, elements), F32)], "MulOptions"))
    return b.build()


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x + 1, 0) * 2


@pytest.fixture
def delegate() -> Iterator[QnnDelegate]:
    with QnnDelegate(backend_type="htp") as made:
        yield made


def ends(it: Interpreter) -> tuple[int, int]:
    """The first input and output."""
    return it.get_input_details()[0]["index"], it.get_output_details()[0]["index"]


# ---- the seed's example


def test_the_steps_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qnnrt.tflite")
    tflite.interpreter._initialized = False
    options = QnnDelegateOptions(backend_type="htp")
    delegate = QnnDelegate(options)
    it = Interpreter(model_content=toy())
    x, y = ends(it)
    memories = {}
    for index in (x, y):
        memories[index] = alloc_custom_mem(128, DEFAULT_TENSOR_ALIGNMENT)
        allocation = TfLiteCustomAllocation(memories[index], 128)
        it.set_custom_allocation_for_tensor(index, allocation)
        it.allocate_tensors()
    it.modify_graph_with_delegate(delegate)
    values = np.linspace(-4, 4, 32, dtype=F32).reshape(1, 32)
    memories[x].array(values.shape, F32)[...] = values
    it.invoke()
    np.testing.assert_array_equal(memories[y].array(values.shape, F32), expected(values))
    assert it.copied_bytes == 0
    assert it.tensor(x)().ctypes.data == memories[x].ptr
    it.close()
    for memory in memories.values():
        free_custom_mem(memory)
    delegate.close()
    assert [r.getMessage() for r in caplog.records if r.name == "qnnrt.tflite"] == [
        "Initialized TensorFlow Lite runtime.",
        "TfLiteQnnDelegate delegate: 3 nodes delegated out of 3 nodes with 1 partitions.\n",
        "Replacing 3 node(s) with delegate (TfLiteQnnDelegate) node, yielding 1 partitions.",
        f"Tensor {x} is successfully registered to shared memory.",
        f"Tensor {y} is successfully registered to shared memory.",
    ]


def test_without_custom_memory_exactly_the_inputs_and_outputs_are_copied(
    delegate: QnnDelegate,
) -> None:
    with Interpreter(model_content=toy(), experimental_delegates=[delegate]) as it:
        it.allocate_tensors()
        for n in (1, 2, 3):
            it.invoke()
            assert it.copied_bytes == n * 2 * 128
        assert {(c.tensor, c.direction) for c in it.copies} == {
            ("tensor_0", "in"),
            (f"tensor_{ends(it)[1]}", "out"),
        }


def test_memory_of_one_side_alone_halves_the_copies(delegate: QnnDelegate) -> None:
    with Interpreter(model_content=toy()) as it:
        x, _ = ends(it)
        memory = alloc_custom_mem(4096)
        it.set_custom_allocation_for_tensor(x, TfLiteCustomAllocation(memory, 128))
        it.allocate_tensors()
        it.modify_graph_with_delegate(delegate)
        it.invoke()
        assert it.copied_bytes == 128
    memory.free()


def test_other_memory_for_a_tensor_is_used_after_allocate_tensors(delegate: QnnDelegate) -> None:
    first, second = alloc_custom_mem(128), alloc_custom_mem(128)
    with Interpreter(model_content=toy()) as it:
        x, y = ends(it)
        it.set_custom_allocation_for_tensor(x, TfLiteCustomAllocation(first, 128))
        it.allocate_tensors()
        it.modify_graph_with_delegate(delegate)
        it.set_custom_allocation_for_tensor(x, TfLiteCustomAllocation(second, 128))
        free_custom_mem(first)  # no longer in use
        with pytest.raises(RuntimeError, match="call allocate_tensors"):
            it.invoke()
        it.allocate_tensors()
        second.array((1, 32), F32)[...] = 3
        it.invoke()
        np.testing.assert_array_equal(it.get_tensor(y), np.full((1, 32), 8, F32))
    free_custom_mem(second.ptr)  # by its address, as in C


# ---- wrong orders and wrong arguments


def test_running_before_allocating() -> None:
    with Interpreter(model_content=toy()) as it:
        with pytest.raises(RuntimeError, match="call allocate_tensors"):
            it.invoke()
        with pytest.raises(ValueError, match="has no memory: call allocate_tensors"):
            it.get_tensor(0)
        it.allocate_tensors()
        it.invoke()


def test_memory_in_use_is_not_freed(delegate: QnnDelegate) -> None:
    memory = alloc_custom_mem(128)
    it = Interpreter(model_content=toy())
    it.set_custom_allocation_for_tensor(0, TfLiteCustomAllocation(memory, 128))
    with pytest.raises(qnnrt.BufferInUseError, match="used by the interpreter of the model"):
        free_custom_mem(memory)
    it.allocate_tensors()
    it.modify_graph_with_delegate(delegate)
    with pytest.raises(qnnrt.BufferInUseError, match="close the interpreter first"):
        free_custom_mem(memory)
    with pytest.raises(qnnrt.BufferInUseError, match="the delegate is used by"):
        delegate.close()
    it.invoke()
    it.close()
    view = memory.array()
    with pytest.raises(qnnrt.BufferInUseError):
        free_custom_mem(memory)
    del view
    gc.collect()
    free_custom_mem(memory)
    for again in (memory, memory._ptr):
        with pytest.raises(ValueError, match="has been freed"):
            free_custom_mem(again)
    with pytest.raises(qnnrt.ClosedError, match="has been freed"):
        TfLiteCustomAllocation(memory, 128)


def test_too_little_memory_is_found_when_tensors_are_allocated() -> None:
    memory = alloc_custom_mem(127)
    with Interpreter(model_content=toy()) as it:
        it.set_custom_allocation_for_tensor(0, TfLiteCustomAllocation(memory, 127))
        with pytest.raises(ValueError, match=r"tensor 0 has 127 bytes; it needs 128 \(float32"):
            it.allocate_tensors()
        with pytest.raises(RuntimeError, match="not ready"):
            it.invoke()
        more = alloc_custom_mem(128)
        it.set_custom_allocation_for_tensor(0, TfLiteCustomAllocation(more, 128))
        it.allocate_tensors()
        it.invoke()
    memory.free()
    more.free()


def test_addresses_that_are_not_aligned_are_refused_unless_told_otherwise() -> None:
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    odd = raw[start : start + 128]
    with Interpreter(model_content=toy()) as it:
        allocation = TfLiteCustomAllocation(odd, 128)
        with pytest.raises(ValueError, match=r"of 64; 0x[0-9a-f]+ is only a multiple of 4"):
            it.set_custom_allocation_for_tensor(0, allocation)
        it.set_custom_allocation_for_tensor(0, allocation, skip_align_check=True)
        it.allocate_tensors()
        odd.view(F32)[...] = 1
        it.invoke()
        assert it.get_tensor(ends(it)[1]).min() == 4


def test_memory_that_is_not_shared_is_copied_and_counted(delegate: QnnDelegate) -> None:
    mine = np.zeros(64 + 128, np.uint8)
    start = -mine.ctypes.data % 64
    mine = mine[start : start + 128]
    with Interpreter(model_content=toy()) as it:
        it.set_custom_allocation_for_tensor(0, TfLiteCustomAllocation(mine.ctypes.data, 128))
        it.allocate_tensors()
        it.modify_graph_with_delegate(delegate)
        mine.view(F32)[...] = 2
        it.invoke()
        assert it.get_tensor(ends(it)[1]).max() == 6
        assert it.copied_bytes == 256


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: alloc_custom_mem(0), ValueError, "at least 1 byte, not 0"),
        (lambda: alloc_custom_mem(-5), ValueError, "at least 1 byte, not -5"),
        (lambda: alloc_custom_mem(8, 48), ValueError, "a power of two, not 48"),
        (lambda: free_custom_mem(4096), ValueError, "0x1000 is not the address of custom memory"),
        (lambda: TfLiteCustomAllocation(0, 4), ValueError, "address 0"),
        (lambda: TfLiteCustomAllocation(64, 0), ValueError, "0 bytes"),
        (lambda: Interpreter(), ValueError, "give model_path or model_content"),
        (lambda: Interpreter("a.tflite", b"b"), ValueError, "give model_path or model_content"),
        (lambda: Interpreter(model_content=b"x" * 40), qnnrt.ModelError, "not a TFLite model"),
        (lambda: Interpreter("no such file"), OSError, "no such file"),
        (lambda: tflite.has_capability("tpu"), ValueError, "capability must be one of dsp"),
    ],
)
def test_bad_arguments_get_one_clear_error(
    call: object, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call()  # type: ignore[operator]


def test_bad_arguments_of_an_interpreter() -> None:
    with Interpreter(model_content=toy()) as it:
        memory = alloc_custom_mem(128)
        allocation = TfLiteCustomAllocation(memory, 128)
        for index in (-1, 99):
            with pytest.raises(IndexError, match=f"tensor {index}: there are"):
                it.set_custom_allocation_for_tensor(index, allocation)
        constant = next(t.index for t in it._graph.graph.tensors if t.data is not None)
        with pytest.raises(ValueError, match="is a constant of the file"):
            it.set_custom_allocation_for_tensor(constant, allocation)
        with pytest.raises(TypeError, match="a TfLiteCustomAllocation is needed, not a CustomMem"):
            it.set_custom_allocation_for_tensor(0, memory)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="QnnDelegate is needed, not a str"):
            it.modify_graph_with_delegate("htp")  # type: ignore[arg-type]
        it.allocate_tensors()
        with pytest.raises(ValueError, match=r"needs float32\[1, 32\], not float64\[3\]"):
            it.set_tensor(0, np.zeros(3))
        memory.free()
    with pytest.raises(qnnrt.ClosedError):
        it.invoke()
    it.close()


def test_one_delegate_for_an_interpreter(delegate: QnnDelegate) -> None:
    with Interpreter(model_content=toy(), experimental_delegates=[delegate]) as it:
        with pytest.raises(RuntimeError, match="has a delegate already"):
            it.modify_graph_with_delegate(delegate)
        it.allocate_tensors()
        with Interpreter(model_content=toy(), experimental_delegates=[delegate]) as other:
            other.allocate_tensors()
            other.invoke()
        it.invoke()


def test_a_deleted_delegate_is_refused_and_the_interpreter_goes_on() -> None:
    gone = QnnDelegate(backend_type="htp")
    gone.close()
    with Interpreter(model_content=toy()) as it:
        it.allocate_tensors()
        with pytest.raises(qnnrt.ClosedError, match="has been deleted"):
            it.modify_graph_with_delegate(gone)
        it.invoke()
        assert it.partitions == [("cpu", 3)]


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
