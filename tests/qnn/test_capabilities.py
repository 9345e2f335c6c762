"""propertyHasCapability tells the truth: each key that is supported has a test that uses it.

And what is not supported answers so when it is called all the same.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.qnn.backend import CAPABILITIES, library_path
from support.c_table import Configs, Table

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "csrc/abi/qnn_property.h").read_text()
KEYS = {
    name: int(number)
    for name, number in re.findall(r"#define QNN_PROPERTY_(\w+) (\d+)u", HEADER)
    if int(number) not in (0, 1000, 2000)
}
ALL, HTP, LPAI = ("cpu", "htp", "lpai"), ("htp",), ("lpai",)

# Key -> (backends, folder under tests, the test there that uses it, or words of it)
EVIDENCE: dict[str, tuple[tuple[str, ...], str, str]] = {
    "BACKEND_SUPPORT_PLATFORM_OPTIONS": (ALL, "support", "threads:1;kernels:auto"),
    "BACKEND_SUPPORT_CUSTOM_PROPERTY": (LPAI, "qnn", "backend_cores"),
    "BACKEND_SUPPORT_OP_PACKAGE": (("cpu", "htp"), "qnn", "an_op_with_params_and_scratch"),
    "OP_PACKAGE_SUPPORTS_VALIDATION": (("cpu", "htp"), "qnn", "that_a_package_refuses"),
    "OP_PACKAGE_SUPPORTS_OP_IMPLS": (("cpu", "htp"), "qnn", "an_op_that_cannot_be_made"),
    "BACKEND_SUPPORT_COMPOSITION": (ALL, "native", "graphAddNode"),
    "CONTEXT_SUPPORT_CACHING": (ALL, "binary", "computes_the_same_bytes"),
    "CONTEXT_SUPPORT_CONFIGURATION": (ALL, "qnn", "what_the_table_says"),
    "CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS": (
        ALL,
        "qnn",
        "test_only_enabled_graphs_come_out_of_a_binary",
    ),
    "CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY": (
        ALL,
        "qnn",
        "persistent_binary=",
    ),
    "CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE": (
        ALL,
        "qnn",
        "test_strict_compatibility_checks_weights_when_loading",
    ),
    "CONTEXT_SUPPORT_VALIDATE_BINARY": (ALL, "qnn", "validate_binary"),
    "CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_SIGNALS": (
        HTP,
        "qnn",
        "test_a_context_is_created_from_a_binary_with_a_signal",
    ),
    "CONTEXT_SUPPORT_CUSTOM_PROPERTY": (HTP, "binary", "weights_buffer_size"),
    "CONTEXT_SUPPORT_DEFERRED_GRAPH_INIT": (("cpu", "htp"), "qnn", "defer_graph"),
    "GRAPH_SUPPORT_CONFIG": (ALL, "qnn", "what_the_table_says"),
    "GRAPH_SUPPORT_SIGNALS": (HTP, "native", "a_signal_is_for_one_call_at_a_time"),
    "GRAPH_SUPPORT_ASYNC_EXECUTION": (
        ("htp", "lpai"),
        "native",
        "a_full_queue_blocks_the_caller",
    ),
    "GRAPH_SUPPORT_FINALIZE_SIGNAL": (
        HTP,
        "native",
        "finalize_is_aborted_or_timed_out",
    ),
    "GRAPH_SUPPORT_EXECUTE_SIGNAL": (
        HTP,
        "native",
        "a_synchronous_call_that_waits_its_turn_is_aborted_or_timed_out",
    ),
    "GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL": (
        HTP,
        "native",
        "a_queued_execution_is_aborted_at_once",
    ),
    "GRAPH_SUPPORT_FINALIZE_DESERIALIZED_GRAPH": (
        LPAI,
        "native",
        "a_retrieved_graph_is_finalized_before_it_executes",
    ),
    "GRAPH_SUPPORT_CUSTOM_PROPERTY": (LPAI, "native", "a_graph_tells_the_sizes_of_its_pools"),
    "GRAPH_SUPPORT_CONTINUOUS_PROFILING": (
        HTP,
        "qnn",
        "test_a_graphs_own_profile_collects_its_executions",
    ),
    "GRAPH_SUPPORT_EXECUTE": (ALL, "native", "graphExecute"),
    "GRAPH_SUPPORT_EXECUTE_PER_API_PROFILING": (ALL, "native", "profileGetEvents"),
    "GRAPH_SUPPORT_PROFILING_STATE": (
        HTP,
        "qnn",
        "test_a_graphs_own_profile_can_pause",
    ),
    "GRAPH_SUPPORT_SET_PROFILING_NUM_EXECUTIONS": (
        HTP,
        "qnn",
        "test_a_graphs_own_profile_stops_after_so_many_executions",
    ),
    "GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES": (
        HTP,
        "native",
        "BIND_MEM_HANDLES",
    ),
    "GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS": (
        HTP,
        "native",
        "POPULATE_CLIENT_BUFS",
    ),
    "GRAPH_SUPPORT_EARLY_TERMINATION": (
        ALL,
        "session",
        "test_later_steps_are_not_run_when_an_execution_ends_early",
    ),
    "GRAPH_SUPPORT_ONLINE_PREPARE": (ALL, "native", "graphFinalize("),
    "TENSOR_SUPPORT_MEMHANDLE_TYPE": (ALL, "qnn", "memhandle"),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_SCALE_OFFSET": (
        ALL,
        "quantization",
        "test_zero_is_one_of_the_integers",
    ),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET": (
        ALL,
        "quantization",
        "test_a_bias_has_any_scale_and_no_offset",
    ),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_SCALE_OFFSET": (
        ALL,
        "quantization",
        "test_four_bits_are_the_same_however_they_come",
    ),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET": (
        ALL,
        "quantization",
        "test_four_bits_are_the_same_however_they_come",
    ),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCK": (
        ALL,
        "quantization",
        "test_each_block_has_its_scale_and_offset",
    ),
    "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION": (
        ALL,
        "quantization",
        "test_an_expansion_multiplies_the_scales_of_an_axis",
    ),
    "ERROR_GET_VERBOSE_MESSAGE": (ALL, "native", "errorGetVerboseMessage"),
    "MEMORY_SUPPORT_MEM_TYPE_ION": (ALL, "native", "QNN_MEM_TYPE_ION"),
    "MEMORY_SUPPORT_MEM_TYPE_CUSTOM": (ALL, "native", "QNN_MEM_TYPE_CUSTOM"),
    "MEMORY_SUPPORT_MEM_TYPE_DMA_BUF": (ALL, "native", "QNN_MEM_TYPE_DMA_BUF"),
    "SIGNAL_SUPPORT_ABORT": (HTP, "native", "QNN_SIGNAL_CONFIG_OPTION_ABORT"),
    "SIGNAL_SUPPORT_TIMEOUT": (HTP, "native", "QNN_SIGNAL_CONFIG_OPTION_TIMEOUT"),
    "LOG_SUPPORTS_DEFAULT_STREAM": (
        ALL,
        "qnn",
        "test_a_log_without_a_callback_writes_to_standard_error",
    ),
    "PROFILE_SUPPORT_MAX_EVENTS_CONFIG": (
        ALL,
        "qnn",
        "test_a_profile_keeps_no_more_events_than_it_may",
    ),
    "PROFILE_SUPPORT_OPTRACE_CONFIG": (HTP, "qnn", "test_a_trace_of_nodes_has_them_at_any_level"),
    "PROFILE_SUPPORTS_EXTENDED_EVENT": (ALL, "native", "profileGetExtendedEventData"),
    "DEVICE_SUPPORT_INFRASTRUCTURE": (HTP, "qnn", "set_perf_profile"),
}


@pytest.fixture(params=ALL)
def backend(request):
    with qnn.Backend.open(request.param) as backend:
        yield backend


def short(backend: qnn.Backend) -> str:
    return {3: "cpu", 6: "htp", 12: "lpai"}[backend.id]


def test_supported_is_what_has_a_test(backend) -> None:
    name = short(backend)
    supported = {key for key, number in KEYS.items() if backend.has_capability(number)}
    groups = {key for key in supported if key.startswith("GROUP_")}
    # A group is there when anything of it is.
    members = {re.split("_(?:SUPPORT|GET)", key)[0] for key in supported - groups} | {"CORE"}
    if name == "htp":
        members.add("DEVICE")
    assert {group.removeprefix("GROUP_") for group in groups} == members
    assert supported - groups == {key for key, (who, *_) in EVIDENCE.items() if name in who}


def test_every_supported_key_is_used_by_a_test() -> None:
    here = Path(__file__).name
    for key, (_, folder, words) in EVIDENCE.items():
        own = f"def {words}(" in Path(__file__).read_text()
        paths = [p for p in (ROOT / "tests" / folder).iterdir() if p.suffix in (".py", ".cc", ".h")]
        texts = [p.read_text() for p in paths if not p.name.startswith("abi_") and p.name != here]
        assert own or any(words in text for text in texts), (key, folder, words)


def test_keys_are_known_and_numbers_are_the_pages(backend) -> None:
    for key, number in KEYS.items():
        assert backend.library.property_has_capability(number) in (0, 1000), key
    for number in (0, 2, 104, 999, 2005, 0xFFFFFFFF):
        assert backend.library.property_has_capability(number) == 2000, number
    assert set(CAPABILITIES.values()) <= set(KEYS.values())


# What a backend without a feature answers when it is called: (table entry, arguments, code).
REFUSALS: list[tuple[str, str, int]] = [
    ("GRAPH_SUPPORT_SUBGRAPH", "graphCreateSubgraph", 1000),
    ("BACKEND_SUPPORT_OP_PACKAGE", "backendRegisterOpPackage", 4003),
    ("BACKEND_SUPPORT_CUSTOM_PROPERTY", "backendGetProperty", 4003),
    ("GRAPH_SUPPORT_CUSTOM_PROPERTY", "graphGetProperty", 1000),
    ("TENSOR_SUPPORT_CONTEXT_TENSORS", "tensorCreateContextTensor", 1000),
    ("TENSOR_SUPPORT_UPDATEABLE_STATIC_TENSORS", "tensorUpdateGraphTensors", 1000),
    ("CONTEXT_SUPPORT_BINARY_UPDATES", "contextApplyBinarySection", 1000),
    ("CONTEXT_SUPPORT_INCREMENTAL_BINARY", "contextGetIncrementalBinary", 1000),
]


@pytest.mark.parametrize(("key", "entry", "code"), REFUSALS, ids=lambda v: str(v))
def test_what_is_not_supported_says_so_when_called(backend, key, entry, code) -> None:
    supported = short(backend) in EVIDENCE.get(key, ((),))[0]
    assert backend.has_capability(KEYS[key]) == supported
    if supported:
        return
    table = Table(library_path(short(backend)))
    handle = backend.handle if entry.startswith("backend") else 0
    assert getattr(table, entry)(handle, *[None] * 5) == code


def test_a_log_without_a_callback_writes_to_standard_error(backend, capfd) -> None:
    table = Table(library_path(short(backend)))
    log, made, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert table.logCreate(None, 1, ctypes.byref(log)) == 0
    assert table.backendCreate(log, None, ctypes.byref(made)) == 0
    bad = Configs([(1, 12345)])  # no such priority
    assert table.contextCreate(made, None, bad, ctypes.byref(context)) == 5010
    assert "12345" in capfd.readouterr().err
    assert table.backendFree(made) == 0
    assert table.logFree(log) == 0


def test_a_context_is_created_from_a_binary_with_a_signal() -> None:
    with qnn.Backend.open("htp") as backend:
        table = Table(library_path("htp"))
        with backend.create_context() as context, context.create_graph("g") as graph:
            w = np.random.default_rng(1).standard_normal((1024, 4096)).astype(np.float32)
            x = graph.add_tensor("x", (1, 1024), np.float32, type="app_write")
            weights = graph.add_tensor("w", w.shape, np.float32, type="static", data=w)
            y = graph.add_tensor("y", (1, 4096), np.float32, type="app_read")
            graph.add_node("product", "MatMul", [x, weights], [y])
            graph.finalize()
            data = context.binary()
        place = ctypes.create_string_buffer(data, len(data))

        def create(signal: qnn.Signal) -> int:
            made = ctypes.c_void_p()
            strict = Configs([(8, 1)])  # reads all of it
            args = (backend.handle, None, strict, ctypes.byref(place), len(data))
            code = table.contextCreateFromBinaryWithSignal(
                *args, ctypes.byref(made), None, signal.handle
            )
            assert bool(made.value) == (code == 0)
            if code == 0:
                assert table.contextFree(made, None) == 0
            return code

        with backend.create_signal(abort=True) as signal:
            assert create(signal) == 0
        with backend.create_signal(timeout_us=60_000_000) as signal:
            assert create(signal) == 0
        with backend.create_signal(timeout_us=1) as signal:
            assert create(signal) == 5013
