"""Profile logs: what is written is what is read, whatever happens to the file in between."""

from __future__ import annotations

import base64
import json
import random
import time
from functools import partial
from pathlib import Path

import pytest

import qnnrt
from qnnrt import _core
from qnnrt.profile_log import METHODS, LogEvent, ProfileLog, ProfileLogContents, ProfileLogError
from qnnrt.qnn.profile import ProfileEvent
from support.parallel import in_threads
from support.profile_logs import event, write_log
from support.toy import conv_model

LINES = ProfileLogContents.read


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "profile.log")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    events = [
        event(
            400, 2**63 + 5, 'quotes " and \\ and \n and é', event(404, 1, "a", event(404, 0, ""))
        ),
        event(7000, 9, "its own unit", unit="backend unit 1003"),
    ]
    with ProfileLog(tmp_path / "sub" / "x.log", "appé", "1", "2") as out:
        out.add(1, "g", 5, 9, events, start_mem=100, stop_mem=200)
        out.add("deinit", None, 0, 0)
    read = LINES(tmp_path / "sub" / "x.log")
    assert (read.app, read.app_version, read.backend_version) == ("appé", "1", "2")
    assert read.writer == f"qnnrt {qnnrt.__version__}"
    assert read.complete
    assert read.dropped == 0
    first, second = read.messages
    assert (first.method_name, first.graph, first.start_us, first.stop_us) == ("execute", "g", 5, 9)
    assert (first.start_mem, first.stop_mem, first.private) == (100, 200, False)
    assert (second.method_name, second.graph, second.events) == ("deinit", None, ())
    top, own = first.events
    assert (top.kind, top.value, top.unit_name) == ("execute", 2**63 + 5, "microseconds")
    assert top.identifier == events[0].identifier
    assert [e.identifier for _, e in top.walk()] == [top.identifier, "a", ""]
    assert (own.unit, own.unit_name, own.kind) == (1003, "backend unit 1003", "backend 7000")


def test_events_of_a_real_run_go_in(tmp_path: Path) -> None:
    with qnnrt.Session(conv_model(0)) as s, ProfileLog(tmp_path / "x.log") as out:
        events = s.profile("detailed")
        out.add("execute", "conv", 1, 2, events)
    (message,) = LINES(tmp_path / "x.log").messages
    assert [(e.type, e.value, len(e.events)) for e in message.events] == [
        (e.type, e.value, len(e.events)) for e in events
    ]
    assert any(e.kind == "node" for top in message.events for _, e in top.walk())


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_events_keep_the_time_at_which_they_began(tmp_path: Path, backend: str) -> None:
    with qnnrt.Session(conv_model(0), backend) as s, ProfileLog(tmp_path / "x.log") as out:
        start = time.monotonic_ns() // 1000
        events = s.profile("detailed")
        stop = time.monotonic_ns() // 1000
        out.add("execute", "conv", start, stop, events)
    (message,) = LINES(tmp_path / "x.log").messages
    logged = [e for top in message.events for _, e in top.walk()]
    told = [e for top in events for _, e in top.walk()]
    assert [e.timestamp for e in logged] == [e.timestamp for e in told]
    times = [e.timestamp for e in logged if e.timestamp is not None]
    assert len(times) == len(logged)
    assert all(start <= t <= stop for t in times)


def test_an_object_without_its_bytes_stays_a_number(tmp_path: Path) -> None:
    with ProfileLog(tmp_path / "x.log") as out:
        odd = ProfileEvent(600, "object", 12345, "trace", (), timestamp=7)
        out.add("execute", "g", 1, 2, [odd])
    (message,) = LINES(tmp_path / "x.log").messages
    assert (message.events[0].value, message.events[0].unit_name) == (12345, "object")


