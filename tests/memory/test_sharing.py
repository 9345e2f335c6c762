"""Any number of processes receive a Buffer: while it or a lease is there, and nobody else."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support.outside import run_code
from support.senders import (
    SENDER,
    WITHOUT_TRACING,
    another,
    by_broker,
    gives_back,
    message_of,
    said,
)
from support.toy import relu_model
from support.waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork"), pytest.mark.other_fds]

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])


# ---- many receivers


def _add_one(inbox: Any, outbox: Any) -> None:
    b = inbox.recv()
    b.array(64, np.uint8)[os.getpid() % 64] += 0
    with b:
        outbox.put(int(b.array(64, np.uint8)[0]))
    again = inbox.recv()
    outbox.put(bytes(memoryview(again)[:3]))


@METHODS
def test_a_broadcast_arrives_everywhere(method: str) -> None:
    context = mp.get_context(method)
    with qnnrt.alloc(64) as b:  # multiprocessing keeps fds and threads of its own
        b.array(64, np.uint8)[...] = 9
        outbox = context.SimpleQueue()
        pipes = [context.Pipe() for _ in range(3)]
        processes = [context.Process(target=_add_one, args=(p[1], outbox)) for p in pipes]
        for process in processes:
            process.start()
        for _ in range(2):
            message = pickle.dumps(b)
            for here, _there in pipes:
                here.send_bytes(message)
            for _ in processes:
                assert outbox.get() in (9, b"new")
            memoryview(b)[:3] = b"new"
        for process in processes:
            process.join(300)
            assert process.exitcode == 0
            process.close()
        for here, there in pipes:
            here.close()
            there.close()
        outbox.close()


def _give(places: Any) -> None:
    with qnnrt.alloc(64) as b:
        memoryview(b)[:3] = bytes(3)
        for place in places:
            place.send(b)
        for place in places:
            assert place.recv() == "written"
        assert bytes(memoryview(b)[: len(places)]) == bytes(range(1, len(places) + 1))


def _take(place: Any, index: int) -> None:
    with place.recv() as b:
        memoryview(b)[index] = index + 1
    place.send("written")


@METHODS
def test_siblings_hand_memory_to_each_other(method: str) -> None:
    """Which their parent never had, and without rights to look into each other."""
    context = mp.get_context(method)
    pipes = [context.Pipe() for _ in range(2)]
    processes = [context.Process(target=_give, args=([there for _here, there in pipes],))]
    processes += [context.Process(target=_take, args=(p[0], i)) for i, p in enumerate(pipes)]
    for process in processes:
        process.start()
    for end in (end for pipe in pipes for end in pipe):
        end.close()
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
        process.close()


def test_a_message_may_be_received_again_and_by_others_while_the_buffer_is_there() -> None:
    with qnnrt.alloc(4096) as b:
        message = pickle.dumps(b)
        for value in range(3):
            code = "import pickle, sys; b = pickle.loads(bytes.fromhex(sys.argv[1]));"
            result = run_code(code + "memoryview(b)[0] += 1", message.hex())
            assert (result.returncode, result.stderr) == (0, "")
            assert memoryview(b)[0] == value + 1


@pytest.mark.parametrize("what", ["memfd", "file"])
@pytest.mark.parametrize("traces", [True, False], ids=["traces", "may not trace"])
def test_the_sender_is_asked_for_what_cannot_be_taken_from_it(
    what: str, traces: bool, tmp_path: Path
) -> None:
    receiver = """
