"""The shared-memory workflow of the TFLite delegate: its steps, and each in a wrong order."""

from __future__ import annotations

import gc
import logging

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")


import qnnrt
from qnnrt import tflite
from qnnrt.tflite import (
    DEFAULT_TENSOR_ALIGNMENT,
    Interpreter,
    QnnDelegate,
    QnnDelegateOptions,
    TfLiteCustomAllocation,
    alloc_custom_mem,
    free_custom_mem,
)
from support.tflite.models import ends, expected, toy

pytestmark = pytest.mark.foreign

F32 = np.float32


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
