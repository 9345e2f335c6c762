"""Any number of processes receive a Buffer: while it or a lease is there, and nobody else."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support import tickets
from support.outside import PATHS, SANITIZED, in_child, run_code
from support.toy import relu_model

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork"), pytest.mark.other_fds]

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def held() -> dict[str, int]:
    """What this process holds of the operating system, and for others."""
    gc.collect()
    return _core.ipc_counts() | {
        "fds in all": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


@contextmanager
def gives_back() -> Iterator[None]:
    before = held()
    yield
    for _ in range(200):  # the other side's end is seen by a thread
        if held() == before:
            return
        threading.Event().wait(0.01)
    assert held() == before


@contextmanager
def another(code: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the code, with its standard input and output."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


#: Prints a message about a lease on 4096 bytes of sevens, and waits.
SENDER = """
import pickle, sys, qnnrt
b = qnnrt.alloc(4096)
b.array(4096, "u1")[...] = 7
lease = b.lease()
print(pickle.dumps(lease).hex(), flush=True)
sys.stdin.read()
"""


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process has ended"
    return line.strip()


def message_of(pickled: bytes) -> bytes:
    """What ``_receive_buffer`` is called with."""
    found: list[bytes] = []

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return found.append

    import io

    Reader(io.BytesIO(pickled)).load()
    return found[0]


def by_broker(message: bytes) -> bytes:
    """The same for a receiver that cannot look into the sender, as for a dma-buf."""
    return tickets.forged(message, pid=0)


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
            process.join(60)
            assert process.exitcode == 0
            process.close()
        for here, there in pipes:
            here.close()
            there.close()
        outbox.close()


def test_a_message_may_be_received_again_and_by_others_while_the_buffer_is_there() -> None:
    with qnnrt.alloc(4096) as b:
        message = pickle.dumps(b)
        for value in range(3):
            code = "import pickle, sys; b = pickle.loads(bytes.fromhex(sys.argv[1]));"
            result = run_code(code + "memoryview(b)[0] += 1", message.hex())
            assert (result.returncode, result.stderr) == (0, "")
            assert memoryview(b)[0] == value + 1


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
    for _ in range(500):
        if fds() == before - 1:
            break
        threading.Event().wait(0.01)
    assert fds() == before - 1


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


# ---- processes that die


def test_a_sender_that_dies_leaves_what_was_received() -> None:
    with another(SENDER) as sender:
        message = bytes.fromhex(said(sender))
        b = pickle.loads(message)
        sender.kill()
        sender.wait(60)
        assert (b.array(4096, np.uint8) == 7).all()
        again = pickle.loads(message)  # it is here
        b.close()
        again.close()
        with pytest.raises(qnnrt.HandoffError, match="has ended") as e:
            pickle.loads(message)
        assert e.value.reason == "sender"
        assert str(sender.pid) in str(e.value)


@pytest.mark.parametrize("connections", [0, 1])
def test_a_receiver_that_dies_leaves_nothing(connections: int) -> None:
    code = """
    import pickle, sys, threading, qnnrt
    b = qnnrt._core.receive(sys.stdin.buffer.read(int(sys.argv[1])))
    print("has it", flush=True)
    threading.Event().wait()
    """
    with gives_back():
        b = qnnrt.alloc(4096)
        message = message_of(pickle.dumps(b))
        if connections:
            message = by_broker(message)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(len(message))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(message)
        process.stdin.flush()
        assert process.stdout.readline() == b"has it\n"
        assert _core.ipc_counts()["connections"] == connections
        b.close()
        process.kill()
        process.communicate(timeout=60)


def test_who_dies_between_the_fd_and_its_thanks_has_received_it() -> None:
    b = qnnrt.alloc(4096)
    message = message_of(pickle.dumps(b))
    with gives_back():
        with tickets.connected(message) as s:
            s.send(tickets.request(message))
            assert tickets.code_of(s.recv(100)) == 0
            assert _core.ipc_counts()["in_flight"] == 1
        b.close()
        for _ in range(1000):
            if _core.ipc_counts()["in_flight"] == 0:
                break
            threading.Event().wait(0.01)
        assert _core.ipc_counts()["in_flight"] == 0
        b = qnnrt.alloc(4096)
        pickle.dumps(b)  # as there was before
    _core.ipc_forget_messages()


def test_a_child_serves_its_own_buffers_and_not_its_parents() -> None:
    code = """
    import os, pickle, sys, qnnrt
    from qnnrt import _core
    b = qnnrt.alloc(64)
    lease = b.lease()
    print(pickle.dumps(lease).hex(), flush=True)
    if os.fork() == 0:
        assert _core.ipc_counts() == dict.fromkeys(_core.ipc_counts(), 0), _core.ipc_counts()
        for use in (lambda: pickle.dumps(b), b.lease, lambda: pickle.dumps(lease), lease.close):
            try:
                use()
            except qnnrt.Error as e:
                assert "parent" in str(e), e
            else:
                raise AssertionError
        own = qnnrt.alloc(64)
        memoryview(own)[:3] = b"own"
        del lease
        print(pickle.dumps(own).hex(), flush=True)
        print(os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    sys.stdin.read()
    """
    with another(code) as sender:
        parents, childs = bytes.fromhex(said(sender)), bytes.fromhex(said(sender))
        pid = int(said(sender))
        with pickle.loads(parents), pickle.loads(childs) as b:
            assert bytes(memoryview(b)[:3]) == b"own"
        sender.kill()
        sender.wait(60)
        with pytest.raises(qnnrt.HandoffError, match="has ended"):
            pickle.loads(parents)
        with pickle.loads(childs) as b:
            assert bytes(memoryview(b)[:3]) == b"own"
        os.kill(pid, signal.SIGKILL)


def test_a_child_receives_for_itself() -> None:
    with another(SENDER) as sender:
        message = bytes.fromhex(said(sender))
        b = pickle.loads(message)

        def child() -> None:
            assert _core.ipc_counts()["fds"] == 0
            with pickle.loads(message) as own:
                assert own.address != b.address
                assert own.array(4, np.uint8)[0] == 7
            del own

        in_child(child)
        b.close()


# ---- misuse: one clear error each, nothing held, and the next right call works


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
    with tickets.connected(message) as s:  # who does not look whom he asks
        try:
            s.send(tickets.request(message))
        except OSError:
            pass
        try:
            reply = s.recv(100)
        except ConnectionResetError:
            reply = s.recv(100)
        print(tickets.code_of(reply), s.recv(100))
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
def test_a_receiver_without_a_free_fd(sent: bytes) -> None:
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
    assert lines[::2] == ["files", "files", "received", "received"]
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
            t.join(120)
        assert wrong == []
