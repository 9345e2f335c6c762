"""The delegate's tutorial as a C++ program on the installed header and library."""

import os
import subprocess
from pathlib import Path

import pytest

import qnnrt

PACKAGE = Path(qnnrt.__file__).parent
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAME = "TfLiteQnnDelegate"
COMPILER = os.environ.get("CXX", "c++").split()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("client") / "tflite_client"
    library = PACKAGE / "lib"
    includes = [PACKAGE / "include/qnnrt", ROOT / "csrc", ROOT / "tests/native"]
    subprocess.run(
        [
            *COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror",
            *(f"-I{folder}" for folder in includes), HERE / "tflite_client.cc", "-o", program,
            f"-L{library}", "-lQnnTFLiteDelegate", f"-Wl,-rpath,{library}",
            f"-Wl,-rpath-link,{library}", "-Wl,--allow-shlib-undefined",
        ],
        check=True,
    )  # fmt: skip
    return program


@pytest.mark.parametrize("batch", [1, 64])
def test_the_running_example_prints_what_the_tutorial_says(client: Path, batch: int) -> None:
    done = subprocess.run(
        [client, str(batch)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "128 of 128 nodes, 2 invokes, 0 bytes copied\n"
    assert done.stderr.splitlines() == [
        "INFO: Initialized TensorFlow Lite runtime.",
        f"INFO: {NAME} delegate: 128 nodes delegated out of 128 nodes with 1 partitions.",
        "",
        f"INFO: Replacing 128 node(s) with delegate ({NAME}) node, yielding 1 partitions.",
        "INFO: Tensor 0 is successfully registered to shared memory.",
        "INFO: Tensor 319 is successfully registered to shared memory.",
        f"INFO: {NAME} delegate: shared tensors: 0, 319; copied tensors: none (0 bytes).",
    ]
