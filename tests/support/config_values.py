"""A good and a bad value of every config option, and a graph to set them of."""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Any

import numpy as np

from qnnrt import _core, qnn
from qnnrt.lpai import allocate_pools
from qnnrt.model import Quantization

TABLE: list[dict[str, Any]] = json.loads(_core.config_table())


def htp_graph(option: int, payload: bytes) -> bytes:
    return struct.pack("=II", option, 0) + payload.ljust(48, b"\0")


def htp_context(option: int, payload: bytes) -> bytes:
    return struct.pack("=II", option, 0) + payload.ljust(16, b"\0")


def htp_device(option: int, *words: int) -> bytes:
    return struct.pack("=III", option, *words).ljust(16, b"\0")


def own_graph(option: int, value: int | str) -> bytes:
    if isinstance(value, str):
        KEEP.append(ctypes.create_string_buffer(value.encode()))
        return struct.pack("=IIQ", 0x54524E51, option, ctypes.addressof(KEEP[-1]))
    return struct.pack("=III", 0x54524E51, option, value)


def lpai(option: int, config: bytes | None) -> bytes:
    """A custom config of the lpai backend, with its option's struct behind it."""
    if config is None:
        return struct.pack("=IxxxxQ", option, 0)
    buffer = ctypes.create_string_buffer(config, len(config))
    KEEP.append(buffer)
    return struct.pack("=IxxxxQ", option, ctypes.addressof(buffer))


