"""The delegate of the shared-memory workflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qnnrt.tflite import QnnDelegate


@pytest.fixture
def delegate() -> Iterator[QnnDelegate]:
    with QnnDelegate(backend_type="htp") as made:
        yield made
