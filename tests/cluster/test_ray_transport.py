"""Buffers between Ray's actors on one node: the memory goes, not a byte of it is copied."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qnnrt

ray = pytest.importorskip("ray", reason="Ray is not installed")

import qnnrt.ray as qr  # noqa: E402
from qnnrt.ray import transfer  # noqa: E402
from support.ray_actors import (  # noqa: E402
    REVERSED,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Plain,
    Producer,
    until,
)

pytestmark = pytest.mark.foreign
N = 1 << 20


def actor(kind: type, **options: Any) -> Any:
    options = {"num_cpus": 0, "enable_tensor_transport": True, **options}
    return ray.remote(**options)(kind).remote()


@pytest.fixture(scope="module")
def producer(cluster: None) -> Any:
    return actor(Producer)


@pytest.fixture(scope="module")
def consumers(cluster: None) -> Any:
    return [actor(Consumer) for _ in range(2)]


@pytest.fixture(autouse=True)
def _counted(consumers: Any) -> None:
    ray.get([consumer.transfers.remote() for consumer in consumers])  # from zero


def of(one: Any) -> dict[str, int]:
    """What an actor holds, without the memory that stays when it has handed out once."""
    return ray.get(one.holdings.remote())


def settled(one: Any, expected: dict[str, int]) -> dict[str, int]:
    """What an actor holds, once it is what is expected; Ray may take a minute after an error."""
    until(lambda: of(one) == expected, 300)
    return of(one)


def test_a_buffer_arrives_as_the_same_memory(producer: Any, consumers: Any) -> None:
    reference = producer.make.remote(N, 3)
    assert ray.get(consumers[0].sum.remote(reference)) == 3 * N
    assert ray.get(consumers[0].transfers.remote()) == qr.Transfers(shared=1, shared_bytes=N)
    assert ray.get(consumers[0].inode.remote(reference)) == ray.get(producer.inode.remote())
    ray.get(consumers[0].write.remote(reference, 77))
    assert ray.get(producer.first.remote()) == 77
    assert ray.get(consumers[1].sum.remote(reference)) == 3 * N + 74
    received = ray.get(reference)  # by the driver
    assert received.array((1,), np.uint8)[0] == 77
    assert ray.get(consumers[1].transfers.remote()) == qr.Transfers(shared=1, shared_bytes=N)


def test_the_lease_ends_with_the_last_reference(producer: Any, consumers: Any) -> None:
    ray.get(consumers[0].sum.remote(producer.make.remote(N, 1)))  # what the first hand-off leaves
    ray.get(producer.forget.remote())
    assert until(lambda: of(producer)["buffers"] == 0)
    before = of(producer)
    reference = producer.make.remote(N, 1)
    ray.get(consumers[0].keep.remote(reference))
    assert of(producer)["leases"] == before["leases"] + 1
    assert "still a reference" in ray.get(producer.freed.remote(0.1))
    del reference
    assert ray.get(producer.freed.remote(120)) == "freed"
    ray.get(producer.forget.remote())
    assert settled(producer, before) == before
    assert ray.get(consumers[0].kept_sum.remote()) == N  # what was received stays
    ray.get(consumers[0].forget.remote())
    assert until(lambda: of(consumers[0])["maps"] == of(consumers[1])["maps"])


def test_the_driver_gives_and_its_lease_ends_too(consumers: Any) -> None:
    buffer = qnnrt.alloc(N)
    buffer.array((N,), np.uint8)[:] = 5
    reference = ray.put({"a": [buffer]}, _tensor_transport=qr.TRANSPORT)
    same = ray.get(reference)["a"][0]
    assert same is buffer
    direct = ray.put(buffer, _tensor_transport=qr.TRANSPORT)
    sums = [consumer.sum.remote(direct) for consumer in consumers]
    assert ray.get(sums) == [5 * N, 5 * N]
    with pytest.raises(TimeoutError, match="still a reference"):
        qr.wait_freed(buffer, 0)
    del reference, direct, same
    qr.wait_freed(buffer, 120)
    buffer.close()


def test_memory_is_in_use_where_a_view_of_it_is(cluster: None) -> None:
    array = qnnrt.alloc_array(64, np.uint8)
    reference = ray.put(qr.share(array[40:16:-2]), _tensor_transport=qr.TRANSPORT)  # 18 to 40
    for used in (array[::-1], array[63::-23], array[:19], array[40:], array[18:19]):
        with pytest.raises(TimeoutError, match="still a reference"):
            qr.wait_freed(used, 0)
    qr.wait_freed(array[:18], 0)
    qr.wait_freed(array[41:], 0)
    del reference
    qr.wait_freed(array, 120)


def test_a_receiver_can_give_on_what_it_received(producer: Any, consumers: Any) -> None:
    reference = consumers[0].forward.remote(producer.make.remote(N, 2))
    assert ray.get(consumers[1].sum.remote(reference)) == 2 * N
    assert ray.get(consumers[1].inode.remote(reference)) == ray.get(producer.inode.remote())


def test_views_arrive_as_they_are(producer: Any, consumers: Any) -> None:
    frames = np.arange(4 * 32 * 48, dtype=np.float32).reshape(4, 32, 48)
    seen = ray.get(consumers[0].describe.remote(producer.views.remote("some")))
    for name, view in {"odd": frames[1, ::2, ::-3], "all": frames}.items():
        assert seen[name] == (
            *("numpy", view.shape, view.dtype, view.strides, view.tolist()),
            True,
        )
    assert seen["n"] == 4
    seen = ray.get(consumers[0].describe.remote(producer.views.remote("structured")))
    assert seen[2] == REVERSED
    seen = ray.get(consumers[0].describe.remote(producer.views.remote("bfloat16")))
    assert seen[2] == ml_dtypes.bfloat16
    assert seen[4] == frames[0, 0].view(ml_dtypes.bfloat16).tolist()
    seen = ray.get(consumers[0].describe.remote(producer.views.remote("readonly")))
    assert seen[4] == frames[1].tolist()
    assert not seen[5]
    assert ray.get(consumers[0].transfers.remote()).copied_bytes == 0


def test_a_torch_tensor_arrives_as_one(producer: Any, consumers: Any) -> None:
    pytest.importorskip("torch")
    kind, shape, *_ = ray.get(consumers[0].describe.remote(producer.views.remote("torch")))
    assert (kind, shape) == ("torch", (32, 48))


def test_without_a_transport_a_buffer_is_pickled_by_its_fd(producer: Any, consumers: Any) -> None:
    with qnnrt.alloc(N) as buffer:
        buffer.array((N,), np.uint8)[:] = 1
        assert ray.get([c.sum.remote(buffer) for c in consumers]) == [N, N]
        reference = ray.put(buffer)
        assert ray.get([c.sum.remote(reference) for c in consumers]) == [N, N]
        asynchronous = ray.remote(num_cpus=0)(AsyncConsumer).remote()
        assert ray.get(asynchronous.sum.remote(reference)) == N
    assert ray.get(consumers[0].sum.remote(producer.plain.remote(N, 4))) == 4 * N
    assert ray.get(consumers[0].transfers.remote()) == qr.Transfers(3, 3 * N)
    with pytest.raises(ray.exceptions.RaySystemError, match="the lease has ended there"):
        ray.get(consumers[0].sum.remote(reference))  # the Buffer is closed


def test_a_ray_without_transports_still_pickles_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ray.cloudpickle.CloudPickler.dispatch, qnnrt.Buffer)
    monkeypatch.delattr(qr, "transport", raising=False)
    monkeypatch.delitem(sys.modules, "qnnrt.ray.transport", raising=False)
    with monkeypatch.context() as lacking:
        lacking.delattr(ray.experimental, "register_tensor_transport")
        assert qr.register() is False
    assert qnnrt.Buffer in ray.cloudpickle.CloudPickler.dispatch
    # What is broken in this package is not a Ray without transports.
    monkeypatch.setitem(sys.modules, "qnnrt.ray.transport", None)
    with pytest.raises(ImportError):
        qr.register()


# ---- what cannot be


def refused(call: Any) -> qnnrt.HandoffError:
    with pytest.raises(qnnrt.HandoffError) as raised:
        ray.get(call())
    return raised.value


def test_async_actors_are_refused(producer: Any) -> None:
    consumer = actor(AsyncConsumer)
    reference = producer.make.remote(N, 1)
    error = refused(lambda: consumer.sum.remote(reference))
    assert error.reason == "actor"
    assert "async" in str(error)
    other = ray.remote(num_cpus=0)(AsyncProducer).remote()
    assert refused(other.make.remote).reason == "actor"


def test_an_actor_that_takes_no_transport_is_refused(producer: Any) -> None:
    consumer = ray.remote(num_cpus=0)(Plain).remote()
    reference = producer.make.remote(N, 1)
    ray.wait([reference])
    error = refused(lambda: consumer.sum.remote(reference))
    assert error.reason == "actor"
    assert "enable_tensor_transport" in str(error)


def test_memory_of_a_container_on_the_node_is_refused(cluster: None) -> None:
    with qnnrt.alloc(N) as buffer, buffer.lease() as lease:
        ticket = transfer.Part(buffer, 0, N).ticket(lease._message())
        assert transfer.receive([ticket])[0].nbytes == N
        elsewhere = replace(ticket, namespaces=("pid:[1]", "net:[1]"))
        with pytest.raises(qnnrt.HandoffError, match="container") as raised:
            transfer.receive([elsewhere])
        assert raised.value.reason == "namespace"
        forged = ticket.message[:-16] + bytes(16)
        with pytest.raises(qnnrt.HandoffError):
            transfer.receive([replace(ticket, message=forged)])


def test_what_is_not_shared_memory_is_refused(cluster: None) -> None:
    with pytest.raises(LookupError, match="not on a shared buffer"):
        qr.share(np.zeros(4))
    with pytest.raises(TypeError, match="Python objects"):
        qr.share(np.array([None]))


# ---- who dies


def test_a_killed_producer_is_an_error_for_those_who_come_later(consumers: Any) -> None:
    before = of(consumers[0])
    producer = actor(Producer)
    references = [producer.make.remote(N, value) for value in (6, 7)]
    ray.get(consumers[0].keep.remote(references[0]))
    ray.wait(references, num_returns=2)
    os.kill(ray.get(producer.pid.remote()), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(producer.pid.remote())
    error = refused(lambda: consumers[0].sum.remote(references[1]))
    assert error.reason == "sender"
    assert ray.get(consumers[0].kept_sum.remote()) == 6 * N
    ray.get(consumers[0].forget.remote())
    references.clear()
    assert settled(consumers[0], before) == before


def test_a_killed_consumer_leaves_nothing_with_the_producer(consumers: Any) -> None:
    producer = actor(Producer)
    ray.get(consumers[0].sum.remote(producer.make.remote(N, 1)))
    ray.get(producer.forget.remote())
    assert until(lambda: of(producer)["buffers"] == 0)
    before = of(producer)
    consumer = actor(Consumer)
    reference = producer.make.remote(N, 6)
    ray.get(consumer.keep.remote(reference))
    os.kill(ray.get(consumer.pid.remote()), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(consumer.sum.remote(reference))
    assert ray.get(consumers[0].sum.remote(reference)) == 6 * N
    del reference
    ray.get(producer.forget.remote())
    assert settled(producer, before) == before


def test_a_restarted_actor_has_lost_its_memory(consumers: Any) -> None:
    producer = actor(Producer, max_restarts=1, max_task_retries=-1)
    reference = producer.make.remote(N, 6)
    assert ray.get(consumers[0].sum.remote(reference)) == 6 * N
    os.kill(ray.get(producer.pid.remote()), signal.SIGKILL)
    assert ray.get(producer.pid.remote())  # of the new process
    assert refused(lambda: consumers[0].sum.remote(reference)).reason == "sender"
    assert ray.get(consumers[0].sum.remote(producer.make.remote(N, 2))) == 2 * N
