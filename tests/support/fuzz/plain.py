"""Damage done to a file without a look at what is in it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

WILD = (0, 1, 2, 3, 4, 8, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 30)


def mutants(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """`data` cut short, with wild offsets, with changed bytes and 16-bit fields."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.random()
        if kind < 0.15:
            yield data[: chance.randrange(len(data))]
            continue
        made = bytearray(data)
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(4, len(data) - 4)
            if kind < 0.5:
                word = chance.choice(WILD) if chance.random() < 0.7 else chance.randrange(len(data))
                struct.pack_into("<I", made, at & ~3, word)
            elif kind < 0.75:
                struct.pack_into("<H", made, at & ~1, chance.randrange(64))
            else:
                made[at] = chance.randrange(256)
        yield bytes(made)
