"""Large inputs and outputs through TFLite: an ADD of 1, 8 and 64 MiB a tensor.

    python benchmarks/tflite_io.py [--smoke] [--json FILE]

The delegate of this package with its tensors on shared memory, and with tensors of the runtime's
that the backend copies; TFLite's own interpreter with XNNPACK. Each of them by invoke() alone, as
programs run that write and read in place, and with set_tensor() and get_tensor(). Bytes that the
backend copies in a run are counted and reported. One thread each.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from _harness import Benchmark, Case, optional, same
from _runtimes import tflite

import qnnrt.tflite as workflow
from qnnrt.tflite import external

MIB = 1 << 20
SHARED, COPIED = "delegate, shared", "delegate, copied"
PLAIN, WORKFLOW = "litert with XNNPACK", "qnnrt.tflite, custom memory"


def main() -> None:
    bench = Benchmark("tflite_io", __doc__, rounds=41, sample_ms=5)
    random = np.random.default_rng(0)
    for mebibytes in [1, 8] if bench.smoke else [1, 8, 64]:
        measure(bench, mebibytes, random)
    bench.finish()


def copied(calls: Callable[[], object], count: Callable[[], int]) -> int:
    """Bytes that the backend copies in a call."""
    before = count()
    calls()
    return count() - before


def measure(bench: Benchmark, mebibytes: int, random: np.random.Generator) -> None:
    shape = (1, mebibytes * MIB // 4)
    feeds = [random.standard_normal(shape, dtype=np.float32) for _ in range(2)]
    data, expected = tflite("Add", shape), feeds[0] + feeds[1]
    case = bench.case(f"add, {mebibytes} MiB a tensor", unit="ms", moved=3 * mebibytes * MIB)
    counts = bench.extra.setdefault("copied_bytes_per_invoke", {}).setdefault(case.name, {})
    kept: list[Any] = []
    if optional("ai_edge_litert") is None:
        case.missing(SHARED)
        case.missing(COPIED)
        case.missing(PLAIN)
    else:
        for name, options in (
            (SHARED, {"qnnrt_shared_memory": "1"}),
            (COPIED, {"qnnrt_shared_memory": "0"}),
            (PLAIN, None),
        ):
            kept.append(add_litert(case, name, data, feeds, expected, options, counts))
    kept.append(add_workflow(case, data, feeds, expected, counts))
    case.measure()
    kept[-1]()


def add_litert(
    case: Case,
    name: str,
    data: bytes,
    feeds: list[np.ndarray],
    expected: np.ndarray,
    options: dict[str, str] | None,
    counts: dict[str, int],
) -> Any:
    """TFLite's interpreter, with the delegate where there are options for it."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    delegates = []
    if options is not None:
        given = {"backend_type": "htp", "log_level": "1", "htp_num_hvx_threads": "1", **options}
        delegates = [load_delegate(external.delegate_path(), given)]
    runner = Interpreter(model_content=data, num_threads=1, experimental_delegates=delegates)
    runner.allocate_tensors()
    inputs = [d["index"] for d in runner.get_input_details()]
    output = runner.get_output_details()[0]["index"]

    def carried() -> np.ndarray:
        for index, array in zip(inputs, feeds, strict=True):
            runner.set_tensor(index, array)
        runner.invoke()
        found: np.ndarray = runner.get_tensor(output)
        return found

    same(name, carried(), expected)
    if delegates:
        counts[name] = copied(runner.invoke, lambda: external.counters(delegates[0]).copied_bytes)
    case.add(f"{name}: invoke", runner.invoke)
    case.add(f"{name}: set, invoke, get", carried)
    return runner, delegates


def add_workflow(
    case: Case,
    data: bytes,
    feeds: list[np.ndarray],
    expected: np.ndarray,
    counts: dict[str, int],
) -> Callable[[], None]:
    """This package's interpreter on memory that the application brings; returns what ends it."""
    threads = workflow.HtpOptions(num_hvx_threads=1)
    delegate = workflow.QnnDelegate(backend_type="htp", log_level="error", htp_options=threads)
    runner = workflow.Interpreter(model_content=data)
    memories = []
    for detail in (*runner.get_input_details(), *runner.get_output_details()):
        memory = workflow.alloc_custom_mem(expected.nbytes, workflow.DEFAULT_TENSOR_ALIGNMENT)
        allocation = workflow.TfLiteCustomAllocation(memory, expected.nbytes)
        runner.set_custom_allocation_for_tensor(detail["index"], allocation)
        memories.append(memory)
    runner.allocate_tensors()
    runner.modify_graph_with_delegate(delegate)
    for memory, array in zip(memories[:2], feeds, strict=True):
        memory.array(array.shape, np.float32)[...] = array
    runner.invoke()
    same(WORKFLOW, memories[2].array(expected.shape, np.float32), expected)
    counts[WORKFLOW] = copied(runner.invoke, lambda: runner.copied_bytes)
    case.add(f"{WORKFLOW}: invoke", runner.invoke)

    def end() -> None:
        runner.close()
        for memory in memories:
            workflow.free_custom_mem(memory)
        delegate.close()

    return end


if __name__ == "__main__":
    main()
