"""One Ray for all tests of a worker of pytest that need no nodes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    from support.ray_actors import started

    with started(num_cpus=2):
        yield
