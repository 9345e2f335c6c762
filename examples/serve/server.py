"""One model as a service of this machine, for processes of the same user.

    python server.py MODEL FOLDER

FOLDER (made, mode 0700: who may enter it may use the service; one that is there has to be like
that) has two Unix sockets. `http` speaks HTTP, through uvicorn:

    GET  /model?batch=4    where each input and output lies in a client's memory
    POST /run/TOKEN        infer in place, in the memory that TOKEN stands for
    POST /run?batch=4      infer on the bytes of all inputs; answers those of all outputs
    GET  /healthz          runs and bytes copied until now

A size that the model leaves open goes by its name; each shape has a graph of its own, over the same
weights, which is made when it is first asked for. `memory` takes memory: a client connects, sends
the same sizes (batch=4) with a Buffer's fd, gets a token, and stays connected as long as the token
is to hold. The model reads its inputs and writes its outputs there: nothing is copied.

Limits: MOST_ELEMENTS in all inputs of a shape; MOST_SHAPES graphs beside those of clients that are
connected.
"""

import asyncio
import contextlib
import json
import math
import os
import secrets
import socket
import stat
import sys
import weakref
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import qnnrt

ALIGNMENT = 64
MOST_ELEMENTS = 1 << 26
MOST_SHAPES = 8


