"""Graphs that the delegate takes whole or in part, in TFLite's own interpreter: equal results."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import test_tflite_quantized as quantized

from qnnrt.tflite import external
from support.tflite import cases as tflite_cases
from support.tflite import delegated
from support.tflite import recurrent as tflite_recurrent
from support.tflite.builder import ModelBuilder
from support.tflite.case import Case
from support.tflite.networks import NETWORKS
from support.tflite.quantized import quantize

pytestmark = pytest.mark.foreign

F32 = np.float32
#: Operators that the delegate leaves to the CPU: their results are constants, or they have none of
#: QNN's operations, or their parameters hold pointers.
LEFT = {
    "BROADCAST_ARGS", "BUCKETIZE", "DILATE", "DYNAMIC_UPDATE_SLICE", "FAKE_QUANT", "FILL", "RANGE",
    "RANK", "REVERSE_SEQUENCE", "SHAPE", "STABLEHLO_GATHER", "STABLEHLO_PAD", "ZEROS_LIKE",
}  # fmt: skip
#: Tensors whose size depends on data are refused by the runtime before it asks the delegate.
DYNAMIC = {
    "SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD",
    "UNSORTED_SEGMENT_SUM",
}  # fmt: skip
BY_OP: dict[str, list[Case]] = {}
for _case in tflite_cases.cases():
    BY_OP.setdefault(_case.op, []).append(_case)


def some(cases: list[Case], most: int = 4) -> list[Case]:
    return cases[:: max(1, len(cases) // most)][:most]


@pytest.mark.parametrize("op", sorted(BY_OP.keys() - DYNAMIC))
def test_an_operator_of_floats_gives_the_interpreters_result(op: str) -> None:
    for case in some(BY_OP[op]):
        data, feeds = case.build()
        counted = delegated.agree(data, feeds)
        assert counted.nodes == 1
        assert counted.delegated == (op not in LEFT and not case.empty), case.label
        assert counted.copied_bytes == 0


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(
    "op", sorted(quantized.CASES.keys() - quantized.LEFT_OUT - quantized.NEVER - LEFT - DYNAMIC)
)
def test_a_quantized_operator_is_within_a_step(op: str, kind: str) -> None:
    if op in quantized.NO_KERNEL[kind]:
        return  # the interpreter does not make such a model
    left = op == "CAST" or op in quantized.PLAIN_INTEGERS
    if left and (kind == "uint8" or op == "SCATTER_ND"):
        return  # as above
    for case in some(quantized.CASES[op], 3):
        q = quantize(case, kind)
        given = delegated.delegate()
        found = delegated.run(delegated.interpreter(q.data, given), q.feeds)
        assert external.counters(given).delegated == (not left and not case.empty), case.label
        assert external.counters(given).copied_bytes == 0
        if op in quantized.OFF[kind]:
            wanted, steps = q.exact, 1  # the interpreter's own kernel is further off
        else:
            wanted = delegated.run(delegated.interpreter(q.data), q.feeds)
            steps = quantized.STEPS_IN_16_BITS.get(op, 1) if kind == "int16" else 1
        for a, b in zip(found, wanted, strict=True):
            delegated.close(a, b.reshape(a.shape), steps)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_quantized_network_runs_whole(name: str, kind: str) -> None:
    data, codes = quantized.network(name, kind)
    feeds = [codes]
    given = delegated.delegate()
    runner, plain = delegated.interpreter(data, given), delegated.interpreter(data)
    for a, b in zip(delegated.run(runner, feeds), delegated.run(plain, feeds), strict=True):
        # A step of one layer may be one of the next, too.
        delegated.close(a, b, steps=1 if kind != "int16" else 3)
    counted = external.counters(given)
    assert counted.delegated == counted.nodes
    assert (counted.partitions, counted.copied_bytes) == (1, 0)


def sandwich(refused: int, rng: np.random.Generator) -> tuple[bytes, list[np.ndarray]]:
    """MUL and an operator that is left to the CPU, `refused` times, then RELU."""
    b = ModelBuilder()
    x = b.input((2, 8), name="x")
    y, lengths = x, b.const([3, 5], np.int32)
    for _ in range(refused):
        [y] = b.op("MUL", [y, b.const(rng.standard_normal(8), F32)], [((2, 8), F32)], "MulOptions")
        [y] = b.op(
            "REVERSE_SEQUENCE",
            [y, lengths],
            [((2, 8), F32)],
            "ReverseSequenceOptions",
            seqDim=1,
            batchDim=0,
        )
    [y] = b.op("RELU", [y], [((2, 8), F32)])
    b.output(y)
    return b.build(), [rng.standard_normal((2, 8)).astype(F32)]


@pytest.mark.parametrize("refused", [1, 3])
def test_an_operator_in_the_middle_stays_on_the_cpu(refused: int, capfd: Any) -> None:
    data, feeds = sandwich(refused, np.random.default_rng(2))
    counted = delegated.agree(data, feeds, log_level=4)
    assert (counted.nodes, counted.delegated) == (2 * refused + 1, refused + 1)
    assert (counted.partitions, counted.invokes) == (refused + 1, refused + 1)
    assert counted.copied_bytes == 0
    lines = capfd.readouterr().err.splitlines()
    assert (
        f"INFO: TfLiteQnnDelegate delegate: {refused + 1} nodes delegated out of "
        f"{2 * refused + 1} nodes with {refused + 1} partitions."
    ) in lines
    assert "INFO: Tensor 0 is successfully registered to shared memory." in lines
    reason = "node 1 (operator) is left to the CPU: no QNN operation corresponds to it"
    assert f"VERBOSE: {reason}" in lines
    shared = [line for line in lines if "shared tensors: " in line]
    assert len(shared) == refused + 1
    assert all(line.endswith("copied tensors: none (0 bytes).") for line in shared)


@pytest.mark.parametrize("backend", ["htp", "cpu"])
@pytest.mark.parametrize("name", sorted(tflite_recurrent.STATEFUL))
def test_state_lasts_from_run_to_run(name: str, backend: str) -> None:
    """Variable tensors stay the interpreter's, which resets them, whoever runs the operator."""
    data = tflite_recurrent.STATEFUL[name]
    rng = np.random.default_rng(3)
    given = delegated.delegate(backend_type=backend)
    runner, plain = delegated.interpreter(data, given), delegated.interpreter(data)
    detail = runner.get_input_details()[0]
    for reset in (False, False, False, True, False):
        if reset:
            for each in (runner, plain):
                each.reset_all_variables()
        feeds = [rng.standard_normal(detail["shape"]).astype(F32)]
        found, wanted = delegated.run(runner, feeds), delegated.run(plain, feeds)
        for a, b in zip(found, wanted, strict=True):
            delegated.close(a, b)
    counted = external.counters(given)
    taken = backend == "htp" and name.startswith("lstm") and "both ways" not in name
    assert counted.delegated == taken
    # Inputs and outputs are shared; the two states go in and out at each run.
    states = [t for t in runner.get_tensor_details() if t["name"] in ("h", "c")]
    nbytes = sum(4 * int(np.prod(t["shape"])) for t in states)
    assert nbytes or not taken
    assert counted.copied_in_bytes == counted.copied_out_bytes == 5 * nbytes * taken