def lpai_memory(option: int, kind: int) -> bytes:
    """1,024 aligned bytes of a kind of memory (1 is DDR) for a graph."""
    KEEP.append(ctypes.create_string_buffer(2048))
    address = -(-ctypes.addressof(KEEP[-1]) // 1024) * 1024
    return lpai(option, struct.pack("=IIQ", kind, 1024, address))


KEEP: list[Any] = []
BOOL = struct.pack("=?", True)
KEY = ctypes.create_string_buffer(b"P")
PLATFORM_CORE = ctypes.create_string_buffer(struct.pack("=IxxxxIIQ", 1, 0, 0, 0), 24)


def platform(devices: int, device_id: int) -> bytes:
    hardware = struct.pack(
        "=IxxxxIIIxxxxQQ", 1, device_id, 0, 1, ctypes.addressof(PLATFORM_CORE), 0
    )
    buffer = ctypes.create_string_buffer(hardware, 40)
    KEEP.append(buffer)
    return struct.pack("=IxxxxIxxxxQ", 1, devices, ctypes.addressof(buffer))


# (scope, option) -> (what to give, a value that is refused as an invalid config or None)
VALUES: dict[tuple[str, str], tuple[Any, Any]] = {
    ("global", "SOC_MODEL"): (30, 9999),
    ("backend", "CUSTOM"): (b"\0" * 16, None),
    ("lpai backend", "HW_INFO"): (
        lpai(0, struct.pack("=II", 2, 65541)),
        lpai(0, struct.pack("=II", 2, 8)),
    ),
    ("backend", "ERROR_REPORTING"): ((1, 16), None),
    ("backend", "PLATFORM"): ("threads:1;kernels:auto", "threads:none"),
    ("device", "CUSTOM"): (htp_device(0, 30, 0), 0),
    ("device", "PLATFORM_INFO"): (platform(1, 0), platform(1, 3)),
    ("htp device", "SOC"): (htp_device(0, 43, 0), htp_device(0, 9999, 0)),
    ("htp device", "ARCH"): (htp_device(1, 0, 73), htp_device(1, 0, 74)),
    ("htp device", "SIGNEDPD"): (htp_device(2, 0, 1), htp_device(2, 5, 1)),
    ("htp device", "SECUREPD"): (htp_device(3, 0, 0), htp_device(3, 0, 1)),
    ("context", "CUSTOM"): (htp_context(1, BOOL), 0),
    ("context", "PRIORITY"): (150, 50),
    ("context", "ERROR_REPORTING"): ((1, 16), None),
    ("context", "OEM_STRING"): ("maker", 0),
    ("context", "ASYNC_EXECUTION_QUEUE_DEPTH"): ((0, 300), (0, 301)),
    ("context", "ENABLE_GRAPHS"): (["g"], 0),
    ("context", "MEMORY_LIMIT_HINT"): (100, None),
    ("context", "PERSISTENT_BINARY"): (1, None),
    ("context", "BINARY_COMPATIBILITY"): (1, 2),
    ("context", "DEFER_GRAPH_INIT"): (1, None),
    ("context", "GRAPH_RETENTION_ORDER"): (["g"], 0),
    ("htp context", "REGISTER_MULTI_CONTEXTS"): (
        htp_context(2, struct.pack("=QQ", 0, 4096)),
        htp_context(2, struct.pack("=QQ", 1, 4096)),
    ),
    ("htp context", "FILE_READ_MEMORY_BUDGET"): (htp_context(3, struct.pack("=Q", 64)), None),
    ("htp context", "SHARE_RESOURCES_OPTIMIZATION_TYPE"): (
        htp_context(10, struct.pack("=I", 2)),
        htp_context(10, struct.pack("=I", 3)),
    ),
    ("htp context", "REGISTER_CONCURRENT_RESOURCE_SHARING"): (
        htp_context(12, struct.pack("=QQ", 0, 4096)),
        htp_context(12, struct.pack("=QQ", 1, 4096)),
    ),
    ("lpai context", "MODEL_BUFFER_MEM_TYPE"): (
        lpai(1, struct.pack("=I", 1)),
        lpai(1, struct.pack("=I", 2)),
    ),
    ("lpai context", "ENABLE_ISLAND"): (lpai(11, BOOL), None),
    ("lpai graph", "SCRATCH_MEM"): (lpai_memory(1, 1), lpai_memory(1, 3)),
    ("lpai graph", "PERSISTENT_MEM"): (lpai_memory(101, 1), lpai_memory(101, 3)),
    ("lpai graph", "PERF_CFG"): (
        lpai(201, struct.pack("=III", 30, 10, 2)),
        lpai(201, struct.pack("=III", 0, 10, 2)),
    ),
    ("lpai graph", "CORE_AFFINITY"): (
        lpai(301, struct.pack("=II", 2, 2)),
        lpai(301, struct.pack("=II", 2, 4)),
    ),
    ("lpai graph", "PREPARE"): (
        lpai(10001, struct.pack("=IxxxxQ", 1, 0)),
        lpai(10001, struct.pack("=IxxxxQ", 2, 0)),
    ),
    ("graph", "CUSTOM"): (own_graph(1, 2), 0),
    ("graph", "PRIORITY"): (200, 201),
    ("graph", "PROFILE_HANDLE"): (0, None),  # a handle: see the tests of continuous profiling
    ("graph", "SET_PROFILING_STATE"): (2, 3),
    ("graph", "SET_PROFILING_NUM_EXECUTIONS"): (5, None),
    ("graph", "ENABLE_BINARY_SECTION_WEIGHTS_UPDATES"): (1, None),
    ("qnnrt graph", "NUM_THREADS"): (own_graph(1, 2), own_graph(1, 0)),
    ("qnnrt graph", "KERNELS"): (own_graph(2, 1), own_graph(2, 2)),
    ("qnnrt graph", "STRICT"): (own_graph(3, 1), own_graph(3, 2)),
    ("qnnrt graph", "EXCLUDE_IO"): (own_graph(4, 1), own_graph(4, 2)),
    ("qnnrt graph", "PLAN_MILLISECONDS"): (own_graph(5, 1000), own_graph(5, 3600001)),
    ("qnnrt graph", "PRECISION"): (own_graph(6, 3), own_graph(6, 4)),
    ("qnnrt graph", "FLOAT32_NODE"): (own_graph(7, "n"), own_graph(7, "")),
    ("qnnrt graph", "RELEASE_CONSTANTS"): (own_graph(8, 1), own_graph(8, 2)),
    ("qnnrt graph", "KEEP_CONSTANTS"): (own_graph(9, 1), own_graph(9, 2)),
    ("qnnrt graph", "SHARE_WEIGHTS"): (own_graph(10, 2), own_graph(10, 3)),
    ("qnnrt graph", "TF32"): (own_graph(11, 1), own_graph(11, 2)),
    ("qnnrt graph", "BYTE_ACTIVATIONS"): (own_graph(12, 1), own_graph(12, 2)),
    ("htp graph", "OPTIMIZATION"): (
        htp_graph(1, struct.pack("=If", 3, 2.0)),
        htp_graph(1, struct.pack("=If", 8, 2.0)),
    ),
    ("htp graph", "PRECISION"): (
        htp_graph(2, struct.pack("=I", 1)),
        htp_graph(2, struct.pack("=I", 2)),
    ),
    ("htp graph", "VTCM_SIZE_IN_MB"): (htp_graph(3, struct.pack("=I", 4)), None),
    ("htp graph", "NUM_HVX_THREADS"): (
        htp_graph(6, struct.pack("=Q", 1)),
        htp_graph(6, struct.pack("=Q", 1025)),
    ),
    ("htp graph", "FINALIZE_CONFIG"): (
        htp_graph(7, struct.pack("=QIxxxxQ", ctypes.addressof(KEY), 0x0132, 1)),
        htp_graph(7, struct.pack("=QIxxxxQ", 0, 0x0132, 1)),
    ),
    ("htp graph", "NUM_CORES"): (htp_graph(8, struct.pack("=I", 1)), None),
    ("htp graph", "PARALLEL_GRAPH_EXECUTION_CONFIG"): (
        htp_graph(9, struct.pack("=I", 1)),
        htp_graph(9, struct.pack("=I", 2)),
    ),
    ("htp graph", "VTCM_SIZE_IN_BYTES"): (htp_graph(10, struct.pack("=I", 1 << 20)), None),
    ("htp graph", "HMX_BOUNDING"): (htp_graph(11, struct.pack("=ff", 1e9, 1e9)), None),
    ("htp context", "NUM_PREPARE_THREADS"): (htp_context(26, struct.pack("=I", 4)), None),
    ("profile", "CUSTOM"): (b"\0" * 16, None),
    ("profile", "MAX_EVENTS"): (10, None),
    ("profile", "ENABLE_OPTRACE"): (1, None),
}
for _row in TABLE:  # the rest are single bools
    _kind = {"htp context": htp_context, "htp graph": htp_graph}.get(_row["scope"])
    if _kind and _row["values"] == "bool":
        VALUES[_row["scope"], _row["short"]] = (_kind(_row["option"], BOOL), None)


#: Types of the tensors of `relu`.
FLOAT: dict[str, Any] = {"dtype": np.float32}
BYTES: dict[str, Any] = {"dtype": np.uint8, "quantization": Quantization(0.5, -128)}


def relu(graph: qnn.Graph, kind: dict[str, Any] = FLOAT) -> None:
    """Finalize a graph to set options of."""
    x = graph.add_tensor("x", (1, 64), **kind, type="app_write")
    y = graph.add_tensor("y", (1, 64), **kind, type="app_read")
    graph.add_node("relu", "Relu", [x], [y])
    if kind is BYTES:
        allocate_pools(graph)
    graph.finalize()
