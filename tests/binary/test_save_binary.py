"""What ``save_binary`` does with whatever is at the path already."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import qnnrt
from qnnrt.support.new_file import new_file
from support.toy import relu_model


@pytest.fixture(scope="module")
def session():
    with qnnrt.Session(relu_model(), "htp") as s:
        yield s


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def loads(path: Path) -> bool:
    with qnnrt.Session(path, "htp") as s:
        s.run()
    return True


def refused(session, path, code: int) -> OSError:
    before = sorted(os.listdir(os.path.dirname(path)))
    with pytest.raises(OSError) as e:
        session.save_binary(path)
    assert (e.value.errno, e.value.filename) == (code, os.fspath(path))
    assert repr(os.fspath(path)) in str(e.value)
    assert sorted(os.listdir(os.path.dirname(path))) == before
    return e.value


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o604])
def test_a_file_that_is_replaced_keeps_its_mode(session, tmp_path, mode):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")
    path.chmod(mode)
    session.save_binary(path)
    assert mode_of(path) == mode
    assert loads(path)
    assert os.listdir(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_follows_the_umask(session, tmp_path, umask):
    old = os.umask(umask)
    try:
        session.save_binary(tmp_path / "x.bin")
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "x.bin") == 0o666 & ~umask


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_is_replaced_keeps_its_owner(session, tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    session.save_binary(path)
    there = path.stat()
    assert (there.st_uid, there.st_gid, mode_of(path)) == (12345, 23456, 0o640)


def test_nobody_else_reads_the_file_while_it_is_made(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")
    path.chmod(0o600)
    with new_file(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"


def test_a_link_stays_and_its_target_is_replaced(session, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "real.bin").write_bytes(b"before")
    (there / "real.bin").chmod(0o600)
    (tmp_path / "second").symlink_to("there/real.bin")
    (tmp_path / "first.bin").symlink_to("second")
    session.save_binary(tmp_path / "first.bin")
    assert os.readlink(tmp_path / "first.bin") == "second"
    assert os.readlink(tmp_path / "second") == "there/real.bin"
    assert not (there / "real.bin").is_symlink()
    assert mode_of(there / "real.bin") == 0o600
    assert loads(tmp_path / "first.bin")
    assert os.listdir(there) == ["real.bin"]


def test_a_link_to_no_file_yet_makes_it_where_the_link_leads(session, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "x.bin").symlink_to("there/real.bin")
    session.save_binary(tmp_path / "x.bin")
    assert (tmp_path / "x.bin").is_symlink()
    assert loads(tmp_path / "there" / "real.bin")


def test_links_that_lead_nowhere_are_refused_by_the_path_given(session, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    refused(session, tmp_path / "loop", errno.ELOOP)
    (tmp_path / "gone").symlink_to("no/folder/x.bin")
    refused(session, tmp_path / "gone", errno.ENOENT)


def test_a_fifo_a_socket_and_a_folder_are_refused_and_stay(session, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "FIFO" in str(refused(session, tmp_path / "fifo", errno.EINVAL))
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket is at most 107 bytes long
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        assert "socket" in str(refused(session, tmp_path / "socket", errno.EINVAL))
    (tmp_path / "folder").mkdir()
    refused(session, tmp_path / "folder", errno.EISDIR)
    (tmp_path / "link").symlink_to("fifo")
    assert "FIFO" in str(refused(session, tmp_path / "link", errno.EINVAL))


def test_a_device_is_refused_and_stays(session, tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.symlink_to(os.devnull)
    assert "character device" in str(refused(session, path, errno.EINVAL))
    assert stat.S_ISCHR(path.stat().st_mode)


def test_a_descriptor_of_a_file_without_a_name_is_refused(session):
    fd = os.memfd_create("nameless")
    try:
        with pytest.raises(OSError, match="no name of its own"):
            session.save_binary(f"/proc/self/fd/{fd}")
        assert os.fstat(fd).st_size == 0
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["", "folder/"])
def test_a_path_without_a_file_name_is_refused(session, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as e:
        session.save_binary(name)
    assert e.value.filename == name
    assert os.listdir(tmp_path) == []


def test_the_longest_name_can_be_written(session, tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    path = tmp_path / ("x" * (longest - 4) + ".bin")
    session.save_binary(path)
    assert loads(path)
    refused(session, tmp_path / ("x" * (longest - 3) + ".bin"), errno.ENAMETOOLONG)


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")
    path.chmod(0o444)
    code = """
import os, sys
from qnnrt.support.new_file import new_file
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
try:
    with new_file("x.bin") as file:
        file.write(b"after")
except PermissionError as e:
    print(e.filename)
"""
    if os.geteuid() == 0:
        tmp_path.chmod(0o777)  # the folder would allow it
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "x.bin\n", done.stderr
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x.bin"]


def test_an_error_while_the_file_is_filled_leaves_the_old_one(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"before")

    def fill(error: BaseException) -> None:
        with new_file(path) as file:
            file.write(b"after")
            raise error

    with pytest.raises(OSError, match="No space") as e:
        fill(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert e.value.filename == str(path)
    with pytest.raises(KeyboardInterrupt):
        fill(KeyboardInterrupt())
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x.bin"]
