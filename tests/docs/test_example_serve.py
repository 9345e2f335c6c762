"""The example of a service: a load test of its own, and what a client can do wrong."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.waiting import until

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")

pytestmark = pytest.mark.foreign
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "serve"


def test_the_load_test_ends_and_copies_nothing_in_place() -> None:
    command = [sys.executable, FOLDER / "load.py", "--requests", "5", "--clients", "3"]
    # Scripts of one folder import each other, which the tests' environment forbids.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    environment["TMPDIR"] = "/tmp"  # where it puts sockets, whose paths have 107 bytes at most
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    in_place, as_bytes = done.stdout.splitlines()
    assert re.match(r"in place: 15 requests.* 0 bytes copied", in_place)
    nbytes = (3 * 720 * 1280 + 3 * 9 * 16) * 4
    assert f"as bytes: 15 requests, {nbytes} bytes" == re.sub(
        r", \d+ a second.*ms, (\d+) bytes.*", r", \1 bytes", as_bytes
    )


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import client
    import load

    load.save_model(tmp_path / "tiles.onnx")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's path has 107 bytes at most
        folder = Path(short) / "s"
        command = [sys.executable, FOLDER / "server.py", tmp_path / "tiles.onnx", folder]
        with subprocess.Popen(list(map(str, command))) as server:
            try:
                while not (folder / "http").exists():
                    assert server.poll() is None
                    time.sleep(0.05)
                http = client.Http(folder / "http")
                http.ask("GET", "/healthz")  # by now it has all that it opens
                http.close()
                yield folder
            finally:
                server.terminate()
    for name in ("load", "client"):
        sys.modules.pop(name)


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(mode)
    command = [sys.executable, FOLDER / "server.py", tmp_path / "no.onnx", tmp_path / "s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "not yours alone" in done.stderr


def asked(folder: Path, fds: list[int]) -> str:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(folder / "memory"))
        socket.send_fds(s, [b"m"], fds)
        return s.recv(4096).decode()


def test_wrong_memory_and_tokens_are_refused_and_the_service_goes_on(service: Path) -> None:
    import client

    assert os.stat(service).st_mode & 0o077 == 0
    assert "no fd came" in asked(service, [])
    small = os.memfd_create("small")
    os.ftruncate(small, 4096)
    assert "error" in asked(service, [small])
    os.close(small)
    http = client.Http(service / "http")
    with pytest.raises(RuntimeError, match="404 no such token"):
        http.ask("POST", "/run/0000")
    with pytest.raises(RuntimeError, match="400 expected 11059200 bytes"):
        http.ask("POST", "/run?batch=1", b"short")
    with pytest.raises(RuntimeError, match="400 expected 11059200 bytes, not more"):
        http.ask("POST", "/run?batch=1", bytes(11059201))
    for sizes, why in (
        ("", "does not say which shape"),
        ("rows=1", "neither the size of an open dimension"),
        ("batch=many", "invalid literal"),
        ("batch=1000", "more than 67108864 elements"),
    ):
        with pytest.raises(RuntimeError, match=f"400 .*{why}"):
            http.ask("GET", f"/model?{sizes}")
    http.close()
    one = client.Client(service, batch=1)
    one.inputs["frame"][...] = 2
    one.run()
    np.testing.assert_array_equal(one.outputs["tiles"], np.full((1, 3, 9, 16), 2, np.float32))
    token = one.token
    one.memory.shutdown(socket.SHUT_RDWR)

    with pytest.raises(RuntimeError, match="404"):  # its memory goes with it
        until(lambda: one.http.ask("POST", f"/run/{token}") is None)
    one.close()


def test_a_service_out_of_fds_takes_memory_again_when_some_are_free(service: Path) -> None:
    import client

    with contextlib.ExitStack() as waiting:
        sockets = [waiting.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        sockets[0].connect(str(service / "memory"))
        credentials = sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = struct.unpack("3i", credentials)[0]
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        for one in sockets[1:]:
            one.connect(str(service / "memory"))
        time.sleep(0.5)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    one = client.Client(service, batch=1)
    one.run()
    one.close()


def test_a_connection_that_the_server_closed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does where a client idles."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import client

    requests = []

    def serve() -> None:
        for kept in (2, 1, 0):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                for _ in range(kept):
                    requests.append(lines.readline().split()[1].decode())
                    while lines.readline() != b"\r\n":
                        pass
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with (
        tempfile.TemporaryDirectory(dir="/tmp") as short,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(f"{short}/http")
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        http = client.Http(Path(short) / "http")
        for path in ("/0", "/1", "/2"):
            assert http.ask("GET", path) == b"ok"
        http.close()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # a first one is not repeated
            http.ask("GET", "/3")
        thread.join()
    assert requests == ["/0", "/1", "/2"]
    sys.modules.pop("client")


def test_clients_of_several_shapes_are_served_at_once(service: Path) -> None:
    import client

    clients = [client.Client(service, batch=n) for n in (1, 3, 3, 2)]
    for turn in range(2):
        for i, one in enumerate(clients):
            one.inputs["frame"][...] = 10 * turn + i
        for one in clients:
            one.run()
        for i, one in enumerate(clients):
            assert (one.outputs["tiles"] == 10 * turn + i).all()
    assert clients[0].health()["copied_bytes"] == 0
    for i, one in enumerate(clients):
        one.inputs["frame"][...] = 20 + i
        one.run_bytes()
        assert (one.outputs["tiles"] == 20 + i).all()
    assert clients[0].health()["runs"] == 12
    for one in clients:
        one.close()
