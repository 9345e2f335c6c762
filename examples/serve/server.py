"""One model as a service of this machine, for processes of the same user.

    python server.py MODEL FOLDER

FOLDER (made, mode 0700: who may enter it may use the service; one that is there has to be like
that) has two Unix sockets. `http` speaks HTTP, through uvicorn:

    GET  /model        where each input and output lies in a client's memory
    POST /run/TOKEN    infer in place, in the memory that TOKEN stands for
    POST /run          infer on the bytes of all inputs; answers those of all outputs
    GET  /healthz      runs and bytes copied until now

`memory` takes memory: a client connects, sends a Buffer's fd, gets a token, and stays connected as
long as the token is to hold. The model reads its inputs and writes its outputs there: nothing is
copied.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import qnnrt

ALIGNMENT = 64


class Service:
    """A session, and the memory of clients that are connected."""

    def __init__(self, model: str) -> None:
        self.session = qnnrt.Session(model)
        self.own = {**self.session.inputs, **self.session.outputs}
        self.buffers = {name: t.buffer for name, t in self.own.items()}
        self.layout: dict[str, dict[str, Any]] = {}
        self.nbytes = 0
        for name, t in self.own.items():
            self.layout[name] = {
                "kind": "input" if name in self.session.inputs else "output",
                "offset": self.nbytes,
                "shape": t.shape,
                "dtype": t.dtype.str,
            }
            self.nbytes += -(-t.nbytes // ALIGNMENT) * ALIGNMENT
        self.input_nbytes = sum(t.nbytes for t in self.session.inputs.values())
        self.clients: dict[str, dict[str, qnnrt.qnn.MemHandle]] = {}
        self.copied = 0
        self.turn = asyncio.Lock()

    def add(self, fd: int) -> str:
        """Register a client's memory. from_fd looks at its kind and size, and duplicates the fd."""
        buffer = qnnrt.Buffer.from_fd(fd, self.nbytes)
        register = self.session.context.get_or_register
        token = secrets.token_hex(16)
        self.clients[token] = {
            name: register(buffer, t.shape, t.dtype, offset=t_at["offset"], kind="shared_buffer")
            for (name, t), t_at in zip(self.own.items(), self.layout.values(), strict=True)
        }
        return token

    async def run(self, memory: dict[str, Any]) -> None:
        async with self.turn:
            for name, t in self.own.items():
                t.bind(memory[name])
            await asyncio.to_thread(self.session.run)

    async def run_bytes(self, body: bytes | bytearray) -> bytes:
        inputs, outputs = self.session.inputs.values(), self.session.outputs.values()
        if len(body) != self.input_nbytes:
            raise ValueError(f"expected {self.input_nbytes} bytes, not {len(body)}")
        async with self.turn:
            for name, t in self.own.items():
                t.bind(self.buffers[name])
            at = 0
            for t in inputs:
                values = np.frombuffer(body, t.dtype, t.array.size, at)
                t.array[...] = values.reshape(t.shape)
                at += t.nbytes
            await asyncio.to_thread(self.session.run)
            answer = b"".join(t.array.tobytes() for t in outputs)
        self.copied += len(body) + len(answer)
        return answer

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
                _, fds, _, _ = socket.recv_fds(client, 1, 1)
                try:
                    token = self.add(fds[0]) if fds else ""
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
                    for name, t in self.own.items():
                        t.bind(self.buffers[name])
                    self.clients.pop(token, None)


def application(service: Service, listener: socket.socket) -> Starlette:
    async def model(request: Request) -> Response:
        return JSONResponse({"nbytes": service.nbytes, "tensors": service.layout})

    async def in_place(request: Request) -> Response:
        memory = service.clients.get(request.path_params["token"])
        if memory is None:
            return PlainTextResponse("no such token; its client may have hung up", 404)
        await service.run(memory)
        return Response(status_code=204)

    async def on_bytes(request: Request) -> Response:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > service.input_nbytes:
                    raise ValueError(f"expected {service.input_nbytes} bytes, not more")
            return Response(await service.run_bytes(body))
        except ValueError as error:
            return PlainTextResponse(str(error), 400)

    async def health(request: Request) -> Response:
        stats = service.session.stats
        copied = service.copied + stats.copied_bytes
        return JSONResponse({"runs": stats.executes, "copied_bytes": copied})

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


def main() -> None:
    model, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        sys.exit(f"{folder} is not yours alone: its mode has to be 0700")
    for name in ("memory", "http"):
        (folder / name).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "memory"))
        listener.listen()
        listener.setblocking(False)
        app = application(Service(model), listener)
        uvicorn.run(app, uds=str(folder / "http"), log_level="warning")


if __name__ == "__main__":
    main()
