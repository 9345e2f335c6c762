"""A drawing of an arena over time: steps to the right, offsets upwards, one box for each item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from ._common import size

#: What an item is for, and its colour: distinguishable by people with any kind of colour vision.
COLOURS: Final = {
    "tensor": "#56b4e9",
    "scratch": "#bbbbbb",
    "input": "#009e73",
    "output": "#e69f00",
}
_WIDTH, _HEIGHT = 1200, 640  # of the area that boxes are in
_LEFT, _TOP, _RIGHT, _BOTTOM = 96, 44, 24, 56
_LETTER: Final = 6.2  # wide, of the labels in boxes

_STYLE: Final = (
    "text{font:11px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}"
    ".item{stroke:#222;stroke-width:.4}.axis{stroke:#222;stroke-width:1}"
    ".grid{stroke:#ddd;stroke-width:.5}.peak{stroke:#d55e00;stroke-width:1.5}"
    ".bound{stroke:#0072b2;stroke-width:1.5;stroke-dasharray:6 4}"
    ".label{pointer-events:none}"
)


def clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def svg(name: str, arena: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    """The drawing as an SVG document.

    Each box has its item's numbers as attributes (``data-offset``, ``data-size``, ``data-first``,
    ``data-last``, ``data-kind``, ``data-name``) and a title, which viewers show when pointed at.
    """
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(clean(name))}: arena over time</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="18">{escape(clean(name))}: {_summary(arena)}</text>',
        *_legend(arena),
        *_axes(arena, len(steps)),
        *_boxes(arena, steps),
        *_marks(arena),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _summary(arena: Mapping[str, Any]) -> str:
    return (
        f"{size(arena['peak'])} for {len(arena['items'])} items of {size(arena['sum'])} in all, "
        f"order {escape(arena['order']) or 'none'}"
    )


def _x(step: float, steps: int) -> float:
    return _LEFT + _WIDTH * step / max(steps, 1)


def _y(offset: float, top: int) -> float:
    return _TOP + _HEIGHT * (1 - offset / max(top, 1))


def _legend(arena: Mapping[str, Any]) -> Iterator[str]:
    x = _LEFT
    for kind in sorted({item["kind"] for item in arena["items"]}, key=list(COLOURS).index):
        yield f'<rect x="{x}" y="26" width="10" height="10" fill="{COLOURS[kind]}"/>'
        yield f'<text x="{x + 14}" y="35">{kind}</text>'
        x += 80


def _round_steps(top: float, count: int) -> list[int]:
    """0 and about ``count`` more round numbers up to ``top``."""
    step = 1
    while top / step > count:
        step *= 5 if str(step)[0] == "2" else 2
        if str(step)[0] == "4":
            step = step // 4 * 5
    return list(range(0, int(top) + 1, step))


def _axes(arena: Mapping[str, Any], steps: int) -> Iterator[str]:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    for step in _round_steps(steps, 12):
        x = _x(step, steps)
        yield f'<line class="grid" x1="{x:.2f}" y1="{_TOP}" x2="{x:.2f}" y2="{bottom}"/>'
        yield f'<text x="{x:.2f}" y="{bottom + 16}" text-anchor="middle">{step}</text>'
    for part in range(9):
        offset = arena["peak"] * part // 8
        y = _y(offset, arena["peak"])
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.2f}" text-anchor="end">{size(offset)}</text>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>'
    yield f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 38}" text-anchor="middle">step</text>'
    middle = _TOP + _HEIGHT / 2
    yield (
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        "offset in the arena</text>"
    )


def _boxes(arena: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in arena["items"]:
        x, end = _x(item["first"], len(steps)), _x(item["last"] + 1, len(steps))
        top = _y(item["offset"] + item["size"], arena["peak"])
        high = _y(item["offset"], arena["peak"]) - top
        name = clean(item["name"])
        data = "".join(
            f' data-{key}="{item[key]}"' for key in ("offset", "size", "first", "last", "kind")
        )
        yield (
            f'<rect class="item" x="{x:.3f}" y="{top:.3f}" width="{end - x:.3f}" '
            f'height="{high:.3f}" fill="{COLOURS[item["kind"]]}"{data} data-name={quoteattr(name)}>'
            f"<title>{escape(tooltip(item, steps))}</title></rect>"
        )
        letters = int((end - x - 6) / _LETTER)
        if letters >= 4 and high >= 12:
            short = name if len(name) <= letters else name[: letters - 1] + "…"
            yield (
                f'<text class="label" x="{x + 3:.2f}" y="{top + high / 2 + 4:.2f}">'
                f"{escape(short)}</text>"
            )


def tooltip(item: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    """What there is to say of an item, line by line."""
    first, last = item["first"], item["last"]
    producer, reader = (f"{clean(steps[i]['name'])} ({steps[i]['op']})" for i in (first, last))
    lines = [
        f"{clean(item['name'])} ({item['kind']})",
        f"offset {item['offset']:,}, size {item['size']:,} bytes ({size(item['size'])})",
        f"steps {first} to {last}: from {producer} to {reader}",
    ]
    if item.get("shared"):
        lines.append("also " + ", ".join(map(clean, item["shared"])))
    return "\n".join(lines)


def _marks(arena: Mapping[str, Any]) -> Iterator[str]:
    right = _LEFT + _WIDTH
    for kind, label, value in (
        ("bound", "lower bound", arena["lower_bound"]),
        ("peak", "peak", arena["peak"]),
    ):
        y = _y(value, arena["peak"])
        yield (
            f'<line class="{kind}" data-value="{value}" x1="{_LEFT}" y1="{y:.3f}" x2="{right}" '
            f'y2="{y:.3f}"/>'
        )
        x, anchor = (right, "end") if kind == "peak" else (right - 160, "end")
        yield f'<text x="{x}" y="{y - 4:.2f}" text-anchor="{anchor}">{label} {size(value)}</text>'


_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<title>{title}</title>
<style>
body{{font:14px sans-serif;margin:16px;color:#222}}
#drawing{{overflow:auto;border:1px solid #ccc}}
#drawing svg{{display:block;width:100%}}
#about{{white-space:pre-line;min-height:5.2em;margin:8px 0}}
.dim{{opacity:.12}}
.found{{stroke:#d55e00 !important;stroke-width:2 !important}}
label{{margin-right:24px}}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{facts}</p>
<p><label>find <input id="find" type="search" placeholder="part of a name"/></label>
<label>zoom <input id="zoom" type="range" min="1" max="20" value="1"/></label>
<span id="count"></span></p>
<p id="about">Point at a box.</p>
<div id="drawing">
{drawing}</div>
<script>
const about = document.getElementById("about"), drawing = document.getElementById("drawing");
const boxes = Array.from(drawing.querySelectorAll("rect.item"));
const words = (box) => box.querySelector("title").textContent;
for (const box of boxes)
  box.addEventListener("mouseenter", () => {{ about.textContent = words(box); }});
document.getElementById("find").addEventListener("input", (event) => {{
  const wanted = event.target.value.toLowerCase();
  let count = 0;
  for (const box of boxes) {{
    const hit = wanted === "" ? false : words(box).toLowerCase().includes(wanted);
    box.classList.toggle("found", hit);
    box.classList.toggle("dim", wanted === "" ? false : !hit);
    if (hit) count += 1;
  }}
  document.getElementById("count").textContent = wanted === "" ? "" : count + " found";
}});
document.getElementById("zoom").addEventListener("input", (event) => {{
  drawing.querySelector("svg").style.width = event.target.value * 100 + "%";
}});
</script>
</body>
</html>
"""


def html(
    name: str, arena: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], facts: Sequence[str]
) -> str:
    """The drawing as a page of its own: what a box is when pointed at, a search, a zoom. Nothing
    is fetched from anywhere."""
    return _PAGE.format(
        title=escape(clean(name)),
        facts="<br/>".join(escape(clean(fact)) for fact in facts),
        drawing=svg(name, arena, steps),
    )
