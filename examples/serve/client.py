"""A client of server.py: HTTP over its Unix socket, and memory that the model works in."""

import http.client
import json
import socket
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

import qnnrt


class Http(http.client.HTTPConnection):
    """HTTP over a Unix socket; an answer that takes a minute is an error.

    A server closes a connection that idles (uvicorn after 5 s): what is asked next has a new one.
    """

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        idled = self.sock is not None
        try:
            answer = self._answer(method, path, body)
        except (BrokenPipeError, ConnectionResetError):  # RemoteDisconnected is one
            self.close()
            if not idled:
                raise
            # To infer twice on the same inputs is no error.
            answer = self._answer(method, path, body)
        data = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {data.decode()}")
        return data

    def _answer(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        self.request(method, path, body)
        return self.getresponse()


class Client:
    """The service in one process, for one shape: sizes that the model leaves open, by name.

    Attributes:
        inputs, outputs: name -> array in memory that is shared with the service.
    """

    def __init__(self, folder: Path, **sizes: int) -> None:
        self.http = Http(folder / "http")
        self.sizes = urlencode(sizes)
        model = json.loads(self.http.ask("GET", f"/model?{self.sizes}"))
        self.buffer = qnnrt.alloc(model["nbytes"])
        self.inputs: dict[str, np.ndarray] = {}
        self.outputs: dict[str, np.ndarray] = {}
        for name, t in model["tensors"].items():
            array = self.buffer.array(tuple(t["shape"]), t["dtype"], t["offset"])
            (self.inputs if t["kind"] == "input" else self.outputs)[name] = array
        self.memory = socket.socket(socket.AF_UNIX)
        self.memory.settimeout(60)
        self.memory.connect(str(folder / "memory"))
        socket.send_fds(self.memory, [self.sizes.encode() or b"&"], [self.buffer.fd])
        answer = json.loads(self.memory.makefile().readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.token = answer["token"]

    def run(self) -> None:
        """Infer on what is in the inputs; nothing of them is sent."""
        self.http.ask("POST", f"/run/{self.token}")

    def run_bytes(self) -> None:
        """The same with the bytes in the request and in the answer."""
        body = b"".join(array.tobytes() for array in self.inputs.values())
        answer, at = self.http.ask("POST", f"/run?{self.sizes}", body), 0
        for array in self.outputs.values():
            values = np.frombuffer(answer, array.dtype, array.size, at)
            array[...] = values.reshape(array.shape)
            at += array.nbytes

    def health(self) -> dict[str, int]:
        return json.loads(self.http.ask("GET", "/healthz"))

    def close(self) -> None:
        self.http.close()
        self.memory.close()