def test_two_interpreters_share_a_delegate() -> None:
    data, feeds = sandwich(2, np.random.default_rng(4))
    given = delegated.delegate()
    first, second = delegated.interpreter(data, given), delegated.interpreter(data, given)
    wanted = delegated.run(delegated.interpreter(data), feeds)
    other = [feeds[0] * -2]
    delegated.close(delegated.run(first, feeds)[0], wanted[0])
    delegated.run(second, other)
    np.testing.assert_array_equal(first.get_tensor(0), feeds[0])
    np.testing.assert_array_equal(second.get_tensor(0), other[0])
    assert external.counters(given).partitions == 6
    with pytest.raises(external.QnnError, match="several interpreters"):
        external.bind(given, 0, None)
    del second
    gc.collect()
    external.bind(given, 0, None)
    delegated.close(delegated.run(first, feeds)[0], wanted[0])


def test_threads_run_interpreters_of_their_own() -> None:
    data, feeds = sandwich(2, np.random.default_rng(5))
    wanted = delegated.run(delegated.interpreter(data), feeds)[0]
    given = delegated.delegate()
    wrong: list[object] = []

    def work() -> None:
        try:
            runner = delegated.interpreter(data, given)
            for _ in range(50):
                delegated.close(delegated.run(runner, feeds)[0], wanted)
        except BaseException as exc:
            wrong.append(exc)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert external.counters(given).invokes == 4 * 50 * 3


def test_tensors_kept_for_looking_at_are_still_there() -> None:
    """experimental_preserve_all_tensors: every operator is a partition of its own."""
    data, feeds = sandwich(1, np.random.default_rng(6))
    given = delegated.delegate()
    runner = delegated.interpreter(data, given, experimental_preserve_all_tensors=True)
    plain = delegated.interpreter(data, experimental_preserve_all_tensors=True)
    delegated.run(runner, feeds)
    delegated.run(plain, feeds)
    for detail in plain.get_tensor_details():
        index = detail["index"]
        delegated.close(runner.get_tensor(index), plain.get_tensor(index))


def test_xnnpack_takes_what_the_delegate_leaves() -> None:
    data, shape = NETWORKS["convolutional"]()
    feeds = [np.random.default_rng(7).standard_normal(shape).astype(F32)]
    given = delegated.delegate(skip_delegate_ops="3")  # CONV_2D
    from ai_edge_litert.interpreter import OpResolverType

    runner = delegated.interpreter(data, given, experimental_op_resolver_type=OpResolverType.AUTO)
    wanted = delegated.run(delegated.interpreter(data), feeds)
    delegated.close(delegated.run(runner, feeds)[0], wanted[0])
    counted = external.counters(given)
    assert 0 < counted.delegated < counted.nodes
    assert counted.copied_bytes == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"htp_performance_mode": "burst"}, "htp_performance_mode is 'burst'; it takes a number"),
        ({"device_id": 0}, "there is no option 'device_id'"),
        ({"backend_type": "npu"}, "the value of backend_type is 'npu'"),
        ({"backend_type": "gpu"}, "give its QNN library as library_path"),
        ({"library_path": "/nowhere/libQnnHtp.so"}, "/nowhere/libQnnHtp.so: cannot open"),
    ],
)
def test_options_that_are_wrong_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        delegated.delegate(**options)


def test_another_backend_library_is_taken_by_its_path() -> None:
    path = external.delegate_path().replace("libQnnTFLiteDelegate", "libQnnHtp")
    data, feeds = sandwich(1, np.random.default_rng(8))
    counted = delegated.agree(data, feeds, library_path=path)
    assert (counted.delegated, counted.copied_bytes) == (2, 0)


def test_inputs_and_outputs_are_dumped_on_request(tmp_path: Path) -> None:
    data, feeds = sandwich(1, np.random.default_rng(9))
    runner = delegated.interpreter(data, delegated.delegate(tensor_dump_output_path=tmp_path))
    wanted = delegated.run(runner, feeds)
    inputs, outputs = delegated.indices(runner)
    for index, array in zip((*inputs, *outputs), (*feeds, *wanted), strict=True):
        found = np.fromfile(tmp_path / f"tensor_{index}.raw", F32)
        np.testing.assert_array_equal(found.reshape(array.shape), array)
