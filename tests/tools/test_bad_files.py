"""Files that are not what a command takes: one error that says so, at once, without memory."""

from __future__ import annotations

import io
import os
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.cli import main
from support.fuzz.models import relu_onnx
from support.outside import run_script
from support.tool_cases import Capture, X, complaint, here, listed, python_model


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here(tmp_path, monkeypatch, x=X)
    listed(tmp_path / "l", "x.raw")
    python_model(tmp_path)
    Path("m.onnx").write_bytes(relu_onnx())


def net_run(*more: str) -> list[str]:
    return ["net-run", "--model", "m.py", "--input_list", "l", "--backend", "cpu", *more]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "config.json: nested too deeply"),
        ('{"graph_configs": ' * 20_000, "config.json: nested too deeply"),
        ('{"context_configs": {"memory_limit_hint": ' + "1" * 5000 + "}}", "a number is too long"),
        ('{"context_configs": {"memory_limit_hint": 1e999}}', "a whole number .*, not inf"),
        ('{"context_configs": {"memory_limit_hint": NaN}}', "a whole number .*, not nan"),
        (
            '{"backend_extensions": {"config_file_path": "a\\u0000b"}}',
            "text 'a.x00b' has a zero byte",
        ),
        ('{"backend_extensions": {"config_file_path": "\\ud800"}}', "half of a character"),
        ('{"backend_extensions": {"config_file_path": "a\\udfffb"}}', "half of a character"),
        ('{"context_configs": {"context_priority": "' + "x" * 99_999 + '"}}', "not 'x+[.]{3}$"),
        ('{"' + "x" * 99_999 + '": 1}', "unknown key 'x+[.]{3}; there are"),
    ],
)
def test_a_config_is_refused_in_one_line_of_bounded_length(
    capsys: Capture, text: str, message: str
) -> None:
    Path("config.json").write_text(text)
    error = complaint(capsys, *net_run("--config_file", "config.json"))
    assert len(error) < 1000
    assert re.search(message, error), error


@pytest.mark.parametrize("name", ["config.json", "l"])
@pytest.mark.parametrize("kind", ["a FIFO", "a device"])
def test_what_never_ends_is_no_file(capsys: Capture, name: str, kind: str) -> None:
    """A FIFO that nobody writes to, and a device that gives zeros for ever."""
    Path(name).unlink(missing_ok=True)
    if kind == "a FIFO":
        os.mkfifo(name)
    else:
        Path(name).symlink_to("/dev/zero")
    error = complaint(
        capsys, *net_run("--config_file", "config.json") if name != "l" else net_run()
    )
    wanted = {"l": "the input list names no files", "config.json": "not JSON"}[name]
    assert (wanted if kind == "a FIFO" else "larger than 256 MiB") in error


def test_a_list_comes_from_a_pipe_too(capsys: Capture) -> None:
    """As a shell's <(...) is one."""
    reader, writer = os.pipe()
    os.write(writer, b"missing.raw\n")
    os.close(writer)
    try:
        arguments = [a if a != "l" else f"/dev/fd/{reader}" for a in net_run()]
        assert "missing.raw: No such file" in complaint(capsys, *arguments)
    finally:
        os.close(reader)


@pytest.mark.parametrize("line", ["a\0b", "x:=a\0b", "x\0y:=x.raw", "# out\0/y"])
def test_a_zero_byte_in_an_input_list_is_said_with_its_line(capsys: Capture, line: str) -> None:
    Path("l").write_text(f"\n{line}\nx.raw\n")
    assert "l:2: a zero byte" in complaint(capsys, *net_run())


