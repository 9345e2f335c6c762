"""The compiler of libQnnGpu.so: a process that is given a graph and answers with its executable.

``python -m qnnrt.gpu.compiler`` talks to the socket (``SOCK_SEQPACKET``) that is its standard
input: one packet with a memory's fd each way, as ``csrc/gpu/compiler.cc`` has them. What it prints
goes to the client's log, lines that begin with a level as such. It needs no OpenCL: the request
says what the device is like.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import socket
import struct
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ..abi import constants as abi
from ..dtypes import data_type
from ..errors import QnnError, UnsupportedOpError
from ..support import log
from .compile import launches_of
from .configs import Configs
from .device import Device, TooLarge
from .executable import Executable, make
from .ir import Value
from .lower import ir_of
from .passes import fixed_point
from .target import Target

__all__ = ["main"]

_MAGIC: Final = 0x51474331
_VERSION: Final = 1
#: magic, version, what is asked, 0, the text's offset and size, size
_REQUEST: Final = struct.Struct("<IIIIQQQ")
_ANSWER: Final = struct.Struct("<IIQQQ")  # magic, code, the executable's size, constants, size
_SEALS: Final = 1 | 2 | 4 | 8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE
_ADD_SEALS: Final = 1033  # F_ADD_SEALS
_PAGE: Final = 4096
_SUCCESS: Final = 0


def main() -> int:
    """Answer the requests of the socket that is the standard input, until it is closed: 0 then."""
    _log_to_client()
    with socket.socket(fileno=os.dup(0)) as client:
        while True:
            packet, fds, _, _ = socket.recv_fds(client, _REQUEST.size, 1)
            if not packet:
                return 0
            if len(packet) != _REQUEST.size or len(fds) != 1:
                print("error: this is no request of libQnnGpu.so", flush=True)
                return 2
            magic, version, asked, _, offset, nbytes, size = _REQUEST.unpack(packet)
            if (magic, version) != (_MAGIC, _VERSION):
                print(f"error: version {version} of the protocol, not {_VERSION}", flush=True)
                return 2
            memory = np.frombuffer(mmap.mmap(fds[0], size, prot=mmap.PROT_READ), np.uint8)
            os.close(fds[0])
            request = json.loads(memory[offset : offset + nbytes].tobytes())
            answer, fd = _memory(*_ASKED[asked](request, memory[:offset]))
            sys.stdout.flush()
            try:
                socket.send_fds(client, [answer], [fd])
            except BrokenPipeError:  # nobody waits any more
                return 0
            os.close(fd)


def _log_to_client() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Lines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = {"CRITICAL": "error"}.get(record.levelname, record.levelname.lower())
        return "\n".join(f"{level}: {line}" for line in record.getMessage().splitlines())


def _compiled(request: dict[str, Any], memory: np.ndarray) -> tuple[int, Executable | str]:
    """A code and what it comes with: the executable, or the reason why there is none."""
    device = _device(request["device"])
    configs = Configs.read(request["configs"])
    target = replace(configs.target(device), tuning=False, kernels_alone=True)
    if configs.target(device).tuning:
        log.warning("kernels are not measured by libQnnGpu.so: ENABLE_TUNING_MODE has no effect")
    places = {address: (offset, nbytes) for address, offset, nbytes in request["constants"]}

    def view(address: int, nbytes: int) -> np.ndarray:
        offset, there = places[address]
        return memory[offset : offset + min(nbytes, there)]

    try:
        return _SUCCESS, make(ir_of(request["name"], request["graph"], view), target, memory)
    except TooLarge as e:
        return abi.QNN_COMMON_ERROR_MEM_ALLOC, str(e)
    except UnsupportedOpError as e:
        return abi.QNN_GRAPH_ERROR_FINALIZE_FAILED, str(e)
    except QnnError as e:
        return abi.QNN_GRAPH_ERROR_FINALIZE_FAILED, str(e)


class _Asked(Target):
    """For a node whose constants have no values yet: none are made of them."""

    def constant(self, array: np.ndarray, name: str = "") -> Value:
        data = np.broadcast_to(np.zeros((), array.dtype), array.shape)
        return Value(name, 0, array.shape, array.dtype, data_type(array.dtype), "static", data)

    def decoded(self, value: Value) -> Value:
        return self.constant(np.broadcast_to(np.float32(0), value.shape), value.name)


def _checked(request: dict[str, Any], memory: np.ndarray) -> tuple[int, str]:
    """Whether there is a kernel for the request's only node."""
    target = _Asked(_device(request["device"]), kernels_alone=True)

    def view(address: int, nbytes: int) -> np.ndarray:
        return np.zeros(nbytes, np.uint8)  # which the system has only once it is read

    try:
        ir = ir_of("", request["graph"], view)
        fixed_point.apply(ir, target)
        launches_of(ir, target)
    except UnsupportedOpError as e:
        return abi.QNN_GRAPH_ERROR_FINALIZE_FAILED, str(e)
    except Exception as e:  # of values that are not there: they are, when the graph is compiled
        log.debug("node cannot be judged: %r", e)
    return _SUCCESS, ""


_ASKED: Final = (_compiled, _checked)


def _device(facts: dict[str, Any]) -> Device:
    """A device out of what the client's driver says, in pyopencl's names."""
    platform = SimpleNamespace(**facts.pop("platform"))
    return Device.of(SimpleNamespace(platform=platform, **facts))


def _memory(code: int, made: Executable | str) -> tuple[bytes, int]:
    """The answer's packet, and a sealed memory with what it says."""
    fd = os.memfd_create("qnnrt-gpu-answer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if isinstance(made, str):
        text = made.encode() or b"?"
        size = _write(fd, 0, text)
        packet = _ANSWER.pack(_MAGIC, code, 0, 0, size)
    else:
        end = _write(fd, 0, made.data)
        start = -(-end // _PAGE) * _PAGE
        size = start + made.nbytes
        os.truncate(fd, size)
        for offset, data in made.constants:
            _write(fd, start + offset, data.reshape(-1).view(np.uint8).data)
        packet = _ANSWER.pack(_MAGIC, code, end, start, size)
    fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
    return packet, fd


def _write(fd: int, at: int, data: bytes | memoryview) -> int:
    """All of it; where it ends."""
    left = memoryview(data)
    while left:
        n = os.pwrite(fd, left, at)
        left, at = left[n:], at + n
    return at


if __name__ == "__main__":
    sys.exit(main())
