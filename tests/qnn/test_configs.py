"""Every config option does what the table says, and the page says what the table says.

Each row of the runtime's table is tried on each backend and in each call, with a good value and,
where there is one, with a bad one.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from qnnrt.lpai import allocate_pools
from qnnrt.model import Quantization
from qnnrt.qnn.backend import library_path
from support.c_table import Configs, Table
from support.config_values import (
    BOOL,
    TABLE,
    VALUES,
    htp_context,
    htp_device,
    htp_graph,
    lpai,
    own_graph,
)
from support.loading import loaded

ROOT = Path(__file__).resolve().parents[2]
ROWS = {(row["scope"], row["short"]): row for row in TABLE}


ELSEWHERE = {
    *("htp power", "htp memory"),  # test_devices.py
    *("gpu backend", "gpu context", "gpu graph"),  # test_gpu_front.py
}

# What lpai takes behind the generic CUSTOM; its numbers mean others' structs to other backends.
LPAI_CUSTOM = {
    "backend": VALUES["lpai backend", "HW_INFO"],
    "context": (lpai(11, BOOL), 0),
    "graph": (lpai(201, struct.pack("=III", 30, 10, 2)), 0),
}
# backend -> scopes whose structs it would read as its own
FOREIGN = {
    "cpu": (),
    "htp": ("lpai context", "lpai graph"),
    "lpai": ("htp context", "htp graph"),
}

# Options with an effect -> (file, test): where the effect is shown
EFFECTS = {
    ("global", "SOC_MODEL"): ("test_configs", "test_the_global_soc_is_that_of_later_devices"),
    ("backend", "CUSTOM"): ("test_configs", "test_the_cores_are_those_of_the_hardware_version"),
    ("lpai backend", "HW_INFO"): (
        "test_configs",
        "test_the_cores_are_those_of_the_hardware_version",
    ),
    ("backend", "PLATFORM"): ("test_qmem_rules", "domain_bytes:"),
    ("device", "CUSTOM"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("device", "PLATFORM_INFO"): ("test_configs", "test_a_platform_info_chooses_the_soc"),
    ("htp device", "SOC"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("htp device", "ARCH"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("context", "CUSTOM"): ("test_configs", "test_a_context_for_preparing_alone_executes_nothing"),
    ("context", "ASYNC_EXECUTION_QUEUE_DEPTH"): (
        "test_async",
        "the_depth_is_from_1_to_300_and_said_at_creation",
    ),
    ("context", "ENABLE_GRAPHS"): ("test_configs", "test_only_enabled_graphs_come_out_of_a_binary"),
    ("context", "PERSISTENT_BINARY"): ("test_binary", "persistent_binary"),
    ("context", "BINARY_COMPATIBILITY"): (
        "test_configs",
        "test_strict_compatibility_checks_weights_when_loading",
    ),
    ("context", "DEFER_GRAPH_INIT"): ("test_binary", "defer_graph_init"),
    ("htp context", "PREPARE_ONLY"): (
        "test_configs",
        "test_a_context_for_preparing_alone_executes_nothing",
    ),
    ("graph", "CUSTOM"): ("test_configs", "test_the_number_of_hvx_threads_is_one_of_kernel_thr"),
    ("lpai graph", "SCRATCH_MEM"): (
        "lpai_api_test",
        "pools_are_checked_against_size_and_alignment",
    ),
    ("lpai graph", "PERSISTENT_MEM"): ("lpai_api_test", "state_survives_other_scratch_memory"),
    ("graph", "PROFILE_HANDLE"): ("test_configs", "test_a_graphs_own_profile_collects"),
    ("graph", "SET_PROFILING_STATE"): ("test_configs", "test_a_graphs_own_profile_can_pause"),
    ("graph", "SET_PROFILING_NUM_EXECUTIONS"): (
        "test_configs",
        "test_a_graphs_own_profile_stops_after_so_many",
    ),
    ("qnnrt graph", "NUM_THREADS"): ("test_session", "threads"),
    ("qnnrt graph", "KERNELS"): ("test_onednn", "portable"),
    ("qnnrt graph", "STRICT"): ("test_qmem", "strict"),
    ("qnnrt graph", "EXCLUDE_IO"): (
        "lpai_pools_test",
        "ExcludedInputsAndOutputsHaveNoPlaces",
    ),
    ("qnnrt graph", "PLAN_MILLISECONDS"): ("test_planner", "a_search"),
    ("htp graph", "NUM_HVX_THREADS"): (
        "test_configs",
        "test_the_number_of_hvx_threads_is_one_of_kernel_threads",
    ),
    ("profile", "MAX_EVENTS"): ("test_configs", "test_a_profile_keeps_no_more_events_than_it_may"),
}


class Calls:
    """The calls that carry configs, on one backend; each returns its error code."""

    def __init__(self, name: str) -> None:
        self.backend = qnn.Backend.open(name)
        self.table = Table(library_path(name))
        with self.backend.create_context() as context, context.create_graph("g") as graph:
            relu(graph, FLOAT if name != "lpai" else BYTES)
            self.binary = context.binary()

    def close(self) -> None:
        self.backend.close()

    def __call__(self, scope: str, call: str, option: int, value: Any) -> int:
        entry = (option, value)
        if scope.startswith(("htp ", "lpai ", "qnnrt ")):
            entry = (0, value)
        method = getattr(self, f"_{scope.split()[-1]}_{call}")
        return method(Configs([entry], 8 if scope == "global" else 16))

    def _global_set(self, configs: Configs) -> int:
        return self.table.globalConfigSet(configs)

    def _created(self, function: str, free: str, *args: Any, more: tuple[Any, ...] = ()) -> int:
        handle = ctypes.c_void_p(0xDEAD)
        code = getattr(self.table, function)(*args, ctypes.byref(handle), *more)
        if code:
            assert not handle.value, "after an error there is no handle"
        else:
            extra = (None,) if free == "contextFree" else ()
            assert getattr(self.table, free)(handle, *extra) == 0
        return code

    def _backend_create(self, configs: Configs) -> int:
        return self._created("backendCreate", "backendFree", None, configs)

    def _backend_set(self, configs: Configs) -> int:
        return self.table.backendSetConfig(self.backend.handle, configs)

    def _device_create(self, configs: Configs) -> int:
        return self._created("deviceCreate", "deviceFree", None, configs)

    def _device_set(self, configs: Configs) -> int:
        if not self.backend.has_device:
            return self.table.deviceSetConfig(0, configs)
        return self.table.deviceSetConfig(self.backend._device_handle, configs)

    def _context_create(self, configs: Configs) -> int:
        return self._created("contextCreate", "contextFree", self.backend.handle, None, configs)

    def _context_binary(self, configs: Configs) -> int:
        data = ctypes.create_string_buffer(bytes(self.binary), len(self.binary))
        sized = (ctypes.byref(data), len(self.binary))
        args = (self.backend.handle, None, configs, *sized)
        return self._created("contextCreateFromBinary", "contextFree", *args, more=(None,))

    def _context_set(self, configs: Configs) -> int:
        with self.backend.create_context() as context:
            return self.table.contextSetConfig(context.handle, configs)

    def _graph_create(self, configs: Configs) -> int:
        with self.backend.create_context() as context:
            handle = ctypes.c_void_p()
            name = ctypes.c_char_p(b"g")
            code = self.table.graphCreate(context.handle, name, configs, ctypes.byref(handle))
            assert bool(handle.value) == (code == 0)
            return code

    def _graph_set(self, configs: Configs) -> int:
        with self.backend.create_context() as context, context.create_graph("g") as graph:
            return self.table.graphSetConfig(graph.handle, configs)

    def _profile_set(self, configs: Configs) -> int:
        with self.backend.create_profile() as profile:
            return self.table.profileSetConfig(profile.handle, configs)


FLOAT: dict[str, Any] = {"dtype": np.float32}
BYTES: dict[str, Any] = {"dtype": np.uint8, "quantization": Quantization(0.5, -128)}


def relu(graph: qnn.Graph, kind: dict[str, Any] = FLOAT) -> None:
    x = graph.add_tensor("x", (1, 64), **kind, type="app_write")
    y = graph.add_tensor("y", (1, 64), **kind, type="app_read")
    graph.add_node("relu", "Relu", [x], [y])
    if kind is BYTES:
        allocate_pools(graph)
    graph.finalize()


@pytest.fixture(params=["cpu", "htp", "lpai"])
def calls(request):
    calls = Calls(request.param)
    calls.name = request.param
    yield calls
    calls.close()


@pytest.fixture
def htp():
    with qnn.Backend.open("htp") as backend:
        yield backend


CALLS = {
    "global": ["set"],
    "backend": ["create", "set"],
    "device": ["create", "set"],
    "context": ["create", "binary", "set"],
    "graph": ["create", "set"],
    "profile": ["set"],
}
TRIED = [key for key, row in ROWS.items() if row["scope"] not in ELSEWHERE]


def test_every_row_has_a_value_to_try() -> None:
    assert set(VALUES) == set(TRIED)
    assert {row["scope"] for row in TABLE} == ELSEWHERE | {
        scope + base
        for base in CALLS
        for scope in ("", "htp ", "lpai ", "qnnrt ")
        if (scope + base) in {s for s, _ in VALUES}
    }


@pytest.mark.parametrize("key", TRIED, ids=" ".join)
def test_each_option_does_what_the_table_says(calls: Calls, key: tuple[str, str]) -> None:
    if key[0] in FOREIGN[calls.name]:
        return
    row = ROWS[key]
    good, bad = VALUES[key]
    if calls.name == "lpai" and key[1] == "CUSTOM":
        good, bad = LPAI_CUSTOM.get(key[0], (good, bad))
    for call in CALLS[key[0].split()[-1]]:
        code = calls(key[0], call, row["option"], good)
        if row[calls.name] == "refused":
            assert code == row["refused"], call
        elif call not in row["calls"]:
            assert code == row["invalid"], call
        elif key == ("backend", "CUSTOM") and call == "set":
            assert code == row["invalid"], "all of lpai's are for creating"
        else:
            assert code == 0, call
            if bad is not None:
                assert calls(key[0], call, row["option"], bad) == row["invalid"], call


@pytest.mark.parametrize(
    ("scope", "code", "value"),
    [
        ("global", (1000, 1000, 1000), 1),
        ("backend", (4003, 4003, 4003), 1),
        ("lpai backend", (4003, 4003, 4003), lpai(1, BOOL)),
        ("device", (1000, 14001, 1000), 1),
        ("htp device", (1000, 14001, 1000), htp_device(9, 0, 0)),
        ("context", (1000, 1000, 1000), 1),
        ("htp context", (1000, 5010, 5010), htp_context(14, b"")),
        ("lpai context", (1000, 5010, 5010), lpai(99, BOOL)),
        ("graph", (1000, 1000, 1000), 1),
        ("htp graph", (1000, 1000, 1000), htp_graph(18, b"")),
        ("lpai graph", (1000, 1000, 1000), lpai(99, BOOL)),
        ("qnnrt graph", (6000, 6000, 6000), own_graph(99, 0)),
        ("profile", (1000, 1000, 1000), 1),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_option_that_is_on_no_list_is_refused(calls: Calls, scope, code, value) -> None:
    for call in CALLS[scope.split()[-1]]:
        assert calls(scope, call, 77, value) == code[list(FOREIGN).index(calls.name)], call


def test_every_effect_is_shown_by_a_test() -> None:
    shown = {key for key, row in ROWS.items() if "effect" in (row["cpu"], row["htp"], row["lpai"])}
    assert shown == set(EFFECTS)
    for (scope, option), (stem, words) in EFFECTS.items():
        own = stem == Path(__file__).stem
        files = [
            *ROOT.glob(f"tests/*/{stem}.py" if own else "tests/*/test_*.py"),
            *([] if own else ROOT.glob("tests/native/*.cc")),
        ]
        if not own:
            files.remove(Path(__file__))
        texts = [path.read_text() for path in files]
        wanted = f"def {words}" if own else words  # the name alone is in the list above
        assert any(wanted in text for text in texts), f"{scope} {option}: {stem}, {words}"


def test_what_is_recorded_is_reported(htp) -> None:
    """Each good value of contexts and graphs comes back by its name."""
    for key in TRIED:
        row = ROWS[key]
        kind = key[0].split()[-1]
        if kind not in ("context", "graph") or row["htp"] == "refused" or key[1] == "CUSTOM":
            continue
        value = VALUES[key][0]
        entry = (0, value) if key[0] != kind else (row["option"], value)
        if kind == "context" and "create" in row["calls"]:
            handle = htp.library.context_create(htp.handle, 0, _core.Config([entry]))
            (context,) = htp.describe()["contexts"]
            htp.library.context_free(handle)
            assert key[1] in context["configs"], key
        elif kind == "graph":
            with htp.create_context() as context, context.create_graph("g") as graph:
                htp.library.graph_set_config(graph.handle, _core.Config([entry]))
                ((described,),) = (c["graphs"] for c in htp.describe()["contexts"])
            assert key[1] in described["configs"], key
    with htp.create_context(priority="high") as context:
        context.create_graph("g", priority="low")
        (described,) = htp.describe()["contexts"]
        assert described["priority"] == "high"
        assert [g["priority"] for g in described["graphs"]] == ["low"]
        context.set_config(priority="normal_high")
        assert htp.describe()["contexts"][0]["priority"] == "normal_high"


def test_a_bad_config_changes_nothing_of_a_list(htp) -> None:
    with htp.create_context(priority="high", memory_limit_hint=7) as context:
        with pytest.raises(qnnrt.ContextError):
            htp.library.context_set_config(
                context.handle, _core.Config([(6, 9), (1, 100), (1, 50)])
            )
        (described,) = htp.describe()["contexts"]
        assert described["priority"] == "high"
        assert described["configs"]["MEMORY_LIMIT_HINT"] == 7


def test_the_global_soc_is_that_of_later_devices() -> None:
    table = Table(library_path("htp"))
    try:
        assert table.globalConfigSet(Configs([(0, 69)], 8)) == 0
        with qnn.Backend.open("htp") as backend:
            assert backend.platform_info()[0][2:] == (69, 79, 8)
            assert backend.device_info()[0][2:] == (69, 79, 8)
        with qnn.Backend.open("htp", soc_model=43) as backend:
            assert backend.device_info()[0].soc_model == 43
    finally:
        assert table.globalConfigSet(Configs([(0, 30)], 8)) == 0


def test_the_cores_are_those_of_the_hardware_version() -> None:
    """Stand-ins of this runtime's: docs/decisions/0016-lpai-backend.md."""
    found = {}
    for version in (1, 2, 3, 4, 5, 65541, 6, 7):
        hardware = lpai(0, struct.pack("=II", 2, version))
        with qnn.Backend.open("lpai", options=[(0, hardware)]) as backend:
            found[version] = backend_cores(backend)
    assert found == {
        1: [(32, 1)],
        2: [(64, 2)],
        3: [(128, 3)],
        4: [(256, 4)],
        5: [(512, 5)],
        65541: [(512, 65541)],
        6: [(512, 6)] * 2,
        7: [(1024, 7)] * 2,
    }
    with qnn.Backend.open("lpai") as backend:
        assert backend_cores(backend) == found[6]
    with qnn.Backend.open("lpai", options=[(2, "enpu_cores:3;enpu_macs:9")]) as backend:
        assert backend_cores(backend) == [(9, 6)] * 3


