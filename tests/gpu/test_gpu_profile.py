"""Profile events of the gpu backend: OpenCL's timestamps, as QNN tells them."""

from __future__ import annotations

import pytest

import qnnrt
from qnnrt.qnn.profile import ProfileEvent
from support.gpu.opencl import cl, gpu, on_shared_memory, opencl_is_up  # noqa: F401
from support.toy import add_model, relu_model

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def execution(events: list[ProfileEvent]) -> ProfileEvent:
    """The one of the execution; before it may stand the time that it waited for its turn."""
    assert [e.type for e in events if e.type != 405] == [400]
    return events[-1]


def below(event: ProfileEvent) -> list[tuple[int, str]]:
    return [(e.type, e.identifier) for e in event.events]


@pytest.fixture
def s():
    with qnnrt.Session(add_model(), "gpu", options={"gpu": {"node_optimizations": False}}) as s:
        yield s
        s.close()
        s.backend.close()


@on_shared_memory
def test_each_node_has_its_time_on_the_device(s) -> None:
    event = execution(s.profile())
    assert event.identifier == "execute"
    assert below(event) == [
        (405, "device queue"),
        (407, "device"),
        (404, "add"),
        (404, "relu"),
    ]
    assert {e.unit for e in event.events} == {"microseconds"}
    nodes = [e for e in event.events if e.type == 404]
    assert sum(e.value for e in nodes) <= event.value
    assert nodes[0].timestamp <= nodes[1].timestamp
    assert event.timestamp <= nodes[0].timestamp <= event.timestamp + event.value


@on_shared_memory
def test_basic_profiles_have_no_nodes(s) -> None:
    assert below(execution(s.profile("basic"))) == [(405, "device queue"), (407, "device")]


def test_runs_without_a_profile_need_no_queue_with_timestamps(s) -> None:
    s.inputs["a"].array[...] = 2
    s.inputs["b"].array[...] = -3
    s.run()
    s.profile()
    s.run()
    assert (s.outputs["w"].array == -1).all()
    assert s.stats.executes == 3


def test_staging_has_events_of_its_own() -> None:
    with qnnrt.Session(relu_model(), "gpu", io="raw") as s:
        s.inputs["x"].array[...] = -2
        event = execution(s.profile())
        assert (s.outputs["y"].array == 0).all()
        assert [t for t, _ in below(event)] == [405, 407, 406, 404, 408]
        for phase, name in ((2, "copied in"), (4, "copied out")):
            (copied,) = event.events[phase].events
            assert (copied.identifier, copied.unit, copied.value) == (name, "bytes", 64)
        s.close()
        s.backend.close()


def test_kernel_profiling_can_be_switched_off() -> None:
    options = {"gpu": {"kernel_profiling": False}}
    with qnnrt.Session(relu_model(), "gpu", options=options) as s:
        event = execution(s.profile())
        assert (event.identifier, event.events) == ("execute", ())
        s.backend.close()


def own_queue(**properties: object) -> tuple[object, object]:
    context = cl.Context([gpu.devices()[0].raw])
    return context, cl.CommandQueue(context, **properties)


def test_a_clients_queue_without_timestamps_gives_the_hosts_time() -> None:
    """Its commands have to keep their order, so no other queue can be used in its place."""
    _, queue = own_queue()
    with qnnrt.Session(relu_model(), "gpu", options={"gpu": {"queue": queue}}) as s:
        event = execution(s.profile())
        assert event.identifier.startswith("execute (the host's time")
        assert event.events == ()
        s.backend.close()


@on_shared_memory
def test_a_clients_queue_with_timestamps_is_used() -> None:
    _, queue = own_queue(properties=cl.command_queue_properties.PROFILING_ENABLE)
    with qnnrt.Session(relu_model(), "gpu", options={"gpu": {"queue": queue}}) as s:
        assert below(execution(s.profile()))[-1] == (404, "relu")
        s.backend.close()


@on_shared_memory
def test_an_asynchronous_run_records_and_says_how_long_it_waited(s) -> None:
    from qnnrt.qnn.profile import Profile

    with Profile(s.backend, "detailed") as profile:
        s.graph.execute_async(
            [t.handle for t in s.inputs.values()],
            [t.handle for t in s.outputs.values()],
            profile=profile,
        ).result()
        events = profile.events()
        assert [e.type for e in events] == [405, 400]
        assert below(events[1])[-1] == (404, "relu")


def test_finalizing_is_an_event() -> None:
    from qnnrt.qnn.profile import Profile

    with qnnrt.qnn.Backend.open("gpu") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        x = graph.add_tensor("x", (1, 16), "float32", type="app_write")
        y = graph.add_tensor("y", (1, 16), "float32", type="app_read")
        graph.add_node("relu", "Relu", [x], [y])
        with Profile(backend) as profile:
            graph.finalize(profile=profile)
            assert [(e.type, e.identifier) for e in profile.events()] == [(300, "finalize")]
        with pytest.raises(qnnrt.GraphError) as e:
            graph.add_tensor("z", (1, 16), "float32", type="app_read")
        assert e.value.code == 6024


def test_a_graphs_own_profile_collects_its_executions(s) -> None:
    from qnnrt.qnn.profile import Profile

    with Profile(s.backend, "basic") as profile:
        s.graph.set_config(profile=profile)
        s.run()
        s.run_async().result()
        assert [e.type for e in profile.events() if e.type != 405] == [400, 400]
        s.graph.set_config(profile=0)
