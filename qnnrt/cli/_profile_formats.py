"""A profile log as rows, as statistics and as a trace: what ``qnnrt profile-viewer`` prints."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ..abi import constants as abi
from ..profile_log import LogEvent, Message, ProfileLogContents

#: Columns of the CSV output.
COLUMNS: Final = (
    "Msg Timestamp",
    "Message",
    "Time",
    "Unit",
    "Timing Source",
    "Event Level",
    "Event Identifier",
)
#: Headings of the text output -> the methods whose messages stand under them.
BLOCKS: Final = {
    "Init Stats": (10, 6, 4, 12),
    "Compose Graphs Stats": (7,),
    "Finalize Stats": (2,),
    "De-Init Stats": (5,),
}
EXECUTES: Final = (1, 3)
_IPS: Final = 8
_COPIES: Final = {
    "in": abi.QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS,
    "out": abi.QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS,
}
_US, _BYTES = 1, 2
_UNITS: Final = {
    abi.QNN_PROFILE_EVENTUNIT_MICROSEC: "us",
    abi.QNN_PROFILE_EVENTUNIT_BYTES: "bytes",
    abi.QNN_PROFILE_EVENTUNIT_CYCLES: "cycles",
    abi.QNN_PROFILE_EVENTUNIT_COUNT: "count",
    abi.QNN_PROFILE_EVENTUNIT_OBJECT: "object",
    abi.QNN_PROFILE_EVENTUNIT_NONE: "",
}
#: What a backend's own total is called when its identifier only repeats the event's type.
_TOTALS: Final = {
    100: "QNN (init) time",
    300: "QNN (finalize) time",
    400: "QNN (execute) time",
    500: "QNN (deinit) time",
}


def unit_text(event: LogEvent) -> str:
    """ "us", "bytes", "cycles", ... for one event."""
    return _UNITS.get(event.unit, event.unit_name)


def label(event: LogEvent) -> str:
    """What an event is called in the output: its identifier, or what QNN calls its type."""
    if event.type in _TOTALS and event.identifier in ("", event.kind):
        return _TOTALS[event.type]
    return event.identifier or event.kind


def number(event: LogEvent) -> float | None:
    """Its value as a number; None for texts and objects."""
    if isinstance(event.value, (int, float)) and math.isfinite(event.value):
        return event.value
    return None


def value_text(event: LogEvent) -> str:
    """Its value as text; of an object, its size."""
    if isinstance(event.value, bytes):
        return f"{len(event.value)} bytes"
    return str(event.value)


# ---- rows --------------------------------------------------------------------------------------


def rows(log: ProfileLogContents) -> Iterator[tuple[Any, ...]]:
    """One row of ``COLUMNS`` for each message, then for each of its events."""
    for m in log.messages:
        name = m.method_name.upper()
        graph = m.graph or ""
        yield (m.start_us, name, m.duration_us, "US", "NETRUN", "ROOT", graph)
        for top in m.events:
            for depth, e in top.walk():
                when = m.start_us if e.timestamp is None else e.timestamp
                level = "SUB-EVENT" if depth else "ROOT"
                unit = unit_text(e).upper()
                yield (when, e.kind.upper(), value_text(e), unit, "BACKEND", level, label(e))


# ---- statistics --------------------------------------------------------------------------------


@dataclass
class Series:
    """One measurement over all executions of a graph; ``depth`` is how deep it nests."""

    label: str
    unit: str
    depth: int
    values: list[float] = field(default_factory=list)

    def statistic(self, name: str) -> float:
        """ "average", "min" or "max"."""
        if name == "average":
            return sum(self.values) / len(self.values)
        return min(self.values) if name == "min" else max(self.values)


@dataclass
class GraphStats:
    """What the executions of one graph took."""

    name: str
    durations: list[float] = field(default_factory=list)
    series: dict[tuple[Any, ...], Series] = field(default_factory=dict)
    copied_in: list[float] = field(default_factory=list)
    copied_out: list[float] = field(default_factory=list)

    def add(self, message: Message) -> None:
        """Count one execution."""
        self.durations.append(message.duration_us)
        self._walk(message.events, ())
        self.copied_in.append(copied(message.events, "in"))
        self.copied_out.append(copied(message.events, "out"))

    def _walk(self, events: Iterable[LogEvent], path: tuple[Any, ...]) -> None:
        seen: dict[tuple[str, int], int] = {}
        for e in events:
            name = label(e)
            nth = seen[name, e.unit] = seen.get((name, e.unit), -1) + 1
            key = (*path, (name, e.unit, nth))
            if (value := number(e)) is not None:
                new = Series(name, unit_text(e), len(path))
                self.series.setdefault(key, new).values.append(value)
            self._walk(e.events, key)


def copied(events: Iterable[LogEvent], direction: str) -> float:
    """Bytes that a call copied between RAW tensors and staging memory: "in" or "out".

    The backend says them in an event of their own, which clients keep at any depth.
    """
    kind = _COPIES[direction]
    return sum(
        number(e) or 0
        for top in events
        for _, e in top.walk()
        if e.unit == _BYTES and (e.type == kind or e.identifier == f"copied {direction}")
    )


def graph_stats(log: ProfileLogContents) -> list[GraphStats]:
    """The graphs that were executed, in the order in which they first were."""
    graphs: dict[str, GraphStats] = {}
    for m in log.messages:
        if m.method in EXECUTES:
            name = m.graph or ""
            graphs.setdefault(name, GraphStats(name)).add(m)
    return list(graphs.values())


def inferences_per_second(log: ProfileLogContents) -> float | None:
    """From the writer's own total (method execute_ips), else from first start to last stop."""
    executes = [m for m in log.messages if m.method in EXECUTES]
    totals = [m for m in log.messages if m.method == _IPS]
    time = sum(m.duration_us for m in totals)
    counts = [number(e) or 0 for m in totals for e in m.events if e.unit == 4]
    runs: float = sum(counts) if counts else len(executes)
    if not totals and executes:
        time = max(m.stop_us for m in executes) - min(m.start_us for m in executes)
    return runs / time * 1e6 if time > 0 and runs else None