def backend_cores(backend: qnn.Backend) -> list[tuple[int, int]]:
    """(multipliers, version) of each core."""
    count, cores = ctypes.c_uint32(), []
    backend.get_property(0, bytearray(struct.pack("=IxxxxQ", 200, ctypes.addressof(count))))
    for index in range(count.value):
        info = (ctypes.c_uint32 * 3)(index)
        backend.get_property(0, bytearray(struct.pack("=IxxxxQ", 300, ctypes.addressof(info))))
        cores.append((info[1], info[2]))
    return cores


def test_a_platform_info_chooses_the_soc() -> None:
    chip = struct.pack("=IxxxxQI??xxI", 0, 8, 57, False, False, 75).ljust(32, b"\0")
    extension = ctypes.create_string_buffer(chip, 32)
    hardware = ctypes.create_string_buffer(
        struct.pack("=IxxxxIIIxxxxQQ", 1, 0, 0, 0, 0, ctypes.addressof(extension)), 40
    )
    info = struct.pack("=IxxxxIxxxxQ", 1, 1, ctypes.addressof(hardware))
    with qnn.Backend.open("htp", device_options=[(1, info)]) as backend:
        assert backend.device_info()[0][2:] == (57, 75, 8)


def test_a_context_for_preparing_alone_executes_nothing(htp) -> None:
    with htp.create_context(custom=[htp_context(7, BOOL)]) as context:
        graph = context.create_graph("g")
        relu(graph)
        data = np.zeros((1, 64), np.float32)
        with pytest.raises(qnnrt.GraphError, match="PREPARE_ONLY") as e:
            graph.execute([data], [data.copy()])
        assert e.value.code == 6035
        with pytest.raises(qnnrt.GraphError) as e:
            graph.execute_async([data], [data.copy()]).result()
        assert e.value.code == 6035
        binary = context.binary()
    with qnn.Context.from_binary(htp, binary) as context:
        given = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
        out = np.empty_like(given)
        context.graph("g").execute([given], [out])
        np.testing.assert_array_equal(out, np.maximum(given, 0))


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_only_enabled_graphs_come_out_of_a_binary(name: str) -> None:
    with qnn.Backend.open(name) as backend:
        with backend.create_context() as context:
            for graph in ("one", "two"):
                relu(context.create_graph(graph))
            binary = context.binary()
        with qnn.Context.from_binary(backend, binary, enable_graphs=["two"]) as context:
            data = np.ones((1, 64), np.float32)
            context.graph("two").execute([data], [data.copy()])
            with pytest.raises(qnnrt.GraphError) as e:
                backend.library.graph_retrieve(context.handle, "one")
            assert e.value.code == 6002
        with pytest.raises(qnnrt.ContextError, match="three"):
            qnn.Context.from_binary(backend, binary, enable_graphs=["two", "three"])


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_strict_compatibility_checks_weights_when_loading(name: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    with qnn.Backend.open(name) as backend:
        with backend.create_context() as context, context.create_graph("g") as graph:
            x = graph.add_tensor("x", (1, 64), np.float32, type="app_write")
            w = graph.add_tensor("w", weights.shape, np.float32, type="static", data=weights)
            y = graph.add_tensor("y", (1, 64), np.float32, type="app_read")
            graph.add_node("product", "MatMul", [x, w], [y])
            graph.finalize()
            binary = bytearray(context.binary())
        with qnn.Context.from_binary(backend, bytes(binary), binary_compatibility="strict"):
            pass
        binary[-2048] ^= 0x40  # the weights stand at the end
        data = np.ones((1, 64), np.float32)
        with pytest.raises(qnnrt.ContextError):
            qnn.Context.from_binary(backend, bytes(binary), binary_compatibility="strict")
        # Mapped, and used where they lie: nobody looks at weights before the first execution.
        (tmp_path / "altered.bin").write_bytes(binary)
        given = {"binary_compatibility": "permissive"}
        with (
            qnn.Context.from_binary(backend, tmp_path / "altered.bin", **given) as context,
            pytest.raises(qnnrt.QnnError, match="checksum"),
        ):
            context.graph("g").execute([data], [data.copy()])


def test_a_profile_keeps_no_more_events_than_it_may(htp) -> None:
    with Profiled(htp, "detailed") as p:
        p.run(profile=p.profile)
        assert sum(1 for event in p.profile.events() for _ in event.walk()) > 1
        p.profile.set_config(max_events=1)
        p.run(profile=p.profile)
        assert sum(1 for event in p.profile.events() for _ in event.walk()) == 1


def test_the_number_of_hvx_threads_is_one_of_kernel_threads(htp) -> None:
    for count in (1, 4, 1000):
        with htp.create_context() as context:
            blob = htp_graph(6, struct.pack("=Q", count))
            graph = context.create_graph("g", custom=[blob])
            relu(graph)
            with pytest.raises(qnnrt.GraphError) as e:  # it is chosen before finalize
                graph.set_config(custom=[own_graph(1, 77)])
            assert e.value.code == 6024
            graph.set_config(custom=[blob])  # the same again is none


# ---- continuous profiling


class Profiled:
    """A graph with a profile of its own, and what that has seen."""

    def __init__(self, backend: qnn.Backend, level: str = "basic") -> None:
        self.context = backend.create_context()
        self.profile = backend.create_profile(level)
        self.graph = self.context.create_graph("g")
        relu(self.graph)
        self.data = np.ones((1, 64), np.float32)
        self.out = np.zeros((1, 64), np.float32)

    def run(self, times: int = 1, **given: Any) -> None:
        for _ in range(times):
            self.graph.execute([self.data], [self.out], **given)

    def seen(self) -> int:
        return sum(event.kind == "execute" for event in self.profile.events())

    def __enter__(self) -> Profiled:
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.close()
        self.profile.close()


def test_a_graphs_own_profile_collects_its_executions(htp) -> None:
    with Profiled(htp, "detailed") as p:
        p.run()
        p.graph.set_config(profile=p.profile)
        assert p.seen() == 0
        p.run(3)
        assert p.seen() == 3
        p.graph.execute_async([p.data], [p.out]).result()
        assert p.seen() == 4
        assert all(event.events for event in p.profile.events() if event.kind == "execute")


def test_a_graphs_own_profile_excludes_one_for_a_call(htp) -> None:
    with Profiled(htp) as p, htp.create_profile() as other:
        p.graph.set_config(profile=p.profile)
        with pytest.raises(qnnrt.GraphError, match="profile of its own") as e:
            p.run(profile=other)
        assert e.value.code == 6006
        with pytest.raises(qnnrt.GraphError) as e:
            p.run(profile=p.profile)
        assert e.value.code == 6006
        with pytest.raises(qnnrt.QnnError) as e:  # nor is it for another call
            second = p.context.create_graph("second", profile=p.profile)
        assert e.value.code == 6032
        second = p.context.create_graph("second")
        with pytest.raises(qnnrt.QnnError, match="belongs to a graph") as e:
            second.finalize(profile=p.profile)
        assert e.value.code == 6032
        with pytest.raises(qnnrt.QnnError) as e:
            htp.library.profile_free(p.profile.handle)
        assert e.value.code == 12001
        p.run()
        assert p.seen() == 1
        table = Table(library_path("htp"))
        assert table.graphSetConfig(p.graph.handle, Configs([(4, 0)])) == 0
        p.run(profile=other)  # nothing is the graph's own any more
        p.run()
        assert p.seen() == 1
        assert table.graphSetConfig(p.graph.handle, Configs([(4, 0x1234)])) == 6006


def test_a_graphs_own_profile_can_pause(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile)
        p.run(2)
        p.graph.set_config(profiling_enabled=False)
        p.run(2)
        assert p.seen() == 2
        p.graph.set_config(profiling_enabled=True)
        p.run()
        assert p.seen() == 3


def test_a_graphs_own_profile_stops_after_so_many_executions(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile, num_profiling_executions=2)
        p.run(5)
        assert p.seen() == 2
        p.graph.set_config(num_profiling_executions=1)
        p.run(5)
        assert p.seen() == 3


def test_a_graph_lets_its_profile_go_with_its_context(htp) -> None:
    with Profiled(htp) as p:
        p.graph.set_config(profile=p.profile)
        p.run()
        p.context.close()
        assert p.seen() == 1
        p.profile.close()
        assert _core.live_counts()["profiles"] == 0


# ---- the page


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return loaded("tools/configs.py")


def test_the_page_is_up_to_date(page: ModuleType) -> None:
    again = "run python tools/configs.py"
    assert (ROOT / "docs" / "configs.md").read_text() == page.page(), again
    assert set(page.TITLES) == {row["scope"] for row in TABLE}
