"""Every config option does what the table says, and the page says what the table says.

Each row of the runtime's table is tried on each backend and in each call, with a good value and,
where there is one, with a bad one.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest

import qnnrt
from qnnrt import _core
from support.config_calls import CALLS, Calls
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
    ("global", "SOC_MODEL"): (
        "test_config_effects",
        "test_the_global_soc_is_that_of_later_devices",
    ),
    ("backend", "CUSTOM"): (
        "test_config_effects",
        "test_the_cores_are_those_of_the_hardware_version",
    ),
    ("lpai backend", "HW_INFO"): (
        "test_config_effects",
        "test_the_cores_are_those_of_the_hardware_version",
    ),
    ("backend", "PLATFORM"): ("test_qmem_rules", "domain_bytes:"),
    ("device", "CUSTOM"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("device", "PLATFORM_INFO"): ("test_config_effects", "test_a_platform_info_chooses_the_soc"),
    ("htp device", "SOC"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("htp device", "ARCH"): ("test_devices", "test_a_device_stands_for_the_soc_that_was_asked_for"),
    ("context", "CUSTOM"): (
        "test_config_effects",
        "test_a_context_for_preparing_alone_executes_nothing",
    ),
    ("context", "ASYNC_EXECUTION_QUEUE_DEPTH"): (
        "test_async",
        "the_depth_is_from_1_to_300_and_said_at_creation",
    ),
    ("context", "ENABLE_GRAPHS"): (
        "test_config_effects",
        "test_only_enabled_graphs_come_out_of_a_binary",
    ),
    ("context", "PERSISTENT_BINARY"): ("test_binary", "persistent_binary"),
    ("context", "BINARY_COMPATIBILITY"): (
        "test_config_effects",
        "test_strict_compatibility_checks_weights_when_loading",
    ),
    ("context", "DEFER_GRAPH_INIT"): ("test_binary", "defer_graph_init"),
    ("htp context", "PREPARE_ONLY"): (
        "test_config_effects",
        "test_a_context_for_preparing_alone_executes_nothing",
    ),
    ("graph", "CUSTOM"): (
        "test_config_effects",
        "test_the_number_of_hvx_threads_is_one_of_kernel_thr",
    ),
    ("lpai graph", "SCRATCH_MEM"): (
        "lpai_api_test",
        "pools_are_checked_against_size_and_alignment",
    ),
    ("lpai graph", "PERSISTENT_MEM"): ("lpai_api_test", "state_survives_other_scratch_memory"),
    ("graph", "PROFILE_HANDLE"): ("test_graph_profile", "test_a_graphs_own_profile_collects"),
    ("graph", "SET_PROFILING_STATE"): ("test_graph_profile", "test_a_graphs_own_profile_can_pause"),
    ("graph", "SET_PROFILING_NUM_EXECUTIONS"): (
        "test_graph_profile",
        "test_a_graphs_own_profile_stops_after_so_many",
    ),
    ("qnnrt graph", "NUM_THREADS"): ("test_session", "threads"),
    ("qnnrt graph", "KERNELS"): ("test_onednn", "portable"),
    ("qnnrt graph", "STRICT"): ("test_qmem", "strict"),
    ("qnnrt graph", "EXCLUDE_IO"): ("lpai_pools_test", "ExcludedInputsAndOutputsHaveNoPlaces"),
    ("qnnrt graph", "PLAN_MILLISECONDS"): ("test_planner", "a_search"),
    ("qnnrt graph", "PRECISION"): ("test_precision", "test_results_are_as_near_as_16_bits_allow"),
    ("qnnrt graph", "FLOAT32_NODE"): (
        "test_precision",
        "test_nodes_that_are_kept_compute_in_float32",
    ),
    ("qnnrt graph", "RELEASE_CONSTANTS"): (
        "graph_test",
        "a_finalize_that_was_stopped_can_be_repeated_unless_constants_are_released",
    ),
    ("qnnrt graph", "KEEP_CONSTANTS"): (
        "test_portable_binary",
        "test_a_binary_with_its_constants_loads_with_other_kernels",
    ),
    ("qnnrt graph", "BYTE_ACTIVATIONS"): (
        "test_ops_narrow_weights",
        "test_activations_may_be_bytes",
    ),
    ("qnnrt graph", "SHARE_WEIGHTS"): ("shared_weights_test", "who_shares_with_whom_is_asked_for"),
    **{
        ("htp context", name): (
            "shared_weights_test",
            "htp_contexts_share_where_their_options_say_so",
        )
        for name in (
            "WEIGHT_SHARING_ENABLED",
            "REGISTER_MULTI_CONTEXTS",
            "REGISTER_CONCURRENT_RESOURCE_SHARING",
        )
    },
    ("htp graph", "PRECISION"): ("test_precision", "test_htps_own_option_is_half_precision"),
    ("htp graph", "FP16_CLAMP_OVERFLOW"): (
        "test_half_clamp",
        "test_what_would_be_infinite_is_the_largest_number",
    ),
    ("htp graph", "NUM_HVX_THREADS"): (
        "test_config_effects",
        "test_the_number_of_hvx_threads_is_one_of_kernel_threads",
    ),
    ("profile", "MAX_EVENTS"): (
        "test_graph_profile",
        "test_a_profile_keeps_no_more_events_than_it_may",
    ),
    ("profile", "ENABLE_OPTRACE"): (
        "test_graph_profile",
        "test_a_trace_of_nodes_has_them_at_any_level",
    ),
}


@pytest.fixture(params=["cpu", "htp", "lpai"])
def calls(request):
    calls = Calls(request.param)
    calls.name = request.param
    yield calls
    calls.close()


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
        files = [*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("tests/native/*.cc")]
        files.remove(Path(__file__))  # the words alone are in the list above
        assert any(words in path.read_text() for path in files), f"{scope} {option}: {stem}"


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


# ---- the page


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return loaded("tools/configs.py")


def test_the_page_is_up_to_date(page: ModuleType) -> None:
    again = "run python tools/configs.py"
    assert (ROOT / "docs" / "configs.md").read_text() == page.page(), again
    assert set(page.TITLES) == {row["scope"] for row in TABLE}
