"""A plugin of pytest: which mutants each test reaches, and how long it takes."""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Iterator
from typing import IO, Any

import pytest


class Reached:
    """Writes a line of JSON for each test: its id, its time, what it reached."""

    def __init__(self, map_file: str, result: IO[str]) -> None:
        with open(map_file, "r+b") as file:
            self._seen = mmap.mmap(file.fileno(), 0)
        self._result = result
        self._imported: set[int] = set()

    def _take(self) -> set[int]:
        found = {i for i, byte in enumerate(self._seen[:]) if byte == 1}
        for i in found:
            self._seen[i] = 0
        return found

    @pytest.hookimpl
    def pytest_collection_finish(self) -> None:
        self._imported = self._take()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        start = time.process_time()
        yield
        seconds = time.process_time() - start
        found = sorted(self._take() | self._imported)
        self._result.write(json.dumps([item.nodeid, seconds, found]) + "\n")
        self._result.flush()


def pytest_configure(config: Any) -> None:
    result, reached = (
        os.environ.get(f"QNNRT_MUTANTS_{name}", "") for name in ("RESULT", "REACHED")
    )
    if result and reached:
        config.pluginmanager.register(Reached(reached, open(result, "a")))  # noqa: SIM115