class Shape:
    """The graph of a shape, and where its tensors lie in a client's memory."""

    def __init__(self, session: qnnrt.Session) -> None:
        self.session = session
        self.tensors = {**session.inputs, **session.outputs}
        self.own = {name: t.buffer for name, t in self.tensors.items()}
        self.layout: dict[str, dict[str, Any]] = {}
        self.nbytes = 0
        for name, t in self.tensors.items():
            self.layout[name] = {
                "kind": "input" if name in session.inputs else "output",
                "offset": self.nbytes,
                "shape": t.shape,
                "dtype": t.dtype.str,
            }
            self.nbytes += -(-t.nbytes // ALIGNMENT) * ALIGNMENT
        self.input_nbytes = sum(t.nbytes for t in session.inputs.values())

    def register(self, fd: int) -> dict[str, qnnrt.qnn.MemHandle]:
        """A client's memory. from_fd looks at its kind and size, and duplicates the fd."""
        buffer = qnnrt.Buffer.from_fd(fd, self.nbytes)
        register = self.session.context.get_or_register
        return {
            name: register(buffer, t.shape, t.dtype, offset=t_at["offset"], kind="shared_buffer")
            for (name, t), t_at in zip(self.tensors.items(), self.layout.values(), strict=True)
        }

    def bind(self, memory: Mapping[str, Any]) -> None:
        for name, t in self.tensors.items():
            t.bind(memory[name])

    def infer(self, body: bytes | bytearray) -> bytes:
        self.bind(self.own)
        at = 0
        for t in self.session.inputs.values():
            values = np.frombuffer(body, t.dtype, t.array.size, at)
            t.array[...] = values.reshape(t.shape)
            at += t.nbytes
        self.session.run()
        return b"".join(t.array.tobytes() for t in self.session.outputs.values())


class Service:
    """A session of all shapes, and the memory of clients that are connected."""

    def __init__(self, model: str) -> None:
        if model.endswith(".bin"):  # of one shape
            self.model, self.session = None, qnnrt.Session(model)
        else:
            self.model = qnnrt.load(model, shapes="any")
            # Which others stay is said below.
            self.session = qnnrt.Session(self.model, options={"max_shapes": 1})
        self.shapes: weakref.WeakValueDictionary[Any, Shape] = weakref.WeakValueDictionary()
        self.recent: deque[Shape] = deque(maxlen=MOST_SHAPES)
        self.clients: dict[str, tuple[Shape, dict[str, qnnrt.qnn.MemHandle]]] = {}
        self.runs = self.copied = 0
        self.turn = asyncio.Lock()

    def _shape(self, sizes: dict[str, int]) -> Shape:
        key = None
        if self.model is not None:
            key = self.model.find(sizes)
            if sum(map(math.prod, key)) > MOST_ELEMENTS:
                raise ValueError(f"inputs of {key} have more than {MOST_ELEMENTS} elements")
        elif sizes:
            raise ValueError(f"the model has one shape: no {', '.join(sizes)}")
        shape = self.shapes.get(key)
        if shape is None:
            one = self.session if key is None else self.session.at(sizes)
            shape = self.shapes[key] = Shape(one)
        if shape in self.recent:
            self.recent.remove(shape)
        self.recent.append(shape)
        return shape

    async def shape(self, query: str) -> Shape:
        """The shape of the sizes in "batch=4&seq=16". Raises ValueError: there is none."""
        sizes = {name: int(size) for name, size in parse_qsl(query)}
        async with self.turn:
            return await asyncio.to_thread(self._shape, sizes)

    async def add(self, query: str, fd: int) -> str:
        shape = await self.shape(query)
        token = secrets.token_hex(16)
        self.clients[token] = shape, shape.register(fd)
        return token

    async def run(self, shape: Shape, memory: dict[str, Any]) -> None:
        async with self.turn:
            shape.bind(memory)
            await asyncio.to_thread(shape.session.run)
            self._count(shape)

    async def run_bytes(self, shape: Shape, body: bytes | bytearray) -> bytes:
        if len(body) != shape.input_nbytes:
            raise ValueError(f"expected {shape.input_nbytes} bytes, not {len(body)}")
        async with self.turn:
            answer = await asyncio.to_thread(shape.infer, body)
            self._count(shape)
        self.copied += len(body) + len(answer)
        return answer

    def _count(self, shape: Shape) -> None:
        self.runs += 1
        self.copied += shape.session.stats.copied_bytes
        shape.session.reset_stats()

    async def serve_memory(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # no fd is free, until a client hangs up
                await asyncio.sleep(0.1)
                continue
            tasks.add(task := loop.create_task(self.serve_client(client)))
            task.add_done_callback(tasks.discard)

    async def serve_client(self, client: socket.socket) -> None:
        """A client from its fd until it hangs up."""
        token, fds = "", []
        with client:
            try:
                ready = asyncio.Event()
                loop = asyncio.get_running_loop()
                loop.add_reader(client, ready.set)
                await ready.wait()
                loop.remove_reader(client)
                sizes, fds, _, _ = socket.recv_fds(client, 1024, 1)
                try:
                    token = await self.add(sizes.decode(), fds[0]) if fds else ""
                    answer = {"token": token} if fds else {"error": "no fd came with the message"}
                except (ValueError, OSError, qnnrt.Error) as error:
                    answer = {"error": str(error)}
                await loop.sock_sendall(client, json.dumps(answer).encode() + b"\n")
                await loop.sock_recv(client, 1)  # until it hangs up
            except OSError:
                pass
            finally:
                for fd in fds:
                    os.close(fd)
                async with self.turn:
                    if token in self.clients:
                        shape, _ = self.clients.pop(token)
                        shape.bind(shape.own)


def application(service: Service, listener: socket.socket) -> Starlette:
    async def model(request: Request) -> Response:
        try:
            shape = await service.shape(request.url.query)
        except ValueError as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse({"nbytes": shape.nbytes, "tensors": shape.layout})

    async def in_place(request: Request) -> Response:
        found = service.clients.get(request.path_params["token"])
        if found is None:
            return PlainTextResponse("no such token; its client may have hung up", 404)
        await service.run(*found)
        return Response(status_code=204)

    async def on_bytes(request: Request) -> Response:
        body = bytearray()
        try:
            shape = await service.shape(request.url.query)
            async for chunk in request.stream():
                body += chunk
                if len(body) > shape.input_nbytes:
                    raise ValueError(f"expected {shape.input_nbytes} bytes, not more")
            return Response(await service.run_bytes(shape, body))
        except ValueError as error:
            return PlainTextResponse(str(error), 400)

    async def health(request: Request) -> Response:
        return JSONResponse({"runs": service.runs, "copied_bytes": service.copied})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(service.serve_memory(listener))
        yield
        task.cancel()

    routes = [
        Route("/model", model),
        Route("/run/{token}", in_place, methods=["POST"]),
        Route("/run", on_bytes, methods=["POST"]),
        Route("/healthz", health),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def listening(path: Path) -> socket.socket:
    """A socket, whose name is there once it takes connections."""
    made = socket.socket(socket.AF_UNIX)
    unready = path.with_name(f"{path.name}~")
    unready.unlink(missing_ok=True)
    made.bind(str(unready))
    made.listen()
    unready.rename(path)
    return made


def main() -> None:
    model, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        sys.exit(f"{folder} is not yours alone: its mode has to be 0700")
    for name in ("memory", "http"):
        (folder / name).unlink(missing_ok=True)
    with listening(folder / "memory") as listener:
        listener.setblocking(False)
        app = application(Service(model), listener)
        with listening(folder / "http") as http:
            uvicorn.run(app, fd=http.fileno(), log_level="warning")


if __name__ == "__main__":
    main()
