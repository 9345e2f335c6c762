"""``qnnrt profile-viewer``: what a profile log says, as text, CSV, JSON or a trace."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ..profile_log import LogEvent, Message, ProfileLogContents, ProfileLogError
from ._common import UsageError, print_json, size
from ._profile_formats import (
    BLOCKS,
    COLUMNS,
    EXECUTES,
    GraphStats,
    Series,
    as_json,
    chrome_trace,
    graph_stats,
    inferences_per_second,
    label,
    rows,
    unit_text,
    value_text,
)
from ._tools import Warn, harmless, tool_parser

_FORMATS = ("text", "csv", "json", "chrometrace")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "print what a profile log says, or write it as CSV, JSON or a trace"
    parser = tool_parser(commands, "profile-viewer", text)
    parser.add_argument(
        "--input_log",
        metavar="FILE",
        type=Path,
        required=True,
        help="a log that net-run or another QNN client wrote with qnnrt's system library",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="write it there, as the suffix says: .csv or .json, else text",
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="of the output; chrometrace is for chrome://tracing and Perfetto",
    )
    parser.add_argument(
        "--reader",
        metavar="LIB",
        help="of the SDK: a name with 'chrometrace' in it asks for that format, others are ignored",
    )
    harmless(parser, "--schematic", "logs name their nodes by themselves", metavar="FILE")
    harmless(parser, "--config", "there is nothing to configure", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    warn = Warn(options)
    chosen = _format(options, warn)
    try:
        log = ProfileLogContents.read(options.input_log)
    except ProfileLogError as error:
        raise UsageError(str(error)) from None
    if options.output is None:
        _write(chosen, log, options.input_log, sys.stdout)
    else:
        with open(
            options.output, "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as file:
            _write(chosen, log, options.input_log, file)
    if not log.complete:
        warn("the log was cut short: what was written up to there is shown")
    if log.dropped:
        warn(f"the writer's limit left out {log.dropped} messages")
    return 0


def _format(options: argparse.Namespace, warn: Warn) -> str:
    suffixes = {".csv": "csv", ".json": "json"}
    by_suffix = suffixes.get(options.output.suffix, "text") if options.output else "text"
    chosen = options.format or ("json" if options.json else by_suffix)
    if options.reader is not None:
        if "chrometrace" in Path(options.reader).name.lower():
            if options.format not in (None, "chrometrace"):
                raise UsageError(
                    f"--reader {options.reader} asks for a trace, --format for {options.format}"
                )
            chosen = "chrometrace"
        else:
            warn(f"--reader {options.reader}: this viewer reads its logs by itself; ignored")
    if options.json and chosen == "text":
        raise UsageError("--json and --format text exclude each other")
    return str(chosen)


def _write(chosen: str, log: ProfileLogContents, source: Path, file: TextIO) -> None:
    if chosen == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(log))
    elif chosen == "text":
        file.writelines(f"{line}\n" for line in text_lines(log, source))
    else:
        value = as_json(log) if chosen == "json" else chrome_trace(log)
        if file is sys.stdout:
            print_json(value)
        else:
            json.dump(value, file, indent=1)
            file.write("\n")


# ---- text --------------------------------------------------------------------------------------


def text_lines(log: ProfileLogContents, source: Path) -> Iterator[str]:
    """The blocks of the SDK's viewer, in its order."""
    yield f"Input Log File Location: {source}"
    yield f"Application: {' '.join(filter(None, (log.app, log.app_version))) or 'unknown'}"
    yield f"Backend Version: {log.backend_version or 'unknown'}"
    graphs = _graph_numbers(log)
    for title, methods in BLOCKS.items():
        yield from _heading(f"{title}:")
        yield from _block([m for m in log.messages if m.method in methods], graphs)
    shown = {n for methods in BLOCKS.values() for n in methods} | {*EXECUTES, 8}
    others = [m for m in log.messages if m.method not in shown]
    if others:
        yield from _heading("Other Stats:")
        yield from _block(others, graphs)
    stats = graph_stats(log)
    yield from _heading("Execute Stats (Overall):")
    if not stats:
        yield "    no executions"
        return
    ips = inferences_per_second(log)
    if ips is not None:
        yield f"    NetRun IPS (includes IO and misc. time): {ips:.4f} inf/sec"
    for g in stats:
        yield f"    {_graph_title(g.name, graphs)}"
        yield f"        Executions: {len(g.durations)}"
        copied = sum(g.copied_in), sum(g.copied_out)
        yield f"        Copied In: {copied[0]:.0f} bytes ({size(int(copied[0]))})"
        yield f"        Copied Out: {copied[1]:.0f} bytes ({size(int(copied[1]))})"
    for title in ("Average", "Min", "Max"):
        yield from _heading(f"Execute Stats ({title}):")
        yield "Total Inference Time:"
        yield "---------------------"
        for g in stats:
            yield from _statistics(g, title.lower(), graphs)


def _heading(title: str) -> Iterator[str]:
    yield ""
    yield title
    yield "-" * len(title)


def _graph_numbers(log: ProfileLogContents) -> dict[str, int]:
    names = dict.fromkeys(m.graph for m in log.messages if m.graph)
    return {name: number for number, name in enumerate(names)}


def _graph_title(name: str, graphs: dict[str, int]) -> str:
    return f"Graph {graphs[name]} ({name}):" if name in graphs else "No graph:"


def _block(messages: list[Message], graphs: dict[str, int]) -> Iterator[str]:
    if not messages:
        yield "    none"
    for m in messages:
        if m.graph:
            yield f"    {_graph_title(m.graph, graphs)}"
        indent = "        " if m.graph else "    "
        kind = "" if m.method in (2, 5, 6, 7) else f" ({m.method_name})"
        yield f"{indent}NetRun{kind}: {m.duration_us} us"
        for top in m.events:
            for depth, e in top.walk():
                yield f"{indent}{_line(e, depth)}"


def _line(e: LogEvent, depth: int) -> str:
    value = value_text(e)
    unit = "" if isinstance(e.value, bytes) else f" {unit_text(e)}".rstrip()
    return _named(label(e), depth) + f": {value}{unit}"


def _named(name: str, depth: int) -> str:
    return f"{'    ' * depth}{name}" if depth else f"Backend ({name})"


def _statistics(g: GraphStats, statistic: str, graphs: dict[str, int]) -> Iterator[str]:
    yield f"    {_graph_title(g.name, graphs)}"
    total = Series("NetRun", "us", 0, g.durations)
    yield f"        NetRun: {_rounded(total.statistic(statistic))} us"
    for s in g.series.values():
        value = f"{_rounded(s.statistic(statistic))} {s.unit}".rstrip()
        if len(s.values) != len(g.durations):
            value += f" (in {len(s.values)} of {len(g.durations)} executions)"
        yield f"        {_named(s.label, s.depth)}: {value}"
    # Of copies, all of a call in one line, whatever tensors they were of.
    for name, values in (("Copied In", g.copied_in), ("Copied Out", g.copied_out)):
        copied = Series(name, "bytes", 0, values)
        yield f"        {name}: {_rounded(copied.statistic(statistic))} bytes"


def _rounded(value: float) -> str:
    """Whole numbers as scripts expect them; what is no whole number by itself, too."""
    return str(round(value))
