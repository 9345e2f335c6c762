"""``qnnrt inspect``: what a model becomes on a backend, and where its tensors lie in memory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import ContextBinary, Model, Tensor
from . import _arena_drawing
from ._common import (
    MODEL_HELP,
    UsageError,
    add_shape_and_graph,
    add_threads,
    count,
    load_model,
    print_json,
    size,
)

if TYPE_CHECKING:
    from ..session import Session


def add(commands: argparse._SubParsersAction[Any]) -> None:
    text = "show a model's graph and the plan of its memory"
    parser = commands.add_parser("inspect", help=text, description=text.capitalize() + ".")
    parser.add_argument("model", metavar="MODEL", type=Path, help=MODEL_HELP)
    parser.add_argument(
        "--backend", default="cpu", help="one of this package's: cpu, htp or lpai (default cpu)"
    )
    add_shape_and_graph(parser)
    parser.add_argument(
        "--io",
        choices=("memhandle", "raw", "scratch"),
        default="memhandle",
        help="how inputs and outputs are prepared and bound; scratch: in lpai's scratch memory "
        "(default memhandle)",
    )
    add_threads(parser)
    parser.add_argument(
        "--plan-ms",
        metavar="N",
        type=count,
        help="search for a smaller arena for so many milliseconds (default: not at all)",
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the arena over time")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="the same as a page with a search"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    report = collect(options)
    name, arena, steps = report["graph"], report["arena"], report["steps"]
    if options.svg is not None:
        options.svg.write_text(_arena_drawing.svg(name, arena, steps), encoding="utf-8")
    if options.html is not None:
        facts = [*memory_lines(report), *io_lines(report)]
        page = _arena_drawing.html(name, arena, steps, facts)
        options.html.write_text(page, encoding="utf-8")
    if options.json:
        print_json(report)
    else:
        print("\n".join(lines(report)))
    return 0


def collect(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that `qnnrt inspect` knows, as one JSON value."""
    from ..session import Session

    model = load_model(options)
    given: dict[str, Any] = {}
    if options.graph is not None:
        given["graph"] = options.graph
    if options.plan_ms is not None:
        if isinstance(model, ContextBinary):
            raise UsageError(f"--plan-ms: {options.model} was planned when it was made")
        given["plan_milliseconds"] = options.plan_ms
    try:
        session = Session(
            model, options.backend, io=options.io, threads=options.threads, options=given
        )
    except ValueError as error:  # an option of qnnrt's own for another's backend
        raise UsageError(str(error)) from None
    with session:
        text = session.graph.describe()
        if text is None:
            raise UsageError(f"--backend {options.backend}: only qnnrt's own can be inspected")
        report: dict[str, Any] = {
            "model": str(options.model),
            "graph": session.graph.name,
            "backend": options.backend,
            "inputs": [io_tensor(session, name, False) for name in session.inputs],
            "outputs": [io_tensor(session, name, True) for name in session.outputs],
            "tensors": tensors(model) if isinstance(model, Model) else [],
        }
        report |= json.loads(text)
    return report


def io_tensor(session: Session, name: str, output: bool) -> dict[str, Any]:
    """An input or output, and whose memory it is in."""
    bound = (session.outputs if output else session.inputs)[name]
    return {
        "name": name,
        "shape": list(bound.shape),
        "dtype": str(bound.dtype),
        "encoding": encoding(bound),
        "bytes": bound.nbytes,
        "prepared": bound.prepare,
        "bound": bound.io,
    }


def encoding(tensor: Any) -> str | None:
    """How its integers stand for real numbers, as text."""
    q = tensor.quantization
    if q is None:
        return None
    if q.axis is not None and q.axis >= 0:
        return f"{len(q.scale)} scales along axis {q.axis}"
    return f"{float(q.scale):.6g} x (q {int(q.offset):+d})"


