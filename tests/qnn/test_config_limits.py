"""Where the range of each config option ends: the last value that is taken, the first that is not.

And what is taken is reported as it was given.
"""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from qnnrt import _core
from support.config_calls import CALLS, Calls
from support.config_values import (
    TABLE,
    htp_context,
    htp_device,
    htp_graph,
    lpai,
    lpai_memory,
    own_graph,
    platform,
)

ROWS = {(row["scope"], row["short"]): row for row in TABLE}
MOST = 2**32 - 1
NAN, INF = float("nan"), float("inf")
EMPTY = ctypes.create_string_buffer(b"")
KEY = ctypes.create_string_buffer(b"P")


def words(*values: int) -> bytes:
    return struct.pack(f"={len(values)}I", *values)


def optimization(kind: int, value: float) -> bytes:
    return htp_graph(1, struct.pack("=If", kind, value))


def finalize(key: ctypes.Array[ctypes.c_char] | None) -> bytes:
    return htp_graph(7, struct.pack("=QIxxxxQ", ctypes.addressof(key) if key else 0, 0x0132, 1))


def prepare(per_layer: int) -> bytes:
    return lpai(10001, struct.pack("=IxxxxQ", per_layer, 0))


def pool(option: int, kind: int, size: int) -> bytes:
    """Of memory at no address."""
    return lpai(option, struct.pack("=IIQ", kind, size, 0))


PRIORITIES = [0, 100, 150, 200], [1, 99, 101, 149, 151, 199, 201, MOST]
ARCHITECTURES = (68, 69, 73, 75, 79, 81, 85)

