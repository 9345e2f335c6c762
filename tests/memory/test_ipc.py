"""A buffer sent to another process goes by fd: both sides map the same memory."""

from __future__ import annotations

import gc
import multiprocessing as mp
import pickle

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support.outside import run_code

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork"),
    # multiprocessing keeps its fork server, resource tracker and their pipes.
    pytest.mark.other_fds,
]


def _double(conn) -> None:
    while True:
        b = conn.recv()
        if b is None:
            return
        b.array(16, np.float32)[...] *= 2
        conn.send(b.nbytes)


def _fill(b, value) -> None:
    b.array(16, np.float32)[...] = value


def _queue_worker(inbox, outbox) -> None:
    b = inbox.get(timeout=300)
    b.array(16, np.float32)[...] += 1
    outbox.put(b.heap)


@METHODS
def test_through_a_pipe(method):
    context = mp.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=_double, args=(there,), daemon=True)
    process.start()
    b = qnnrt.alloc(64)
    a = b.array(16, np.float32)
    a[...] = 1
    for _ in range(3):
        here.send(b)
        assert here.poll(300)
        assert here.recv() == 64
    assert (a == 8).all()
    here.send(None)
    process.join(300)
    assert process.exitcode == 0
    here.close()
    there.close()


@METHODS
def test_as_an_argument(method):
    context = mp.get_context(method)
    b = qnnrt.alloc(4096)
    process = context.Process(target=_fill, args=(b, 3), daemon=True)
    process.start()
    process.join(300)
    assert process.exitcode == 0
    assert (b.array(16, np.float32) == 3).all()


@METHODS
def test_through_a_queue(method):
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=_queue_worker, args=(inbox, outbox), daemon=True)
    process.start()
    b = qnnrt.alloc(64)
    b.array(16, np.float32)[...] = 1
    inbox.put(b)
    assert outbox.get(timeout=300) == "imported"
    process.join(300)
    assert (b.array(16, np.float32) == 2).all()
    for q in (inbox, outbox):
        q.close()
        q.join_thread()


def test_the_bytes_are_not_in_the_message():
    b = qnnrt.alloc(1 << 24)
    assert len(pickle.dumps(b)) < 500
    gc.collect()


def test_a_buffer_may_be_let_go_right_after_it_was_sent():
    b = qnnrt.alloc(64)
    b.array(16, np.float32)[...] = 5
    message = pickle.dumps(b)
    b.close()
    again = pickle.loads(message)
    assert (again.array(16, np.float32) == 5).all()


def test_messages_keep_the_memory_until_each_has_arrived():
    start = _core.ipc_counts()
    b = qnnrt.alloc(64)
    messages = [pickle.dumps(b) for _ in range(5)]
    b.close()
    assert _core.ipc_counts()["in_flight"] == start["in_flight"] + 5
    for i, message in enumerate(messages):
        assert _core.ipc_counts()["leases"] == start["leases"] + 1
        pickle.loads(message).close()
        if i < 4:  # again, as in a retry
            pickle.loads(message).close()
    assert _core.ipc_counts() == start
    with pytest.raises(qnnrt.HandoffError, match="lease has ended") as e:
        pickle.loads(messages[0])
    assert e.value.reason == "lease"


def test_offsets_within_a_foreign_fd_survive():
    import os

    fd = os.memfd_create("test")
    os.ftruncate(fd, 10_000)
    b = qnnrt.Buffer.from_fd(fd, 64, 1000)
    os.close(fd)
    memoryview(b)[:2] = b"hi"
    again = pickle.loads(pickle.dumps(b))
    assert (again.fd_offset, again.nbytes) == (1000, 64)
    assert bytes(memoryview(again)[:2]) == b"hi"


def test_a_process_that_is_no_relative_can_take_it():
    b = qnnrt.alloc(64)
    result = run_code(
        """
        import pickle, sys
        b = pickle.loads(bytes.fromhex(sys.argv[1]))
        memoryview(b)[:3] = b"new"
        """,
        pickle.dumps(b).hex(),
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert bytes(memoryview(b)[:3]) == b"new"


def test_a_sender_that_is_gone_is_an_error():
    result = run_code(
        "import qnnrt, pickle; print(pickle.dumps(qnnrt.alloc(64)).hex())",
    )
    with pytest.raises(qnnrt.Error, match="must be alive"):
        pickle.loads(bytes.fromhex(result.stdout))


def test_memory_without_an_fd_and_closed_buffers_cannot_be_sent():
    with pytest.raises(qnnrt.MemError):
        pickle.dumps(qnnrt.Buffer.from_array(np.zeros(8)))
    b = qnnrt.alloc(64)
    b.close()
    with pytest.raises(qnnrt.ClosedError):
        pickle.dumps(b)
