"""Messages about buffers, taken apart and forged: see qnnrt_ticket_t in csrc/ipc/ipc_api.h."""

from __future__ import annotations

import socket
import struct
from typing import Any

from support.binaries import crc32c

_LAYOUT = "=II16s16sQQQQQQQIIIIII"
_NAMES = (
    *("magic", "version", "sender", "token", "lease", "message", "device", "inode"),
    *("fd_size", "fd_offset", "nbytes", "pid", "flags", "kind", "table", "reserved", "checksum"),
)
READ_ONLY, CAN_SHRINK = 1, 2


def fields(message: bytes) -> dict[str, Any]:
    return dict(zip(_NAMES, struct.unpack(_LAYOUT, message), strict=True))


def forged(message: bytes, **changes: Any) -> bytes:
    """The message with other fields, and the checksum that belongs to them."""
    body = struct.pack(_LAYOUT, *(fields(message) | changes).values())[:-4]
    return body + struct.pack("=I", crc32c(body))


def connected(message: bytes) -> socket.socket:
    """To the process that has sent the message."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(300)
    made.connect(b"\0qnnrt-" + fields(message)["sender"].hex().encode())
    return made


def request(message: bytes, ask: int = 1) -> bytes:
    """What a receiver asks the sender: 1 for the fd, 2 says that it has it."""
    t = fields(message)
    head = struct.pack("=IIIIQQ", t["magic"], t["version"], ask, 0, t["lease"], t["message"])
    return head + t["token"]


def code_of(reply: bytes) -> int:
    return int(struct.unpack("=IIQ", reply)[1])
