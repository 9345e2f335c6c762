"""The eight steps of the lpai backend, as a C program takes them through the installed library."""

import os
import subprocess
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder

PACKAGE = Path(qnnrt.__file__).parent
SOURCE = Path(__file__).with_name("lpai_client.c")


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    include = f"-I{PACKAGE / 'include'}"
    return builder.program(SOURCE, *WARNINGS, "-pedantic", include, "-ldl")


@pytest.mark.parametrize("kernels", ["none", ""])
def test_the_eight_steps_on_a_composed_graph_and_on_a_retrieved_one(client, kernels) -> None:
    done = subprocess.run(
        [str(client), str(PACKAGE / "lib" / "libQnnLpai.so")],
        env={**os.environ, **({"QNNRT_ONEDNN": kernels} if kernels else {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