# (scope, option) -> what is taken, what is refused
LIMITS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("backend", "PLATFORM"): (
        ["", "threads:1", "threads:1024", "kernels:portable", "threads:2;kernels:auto;"],
        [
            *("threads:0", "threads:1025", "threads:-1", "threads:", "threads", "threads:1x"),
            *("threads:99999999999999999999", "kernels:", "kernels", "kernels:fast"),
            *(
                "kernels:auto,threads:1",
                "unknown:1",
                ":",
                "threads:1;unknown",
                "Threads:1",
                ";",
                ";threads:1",
            ),
        ],
    ),
    ("lpai backend", "HW_INFO"): (
        [lpai(0, words(t, v)) for t in range(4) for v in (*range(1, 8), 65541)],
        [
            *(lpai(0, words(t, 1)) for t in (4, MOST)),
            *(lpai(0, words(0, v)) for v in (0, 8, 65540, 65542, MOST)),
            lpai(0, None),
        ],
    ),
    ("context", "PRIORITY"): PRIORITIES,
    ("context", "OEM_STRING"): (["", "maker"], [0]),
    ("context", "ASYNC_EXECUTION_QUEUE_DEPTH"): (
        [(0, 1), (0, 2), (0, 299), (0, 300)],
        [(0, 0), (0, 301), (0, MOST), (1, 1), (MOST, 1)],
    ),
    ("context", "ENABLE_GRAPHS"): ([["g"], ["g", "g"]], [0]),
    ("context", "MEMORY_LIMIT_HINT"): ([0, 1, 2**64 - 1], []),
    ("context", "BINARY_COMPATIBILITY"): ([0, 1], [2, MOST]),
    ("context", "GRAPH_RETENTION_ORDER"): ([["g"], ["g", "h"]], [0]),
    ("htp context", "SHARE_RESOURCES_OPTIMIZATION_TYPE"): (
        [htp_context(10, words(v)) for v in range(3)],
        [htp_context(10, words(v)) for v in (3, 2**31 - 1, 2**31, MOST)],
    ),
    ("lpai context", "MODEL_BUFFER_MEM_TYPE"): (
        [lpai(1, words(1))],
        [*(lpai(1, words(v)) for v in (0, 2, 3, 4, MOST)), lpai(1, None)],  # TCM: direct mode
    ),
    ("lpai graph", "SCRATCH_MEM"): (
        [lpai_memory(1, 1), pool(1, 1, 0)],
        [*(lpai_memory(1, v) for v in (0, 2, 3, 4, MOST)), pool(1, 1, 1), lpai(1, None)],
    ),
    ("lpai graph", "PERSISTENT_MEM"): (
        [lpai_memory(101, 1), pool(101, 1, 0)],
        [*(lpai_memory(101, v) for v in (0, 2, 3, 4, MOST)), pool(101, 1, 1), lpai(101, None)],
    ),
    ("lpai graph", "PERF_CFG"): (
        [lpai(201, words(*v)) for v in ((1, 1, 1), (1, 1, 2), (MOST, MOST, 1))],
        [
            *(lpai(201, words(*v)) for v in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 3))),
            lpai(201, None),
        ],
    ),
    ("lpai graph", "CORE_AFFINITY"): (
        [lpai(301, words(a, c)) for a in (1, 2) for c in (0, 1, 2)],  # this version has two cores
        [
            *(lpai(301, words(a, 0)) for a in (0, 3, MOST)),
            *(lpai(301, words(1, c)) for c in (3, 4, 5, 2**31, MOST)),
            lpai(301, None),
        ],
    ),
    ("lpai graph", "PREPARE"): (
        [prepare(0), prepare(1)],
        [prepare(2), prepare(MOST), lpai(10001, None)],
    ),
    ("graph", "PRIORITY"): PRIORITIES,
    ("graph", "SET_PROFILING_STATE"): ([1, 2], [0, 3, MOST]),
    ("qnnrt graph", "NUM_THREADS"): (
        [own_graph(1, v) for v in (1, 2, 1023, 1024)],
        [own_graph(1, v) for v in (0, 1025, 2**31, MOST)],
    ),
    ("qnnrt graph", "KERNELS"): ([own_graph(2, v) for v in (0, 1)], [own_graph(2, 2)]),
    ("qnnrt graph", "STRICT"): ([own_graph(3, v) for v in (0, 1)], [own_graph(3, 2)]),
    ("qnnrt graph", "RELEASE_CONSTANTS"): (
        [own_graph(8, v) for v in (0, 1)],
        [own_graph(8, v) for v in (2, MOST)],
    ),
    ("qnnrt graph", "KEEP_CONSTANTS"): (
        [own_graph(9, v) for v in (0, 1)],
        [own_graph(9, v) for v in (2, MOST)],
    ),
    ("qnnrt graph", "SHARE_WEIGHTS"): (
        [own_graph(10, v) for v in (0, 1, 2)],
        [own_graph(10, v) for v in (3, MOST)],
    ),
    ("qnnrt graph", "TF32"): ([own_graph(11, v) for v in (0, 1)], [own_graph(11, 2)]),
    ("qnnrt graph", "BYTE_ACTIVATIONS"): ([own_graph(12, v) for v in (0, 1)], [own_graph(12, 2)]),
    ("qnnrt graph", "EXCLUDE_IO"): ([own_graph(4, v) for v in (0, 1)], [own_graph(4, 2)]),
    ("qnnrt graph", "PLAN_MILLISECONDS"): (
        [own_graph(5, v) for v in (0, 1, 3599999, 3600000)],
        [own_graph(5, v) for v in (3600001, MOST)],
    ),
    ("htp graph", "OPTIMIZATION"): (
        [*(optimization(v, 2.0) for v in range(1, 8)), *(optimization(1, v) for v in (0, -1.5))],
        [
            *(optimization(v, 2.0) for v in (0, 8, 2**31 - 1, MOST)),
            *(optimization(1, v) for v in (NAN, INF, -INF)),
        ],
    ),
    ("htp graph", "PRECISION"): (
        [htp_graph(2, words(v)) for v in (0, 1)],
        [htp_graph(2, words(v)) for v in (2, MOST)],
    ),
    ("htp graph", "NUM_HVX_THREADS"): (
        [htp_graph(6, struct.pack("=Q", v)) for v in (0, 1, 1023, 1024)],
        [htp_graph(6, struct.pack("=Q", v)) for v in (1025, 2**32, 2**32 + 1, 2**64 - 1)],
    ),
    ("htp graph", "FINALIZE_CONFIG"): ([finalize(KEY)], [finalize(EMPTY), finalize(None)]),
    ("htp graph", "PARALLEL_GRAPH_EXECUTION_CONFIG"): (
        [htp_graph(9, words(v)) for v in (0, 1)],
        [htp_graph(9, words(v)) for v in (2, 2**31 - 1, MOST)],
    ),
    ("device", "PLATFORM_INFO"): (
        [platform(1, 0), platform(1, MOST)],
        [platform(0, 0), platform(2, 0), platform(1, 1), platform(1, MOST - 1), 0],
    ),
    # As core API 2.40 lays them out (nothing, device, value), and 2.32 (device, value).
    ("htp device", "ARCH"): (
        [
            *(words(1, 0, d, a) for d in (0, MOST) for a in (0, *ARCHITECTURES)),
            *(htp_device(1, d, a) for d in (0, MOST) for a in ARCHITECTURES),
        ],
        [
            *(words(1, 0, 0, a) for a in range(1, 100) if a not in ARCHITECTURES),
            *(htp_device(1, 0, a) for a in range(1, 100) if a not in ARCHITECTURES),
            *(htp_device(1, 0, 256 + 73), words(1, 0, 0, 256 + 73)),
            *(htp_device(1, d, 73) for d in (1, 73, MOST - 1)),
        ],
    ),
    ("htp device", "SIGNEDPD"): (
        [*(words(2, 0, d, v) for d in (0, MOST) for v in (0, 1)), htp_device(2, MOST, 1)],
        [htp_device(2, d, v) for d in (1, MOST - 1) for v in (0, 1)],
    ),
    ("htp device", "SECUREPD"): (
        [words(3, 0, 0, 0), words(3, 0, MOST, 0)],
        [words(3, 0, 0, 1), words(3, 0, MOST, 1), htp_device(3, 0, 1)],
    ),
}


