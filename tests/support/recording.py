"""The backend that writes down every call: tests/backends/fake_backend.cc."""

from __future__ import annotations

import ctypes
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "backends/fake_backend.cc"


class Fake:
    """One copy of the library: its own knobs and journal."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        self.library.fake_journal.restype = ctypes.c_char_p
        self.library.fake_execute_error.argtypes = [ctypes.c_uint64]

    def journal(self) -> list[str]:
        text = self.library.fake_journal().decode().splitlines()
        self.library.fake_forget()
        return text


def verbs(journal: list[str]) -> list[str]:
    return [line.split()[0] for line in journal]
