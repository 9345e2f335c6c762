"""A backend to configure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qnnrt import qnn


@pytest.fixture
def htp() -> Iterator[qnn.Backend]:
    with qnn.Backend.open("htp") as backend:
        yield backend
