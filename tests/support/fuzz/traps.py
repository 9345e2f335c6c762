"""Cases that do on purpose what the runner has to notice; tests/fuzz/test_fuzz_files.py."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qnnrt

from .target import Target


def _grow() -> None:
    bytearray(3 << 30)


def _long() -> None:
    raise qnnrt.ModelError("x" * 100_000)


def _leak() -> None:
    _KEPT.extend(os.dup(0) for _ in range(8))


def _hang() -> None:
    while True:
        pass


def _key() -> None:
    {}["missing"]


def _wait() -> None:
    time.sleep(1000)


def _answer() -> None:
    raise qnnrt.ModelError("as it should be")


_KEPT: list[int] = []
#: A word in a case -> what happens.
TRAPS: dict[bytes, Callable[[], object]] = {
    b"abort": os.abort,
    b"exit": lambda: os._exit(3),
    b"hang": _hang,
    b"key": _key,
    b"leak": _leak,
    b"long": _long,
    b"memory": _grow,
    b"wait": _wait,
    b"fine": _answer,
}


class Traps(Target):
    name = "traps"
    suffix = ".txt"

    def build_bases(self) -> list[Any]:
        return sorted(TRAPS)

    def mutate(self, chance: random.Random) -> bytes:
        noise = bytes(chance.randrange(0x30, 0x3A) for _ in range(20))
        return noise + chance.choice(self.bases) + noise

    def run(self, data: bytes, folder: Path) -> str:
        for word, trap in TRAPS.items():
            if word in data:
                trap()
        return "ran"
