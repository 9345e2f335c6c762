"""``qnnrt sdk-root``: a folder that lies as a QNN SDK does; libraries linked to and copied."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import qnnrt
from qnnrt.cli import main, sdk_root
from qnnrt.cli.paths import LIB_DIR
from support.building import WARNINGS

CLIENT = Path(__file__).parents[1] / "clients/functions_client.c"
TARGET = sdk_root.TARGETS.get(platform.machine(), (f"{platform.machine()}-linux-clang",))[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sdk"
    sdk_root.make(folder)
    return folder


def tree(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("QNNRT_")}
    return subprocess.run(
        command,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_command_prints_a_folder_of_the_user(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["sdk-root"]) == 0
    printed = Path(capsys.readouterr().out.strip())
    assert printed.parent == tmp_path / "qnnrt"
    assert (printed / "lib" / TARGET / "libQnnHtp.so").samefile(LIB_DIR / "libQnnHtp.so")
    assert main(["sdk-root", "--folder", str(tmp_path / "chosen")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'chosen'}\n"
    assert tree(tmp_path / "chosen") == tree(printed)


def test_a_program_is_built_and_run_with_what_is_in_it(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    include = f"-I{root / 'include/QNN'}"
    built = run("gcc", *WARNINGS, include, CLIENT, "-o", program, "-ldl")
    assert built.returncode == 0, built.stderr
    done = run(program, root / "lib" / TARGET / "libQnnHtp.so")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    script = f". {root}/bin/envsetup.sh && echo $QNN_SDK_ROOT && {program} libQnnCpu.so"
    done = run("bash", "-c", script)
    assert (done.returncode, done.stdout) == (0, f"{root}\ndone\n"), done.stderr


@pytest.mark.parametrize("tool", sdk_root.TOOLS)
def test_the_tools_are_there_under_their_names(root: Path, tool: str) -> None:
    done = run(root / "bin" / TARGET / f"qnn-{tool}", "--help")
    assert done.returncode == 0, done.stderr
    assert f"{tool} [-h]" in done.stdout


def test_several_processes_make_it_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "sdk"
    command = [sys.executable, "-m", "qnnrt", "sdk-root", "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(Path(qnnrt.__file__).parents[1])}
    processes = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [p.wait(timeout=600) for p in processes] == [0] * 4
    again = tmp_path / "again"
    sdk_root.make(again)
    assert tree(folder) == tree(again)


def test_what_is_damaged_is_mended_and_what_is_whole_is_not_written(root: Path) -> None:
    before = tree(root)
    tool = root / "bin" / TARGET / "qnn-net-run"
    kept = {p: p.lstat().st_ino for p in root.rglob("*")}
    sdk_root.make(root)
    assert {p: p.lstat().st_ino for p in root.rglob("*")} == kept
    text = tool.read_text()
    tool.write_text("#!/bin/sh\n")
    (root / "include/QNN").unlink()
    (root / "lib" / TARGET).unlink()
    (root / "lib" / TARGET).symlink_to("/nowhere")
    sdk_root.make(root)
    assert tree(root) == before
    assert tool.read_text() == text


def test_something_else_in_its_place_is_one_clear_error(root: Path, capsys) -> None:
    (root / "include/QNN").unlink()
    (root / "include/QNN").mkdir()
    assert main(["sdk-root", "--folder", str(root)]) == 2
    assert "include/QNN: a folder stands where a link belongs" in capsys.readouterr().err


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Libraries that lie in an environment as pip installs them, with oneDNN's."""
    lib = tmp_path / "prefix/lib/python3/site-packages/qnnrt/lib"
    lib.mkdir(parents=True)
    for name in ("libqnnrt.so", "libQnnHtp.so"):
        shutil.copy2(LIB_DIR / name, lib)
    onednn = Path(sys.prefix, "lib/libdnnl.so.3")
    if onednn.exists():
        (tmp_path / "prefix/lib/libdnnl.so.3").symlink_to(onednn.resolve())
    return lib


#: Prints the kernel library of the runtime that the file given belongs to.
PROBE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.qnnrt_kernel_library.restype = ctypes.c_char_p
print(library.qnnrt_kernel_library().decode())
"""


def test_libraries_that_are_linked_to_find_their_kernels(prefix: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("libqnnrt.so", "libQnnHtp.so"):
        (folder / name).symlink_to(prefix / name)
    here = run(sys.executable, "-c", PROBE, prefix / "libQnnHtp.so")
    linked = run(sys.executable, "-c", PROBE, folder / "libQnnHtp.so")
    assert (linked.stdout, linked.stderr) == (here.stdout, here.stderr)
    if (prefix.parents[3] / "libdnnl.so.3").exists():
        assert linked.stdout.startswith("oneDNN ")


def test_libraries_that_are_copied_are_told_where_their_kernels_are(
    prefix: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(prefix, folder)
    here = run(sys.executable, "-c", PROBE, prefix / "libQnnHtp.so")
    told = {"QNNRT_PACKAGE_LIBS": str(prefix.parents[3])}
    copied = run(sys.executable, "-c", PROBE, folder / "libQnnHtp.so", **told)
    assert (copied.stdout, copied.stderr) == (here.stdout, here.stderr)
