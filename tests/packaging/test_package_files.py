"""A C program is built with the CMake and pkg-config files that are installed, wherever that is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from qnnrt.cli.paths import PACKAGE

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/embed_c"
EXPECTED = "y = 0 0 0 0 1 2\n"

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What programs are built with, in a folder of another name, with a space in it."""
    moved = tmp_path / "some place"
    for name in ("cmake", "include", "lib", "pkgconfig"):
        shutil.copytree(PACKAGE / name, moved / name)
    return moved


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "source"))


def run(*command: str | Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        command, env=kept | environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_cmake
def test_cmake_builds_the_example(package: Path, source: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    prefix = f"-DCMAKE_PREFIX_PATH={package / 'cmake'}"
    run("cmake", "-S", source, "-B", build, prefix)
    run("cmake", "--build", build)
    assert run(build / "embed") == EXPECTED
    assert run(build / "embed", "HTP_QTI_AISW") == EXPECTED


@needs_cmake
def test_every_target_of_cmake_can_be_linked(package: Path, tmp_path: Path) -> None:
    libraries = {p.stem.removeprefix("lib") for p in (package / "lib").iterdir()}
    lines = ["cmake_minimum_required(VERSION 3.15)", "project(all C)"]
    lines += ["find_package(qnnrt 0.1 CONFIG REQUIRED)", "find_package(qnnrt CONFIG REQUIRED)"]
    for name in sorted(libraries | {"headers"}):
        lines += [f"add_executable(with_{name} main.c)"]
        lines += [f"target_link_libraries(with_{name} PRIVATE qnnrt::{name})"]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "main.c").write_text('#include "HTP/QnnHtpMem.h"\nint main(void) { return 0; }\n')
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dqnnrt_DIR={package / 'cmake'}")
    run("cmake", "--build", tmp_path / "build")
    for name in libraries:
        run(tmp_path / f"build/with_{name}")


@needs_cmake
@pytest.mark.parametrize("version", ["0.2", "1.0", "0.1.99"])
def test_another_version_is_not_found(package: Path, tmp_path: Path, version: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(other NONE)\n"
        f"find_package(qnnrt {version} CONFIG)\n"
        'message(STATUS "found ${qnnrt_FOUND} of ${qnnrt_CONSIDERED_VERSIONS}")\n'
    )
    said = run("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-Dqnnrt_DIR={package / 'cmake'}")
    assert "found 0 of 0.1.0" in said


@pytest.mark.skipif(
    shutil.which("pkg-config") is None or shutil.which("make") is None,
    reason="pkg-config or make is not installed",
)
def test_pkg_config_builds_the_example(source: Path) -> None:
    run("make", "-C", source, f"PKG_CONFIG_PATH={PACKAGE / 'pkgconfig'}")
    assert run(source / "embed") == EXPECTED
    assert run(source / "embed", "HTP_QTI_AISW") == EXPECTED