import ctypes, os, pickle, sys
from qnnrt import _core
sender = os.pidfd_open(os.getppid())
duplicates = ctypes.CDLL(None).syscall(438, sender, 0, 0) >= 0
b = pickle.loads(bytes.fromhex(sys.argv[1]))
assert bytes(memoryview(b)[:3]) == bytes([7, 7, 7])
memoryview(b)[0] = 8
asked = _core.ipc_counts()["peers"] == 1
assert asked == (sys.argv[2] == "file" and not duplicates), (asked, duplicates)
"""
    if what == "file":
        with (tmp_path / "file").open("w+b") as file:
            file.truncate(4096)
            b = qnnrt.Buffer.from_fd(file.fileno())
    else:
        b = qnnrt.alloc(4096)
    with b:
        b.array(4096, np.uint8)[...] = 7
        message = pickle.dumps(b)
        result = run_code(("" if traces else WITHOUT_TRACING) + receiver, message.hex(), what)
        assert (result.returncode, result.stderr) == (0, "")
        assert memoryview(b)[0] == 8
        assert until(lambda: _core.ipc_counts()["in_flight"] == 0)


def test_received_twice_it_is_the_same_memory_in_one_mapping() -> None:
    with another(SENDER) as sender, gives_back():
        message = bytes.fromhex(said(sender))
        maps = _core.memory_counts()["maps"]
        one, two = pickle.loads(message), pickle.loads(message)
        assert one is not two
        assert one.address == two.address
        assert _core.memory_counts()["maps"] == maps + 1
        view = one.array(4, np.uint8)
        with pytest.raises(qnnrt.BufferInUseError):
            one.close()
        del view
        one.close()
        two.array(4, np.uint8)[0] = 3
        three = pickle.loads(message)
        assert three.array(4, np.uint8)[0] == 3
        two.close()
        assert three.array(4, np.uint8)[0] == 3
        three.close()
        assert _core.memory_counts()["maps"] == maps


LEASES = """
import pickle, sys, qnnrt
b = qnnrt.alloc(4096)
leases = [b.lease(), b.lease()]
print(*(pickle.dumps(lease).hex() for lease in leases), flush=True)
sys.stdin.read()
"""


def test_received_by_two_leases_it_is_one_mapping_and_one_registration() -> None:
    with another(LEASES) as sender, qnnrt.Session(relu_model(), "htp") as s:
        first, second = map(bytes.fromhex, sender.stdout.readline().split())
        own, maps = s.inputs["x"].buffer, _core.memory_counts()["maps"]
        one, two = pickle.loads(first), pickle.loads(second)
        assert one.address == two.address
        assert _core.memory_counts()["maps"] == maps + 1
        s.inputs["x"].bind(one)
        s.inputs["x"].bind(two)
        s.inputs["x"].bind(own)
        one.close()
        three = pickle.loads(first)
        assert three.address == two.address
        two.close()
        three.close()
        assert _core.memory_counts()["maps"] == maps


def test_received_twice_it_is_registered_once() -> None:
    with another(SENDER) as sender, qnnrt.Session(relu_model(), "htp") as s:
        message = bytes.fromhex(said(sender))
        one, two = pickle.loads(message), pickle.loads(message)
        s.inputs["x"].bind(one)
        before = s.stats.registrations
        s.inputs["x"].bind(two)
        assert s.stats.registrations == before
        two.array(16, np.float32)[...] = -1
        s.run()
        assert not s.outputs["y"].array.any()
        assert s.stats.copied_bytes == 0


def test_a_buffer_may_be_closed_beside_its_own_copy() -> None:
    b = qnnrt.alloc(64)
    again = pickle.loads(pickle.dumps(b))
    b.close()
    again.array(64, np.uint8)[...] = 1
    third = pickle.loads(pickle.dumps(again))
    again.close()
    assert third.array(64, np.uint8).all()
    third.close()
    assert third.closed


# ---- leases


def test_a_lease_outlives_its_buffer_and_ends_when_it_is_closed() -> None:
    with gives_back():
        b = qnnrt.alloc(64)
        b.array(64, np.uint8)[...] = 5
        with b.lease() as lease:
            b.close()
            message = pickle.dumps(lease)
            first = pickle.loads(message)
            assert (lease.nbytes, lease.readonly, lease.closed) == (64, False, False)
        assert lease.closed
        assert first.array(64, np.uint8).all()
        first.close()
        with pytest.raises(qnnrt.HandoffError, match="lease has ended") as e:
            pickle.loads(message)
        assert e.value.reason == "lease"
        with pytest.raises(qnnrt.ClosedError, match="lease has ended"):
            pickle.dumps(lease)
        with pytest.raises(qnnrt.ClosedError, match="closed"):
            b.lease()


@pytest.mark.parametrize("way", ["direct", "broker"])
def test_memory_in_flight_goes_as_soon_as_another_process_has_it(way: str) -> None:
    """Without a further call of the sender's: its thread sees it."""
    b = qnnrt.alloc(4096)
    message = message_of(pickle.dumps(b))

    def fds() -> int:
        count = 0
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the listing's own
                count += os.readlink(f"/proc/self/fd/{fd}") == "/memfd:qnnrt (deleted)"
        return count

    b.close()
    _core.pool_trim(0)
    before = fds()
    code = "import sys, qnnrt; print(qnnrt._core.receive(bytes.fromhex(sys.argv[1])).nbytes)"
    result = run_code(code, (by_broker(message) if way == "broker" else message).hex())
    assert (result.stdout, result.stderr) == ("4096\n", "")
    assert until(lambda: fds() == before - 1)


def test_the_memory_goes_with_the_buffer_when_all_have_it() -> None:
    with gives_back():
        b = qnnrt.alloc(1 << 20)
        message = pickle.dumps(b)
        pickle.loads(message).close()
        b.close()
    with gives_back():
        b = qnnrt.alloc(1 << 20)
        pickle.loads(pickle.dumps(b))
        del b


