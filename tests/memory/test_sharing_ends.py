"""Processes that die or fork while Buffers are handed over: what was received stays."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from support import tickets
from support.outside import PATHS, in_child
from support.senders import SENDER, another, by_broker, gives_back, message_of, said
from support.waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork"), pytest.mark.other_fds]


def test_a_sender_that_dies_leaves_what_was_received() -> None:
    with another(SENDER) as sender:
        message = bytes.fromhex(said(sender))
        b = pickle.loads(message)
        sender.kill()
        sender.wait(300)
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
        process.communicate(timeout=300)


def test_who_dies_between_the_fd_and_its_thanks_has_received_it() -> None:
    b = qnnrt.alloc(4096)
    message = message_of(pickle.dumps(b))
    with gives_back():
        with tickets.connected(message) as s:
            s.send(tickets.request(message))
            assert tickets.code_of(s.recv(100)) == 0
            assert _core.ipc_counts()["in_flight"] == 1
        b.close()
        assert until(lambda: _core.ipc_counts()["in_flight"] == 0)
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
        sender.wait(300)
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