@pytest.fixture(params=["cpu", "htp", "lpai"])
def calls(request) -> Iterator[Calls]:
    calls = Calls(request.param)
    calls.name = request.param
    yield calls
    calls.close()


@pytest.mark.parametrize("key", LIMITS, ids=" ".join)
def test_a_range_ends_where_the_table_says(calls: Calls, key: tuple[str, str]) -> None:
    row, (taken, refused) = ROWS[key], LIMITS[key]
    if row[calls.name] == "refused":
        return
    for call in CALLS[key[0].split()[-1]]:
        if call not in row["calls"]:
            continue
        for value in taken:
            assert calls(key[0], call, row["option"], value) == 0, (call, value)
        for value in refused:
            assert calls(key[0], call, row["option"], value) == row["invalid"], (call, value)


def test_domains_have_at_least_a_byte(htp) -> None:
    def create(text: str) -> int:
        return calls("backend", "create", ROWS["backend", "PLATFORM"]["option"], text)

    calls = Calls("htp")
    try:
        domain = "3300000000"  # as it is already
        for text in (f"domain_bytes:{domain}", f"kernels:auto;domain_bytes:{domain};threads:1"):
            assert create(text) == 0, text
        for value in ("0", "-1", "", "1x", " 1", str(2**64)):
            assert create(f"domain_bytes:{value}") == ROWS["backend", "PLATFORM"]["invalid"], value
    finally:
        calls.close()


# ---- what is reported