def tensors(model: Model) -> list[dict[str, Any]]:
    """The tensors of the model as it was read; what became of them is in the steps."""
    ends = dict.fromkeys(model.inputs, "input") | dict.fromkeys(model.outputs, "output")

    def kind(t: Tensor) -> str:
        return ends.get(t.name) or ("native" if t.data is None else "static")

    return [
        {
            "name": t.name,
            "kind": kind(t),
            "shape": list(t.shape),
            "dtype": str(t.dtype),
            "encoding": encoding(t),
            "bytes": t.nbytes,
        }
        for t in model.tensors.values()
    ]


# ---- for people


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as text."""
    yield f"{report['graph']} on {report['backend']}: {counts(report)}"
    yield from io_lines(report)
    yield "steps"
    known = {t["name"]: f" {t['dtype']}{t['shape']}" for t in report["tensors"]}
    rows = [
        (
            str(i),
            step["name"],
            " + ".join([step["op"], *step["fused"]]),
            step["kernel"],
            ", ".join(name + known.get(name, "") for name in step["outputs"] if name),
        )
        for i, step in enumerate(report["steps"])
    ]
    yield from table(("", "name", "op", "kernel", "result"), rows)
    yield "memory"
    for line in memory_lines(report):
        yield f"  {line}"
    alive, step = fullest(report["arena"]["items"])
    if alive:
        name, every = report["steps"][step]["name"], len(report["arena"]["items"])
        yield f"most is alive in step {step}, {name}; --json has all {every} items"
        alive.sort(key=lambda item: -item["offset"])
        rows = [
            (
                f"{item['offset']:,}",
                f"{item['size']:,}",
                f"{item['first']} .. {item['last']}",
                item["kind"],
                " = ".join([item["name"], *item.get("shared", [])]),
            )
            for item in alive
        ]
        yield from table(("offset", "size", "steps", "kind", "name"), rows, right=(0, 1))


def counts(report: Mapping[str, Any]) -> str:
    fused = sum(len(step["fused"]) for step in report["steps"])
    static = [t for t in report["tensors"] if t["kind"] == "static"]
    text = f"{len(report['steps'])} steps, {fused} node{'' if fused == 1 else 's'} fused into them"
    if report["tensors"]:
        text += f"; {len(report['tensors'])} tensors in the model, {len(static)} of them constant"
    return text


def io_lines(report: Mapping[str, Any]) -> Iterator[str]:
    for what in ("inputs", "outputs"):
        for t in report[what]:
            text = f"{what[:-1]} {t['name']}: {t['dtype']}{t['shape']}, {size(t['bytes'])}"
            text += f", {t['encoding']}" if t["encoding"] else ""
            yield f"{text}, prepared {t['prepared']}, bound {t['bound']}"


def memory_lines(report: Mapping[str, Any]) -> Iterator[str]:
    arena = report["arena"]
    peak, bound, total = arena["peak"], arena["lower_bound"], arena["sum"]
    ratio = f", {peak / bound:.3f} times the lower bound" if bound else ""
    proved = "proved to be the smallest" if arena["proved"] else "maybe not the smallest"
    yield f"arena       {exactly(peak)}{ratio}: {proved}"
    yield f"lower bound {bound:,} bytes; the order that won: {arena['order'] or 'none'}"
    yield f"no sharing  {exactly(total)}"
    yield f"weights     {exactly(report['weight_bytes'])}"
    yield f"persistent  {report['persistent_bytes']:,} bytes"


def exactly(nbytes: int) -> str:
    """A size to the byte, and readable."""
    return f"{nbytes:,} bytes" + (f" ({size(nbytes)})" if nbytes >= 1024 else "")


def fullest(items: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], int]:
    """The items that are alive in the step where most is, and that step."""
    change: dict[int, int] = {}
    for item in items:
        change[item["first"]] = change.get(item["first"], 0) + item["size"]
        change[item["last"] + 1] = change.get(item["last"] + 1, 0) - item["size"]
    best = most = live = 0
    for step in sorted(change):
        live += change[step]
        if live > most:
            most, best = live, step
    return [item for item in items if item["first"] <= best <= item["last"]], best


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (0,)
) -> Iterator[str]:
    """Columns under their names, as wide as they have to be; names are cut at 48 letters."""
    cut = [[cell if len(cell) <= 48 else cell[:47] + "…" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cut, strict=True)]
    for row in (header, *cut):
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()