def npy(shape: str, descr: str = "'<f4'", data: bytes = bytes(64)) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(f"(1, {2**40})"), f"float32[1, {2**40}], but x takes float32[1, 16]"),
        (npy(f"({2**62}, {2**62})"), "but x takes float32[1, 16]"),
        (npy("(1, 16)", data=bytes(60)), "60 bytes of elements, but its header says 64"),
        (npy("(1, 16)", "'|O'"), "not a .npy file of numbers: ValueError: it holds Python objects"),
        (npy("(1, 16)", "'>f4'"), ">f4[1, 16], but x takes float32"),
        (npy("(" * 300 + ")" * 300), "not a .npy file of numbers"),
        (npy("-" * 5000 + "1"), "not a .npy file of numbers"),
        (npy("(1, 16", "'"), "not a .npy file of numbers"),
        (npy("(1, 16)", "'\xa7'"), "not a .npy file of numbers"),
        (b"PK\x03\x04" + bytes(60), "not a .npy file of numbers"),
        (b"\x93NUMPY\x07\0", "it is of version 7.0"),
        (b"\x80\x04K\x01.", "not a .npy file of numbers"),
        (b"", "not a .npy file of numbers"),
    ],
)
def test_an_array_file_is_refused_before_memory_is_taken(
    capsys: Capture, data: bytes, message: str
) -> None:
    Path("x.npy").write_bytes(data)
    tracemalloc.start()
    try:
        error = complaint(capsys, "run", "m.onnx", "--input", "x=x.npy", "--iterations", "1")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert message in error


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_an_array_file_of_either_order_is_read(
    order: str, version: tuple[int, int], tmp_path: Path
) -> None:
    from qnnrt.cli._common import read_array

    array = np.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4), order=order)
    data = io.BytesIO()
    np.lib.format.write_array(data, array, version)
    path = tmp_path / "a.npy"
    path.write_bytes(data.getvalue())
    assert (read_array(path, "x", (2, 3, 4), np.dtype(np.float32)) == array).all()


@pytest.mark.parametrize("value", ["1e999", "1" * 5000, "NaN", "1" + "0" * 400, "[" * 50_000])
def test_a_profile_log_with_a_number_out_of_range_is_damaged(capsys: Capture, value: str) -> None:
    from support.profile_logs import write_log

    log = write_log(Path("a.log")).read_text()
    Path("a.log").write_text(log.replace('"start":1000', f'"start":{value}', 1))
    assert "line 2 is damaged" in complaint(capsys, "profile-viewer", "--input_log", "a.log")


@pytest.mark.parametrize("value", ["1" + "0" * 400, str(2**64), "-" + str(2**63 + 1)])
def test_an_event_of_more_than_64_bits_is_damage(capsys: Capture, value: str) -> None:
    from support.profile_logs import write_log

    log = write_log(Path("a.log")).read_text()
    assert '"value":' in log
    Path("a.log").write_text(re.sub('"value":[0-9]+', f'"value":{value}', log, count=1))
    said = complaint(capsys, "profile-viewer", "--input_log", "a.log", "--format", "chrometrace")
    assert re.search("is damaged.*64 bits", said)


@pytest.mark.parametrize("form", ["text", "csv", "json", "chrometrace"])
def test_half_a_character_in_a_profile_log_is_shown_as_what_it_is_not(form: str) -> None:
    from support.profile_logs import write_log

    log = write_log(Path("a.log")).read_text()
    Path("a.log").write_text(re.sub('"id":"', r'"id":"\\ud800', log))
    assert main(
        ["profile-viewer", "--input_log", "a.log", "--output", "out", "--format", form]
    ) == 0  # fmt: skip
    assert "?" in Path("out").read_text("utf-8")


def test_a_name_that_is_no_text_goes_to_stdout_all_the_same() -> None:
    from support.profile_logs import write_log

    os.rename(write_log(Path("a.log")), b"\xff.log")
    done = run_script("-m", "qnnrt", "profile-viewer", "--input_log", os.fsdecode(b"\xff.log"))
    assert done.returncode == 0, done.stderr
    assert r"\udcff.log" in done.stdout


@pytest.mark.parametrize("suffix", [".bin", ".tflite"])
def test_a_model_that_is_a_fifo_or_a_device_is_an_error_at_once(suffix: str) -> None:
    fifo, device = Path(f"fifo{suffix}"), Path(f"device{suffix}")
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    for path in (fifo, device):
        with pytest.raises(qnnrt.ModelError, match=r"a FIFO|a device"):
            qnnrt.load(path)
    for name in (f"a\0b{suffix}", f"\ud800{suffix}"):
        with pytest.raises(qnnrt.ModelError):
            qnnrt.load(name)


def test_a_context_binary_is_opened_without_waiting() -> None:
    os.mkfifo("a.bin")
    with pytest.raises(OSError, match="not a file"):
        qnnrt.ContextBinary("a.bin")
    with pytest.raises(FileNotFoundError, match="no file can have this name"):
        qnnrt.ContextBinary("a\0b.bin")


def test_a_batch_of_more_than_there_is_ends(capsys: Capture) -> None:
    """Executions of padding alone are not counted one by one."""
    from support.tool_cases import call

    assert call(*net_run("--batch_multiplier", "99999999999999999999")) in (0, 1, 2)
