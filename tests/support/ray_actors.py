"""Actors that give Buffers to each other, and a Ray of their own for a module of tests."""

from __future__ import annotations

import gc
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import ray

import qnnrt
import qnnrt.ray as qr
from qnnrt import _core
from support.outside import PATHS

qr.register()

STORE = 96 << 20  # bytes of Ray's object store
TOKEN = secrets.token_hex(32)  # Ray reads it once in a process
#: Seconds after which a process that starts would be given up, and be started again.
PATIENT = (
    "RAY_worker_register_timeout_seconds",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S",
)
#: Fields that are not in the order of their memory.
REVERSED = np.dtype({"names": ["x", "y"], "formats": ["f4", "i4"], "offsets": [4, 0]})


@contextmanager
def environment() -> Iterator[None]:
    """What Ray's processes need: this qnnrt, no report of use, a token that is in no file, their
    share of a busy machine and minutes there, and a folder without a package that may not be built:
    workers look there before anywhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[1])
        patch.setenv("PYTHONPATH", PATHS)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        patch.setenv("RAY_worker_niceness", "0")  # 15 otherwise: on a busy machine they get nothing
        for name in PATIENT:
            patch.setenv(name, "600")
        yield


@contextmanager
def started(**options: Any) -> Iterator[None]:
    """A Ray on this machine, without a dashboard."""
    with environment():
        options.setdefault("address", "local")  # not a cluster that some other process has here
        ray.init(include_dashboard=False, log_to_driver=False, object_store_memory=STORE, **options)
    try:
        yield
    finally:
        ray.shutdown()


def holdings() -> dict[str, int]:
    """What this process has of the operating system on Buffers, and for others."""
    gc.collect()
    _core.ipc_forget_messages()
    _core.pool_trim(0)
    fds = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "memfds": sum("memfd:" in path for path in fds),
        "maps": sum("memfd:" in line and "-s " in line for line in maps),
        **{name: _core.ipc_counts()[name] for name in ("leases", "in_flight", "connections")},
        "buffers": _core.live_counts()["buffers"],
    }


def until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether it came true in time: what Ray does after the last reference is gone takes some."""
    end = monotonic() + seconds
    while not (true := condition()) and monotonic() < end:
        gc.collect()  # tracebacks of errors hold references
        sleep(0.05)
    return true


class _Actor:
    def pid(self) -> int:
        return os.getpid()

    def holdings(self) -> dict[str, int]:
        return holdings()

    def transfers(self) -> qr.Transfers:
        counted = qr.transfers()
        qr.reset_transfers()
        return counted


class Producer(_Actor):
    def __init__(self) -> None:
        qr.register()  # for one that Ray has started again
        self.kept: Any = None

    @ray.method(tensor_transport=qr.TRANSPORT)
    def make(self, nbytes: int, value: int) -> qnnrt.Buffer:
        self.kept = qnnrt.alloc(nbytes)
        self.kept.array((nbytes,), np.uint8)[:] = value
        return self.kept

    @ray.method(tensor_transport=qr.TRANSPORT)
    def views(self, kind: str) -> Any:
        frames = qnnrt.alloc_array((4, 32, 48), np.float32)
        frames[:] = np.arange(frames.size).reshape(frames.shape)
        if kind == "torch":
            import torch

            return qr.share(torch.from_numpy(frames[1]))
        if kind == "readonly":
            return [qr.share(frames[1], readonly=True)]
        if kind == "structured":
            return qr.share(frames[0, 0].view(REVERSED))
        if kind == "bfloat16":
            return qr.share(frames[0, 0].view(ml_dtypes.bfloat16))
        return {"odd": qr.share(frames[1, ::2, ::-3]), "all": qr.share(frames), "n": 4}

    def plain(self, nbytes: int, value: int) -> qnnrt.Buffer:
        self.kept = qnnrt.alloc(nbytes)
        self.kept.array((nbytes,), np.uint8)[:] = value
        return self.kept

    def inode(self) -> int:
        return os.fstat(self.kept.fd).st_ino

    def first(self) -> int:
        return int(self.kept.array((1,), np.uint8)[0])

    def freed(self, timeout: float) -> str:
        try:
            qr.wait_freed(self.kept, timeout)
        except TimeoutError as error:
            return str(error)
        return "freed"

    def forget(self) -> None:
        self.kept = None


class Consumer(_Actor):
    def __init__(self) -> None:
        self.kept: Any = None

    def sum(self, buffer: qnnrt.Buffer) -> int:
        return int(buffer.array((buffer.nbytes,), np.uint8).sum())

    def inode(self, buffer: qnnrt.Buffer) -> int:
        return os.fstat(buffer.fd).st_ino

    def write(self, buffer: qnnrt.Buffer, value: int) -> None:
        buffer.array((1,), np.uint8)[0] = value

    def keep(self, buffer: qnnrt.Buffer) -> None:
        self.kept = buffer

    def kept_sum(self) -> int:
        return self.sum(self.kept)

    def forget(self) -> None:
        self.kept = None

    @ray.method(tensor_transport=qr.TRANSPORT)
    def forward(self, buffer: qnnrt.Buffer) -> qnnrt.Buffer:
        return buffer

    def describe(self, views: Any) -> Any:
        """Shape, type, strides, values and whether it can be written, of each array."""

        def one(view: Any) -> Any:
            array = np.asarray(view)
            kind = type(view).__module__.partition(".")[0]
            values = array.tolist()
            return kind, array.shape, array.dtype, array.strides, values, array.flags.writeable

        if isinstance(views, dict):
            return {k: one(v) if k != "n" else v for k, v in views.items()}
        return one(views[0] if isinstance(views, list) else views)


class Plain(_Actor):
    """No method of which uses a transport."""

    def sum(self, buffer: qnnrt.Buffer) -> int:
        return int(buffer.array((buffer.nbytes,), np.uint8).sum())


class AsyncConsumer(_Actor):
    async def sum(self, buffer: qnnrt.Buffer) -> int:
        return int(buffer.array((buffer.nbytes,), np.uint8).sum())


class AsyncProducer:
    @ray.method(tensor_transport=qr.TRANSPORT)
    async def make(self) -> qnnrt.Buffer:
        return qnnrt.alloc(16)