def test_a_read_only_lease_is_read_only_for_everybody_but_its_maker() -> None:
    with qnnrt.alloc(4096, heap="memfd") as b, b.lease(readonly=True) as lease:
        data = b.array(4096, np.uint8)
        data[...] = 1
        result = run_code(
            """
            import mmap, os, pickle, sys
            b = pickle.loads(bytes.fromhex(sys.argv[1]))
            assert b.readonly and b.array(4, "u1").tolist() == [1] * 4
            for attempt in (
                lambda: b.array(4, "u1").__setitem__(0, 2),
                lambda: mmap.mmap(b.fd, 4096),
                lambda: mmap.mmap(os.open(f"/proc/self/fd/{b.fd}", os.O_RDWR), 4096),
                lambda: os.pwrite(b.fd, b"x", 0),
                lambda: os.ftruncate(b.fd, 0),
            ):
                try:
                    attempt()
                except (ValueError, PermissionError) as e:
                    print(type(e).__name__)
                else:
                    sys.exit("written")
            """,
            pickle.dumps(lease).hex(),
        )
        assert result.stderr == ""
        assert result.stdout.split() == ["ValueError"] + ["PermissionError"] * 4
        assert (data == 1).all()
        data[...] = 2
        with pickle.loads(pickle.dumps(lease)) as own:
            assert own.readonly
            assert (own.array(4096, np.uint8) == 2).all()
        # What the memory has become shows in the Buffer's own messages, too.
        result = run_code(
            "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).readonly)",
            pickle.dumps(b).hex(),
        )
        assert result.stdout == "True\n"
        del data


def test_a_session_reads_its_input_from_memory_that_it_cannot_write() -> None:
    with another(SENDER.replace("b.lease()", "b.lease(readonly=True)")) as sender:
        b = pickle.loads(bytes.fromhex(said(sender)))
        for backend in ("cpu", "htp"):
            with qnnrt.Session(relu_model(), backend) as s:
                s.inputs["x"].bind(b)
                s.run()
                assert (s.outputs["y"].array == b.array(16, np.float32)).all()
                assert s.stats.copied_bytes == 0


def test_read_only_is_refused_where_it_cannot_be_kept() -> None:
    with qnnrt.alloc(64) as b:
        pickle.loads(pickle.dumps(b)).close()
        with pytest.raises(qnnrt.MemError, match="handed out for writing"):
            b.lease(readonly=True)
    for flags, what in ((0, "memfd"), (None, "file")):
        fd = os.open("/tmp", os.O_RDWR | os.O_TMPFILE) if flags is None else os.memfd_create("x")
        os.ftruncate(fd, 4096)
        with qnnrt.Buffer.from_fd(fd) as b:
            os.close(fd)
            with pytest.raises(qnnrt.MemError, match=f"sealed against writing, which this {what}"):
                b.lease(readonly=True)
            with b.lease() as lease, pickle.loads(pickle.dumps(lease)) as again:
                assert not again.readonly
    with pytest.raises(qnnrt.MemError, match="no fd"):
        qnnrt.Buffer.from_array(np.zeros(4)).lease()


# ---- dma-bufs, on a kernel that has them


@pytest.mark.parametrize("heap", ["dma_heap", "udmabuf"])
def test_a_dma_buf_is_handed_over_too_but_cannot_be_read_only(heap: str) -> None:
    if not next(h for h in qnnrt.heaps() if h.name == heap).available:
        pytest.skip(f"this machine has no {heap}")
    with gives_back(), qnnrt.alloc(8192, heap=heap) as b:
        with pytest.raises(qnnrt.MemError, match="which this dma-buf is not"):
            b.lease(readonly=True)
        message = pickle.dumps(b)
        for value in (1, 2):
            result = run_code(
                """
                import pickle, sys
                b = pickle.loads(bytes.fromhex(sys.argv[1]))
                assert b.is_dma_buf and not b.coherent and b.fd_size == 8192
                with b.cpu_access():
                    b.array(8192, "u1")[-1] += 1
                """,
                message.hex(),
            )
            assert (result.returncode, result.stderr) == (0, "")
            with b.cpu_access(write=False):
                assert b.array(8192, np.uint8)[-1] == value
    with qnnrt.Channel(2048, np.float32, 3, heap=heap) as channel:
        assert channel.buffer.is_dma_buf
        other = pickle.loads(pickle.dumps(channel))
        with channel.producer() as producer, other.consumer() as consumer:
            for i in range(5):
                with producer.next(0) as slot:
                    slot.array[...] = i
                with consumer.next(0) as slot:
                    assert (slot.array == i).all()
        other.close()
