"""Buffers handed to another process and back, over a socket: python -m support.hand_over PATH"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import qnnrt
from support.outside import PATHS

NBYTES = 4096


def connected(path: Path) -> socket.socket:
    """To the peer. A message that is sent arrives as one, or not at all."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(300)
    made.connect(str(path))
    return made


class Peer:
    """The other process. It ends with this one."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="qnnrt-peer-")) / "s"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.hand_over", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        self._process.communicate(timeout=300)
        assert self._process.returncode == 0

    def echo(self, buffer: qnnrt.Buffer) -> qnnrt.Buffer:
        """The buffer there, and back as a third one on the same memory."""
        with connected(self.path) as s:
            s.send(pickle.dumps(buffer))
            back: qnnrt.Buffer = pickle.loads(s.recv(NBYTES))
            s.send(b"had")
            return back

    def give(self, buffer: qnnrt.Buffer) -> None:
        """The buffer's fd there, as a program without pickle would send it."""
        with connected(self.path) as s:
            socket.send_fds(s, [b"fd"], [buffer.fd])
            assert s.recv(NBYTES) == b"mapped"


def _answer(s: socket.socket) -> None:
    message, fds, _, _ = socket.recv_fds(s, NBYTES, 1)
    if fds:
        try:
            buffer = qnnrt.Buffer.from_fd(fds[0], NBYTES)
        finally:
            os.close(fds[0])
        _count(buffer)
        s.send(b"mapped")
    elif message:
        buffer = pickle.loads(message)
        _count(buffer)
        s.send(pickle.dumps(buffer))
        s.recv(NBYTES)  # until the other one has it, or is gone


def _count(buffer: qnnrt.Buffer) -> None:
    data = memoryview(buffer)
    data[0] = (data[0] + 1) % 256


def _serve(path: str) -> None:
    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            s, _ = server.accept()
            with s, suppress(OSError, qnnrt.Error):  # the other one was interrupted
                _answer(s)


if __name__ == "__main__":
    _serve(sys.argv[1])