def test_every_method_has_one_name(tmp_path: Path) -> None:
    with ProfileLog(tmp_path / "x.log") as out:
        for name in METHODS.values():
            out.add(name, None, 0, 0)
        out.add(99, None, 0, 0)
        with pytest.raises(ValueError, match="unknown method 'exec'"):
            out.add("exec", None, 0, 0)
    names = [m.method_name for m in LINES(tmp_path / "x.log").messages]
    assert names == [*METHODS.values(), "method 99"]


def test_a_log_cut_anywhere_reads_up_to_there(log: Path, tmp_path: Path) -> None:
    whole = log.read_bytes()
    expected = LINES(log).messages
    header = whole.index(b"\n") + 1
    cut = tmp_path / "cut.log"
    seen = set()
    for size in range(header, len(whole)):
        cut.write_bytes(whole[:size])
        read = LINES(cut)
        assert not read.complete
        assert read.messages == expected[: len(read.messages)]
        seen.add(len(read.messages))
    assert seen == set(range(len(expected) + 1))
    for size in range(header - 1):
        cut.write_bytes(whole[:size])
        with pytest.raises(ProfileLogError, match="no profile log of qnnrt's"):
            LINES(cut)


def test_a_log_that_nobody_closed_is_read(tmp_path: Path) -> None:
    out = ProfileLog(tmp_path / "x.log")
    out.add("execute", "g", 1, 2)
    read = LINES(tmp_path / "x.log")
    assert not read.complete
    assert len(read.messages) == 1
    del out  # closes it
    assert LINES(tmp_path / "x.log").complete


def test_a_closed_log_takes_no_more(tmp_path: Path) -> None:
    out = ProfileLog(tmp_path / "x.log")
    out.close()
    out.close()
    with pytest.raises(ProfileLogError, match="closed"):
        out.add("execute", "g", 1, 2)


@pytest.mark.parametrize("most", [0, 2, 5, 6])
def test_messages_over_the_limit_are_counted(tmp_path: Path, most: int) -> None:
    with ProfileLog(tmp_path / "x.log", max_messages=most) as out:
        for i in range(5):
            out.add("execute", "g", i, i + 1)
    read = LINES(tmp_path / "x.log")
    assert [m.start_us for m in read.messages] == list(range(min(most, 5)))
    assert read.dropped == 5 - min(most, 5)


def test_a_new_log_replaces_the_old_one_unless_it_is_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for graph in ("old", "new"):
        with ProfileLog(path, graph) as out:
            out.add("execute", graph, 1, 2)
    for graph in ("more", "last"):  # as ONNX Runtime does: a target for each message
        with ProfileLog(path, graph, append=True, max_messages=1) as out:
            out.add("execute", graph, 1, 2)
            out.add("execute", "dropped", 1, 2)
    read = LINES(path)
    assert [m.graph for m in read.messages] == ["new", "more", "last"]
    assert (read.app, read.complete, read.dropped) == ("new", True, 2)


def test_going_on_takes_a_cut_line_away(log: Path) -> None:
    messages = LINES(log).messages
    whole = log.read_bytes()
    for cut in (1, 30, 100, len(whole) - 150):
        log.write_bytes(whole[:-cut])
        kept = LINES(log).messages
        with ProfileLog(log, append=True) as out:
            out.add("execute", "on", 1, 2)
        read = LINES(log)
        assert read.messages[:-1] == kept == messages[: len(kept)]
        assert read.messages[-1].graph == "on"
        assert not read.complete
    log.write_bytes(whole[:20])  # not even a header
    with ProfileLog(log, append=True) as out:
        out.add("execute", "on", 1, 2)
    assert LINES(log).complete


@pytest.mark.parametrize(
    "content", [b"my notes\n", b'{"format":"qnnrt-profile-log","version":2}\n']
)
def test_what_somebody_else_wrote_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(qnnrt.QnnError, match="remove it or choose another name") as e:
        ProfileLog(path, append=True)
    assert e.value.code == 30001
    assert path.read_bytes() == content


