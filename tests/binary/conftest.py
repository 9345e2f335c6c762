"""A context binary, and a backend to load it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qnnrt import qnn
from support.binaries import save
from support.toy import conv_model


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return save(conv_model(), tmp_path / "conv.bin")


@pytest.fixture
def backend() -> Iterator[qnn.Backend]:
    with qnn.Backend.open("htp") as b:
        yield b
