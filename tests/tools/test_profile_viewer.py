"""``qnnrt profile-viewer``: text, CSV, JSON and traces of a profile log."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

import qnnrt
from qnnrt.cli import main
from qnnrt.profile_log import ProfileLog, ProfileLogContents
from support.profile_logs import event, write_log
from support.toy import conv_model
from support.vendor import vendor_library

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "profile.log")


def view(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    status = main(["profile-viewer", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_text_has_the_blocks_of_the_sdk(log: Path, capsys: Capture) -> None:
    status, out, err = view(capsys, "--input_log", log)
    assert (status, err) == (0, "")
    blocks = [line for line in out.splitlines() if line.endswith("Stats:") or " Stats (" in line]
    assert blocks == [
        "Init Stats:",
        "Compose Graphs Stats:",
        "Finalize Stats:",
        "De-Init Stats:",
        "Execute Stats (Overall):",
        "Execute Stats (Average):",
        "Execute Stats (Min):",
        "Execute Stats (Max):",
    ]
    assert out.count("Total Inference Time:") == 3
    finalize = out[out.index("Finalize Stats") : out.index("De-Init")]
    assert "Graph 0 (a):\n        NetRun: 500 us" in finalize
    assert "Backend (QNN (finalize) time): 480 us" in finalize
    overall = out[out.index("(Overall)") : out.index("(Average)")]
    assert "NetRun IPS (includes IO and misc. time): 600.0000 inf/sec" in overall  # 3 in 5 ms
    assert "Copied In: 128 bytes" in overall
    assert "Copied Out: 64 bytes" in overall
    for name, run, execute, conv in (
        ("(Average)", 250, 125, 80),
        ("(Min)", 200, 100, 70),
        ("(Max)", 300, 150, 90),
    ):
        block = out[out.index(f"Execute Stats {name}") :]
        assert f"Graph 0 (a):\n        NetRun: {run} us\n" in block
        assert f"        Backend (QNN (execute) time): {execute} us\n" in block
        assert f"            conv: {conv} us\n" in block
        assert "        Copied In: 64 bytes\n        Copied Out: 32 bytes\n" in block
        assert "Graph 1 (b):\n        NetRun: 10 us\n" in block
        assert "Backend (cycles of it): 777 cycles" in block


def test_what_happened_in_some_executions_says_in_how_many(tmp_path: Path, capsys: Capture) -> None:
    with ProfileLog(tmp_path / "x.log") as out:
        for i in range(3):
            rare = [event(3010, 40, "wait")] if i == 1 else []
            out.add("execute", "g", i, i + 1, [event(400, 9, "execute", *rare)])
    _, out_text, _ = view(capsys, "--input_log", tmp_path / "x.log")
    assert out_text.count("            wait: 40 us (in 1 of 3 executions)\n") == 3
    assert "Backend (QNN (execute) time): 9 us\n" in out_text


def test_the_csv_has_the_columns_of_the_sdk(log: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.csv"
    assert view(capsys, "--input_log", log, "--output", target) == (0, "", "")
    table = list(csv.reader(io.StringIO(target.read_text())))
    assert ",".join(table[0]) == (
        "Msg Timestamp,Message,Time,Unit,Timing Source,Event Level,Event Identifier"
    )
    assert ["2000", "FINALIZE", "500", "US", "NETRUN", "ROOT", "a"] in table
    assert ["3000", "EXECUTE", "100", "US", "BACKEND", "ROOT", "QNN (execute) time"] in table
    assert ["3000", "NODE", "70", "US", "BACKEND", "SUB-EVENT", "conv"] in table
    assert ["3000", "PREPROCESS", "64", "BYTES", "BACKEND", "SUB-EVENT", "in x"] in table
    assert all(len(row) == 7 for row in table)


def test_json_holds_everything(log: Path, tmp_path: Path, capsys: Capture) -> None:
    status, out, _ = view(capsys, "--input_log", log, "--json")
    assert status == 0
    printed = json.loads(out)
    view(capsys, "--input_log", log, "--output", tmp_path / "out.json")
    assert printed == json.loads((tmp_path / "out.json").read_text())
    assert printed["complete"] is True
    assert len(printed["messages"]) == len(ProfileLogContents.read(log).messages)
    measured = {m["name"]: m for m in printed["graphs"][0]["measurements"]}
    assert (measured["NetRun"]["average"], measured["NetRun"]["max"]) == (250, 300)
    assert measured["copied in"]["average"] == 64


def test_the_trace_puts_parts_inside_their_whole(
    log: Path, tmp_path: Path, capsys: Capture
) -> None:
    view(capsys, "--input_log", log, "--output", tmp_path / "t.json", "--format", "chrometrace")
    trace = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [e for e in trace if e["ph"] == "X"]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for s in slices:
        by_name.setdefault(s["name"], []).append(s)
    calls, totals, convs = (by_name[n] for n in ("execute a", "QNN (execute) time", "conv"))
    assert [c["ts"] for c in calls] == [3000, 4000]
    for call, total, conv in zip(calls, totals, convs, strict=True):
        assert call["ts"] <= total["ts"] <= conv["ts"]
        assert conv["ts"] + conv["dur"] <= total["ts"] + total["dur"] <= call["ts"] + call["dur"]
        assert total["args"] == {"in x [bytes]": 64, "out y [bytes]": 32}
    counters = [e for e in trace if e["ph"] == "C"]
    assert [c["args"] for c in counters[:2]] == [{"in": 64, "out": 32}, {"in": 0, "out": 0}]
    names = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    assert {names[c["tid"]] for c in calls} == {"a"}
    # The SDK's way to ask for it.
    view(
        capsys, "--input_log", log, "--output", tmp_path / "u.json", "--reader", "libChrometrace.so"
    )
    assert (tmp_path / "u.json").read_text() == (tmp_path / "t.json").read_text()


def test_options_of_the_sdk_warn_once_each(log: Path, capsys: Capture) -> None:
    options = ("--reader", "libQnnHtpReader.so", "--schematic", "s.bin", "--config", "c.json")
    status, _, err = view(capsys, "--input_log", log, *options)
    assert status == 0
    named = [line.split(": ")[2].split()[0] for line in err.splitlines()]
    assert named == ["--schematic", "--config", "--reader"]


def test_a_log_that_was_cut_is_shown_with_a_warning(log: Path, capsys: Capture) -> None:
    log.write_bytes(log.read_bytes()[:-60])
    status, out, err = view(capsys, "--input_log", log)
    assert status == 0
    assert "Graph 0 (a):" in out
    assert err.count("\n") == 1
    assert "cut short" in err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no profile log of qnnrt's"),
        (b"\x08\x02\0\0\x10\0\0\0" + bytes(100), "qnn-profile-viewer reads it"),
        (b'{"format":"qnnrt-profile-log","version":2}\n', "version 2; this qnnrt reads version 1"),
        (b'{"format":"qnnrt-profile-log","version":1}\nx\n', "line 2 is damaged"),
    ],
)
def test_what_is_no_log_is_one_line_and_status_2(
    tmp_path: Path, capsys: Capture, content: bytes, says: str
) -> None:
    (tmp_path / "x.log").write_bytes(content)
    status, out, err = view(capsys, "--input_log", tmp_path / "x.log")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err


def test_bad_options_are_one_line_and_status_2(log: Path, tmp_path: Path, capsys: Capture) -> None:
    for options, says in (
        (("--input_log", tmp_path / "none.log"), "No such file"),
        (("--input_log", log, "--output", tmp_path / "no" / "x.csv"), "No such file"),
        (("--input_log", log, "--json", "--format", "text"), "exclude each other"),
        (("--input_log", log, "--reader", "chrometrace", "--format", "csv"), "asks for a trace"),
    ):
        status, out, err = view(capsys, *options)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert says in err


def test_the_vendors_own_log_is_named_as_such(tmp_path: Path, capsys: Capture) -> None:
    library = vendor_library("libQnnSystem.so")
    with ProfileLog(tmp_path / "v.log", "app", system_library=library) as out:
        out.add("execute", "g", 1, 2, [event(400, 1, "x")])
    assert (tmp_path / "v.log").stat().st_size > 100
    status, _, err = view(capsys, "--input_log", tmp_path / "v.log")
    assert status == 2
    assert "their qnn-profile-viewer reads it" in err


def test_copies_of_a_real_run_are_counted(tmp_path: Path, capsys: Capture) -> None:
    """8x8x8 and 8x8x16 floats, staged by the htp backend; by memory handle nothing is."""
    for name, mode in (("raw.log", "raw"), ("handle.log", "memhandle")):
        with qnnrt.Session(conv_model(0), "htp", io=mode) as s, ProfileLog(tmp_path / name) as out:
            for i in range(3):
                out.add("execute", "conv", 10 * i, 10 * i + 5, s.profile("basic"))
    for name, sizes in (("raw.log", (2048, 4096)), ("handle.log", (0, 0))):
        _, out_text, _ = view(capsys, "--input_log", tmp_path / name, "--json")
        measured = {m["name"]: m for m in json.loads(out_text)["graphs"][0]["measurements"]}
        found = tuple(measured[f"copied {side}"]["average"] for side in ("in", "out"))
        assert found == sizes
        _, text, _ = view(capsys, "--input_log", tmp_path / name)
        assert f"Copied In: {3 * sizes[0]} bytes" in text


def test_the_trace_shows_when_nodes_began(tmp_path: Path, capsys: Capture) -> None:
    """So there are gaps where there are gaps."""
    with qnnrt.Session(conv_model(0)) as s, ProfileLog(tmp_path / "x.log") as out:
        start = time.monotonic_ns() // 1000
        events = s.profile("detailed")
        out.add("execute", "conv", start, time.monotonic_ns() // 1000, events)
    view(
        capsys,
        "--input_log",
        tmp_path / "x.log",
        "--format",
        "chrometrace",
        "--output",
        tmp_path / "t.json",
    )
    trace = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    shown = {e["name"]: e["ts"] for e in trace if e["ph"] == "X"}
    nodes = [e for top in events for _, e in top.walk() if e.kind == "node"]
    assert nodes
    for e in nodes:
        assert shown[e.identifier] == e.timestamp
