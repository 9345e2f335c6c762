"""Answers of a process that may not live to give the last one."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO


def answer(out: BinaryIO, value: Any) -> None:
    """One more."""
    pickle.dump(value, out)
    out.flush()


def answers(data: bytes) -> Iterator[Any]:
    """All that are whole."""
    stream = io.BytesIO(data)
    try:
        while True:
            yield pickle.load(stream)
    except (EOFError, pickle.UnpicklingError):
        return
