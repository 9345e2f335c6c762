#!/usr/bin/env python3
"""The TFLite tutorial on Google's own C++ runtime, for a nightly run: the package takes a gigabyte.

    python tests/clients/tensorflow_runtime.py                # fetches tensorflow-cpu, some 270 MB
    python tests/clients/tensorflow_runtime.py --wheel FILE   # out of a file that is there

Only the two libraries of the package are unpacked, into a temporary folder; nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TEST = "tests/docs/test_tutorials.py"
LIBRARIES = [f"tensorflow/libtensorflow_{name}.so.2" for name in ("cc", "framework")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel
        if wheel is None:
            fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
            subprocess.run([*fetch, "tensorflow-cpu"], check=True)
            (wheel,) = Path(folder).glob("tensorflow_cpu-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in LIBRARIES:
                archive.extract(name, folder)
        environment = os.environ | {"TENSORFLOW_CPU_FOLDER": folder}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", TEST, "-k", "tflite"]
        root = Path(__file__).resolve().parents[2]
        return subprocess.run(command, cwd=root, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
