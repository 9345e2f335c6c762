"""The gpu backend's part of the runtime, for which no OpenCL device is needed: its configs, what it
says that it can, and what it refuses."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from qnnrt import _core, errors
from qnnrt.qnn.backend import CAPABILITIES, library_path
from support.config_values import VALUES
from support.vendor import vendor_library

ROWS = {(r["scope"], r["short"]): r for r in json.loads(_core.config_table())}
SCOPES = ("backend", "context", "graph", "profile", "gpu backend", "gpu context", "gpu graph")


def own(option: int, value: int | str) -> _core.GpuConfig:
    return _core.GpuConfig(option, value)


def graph(precision: int = 3, memory: int = 0, node: int = 0, queue: int = 0) -> bytes:
    return struct.pack("=IBBBx", precision, memory, node, queue)


# (scope, option) -> (a value that is taken, the same by name as it is kept, an invalid one)
OWN: dict[tuple[str, str], tuple[Any, Any, Any]] = {
    ("gpu backend", "ENABLE_TUNING_MODE"): (own(0, 1), True, own(0, 2)),
    ("gpu backend", "PERFORMANCE_CACHE_DIR"): (own(1, "/a/path"), "/a/path", own(1, "")),
    ("gpu backend", "INVALIDATE_PERFORMANCE_CACHE"): (own(2, 1), True, own(2, 2)),
    ("gpu backend", "WEIGHT_SHARING_ENABLED"): (own(3, 1), True, own(3, 9)),
    ("gpu backend", "DISABLE_KERNEL_PROFILING"): (own(4, 0), False, own(4, 2)),
    ("gpu context", "PERF_HINT"): (own(0, 2), "low", own(0, 3)),
    ("gpu context", "USE_GL_BUFFERS"): (own(1, 0), False, own(1, 2)),
    ("gpu context", "KERNEL_REPO_DIR"): (own(2, "/b"), "/b", own(2, 0)),
    ("gpu context", "INVALIDATE_KERNEL_REPO"): (own(3, 1), True, own(3, 2)),
    ("gpu graph", "precision"): (graph(1), "fp16", graph(4)),
    ("gpu graph", "disableMemoryOptimizations"): (graph(memory=1), True, graph(memory=2)),
    ("gpu graph", "disableNodeOptimizations"): (graph(node=1), True, graph(node=2)),
    ("gpu graph", "disableQueueRecording"): (graph(queue=1), True, graph(queue=2)),
}
# What stands behind CUSTOM on this backend.
CUSTOM = {
    "backend": OWN["gpu backend", "ENABLE_TUNING_MODE"][::2],
    "context": OWN["gpu context", "PERF_HINT"][::2],
    "graph": OWN["gpu graph", "precision"][::2],
}
TRIED = [key for key in ROWS if key[0] in (*SCOPES, "qnnrt graph")]


@pytest.fixture
def front() -> _core.GpuLibrary:
    return _core.GpuLibrary(library_path("cpu"))


@pytest.fixture
def backend(front: _core.GpuLibrary) -> Iterator[int]:
    handle = front.backend_create(0)
    yield handle
    front.backend_free(handle)


@pytest.fixture
def context(front: _core.GpuLibrary, backend: int) -> Iterator[int]:
    handle = front.context_create(backend, 0)
    yield handle
    front.context_free(handle)


def code_of(call: Any, *args: Any) -> int:
    try:
        call(*args)
    except errors.QnnError as e:
        return e.code
    return 0


class Front:
    """The calls that carry configs; each returns its error code and frees what it made."""

    def __init__(self, library: _core.GpuLibrary, backend: int) -> None:
        self.library, self.backend = library, backend

    def __call__(self, scope: str, call: str, option: int, value: Any) -> int:
        entry = (0, value) if " " in scope else (option, value)
        return getattr(self, f"{scope.split()[-1]}_{call}")(_core.Config([entry]))

    def backend_create(self, config: _core.Config) -> int:
        return code_of(lambda: self.library.backend_free(self.library.backend_create(0, config)))

    def backend_set(self, config: _core.Config) -> int:
        return code_of(self.library.backend_set_config, self.backend, config)

    def context_create(self, config: _core.Config) -> int:
        return code_of(
            lambda: self.library.context_free(self.library.context_create(self.backend, 0, config))
        )

    def context_set(self, config: _core.Config) -> int:
        context = self.library.context_create(self.backend, 0)
        code = code_of(self.library.context_set_config, context, config)
        self.library.context_free(context)
        return code

    def _graph(self, config: _core.Config, create: bool) -> int:
        context = self.library.context_create(self.backend, 0)
        if create:
            code = code_of(self.library.graph_create, context, "g", config)
        else:
            made = self.library.graph_create(context, "g")
            code = code_of(self.library.graph_set_config, made, config)
        self.library.context_free(context)
        return code

    def graph_create(self, config: _core.Config) -> int:
        return self._graph(config, True)

    def graph_set(self, config: _core.Config) -> int:
        return self._graph(config, False)

    def profile_set(self, config: _core.Config) -> int:
        profile = self.library.profile_create(self.backend, 1)
        code = code_of(self.library.profile_set_config, profile, config)
        self.library.profile_free(profile)
        return code


CALLS = {"backend": ["create", "set"], "context": ["create", "set"], "graph": ["create", "set"]}


def test_every_row_has_a_value_to_try() -> None:
    assert {key for key in ROWS if key[0].startswith("gpu ")} == set(OWN)


@pytest.mark.parametrize("key", TRIED, ids=" ".join)
def test_each_option_does_what_the_table_says(
    front: _core.GpuLibrary, backend: int, key: tuple[str, str]
) -> None:
    row = ROWS[key]
    good, bad = OWN[key][::2] if key in OWN else VALUES[key]
    if key[1] == "CUSTOM":
        good, bad = CUSTOM.get(key[0], (good, bad))
    if key == ("backend", "PLATFORM"):
        good = "kernels:portable"
    calls = Front(front, backend)
    for call in CALLS.get(key[0].split()[-1], ["set"]):
        code = calls(key[0], call, row["option"], good)
        if row["gpu"] == "refused":
            assert code == row["refused"], call
        elif key[1] == "CUSTOM" and call == "set" and key[0] != "graph":
            assert code == row["invalid"], "all of the gpu backend's are for creating"
        elif call not in row["calls"]:
            assert code == row["invalid"], call
        else:
            assert code == 0, call
            if bad is not None and bad != 0:
                assert calls(key[0], call, row["option"], bad) == row["invalid"], call


@pytest.mark.parametrize(
    ("scope", "value", "code"),
    [
        ("gpu backend", own(77, 1), 4003),
        ("gpu context", own(77, 1), 5010),
        ("gpu context", own(1, 1), 1000),  # GL buffers
    ],
)
def test_what_there_is_not_is_refused(
    front: _core.GpuLibrary, backend: int, scope: str, value: Any, code: int
) -> None:
    assert Front(front, backend)(scope, "create", 0, value) == code


def test_threads_are_none_of_the_gpus(front: _core.GpuLibrary, backend: int) -> None:
    with pytest.raises(errors.BackendError, match="'threads:2' is unknown; known are 'kernels:"):
        front.backend_set_config(backend, _core.Config([(2, "threads:2")]))


def test_what_was_given_is_read_back(front: _core.GpuLibrary) -> None:
    def given(scope: str) -> list[tuple[int, Any]]:
        return [(0, good) for (s, _), (good, _, _) in OWN.items() if s == scope]

    def kept(scope: str) -> dict[str, Any]:
        return {name: value for (s, name), (_, value, _) in OWN.items() if s == scope}

    backend = front.backend_create(0, _core.Config(given("gpu backend")))
    context = front.context_create(backend, 0, _core.Config(given("gpu context")))
    every = graph(1, 1, 1, 1)
    made = front.graph_create(context, "g", _core.Config([(0, every)]))
    assert json.loads(_core.gpu_config(front, backend) or "") == {"backend": kept("gpu backend")}
    assert json.loads(_core.gpu_config(front, made) or "") == {
        "backend": kept("gpu backend"),
        "context": kept("gpu context"),
        "graph": kept("gpu graph"),
        "portable": False,
        "plan_milliseconds": 0,
    }
    assert _core.gpu_config(front, 12345) is None
    front.context_free(context)
    front.backend_free(backend)


def test_a_list_is_applied_whole_or_not_at_all(front: _core.GpuLibrary, context: int) -> None:
    made = front.graph_create(context, "g", _core.Config([(0, graph(1))]))
    with pytest.raises(errors.GraphError):
        front.graph_set_config(made, _core.Config([(0, graph(0)), (0, graph(0, 7))]))
    assert json.loads(_core.gpu_config(front, made) or "")["graph"]["precision"] == "fp16"


# ---- capabilities

#: What qnnrt's gpu backend has beyond the vendor's, and the other way round.
OURS_ALONE = {
    "signals": "the queue is the runtime's own, which ends what waits in it",
    "execute_signal": "likewise",
    "execute_async_signal": "likewise",
    "signal_abort": "likewise",
    "signal_timeout": "likewise",
    "tensor_mem_handle": "registered OpenCL buffers are inputs and outputs",
    "verbose_message": "every error has one",
}
VENDORS_ALONE = {
    "op_package": "kernels of a client's are not loaded",
    "context_caching": "graphs are compiled for the device that is there; programs are cached",
    "context_tensors": "no backend of the runtime has them",
    "device": "an OpenCL device is chosen by options instead",
}


def capabilities(library: _core.Library) -> dict[str, bool]:
    return {name: library.property_has_capability(key) == 0 for name, key in CAPABILITIES.items()}


def test_capabilities_differ_from_the_vendors_where_they_should(front: _core.GpuLibrary) -> None:
    vendor = _core.Library.open(vendor_library("libQnnGpu.so"))
    assert (vendor.backend_id, vendor.provider_name) == (front.backend_id, front.provider_name)
    ours, theirs = capabilities(front), capabilities(vendor)
    assert {n for n in ours if ours[n] and not theirs[n]} == set(OURS_ALONE)
    assert {n for n in ours if theirs[n] and not ours[n]} == set(VENDORS_ALONE)


def test_it_is_a_gpu_backend(front: _core.GpuLibrary) -> None:
    assert (front.backend_id, front.provider_name) == (4, "GPU_QTI_AISW")
    assert front.backend_version == (3, 15, 0)


def test_what_is_not_supported_says_so_when_called(
    front: _core.GpuLibrary, backend: int, context: int
) -> None:
    made = front.graph_create(context, "g")
    assert code_of(front.context_create_from_binary, backend, 0, b"\0" * 64) == 1000
    assert code_of(front.context_validate_binary, backend, 0, b"\0" * 64) == 1000
    assert code_of(front.context_get_binary, context) == 1000
    assert code_of(_core.graph_prepare_execution_environment, front, made, 1, [], []) == 1000
    assert code_of(front.device_create, 0) == 1000


# ---- graphs that nothing executes


def test_without_the_binding_nothing_is_finalized(front: _core.GpuLibrary, context: int) -> None:
    made = front.graph_create(context, "g")
    with pytest.raises(errors.GraphError, match="nothing was given that could execute") as e:
        _core.Library.graph_finalize(front, made)
    assert e.value.code == 6022
    with pytest.raises(errors.GraphError) as e:
        _core.graph_execute(front, made, [], [])
    assert e.value.code == 6023


def test_finalizing_takes_no_signal(front: _core.GpuLibrary, backend: int, context: int) -> None:
    signal = front.signal_create(backend)
    made = front.graph_create(context, "g")
    assert code_of(front.graph_finalize, made, 0, signal) == 1000
    front.signal_free(signal)


def test_an_executor_is_for_this_backend_alone() -> None:
    cpu = _core.Library.open(library_path("cpu"))
    library = ctypes.CDLL(library_path("cpu"))
    give = library.qnnrt_graph_set_executor
    give.argtypes, give.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_uint64
    backend = cpu.backend_create(0)
    context = cpu.context_create(backend, 0)
    made = cpu.graph_create(context, "g")
    room = ctypes.create_string_buffer(64)
    assert give(made, None) == 6000
    assert give(made, room) == 1000
    assert give(12345, room) == 6001
    cpu.context_free(context)
    cpu.backend_free(backend)
