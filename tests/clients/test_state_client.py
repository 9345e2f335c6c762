"""APP_READWRITE tensors, as a C program uses them through the installed libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder
from support.vendor import vendor_library

PACKAGE = Path(qnnrt.__file__).parent


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    include = f"-I{PACKAGE / 'include'}"
    source = Path(__file__).with_name("state_client.c")
    return builder.program(source, *WARNINGS, "-pedantic", include, "-ldl")


def run(client: Path, *libraries: str) -> str:
    done = subprocess.run(
        [str(client), *libraries], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("library", ["libQnnCpu.so", "libQnnHtp.so"])
def test_two_graphs_update_a_cache_in_shared_memory_without_a_copy(client, library) -> None:
    libraries = [str(PACKAGE / "lib" / name) for name in (library, "libcdsprpc.so")]
    assert run(client, *libraries) == "copied 0\ncopied 0\n"


@pytest.mark.foreign
def test_the_vendors_simulator_refuses_such_a_tensor(client) -> None:
    """docs/state.md says so: a version that takes it changes what is to be said there."""
    assert run(client, vendor_library("libQnnHtp.so")).splitlines()[-1] == "answered 7004"
