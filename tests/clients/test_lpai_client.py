"""The eight steps of the lpai backend, as a C program takes them through the installed library."""

import os
import subprocess
from pathlib import Path

import pytest

import qnnrt

PACKAGE = Path(qnnrt.__file__).parent
SOURCE = Path(__file__).with_name("lpai_client.c")
COMPILER = os.environ.get("CC", "cc").split()
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("client") / "lpai_client"
    include = f"-I{PACKAGE / 'include'}"
    arguments = ["-std=c11", *STRICT, include, str(SOURCE), "-o", str(program), "-ldl"]
    subprocess.run([*COMPILER, *arguments], check=True)
    return program


@pytest.mark.parametrize("kernels", ["none", ""])
def test_the_eight_steps_on_a_composed_graph_and_on_a_retrieved_one(client, kernels) -> None:
    done = subprocess.run(
        [str(client), str(PACKAGE / "lib" / "libQnnLpai.so")],
        env={**os.environ, **({"QNNRT_ONEDNN": kernels} if kernels else {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