def test_threads_write_whole_messages(tmp_path: Path) -> None:
    out = ProfileLog(tmp_path / "x.log")

    def write(thread: int) -> None:
        for i in range(50):
            out.add("execute", f"g{thread}", i, i + 1, [event(400, thread, "e" * 300)])

    in_threads(*(partial(write, t) for t in range(8)))
    out.close()
    messages = LINES(tmp_path / "x.log").messages
    for thread in range(8):
        mine = [m for m in messages if m.graph == f"g{thread}"]
        assert [m.start_us for m in mine] == list(range(50))


def test_a_damaged_log_says_which_line(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    for bad in (
        b"{\n",
        b"[]\n",
        b"7\n",
        b'{"method":1}\n',
        lines[2].replace(b'"start":', b'"begin":'),
        lines[4].replace(b'"value":', b'"value":[],"other":'),
        b"\xff\xfe\n",
    ):
        log.write_bytes(b"".join([*lines[:3], bad, *lines[4:]]))
        with pytest.raises(ProfileLogError, match="line 4 is damaged"):
            LINES(log)
    log.write_bytes(b"".join([*lines, lines[3]]))
    with pytest.raises(ProfileLogError, match="after the end"):
        LINES(log)


@pytest.mark.parametrize("seed", range(20))
def test_altered_bytes_are_an_error_or_another_log(log: Path, seed: int) -> None:
    print(f"seed {seed}")
    generator = random.Random(seed)
    data = bytearray(log.read_bytes())
    for _ in range(20):
        data[generator.randrange(len(data))] = generator.randrange(256)
        log.write_bytes(data)
        try:
            read = LINES(log)
        except ProfileLogError:
            continue
        assert all(isinstance(m.start_us, int) for m in read.messages)


def test_deep_nesting_is_no_crash(log: Path) -> None:
    head = log.read_bytes().splitlines(keepends=True)[0]
    log.write_bytes(head + b"[" * 200_000 + b"\n")
    with pytest.raises(ProfileLogError, match="damaged"):
        LINES(log)


def test_extended_events_are_read(log: Path) -> None:
    """As clients of the C API write them; the native tests do."""
    lines = log.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[3])
    record["events"] = [
        {"type": 1, "unit": 1, "value": 0.5, "id": "f", "timestamp": 77},
        {
            "type": 2,
            "unit": 5,
            "object": {"file": "trace.bin", "base64": base64.b64encode(b"\0\1").decode()},
            "id": "o",
            "timestamp": 78,
        },
    ]
    log.write_bytes(b"".join([*lines[:3], json.dumps(record).encode() + b"\n"]))
    number, thing = LINES(log).messages[-1].events
    assert number == LogEvent(1, 1, 0.5, "f", 77)
    assert (thing.value, thing.file, thing.timestamp) == (b"\0\1", "trace.bin", 78)


def test_no_place_to_write_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "x.log", tmp_path):
        with pytest.raises(qnnrt.QnnError, match="cannot write") as e:
            ProfileLog(path)
        assert e.value.code == 30001
    with pytest.raises(qnnrt.QnnError, match="No space left"):
        ProfileLog("/dev/full")
    with pytest.raises(ValueError, match="NUL"):
        ProfileLog(tmp_path / "x.log", "a\0b")


def test_no_memory_is_an_error_and_the_next_call_works(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    codes = []
    with ProfileLog(path) as out:
        for nth in range(1, 100):
            _core.debug_fail_allocation(nth)
            try:
                out.add("execute", "g", nth, nth, [event(400, 1, "x" * 50)])
            except qnnrt.QnnError as e:
                codes.append(e.code)
            else:
                break
            finally:
                _core.debug_fail_allocation(-1)
        out.add("execute", "last", 1, 2)
    assert len(codes) > 2
    assert set(codes) == {31000}
    assert [m.graph for m in LINES(path).messages] == ["g", "last"]
