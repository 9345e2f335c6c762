"""Context binaries that tests write, and ones that were altered with a header that is sound."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

import qnnrt
from qnnrt.model import Model

_BACKEND, _HEADER_CHECKSUM = 56, 252  # where in the header, see docs/context-binary.md


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def made_for(data: bytes, backend_id: int) -> bytes:
    """The binary as if it had been made for the backend with this id."""
    altered = bytearray(data)
    struct.pack_into("<I", altered, _BACKEND, backend_id)
    struct.pack_into("<I", altered, _HEADER_CHECKSUM, crc32c(bytes(altered[:_HEADER_CHECKSUM])))
    return bytes(altered)


def save(model: Model, path: Path, backend: str = "htp", **given: object) -> Path:
    with qnnrt.Session(model, backend, **given) as s:
        s.save_binary(path)
    return path


def feeds(s: qnnrt.Session, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal(t.shape).astype(t.dtype) for n, t in s.inputs.items()}
