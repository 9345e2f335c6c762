"""Misuse of messages about Buffers: one clear error each, and the next right call works."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support import tickets
from support.outside import SANITIZED, run_code
from support.senders import SENDER, another, by_broker, gives_back, message_of, said
from support.waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork"), pytest.mark.other_fds]

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(params=["direct", "broker"])
def sent(request: pytest.FixtureRequest) -> Iterator[bytes]:
    """A message about a lease of another process, whose fds can be opened or are asked for."""
    with another(SENDER) as sender:
        message = message_of(bytes.fromhex(said(sender)))
        if request.param == "broker":
            message = by_broker(message)
        with gives_back():
            yield message
            with _core.receive(message) as b:
                assert (b.array(4096, np.uint8) == 7).all()
            del b


@pytest.mark.parametrize(
    ("changes", "reason", "text"),
    [
        ({"token": bytes(16)}, "token", "not the one that the sender gave out"),
        ({"lease": 12345}, "lease", "lease has ended"),
        ({"sender": bytes(16)}, "sender", "has ended"),
        ({"nbytes": 4097, "fd_offset": 0}, "memory", "4097 bytes at offset 0"),
        ({"nbytes": 1 << 63, "fd_offset": 1 << 63}, "memory", "nothing was mapped"),
        ({"nbytes": 0}, "memory", "0 bytes at offset"),
        ({"inode": 1}, "memory", "another file"),
        ({"kind": 0}, "memory", "another kind"),
        ({"flags": tickets.READ_ONLY}, "memory", "not sealed against writing"),
        ({"version": 2}, "message", "version 2"),
        ({"magic": 1}, "message", "damaged"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_a_forged_message(sent: bytes, changes: dict[str, Any], reason: str, text: str) -> None:
    with pytest.raises(qnnrt.HandoffError, match=text) as e:
        _core.receive(tickets.forged(sent, **changes))
    assert e.value.reason == reason


def test_a_forged_message_of_this_process_itself() -> None:
    with gives_back(), qnnrt.alloc(64) as b, b.lease() as lease:
        message = message_of(pickle.dumps(lease))
        for changes, reason in (({"token": bytes(16)}, "token"), ({"lease": 99999}, "lease")):
            with pytest.raises(qnnrt.HandoffError) as e:
                _core.receive(tickets.forged(message, **changes))
            assert e.value.reason == reason
        _core.receive(message).close()


def test_a_message_that_lost_a_part(sent: bytes) -> None:
    for cut in (sent[:-1], sent[:20], b"", sent + b"x"):
        with pytest.raises(qnnrt.HandoffError, match=f"this one has {len(cut)}") as e:
            _core.receive(cut)
        assert e.value.reason == "message"
    damaged = bytearray(sent)
    damaged[30] ^= 1
    with pytest.raises(qnnrt.HandoffError, match="damaged"):
        _core.receive(bytes(damaged))


def test_what_is_no_request_ends_its_connection_and_nothing_else() -> None:
    with gives_back(), qnnrt.alloc(64) as b, b.lease() as lease:
        message = message_of(pickle.dumps(lease))
        good = tickets.request(message)
        for bad in (b"x", good[:-1], good + b"x", b"\xff" * len(good), tickets.request(message, 3)):
            with tickets.connected(message) as s:
                s.send(bad)
                assert tickets.code_of(s.recv(100)) == 60005
                assert s.recv(100) == b""
        with tickets.connected(message) as s:
            s.sendmsg([tickets.request(tickets.forged(message, token=b"x" * 16))])
            assert tickets.code_of(s.recv(100)) == 60003
            s.send(good)  # such a connection may go on
            assert tickets.code_of(s.recv(100)) == 0
        _core.receive(message).close()


def test_fds_that_come_with_a_request_are_not_kept() -> None:
    import socket

    with gives_back(), qnnrt.alloc(64) as b, b.lease() as lease:
        message = message_of(pickle.dumps(lease))
        with tickets.connected(message) as s:
            for _ in range(10):
                socket.send_fds(s, [tickets.request(message)], [0, 1, 2])
                assert tickets.code_of(s.recv(100)) == 0


@ROOT
def test_another_user_gets_nothing(sent: bytes) -> None:
    code = """
    import os, pickle, sys
    import qnnrt
    from support import tickets
    message = bytes.fromhex(sys.argv[1])
    os.setgid(65534), os.setuid(65534)
    before = len(os.listdir("/proc/self/fd"))
    try:
        qnnrt._core.receive(message)
    except qnnrt.HandoffError as e:
        print(e.reason, e)
    assert len(os.listdir("/proc/self/fd")) == before
    def received():
        try:
            return s.recv(100)
        except ConnectionResetError:  # the request was not read; told once, when the other closes
            return s.recv(100)
    with tickets.connected(message) as s:  # who does not look whom he asks
        try:
            s.send(tickets.request(message))
        except OSError:
            pass
        reply = received()
        print(tickets.code_of(reply), received())
    with qnnrt.alloc(64) as own:
        print(qnnrt._core.receive(qnnrt._core.buffer_message(own)).nbytes)
    """
    result = run_code(code, sent.hex())
    assert result.stderr == ""
    refused, raw, own = result.stdout.splitlines()
    assert refused.startswith("user cannot take the shared buffer over")
    assert "another user" in refused
    assert raw == "60004 b''"
    assert own == "64"


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes an fd to look at an object")
def test_a_receiver_without_a_free_fd(sent: bytes, request: pytest.FixtureRequest) -> None:
    code = """
    import os, resource, sys
    import qnnrt
    message = bytes.fromhex(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    for free in range(4):
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        for fd in taken[:free]:
            os.close(fd)
        try:
            qnnrt._core.receive(message).close()
            print("received")
        except qnnrt.HandoffError as e:
            assert "RLIMIT_NOFILE" in str(e), e
            print(e.reason)
        left = [taken.pop() for _ in range(len(taken) - free)]
        for fd in left:
            os.close(fd)
        assert qnnrt._core.ipc_counts()["fds"] == 0
        print(len(os.listdir("/proc/self/fd")))
    qnnrt._core.receive(message).close()
    """
    result = run_code(code, sent.hex())
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.split()
    # Directly it takes the memory's own; asking takes a socket beside it.
    one = "received" if "direct" in request.node.callspec.id else "files"
    assert lines[::2] == ["files", one, "received", "received"]
    assert len(set(lines[1::2])) == 1


def test_a_sender_without_a_free_fd() -> None:
    code = """
    import os, pickle, resource, sys
    import qnnrt
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    b = qnnrt.alloc(64)
    def fill():
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            return taken
    taken = fill()
    try:
        b.lease()
    except qnnrt.HandoffError as e:
        print(e.reason, flush=True)
    for fd in taken:
        os.close(fd)
    lease = b.lease()
    message = pickle.dumps(lease).hex()
    taken = fill()
    print(message, flush=True)
    sys.stdin.readline()
    for fd in taken:
        os.close(fd)
    print("free", flush=True)
    sys.stdin.readline()
    """
    with another(code) as sender, gives_back():
        assert said(sender) == "files"
        message = message_of(bytes.fromhex(said(sender)))
        for _ in range(3):
            with pytest.raises(qnnrt.HandoffError, match="as many open files") as e:
                _core.receive(by_broker(message))
            assert e.value.reason == "files"
            _core.receive(message).close()  # this needs nothing of the sender
        assert sender.stdin is not None
        sender.stdin.write("\n")
        sender.stdin.flush()
        assert said(sender) == "free"
        _core.receive(by_broker(message)).close()


def test_a_sender_that_can_open_nothing_any_more_waits_without_a_core() -> None:
    """Its limit is below what it has open: it cannot even take in who asks, until it may again."""
    import resource

    with another(SENDER) as sender:
        message = message_of(bytes.fromhex(said(sender)))
        tasks = Path(f"/proc/{sender.pid}/task")
        (broker,) = (t for t in tasks.iterdir() if (t / "comm").read_text() == "qnnrt-broker\n")

        def sleeps() -> int:
            return int(
                (broker / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]
            )

        limit = resource.prlimit(sender.pid, resource.RLIMIT_NOFILE)
        # Below the two fds that its thread waits for, too, which poll refuses then.
        for lower in (3, 1):
            resource.prlimit(sender.pid, resource.RLIMIT_NOFILE, (lower, limit[1]))
            with tickets.connected(message) as s:
                s.send(tickets.request(message))
                before = sleeps()
                assert until(lambda before=before: sleeps() >= before + 5)
                resource.prlimit(sender.pid, resource.RLIMIT_NOFILE, limit)
                assert tickets.code_of(s.recv(100)) == 0
        _core.receive(by_broker(message)).close()


def test_memory_that_does_not_keep_its_promise_is_not_mapped() -> None:
    """A sender's file that shrinks: said by its flags, and checked when it is used."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 8192)
    with qnnrt.Buffer.from_fd(fd) as b, b.lease() as lease:
        message = message_of(pickle.dumps(lease))
        assert tickets.fields(message)["flags"] == tickets.CAN_SHRINK
        with pytest.raises(qnnrt.HandoffError, match="not sealed against shrinking"):
            _core.receive(tickets.forged(message, flags=0, nbytes=4096))
        os.ftruncate(fd, 4096)
        with pytest.raises(qnnrt.HandoffError, match="8192 bytes at offset 0"):
            _core.receive(message)
    os.close(fd)


def test_tokens_are_random_and_of_every_lease() -> None:
    with qnnrt.alloc(64) as b, b.lease() as one, b.lease() as two:
        tokens = [tickets.fields(message_of(pickle.dumps(x)))["token"] for x in (one, two, one)]
        assert tokens[0] == tokens[2] != tokens[1]
        assert len(tokens[0]) == 16


def test_many_threads_receive_at_once() -> None:
    with another(SENDER) as sender, gives_back():
        message = bytes.fromhex(said(sender))
        wrong: list[BaseException] = []

        def receive() -> None:
            try:
                for _ in range(100):
                    b = pickle.loads(message)
                    assert b.array(4096, np.uint8)[4095] == 7
            except BaseException as e:
                wrong.append(e)

        threads = [threading.Thread(target=receive) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(600)
        assert wrong == []
