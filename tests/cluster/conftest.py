"""One Ray for a module of tests: what it leaves in a process, a fork of that does not survive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    from support.ray_actors import started

    with started(num_cpus=2):
        yield
