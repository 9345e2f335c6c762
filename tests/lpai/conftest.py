"""The lpai backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qnnrt.qnn import Backend


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Backend.open("lpai") as opened:
        yield opened
