"""Channels: slots in shared memory, from one producer to many consumers, whoever waits or dies."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support.outside import in_child, run_code
from support.toy import relu_model
from support.waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork"), pytest.mark.other_fds]

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
FRAMES = 200


def put(producer: Any, value: float, timeout: float | None = 300) -> None:
    with producer.next(timeout) as slot:
        slot.array[...] = value


def get(consumer: Any, timeout: float | None = 300) -> float:
    with consumer.next(timeout) as slot:
        value = float(slot.array.flat[0])
        assert (slot.array == value).all()
        return value


def _consume(channel: qnnrt.Channel, results: Any) -> None:
    with channel.consumer() as consumer:
        results.put("ready")
        seen = [(s.sequence, float(s.array.min()), float(s.array.max())) for s in consumer]
        results.put((seen, consumer.dropped))


def _produce(channel: qnnrt.Channel) -> None:
    with channel.producer() as producer:
        producer.wait_for_consumers(1, 300)
        for i in range(FRAMES):
            put(producer, i)


# ---- between processes


@METHODS
@pytest.mark.parametrize("delivery", ["all", "one"])
def test_slots_arrive_in_order_and_none_is_lost(method: str, delivery: Any) -> None:
    context = mp.get_context(method)
    results = context.Queue()
    with qnnrt.Channel((8, 8), np.float32, 4, delivery=delivery) as channel:
        processes = [context.Process(target=_consume, args=(channel, results)) for _ in range(2)]
        for process in processes:
            process.start()
        for _ in processes:
            assert results.get(timeout=300) == "ready"
        with channel.producer() as producer:
            producer.wait_for_consumers(2, 300)
            for i in range(FRAMES):
                put(producer, i)
        got = [results.get(timeout=300) for _ in processes]
        for process in processes:
            process.join(300)
            assert process.exitcode == 0
            process.close()
        for seen, dropped in got:
            assert dropped == 0
            assert all(sequence == low == high for sequence, low, high in seen)
            assert [s for s, _, _ in seen] == sorted({s for s, _, _ in seen})
        everything = sorted(s for seen, _ in got for s, _, _ in seen)
        assert everything == sorted(list(range(FRAMES)) * (2 if delivery == "all" else 1))
    results.close()
    results.join_thread()


@METHODS
def test_the_producer_may_be_another_process(method: str) -> None:
    context = mp.get_context(method)
    with qnnrt.Channel(16, np.int32, 3) as channel, channel.consumer() as consumer:
        process = context.Process(target=_produce, args=(channel,))
        process.start()
        assert [slot.array[5] for slot in consumer] == list(range(FRAMES))
        process.join(300)
        assert process.exitcode == 0
        process.close()


def test_the_bytes_are_not_in_the_message_and_both_sides_see_one_memory() -> None:
    with qnnrt.Channel((1080, 1920, 3), np.uint8, 4) as channel:
        message = pickle.dumps(channel)
        assert len(message) < 1000
        other = pickle.loads(message)
        assert other.buffer.address == channel.buffer.address
        assert (other.shape, other.dtype, other.slots) == ((1080, 1920, 3), np.uint8, 4)
        assert (other.full, other.delivery, other.readonly) == ("wait", "all", False)
        assert repr(other) == repr(channel)
        other.close()


def test_types_keep_their_names_and_byte_order() -> None:
    for dtype in ([("a", "<i4"), ("b", ">f8", (2,))], ">u2", np.float16, bool):
        with qnnrt.Channel(3, dtype, 2) as channel, pickle.loads(pickle.dumps(channel)) as other:
            assert other.dtype == np.dtype(dtype)


# ---- full and empty


def test_a_full_ring_waits_for_its_slowest_consumer() -> None:
    with qnnrt.Channel(4, slots=3) as c, c.producer() as p, c.consumer() as a, c.consumer() as b:
        for i in range(3):
            put(p, i)
        assert [get(a, 0) for _ in range(3)] == [0, 1, 2]
        start = time.monotonic()
        with pytest.raises(TimeoutError, match="no slot became free within"):
            p.next(0.05)
        assert time.monotonic() - start >= 0.05
        assert get(b) == 0
        put(p, 3, 0)
        with pytest.raises(TimeoutError, match="no slot"):
            p.next(0)
        assert (a.dropped, b.dropped, p.dropped) == (0, 0, 0)


def test_an_empty_ring_has_nothing_to_read() -> None:
    with qnnrt.Channel(4) as channel, channel.producer() as p, channel.consumer() as consumer:
        for timeout in (0, 0.01, -1):
            with pytest.raises(TimeoutError, match="nothing was published within"):
                consumer.next(timeout)
        put(p, 1)
        assert get(consumer, 0) == 1


def test_the_oldest_are_dropped_and_counted_but_never_one_that_is_read() -> None:
    with (
        qnnrt.Channel(4, slots=4, full="drop_oldest") as channel,
        channel.producer() as producer,
        channel.consumer() as consumer,
    ):
        put(producer, 0)
        with consumer.next(0) as slot:
            for i in range(1, 30):
                put(producer, i, 0)
            assert (slot.array == 0).all()
        assert [get(consumer, 0) for _ in range(3)] == [27, 28, 29]
        assert (consumer.dropped, producer.dropped) == (26, 26)


def test_without_consumers_a_queue_keeps_and_a_broadcast_does_not() -> None:
    with qnnrt.Channel(1, slots=2, delivery="one") as channel, channel.producer() as producer:
        put(producer, 0)
        put(producer, 1)
        with pytest.raises(TimeoutError):
            producer.next(0)
        with channel.consumer() as consumer:
            assert [get(consumer, 0), get(consumer, 0)] == [0, 1]
    with qnnrt.Channel(1, slots=2) as channel, channel.producer() as producer:
        for i in range(10):
            put(producer, i, 0)
        with channel.consumer() as consumer:
            with pytest.raises(TimeoutError):
                consumer.next(0)
            put(producer, 10)
            assert get(consumer) == 10


def test_a_consumer_may_read_several_slots_at_once() -> None:
    with qnnrt.Channel(4, slots=4) as c, c.producer() as p, c.consumer() as consumer:
        for i in range(4):
            put(p, i)
        batch = [consumer.next(0) for _ in range(4)]
        with pytest.raises(TimeoutError):
            p.next(0)
        assert [int(slot.array[0]) for slot in batch] == [0, 1, 2, 3]
        batch[2].done()
        put(p, 4, 0)
        for slot in (batch[0], batch[1], batch[3]):
            slot.done()
        with pytest.raises(qnnrt.ClosedError, match="given back"):
            batch[0].done()
        del batch, slot


def test_what_an_exception_interrupts_is_not_published() -> None:
    with qnnrt.Channel(4, slots=2) as c, c.producer() as producer, c.consumer() as consumer:
        for _ in range(5):
            with pytest.raises(ZeroDivisionError), producer.next(0) as slot:
                slot.array[...] = 1 // 0
        put(producer, 8)
        assert get(consumer) == 8
        with pytest.raises(TimeoutError):
            consumer.next(0)
        put(producer, 9)
        with pytest.raises(KeyError), consumer.next(0):  # read all the same
            raise KeyError
        put(producer, 10)
        assert get(consumer) == 10
        del slot


@pytest.mark.parametrize("spin", [None, 0, 1e-6, 0.02])
def test_waits_that_look_and_waits_that_sleep_see_the_same(spin: float | None) -> None:
    with (
        qnnrt.Channel(4, slots=2) as channel,
        channel.producer(spin=spin) as producer,
        channel.consumer(spin=spin) as consumer,
    ):
        got: list[float] = []
        thread = threading.Thread(target=lambda: got.extend(get(consumer) for _ in range(300)))
        thread.start()
        for i in range(300):
            put(producer, i)
            time.sleep(0.01 if i % 50 == 0 else 0)
        thread.join(300)
        assert got == list(range(300))
        for wrong in (-1, 1.5):
            with pytest.raises(ValueError, match="spin must be"):
                channel.consumer(spin=wrong)


# ---- ends


def test_closing_the_producer_ends_the_consumers_when_they_have_read_the_rest() -> None:
    with qnnrt.Channel(4, slots=4) as channel, channel.consumer() as consumer:
        with channel.producer() as producer:
            put(producer, 1)
            put(producer, 2)
        assert producer.closed
        assert [slot.array[0] for slot in consumer] == [1, 2]
        with pytest.raises(qnnrt.ClosedError, match="producer has closed"):
            consumer.next()
        with channel.producer() as producer:  # another one goes on
            put(producer, 3)
            assert get(consumer) == 3
    with pytest.raises(qnnrt.ClosedError, match="this end"):
        consumer.next()
    with pytest.raises(qnnrt.ClosedError, match="closed"):
        channel.consumer()


def test_there_is_one_producer_and_at_most_thirty_two_consumers() -> None:
    start = _core.ipc_counts()
    with qnnrt.Channel(4) as channel:
        with channel.producer():
            with pytest.raises(qnnrt.HandoffError, match="has a producer") as e:
                channel.producer()
            assert e.value.reason == "taken"
        consumers = [channel.consumer() for _ in range(32)]
        with pytest.raises(qnnrt.HandoffError, match="32 consumers"):
            channel.consumer()
        for consumer in consumers:
            consumer.close()
        channel.consumer().close()
        channel.producer().close()
        del e
    assert _core.ipc_counts() == start


def test_a_channel_is_not_closed_under_its_ends_and_arrays() -> None:
    channel = qnnrt.Channel(4)
    consumer = channel.consumer()
    with pytest.raises(qnnrt.BufferInUseError):
        channel.close()
    consumer.close()
    channel.close()
    channel.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((0,),), "at least one element"),
        (((4,), "f4", 1), "2 to 4096 slots"),
        (((4,), "f4", 4097), "2 to 4096 slots"),
        (((-1,),), "at least one element"),
        (((4,), "O"), "Python objects"),
    ],
)
def test_what_cannot_be_a_channel(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        qnnrt.Channel(*arguments)
    for wrong in ({"full": "block"}, {"delivery": "both"}):
        with pytest.raises(ValueError, match="must be"):
            qnnrt.Channel(4, **wrong)


def test_a_control_block_of_another_channel_is_refused() -> None:
    with qnnrt.Channel(4, slots=4) as one, qnnrt.Channel(4, slots=8) as two:
        mixed = pickle.loads(pickle.dumps(one))
        mixed._control.close()
        mixed._control = pickle.loads(pickle.dumps(two._control))
        with pytest.raises(qnnrt.HandoffError, match="another channel"):
            mixed.consumer()
        mixed._control.close()
        mixed._control = pickle.loads(pickle.dumps(two.buffer))
        with pytest.raises(qnnrt.HandoffError, match="no ring of slots") as e:
            mixed.consumer()
        assert e.value.reason == "memory"
        mixed.close()


# ---- read-only


def test_consumers_of_a_read_only_channel_cannot_write() -> None:
    code = """
    import pickle, sys, qnnrt
    channel = pickle.loads(bytes.fromhex(sys.argv[1]))
    try:
        channel.producer()
    except ValueError as e:
        print("read-only here" in str(e))
    with channel.consumer() as consumer:
        print("ready", flush=True)
        for slot in consumer:
            try:
                slot.array[0] = 1
            except ValueError:
                print(slot.array[0])
    """
    with qnnrt.Channel(4, np.int32, 4, readonly=True) as channel, channel.producer() as producer:
        result: list[Any] = []
        message = pickle.dumps(channel)
        thread = threading.Thread(target=lambda: result.append(run_code(code, message.hex())))
        thread.start()
        producer.wait_for_consumers(1, 300)
        for i in range(5):
            put(producer, i)
        producer.close()
        thread.join(300)
        assert result[0].stderr == ""
        assert result[0].stdout.split() == ["True", "ready", "0", "1", "2", "3", "4"]


# ---- processes that die, signals, forks


@METHODS
def test_a_consumer_that_is_killed_does_not_stop_the_producer(method: str) -> None:
    context = mp.get_context(method)
    results = context.Queue()
    with qnnrt.Channel(4, slots=2) as channel, channel.producer() as producer:
        process = context.Process(target=_consume, args=(channel, results))
        process.start()
        assert results.get(timeout=300) == "ready"
        assert producer.consumers == 1
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        put(producer, 0)
        put(producer, 1)
        with pytest.raises(TimeoutError):
            producer.next(0.2)
        os.kill(process.pid, signal.SIGKILL)
        process.join(300)
        for i in range(5):
            put(producer, i)
        assert producer.consumers == 0
        process.close()
    results.close()
    results.join_thread()


def _die(channel: qnnrt.Channel, started: Any) -> None:
    producer = channel.producer()
    put(producer, 1)
    producer.next()
    started.put("ready")
    signal.pause()


@METHODS
def test_a_producer_that_is_killed_is_an_error_once_all_is_read(method: str) -> None:
    context = mp.get_context(method)
    started = context.Queue()
    with qnnrt.Channel(4, slots=2) as channel, channel.consumer() as consumer:
        process = context.Process(target=_die, args=(channel, started))
        process.start()
        assert started.get(timeout=300) == "ready"
        process.kill()
        process.join(300)
        process.close()
        assert get(consumer) == 1
        with pytest.raises(qnnrt.HandoffError, match="ended without closing") as e:
            consumer.next(20)
        assert e.value.reason == "sender"
        with channel.producer() as producer:
            for i in range(2):
                put(producer, i, 0)
            assert [get(consumer), get(consumer)] == [0, 1]
        del e
    started.close()
    started.join_thread()


def test_ends_of_a_parent_are_not_its_childs() -> None:
    with qnnrt.Channel(4) as channel, channel.producer() as producer, channel.consumer() as mine:

        def child() -> None:
            for use in (producer.next, mine.next):
                with pytest.raises(qnnrt.ForkError):
                    use(0)
            with channel.consumer() as own:  # the memory is there
                assert producer.closed is False
                with pytest.raises(TimeoutError):
                    own.next(0)

        in_child(child)
        put(producer, 4)
        assert get(mine) == 4


def test_a_wait_can_be_interrupted() -> None:
    result = run_code(
        """
        import qnnrt
        from support.interrupts import is_interrupted
        with qnnrt.Channel(4) as channel, channel.consumer() as consumer:
            print(is_interrupted(consumer.next))
        """
    )
    assert (result.stdout, result.stderr) == ("True\n", "")


def test_one_end_is_for_one_thread_at_a_time() -> None:
    with qnnrt.Channel(4) as channel, channel.producer() as p, channel.consumer() as consumer:
        got: list[float] = []

        def wait() -> None:
            while not got:
                with suppress(qnnrt.MemError):  # it came while the other one looked
                    got.append(get(consumer))

        thread = threading.Thread(target=wait)
        thread.start()

        def refused() -> bool:
            with pytest.raises((TimeoutError, qnnrt.MemError)) as e:
                consumer.next(0)
            return e.type is not TimeoutError and "another thread waits" in str(e.value)

        assert until(refused)
        put(p, 3)
        thread.join(300)
        assert got == [3]


# ---- with sessions


@pytest.fixture(params=["cpu", "htp"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_sessions_input_is_a_slot_registered_once(backend: str) -> None:
    shape = (1, 16)
    with (
        qnnrt.Channel(shape, np.float32, 3) as channel,
        channel.producer() as producer,
        channel.consumer() as consumer,
        qnnrt.Session(relu_model(shape), backend) as s,
    ):
        x, context = s.inputs["x"], s.context
        handles = [
            context.get_or_register(
                channel.buffer, shape, np.float32, offset=o, kind="shared_buffer"
            )
            for o in channel.offsets
        ]
        before = context.registrations
        for i in range(10):
            put(producer, i - 5)
            with consumer.next(0) as slot:
                x.bind(handles[slot.index])
                s.run()
                assert (s.outputs["y"].array == max(i - 5, 0)).all()
        assert context.registrations == before
        assert s.stats.copied_bytes == 0
        with producer.next(0) as slot:  # or as an array, found by its address
            slot.array[...] = 7
            x.bind(slot.array)
            s.run()
            assert (s.outputs["y"].array == 7).all()
        assert s.stats.copied_bytes == 0
        x.bind(qnnrt.alloc(64))
        assert context.registrations == before + 1
        context.deregister(*handles)
        del slot
