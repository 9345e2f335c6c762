"""The delegate's tutorial as a C++ program on the installed header and library."""

import subprocess
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder

PACKAGE = Path(qnnrt.__file__).parent
HERE = Path(__file__).parent
NAME = "TfLiteQnnDelegate"


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    library = PACKAGE / "lib"
    return builder.program(
        HERE / "tflite_client.cc", *WARNINGS,
        f"-I{PACKAGE / 'include/qnnrt'}", f"-I{HERE.with_name('native')}",
        f"-L{library}", "-lQnnTFLiteDelegate", f"-Wl,-rpath,{library}",
        f"-Wl,-rpath-link,{library}", "-Wl,--allow-shlib-undefined",
    )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 64])
def test_the_running_example_prints_what_the_tutorial_says(client: Path, batch: int) -> None:
    done = subprocess.run(
        [client, str(batch)], capture_output=True, text=True, timeout=600, check=False
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
