"""A compiler that answers libQnnGpu.so wrongly: ``python bad_compiler.py HOW``."""

from __future__ import annotations

import os
import random
import struct
import sys

from qnnrt.gpu import compiler
from qnnrt.gpu.executable import Executable

HOW, _, NUMBER = sys.argv[1].partition(":")
MAKE = compiler._memory


def changed(data: bytes) -> bytes:
    """An executable with some of its bytes changed, cut off or longer."""
    chance = random.Random(int(NUMBER))
    bytes_ = bytearray(data)
    for _ in range(chance.choice((1, 4))):
        # Not in the sources, which say no more than what kernels compute.
        at = chance.choice((chance.randrange(600), len(bytes_) - 1 - chance.randrange(600)))
        bytes_[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(bytes_[: chance.choice((len(bytes_), len(bytes_), at))])


def memory(code: int, made: Executable | str) -> tuple[bytes, int]:
    assert isinstance(made, Executable)
    if HOW == "changed":
        made.data = changed(made.data)
    if HOW == "version":
        made.data = made.data[:8] + struct.pack("<I", 99) + made.data[12:]
    packet, fd = MAKE(code, made)
    magic, code, end, start, size = compiler._ANSWER.unpack(packet)
    if HOW == "unsealed":
        fd = os.memfd_create("unsealed")
        os.truncate(fd, size)
    elif HOW == "size":
        size += 4096
    elif HOW == "parts":
        end = size + 1
    elif HOW == "magic":
        magic += 1
    return compiler._ANSWER.pack(magic, code, end, start, size), fd


compiler._memory = memory
sys.exit(compiler.main())