# htp graph or context option -> value, what it is reported as
REPORTED: list[tuple[str, str, Any, Any]] = [
    *(("context", "PRIORITY", v, n) for v, n in ((0, "low"), (100, "normal"), (200, "high"))),
    ("context", "ASYNC_EXECUTION_QUEUE_DEPTH", (0, 17), 17),
    ("context", "BINARY_COMPATIBILITY", 0, "PERMISSIVE"),
    ("context", "BINARY_COMPATIBILITY", 1, "STRICT"),
    ("context", "GRAPH_RETENTION_ORDER", ["h", "g"], ["h", "g"]),
    ("context", "OEM_STRING", 'a "maker"', 'a "maker"'),
    ("context", "PERSISTENT_BINARY", 0, False),
    ("context", "PERSISTENT_BINARY", 1, True),
    ("context", "DEFER_GRAPH_INIT", 0, False),
    ("context", "MEMORY_LIMIT_HINT", 2**40, 2**40),
    *(
        ("htp context", "SHARE_RESOURCES_OPTIMIZATION_TYPE", htp_context(10, words(v)), name)
        for v, name in enumerate(
            (
                "SEQUENTIAL_WITH_VA_OPTIMIZATION",
                "SEQUENTIAL_WITHOUT_VA_OPTIMIZATION",
                "CONCURRENT_OPTIMIZATION",
            )
        )
    ),
    (
        *("htp context", "REGISTER_MULTI_CONTEXTS", htp_context(2, struct.pack("=QQ", 0, 77))),
        {"first": True, "maxSpillFillBuffer": 77},
    ),
    ("graph", "PRIORITY", 150, "normal_high"),
    ("graph", "SET_PROFILING_STATE", 1, True),
    ("graph", "SET_PROFILING_STATE", 2, False),
    ("graph", "SET_PROFILING_NUM_EXECUTIONS", 9, 9),
    ("qnnrt graph", "NUM_THREADS", own_graph(1, 3), 3),
    ("qnnrt graph", "KERNELS", own_graph(2, 0), "AUTO"),
    ("qnnrt graph", "KERNELS", own_graph(2, 1), "PORTABLE"),
    ("qnnrt graph", "STRICT", own_graph(3, 0), False),
    ("qnnrt graph", "STRICT", own_graph(3, 1), True),
    ("qnnrt graph", "PLAN_MILLISECONDS", own_graph(5, 12), 12),
    ("qnnrt graph", "RELEASE_CONSTANTS", own_graph(8, 1), True),
    ("qnnrt graph", "KEEP_CONSTANTS", own_graph(9, 1), True),
    ("qnnrt graph", "SHARE_WEIGHTS", own_graph(10, 0), "NOBODY"),
    ("qnnrt graph", "SHARE_WEIGHTS", own_graph(10, 1), "CONTEXT"),
    ("qnnrt graph", "SHARE_WEIGHTS", own_graph(10, 2), "PROCESS"),
    ("htp graph", "PRECISION", htp_graph(2, words(0)), "FLOAT32"),
    ("htp graph", "PRECISION", htp_graph(2, words(1)), "FLOAT16"),
    ("htp graph", "NUM_HVX_THREADS", htp_graph(6, struct.pack("=Q", 5)), 5),
    ("htp graph", "FINALIZE_CONFIG", finalize(KEY), {"P": 1}),
    ("htp graph", "HMX_BOUNDING", htp_graph(11, struct.pack("=ff", 1.5, 2.5)), [1.5, 2.5]),
    ("htp graph", "VTCM_SIZE_IN_MB", htp_graph(3, words(8)), 8),
    ("htp graph", "VTCM_SIZE_IN_BYTES", htp_graph(10, words(4096)), 4096),
    ("htp graph", "NUM_CORES", htp_graph(8, words(2)), 2),
    ("htp graph", "PARALLEL_GRAPH_EXECUTION_CONFIG", htp_graph(9, words(1)), 1),
]


@pytest.mark.parametrize(
    ("scope", "option", "value", "said"),
    REPORTED,
    ids=[f"{r[1]} {i}" for i, r in enumerate(REPORTED)],
)
def test_what_was_given_is_reported(htp, scope: str, option: str, value: Any, said: Any) -> None:
    kind = scope.split()[-1]
    config = _core.Config([(ROWS[scope, option]["option"] if scope == kind else 0, value)])
    if kind == "context":
        calls = ROWS[scope, option]["calls"]
        if "create" not in calls:
            with htp.create_context() as context:
                htp.library.context_set_config(context.handle, config)
                (described,) = htp.describe()["contexts"]
        else:
            handle = htp.library.context_create(htp.handle, 0, config)
            (described,) = htp.describe()["contexts"]
            htp.library.context_free(handle)
    else:
        with htp.create_context() as context, context.create_graph("g") as graph:
            htp.library.graph_set_config(graph.handle, config)
            ((described,),) = (c["graphs"] for c in htp.describe()["contexts"])
    assert described["configs"][option] == said


TYPES = (
    "SCHEDULE_THRESHOLD",
    "FINALIZE_RETRIES",
    "FINALIZE_OPTIMIZATION_FLAG",
    "ENABLE_DLBC",
    "ENABLE_DLBC_WEIGHTS",
    "ENABLE_SPARSE_WEIGHTS_COMPRESSION",
    "ENABLE_SLC_ALLOCATOR",
)


@pytest.mark.parametrize("seed", range(8))
def test_each_optimization_has_the_value_that_came_last(htp, seed: int) -> None:
    rng = random.Random(seed)
    with htp.create_context() as context, context.create_graph("g") as graph:
        expected: dict[str, float] = {}
        for _ in range(25):
            kind, value = rng.randrange(len(TYPES)), rng.choice([0.0, 1.0, -2.5, 1024.0])
            config = _core.Config([(0, optimization(kind + 1, value))])
            htp.library.graph_set_config(graph.handle, config)
            expected[TYPES[kind]] = value
            ((described,),) = (c["graphs"] for c in htp.describe()["contexts"])
            assert described["configs"]["OPTIMIZATION"] == expected