# ---- JSON --------------------------------------------------------------------------------------


def as_json(log: ProfileLogContents) -> dict[str, Any]:
    """Everything in the log, and the statistics of its executions."""
    return {
        "app": log.app,
        "app_version": log.app_version,
        "backend_version": log.backend_version,
        "writer": log.writer,
        "complete": log.complete,
        "dropped_messages": log.dropped,
        "inferences_per_second": inferences_per_second(log),
        "graphs": [_graph_json(g) for g in graph_stats(log)],
        "messages": [_message_json(m) for m in log.messages],
    }


def _graph_json(g: GraphStats) -> dict[str, Any]:
    netrun = Series("NetRun", "us", 0, g.durations)
    copies = [
        Series("copied in", "bytes", 0, g.copied_in),
        Series("copied out", "bytes", 0, g.copied_out),
    ]
    return {
        "graph": g.name,
        "executions": len(g.durations),
        "measurements": [
            {"name": s.label, "unit": s.unit, "depth": s.depth, "count": len(s.values)}
            | {name: s.statistic(name) for name in ("average", "min", "max")}
            for s in (netrun, *copies, *g.series.values())
        ],
    }


def _message_json(m: Message) -> dict[str, Any]:
    return {
        "method": m.method_name,
        "graph": m.graph,
        "start_us": m.start_us,
        "stop_us": m.stop_us,
        "start_mem": m.start_mem,
        "stop_mem": m.stop_mem,
        "events": [_event_json(e) for e in m.events],
    }


def _event_json(e: LogEvent) -> dict[str, Any]:
    value = e.value
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    elif isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    out: dict[str, Any] = {"name": label(e), "type": e.type, "kind": e.kind}
    out |= {"value": value, "unit": unit_text(e)}
    if e.timestamp is not None:
        out["timestamp_us"] = e.timestamp
    if e.file:
        out["file"] = e.file
    return out | {"events": [_event_json(part) for part in e.events]}


# ---- trace -------------------------------------------------------------------------------------


def chrome_trace(log: ProfileLogContents) -> dict[str, Any]:
    """The Trace Event Format that chrome://tracing and Perfetto read: one track for a graph.

    Events without a timestamp of their own: the totals of a call begin with it, one in another;
    parts follow each other in their whole. What is no time is an argument of its whole.
    """
    tracks: dict[str, int] = {}
    out: list[dict[str, Any]] = []
    end = 0.0
    for m in log.messages:
        name = m.graph or "(no graph)"
        track = tracks.setdefault(name, len(tracks) + 1)
        times = [n for e in m.events if e.unit == _US and (n := number(e)) is not None]
        start = float(m.start_us) if m.stop_us > 0 else end
        duration = float(m.duration_us) or max(times, default=0.0)
        title = f"{m.method_name} {m.graph}" if m.graph else m.method_name
        slot = _slice(title, m.method_name, start, duration, track)
        out.append(slot)
        longest_first = sorted(m.events, key=lambda e: -(number(e) or 0))
        for e in longest_first:
            out += _trace_event(e, start, track, slot)
        sums = {direction: copied(m.events, direction) for direction in _COPIES}
        if any(sums.values()):
            count = {"name": f"copied bytes {name}", "ph": "C", "pid": 1, "tid": track}
            out.append(count | {"ts": start, "args": sums})
            out.append(count | {"ts": start + duration, "args": dict.fromkeys(sums, 0)})
        end = max(end, start + duration)
    names = [_name("process_name", log.app or "qnnrt", 0)]
    names += [_name("thread_name", name, track) for name, track in tracks.items()]
    about = {"app_version": log.app_version, "backend_version": log.backend_version}
    return {"traceEvents": names + out, "displayTimeUnit": "ms", "otherData": about}


def _name(kind: str, name: str, track: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}


def _slice(name: str, kind: str, start: float, duration: float, track: int) -> dict[str, Any]:
    times = {"ts": start, "dur": duration}
    return {"name": name, "cat": kind, "ph": "X", **times, "pid": 1, "tid": track, "args": {}}


def _trace_event(
    e: LogEvent, start: float, track: int, whole: dict[str, Any]
) -> list[dict[str, Any]]:
    value = number(e)
    if e.unit != _US or value is None:
        text = value_text(e) if value is None else value
        whole["args"][f"{label(e)} [{unit_text(e)}]" if unit_text(e) else label(e)] = text
        return [out for part in e.events for out in _trace_event(part, start, track, whole)]
    if e.timestamp is not None and 0 <= e.timestamp - whole["ts"] <= whole["dur"]:
        start = float(e.timestamp)  # else it is of another clock
    slot = _slice(label(e), e.kind, start, value, track)
    out = [slot]
    at = start
    for part in e.events:
        inside = _trace_event(part, at, track, slot)
        out += inside
        if part.unit == _US and inside:
            at = inside[0]["ts"] + inside[0]["dur"]
    return out
