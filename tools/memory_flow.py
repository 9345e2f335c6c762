#!/usr/bin/env python3
"""Draws docs/memory-flow.svg, the picture of the README: what is copied, and what is not.

python tools/memory_flow.py            # write it
python tools/memory_flow.py --check    # exit status 1 when it is another
"""

import argparse
import sys
from pathlib import Path
from xml.sax.saxutils import escape

TARGET = Path(__file__).resolve().parents[1] / "docs/memory-flow.svg"
WIDTH, HEIGHT = 920, 360
# A picture in a page has no way to ask for the page's colours, only for the reader's.
STYLE = """
  svg { font: 15px system-ui, sans-serif; color-scheme: light dark }
  .ink { fill: #1f2933 } .soft { fill: #52606d; font-size: 13px } .head { font-weight: 600 }
  .who { fill: #eef2f6; stroke: #7b8794 }
  .memory { fill: #d3f1e2; stroke: #147d64; stroke-width: 2 }
  .copy { fill: #ffe3c7; stroke: #b35309; stroke-width: 2 }
  .line { stroke: #52606d; stroke-width: 2; fill: none } .tip { fill: #52606d }
  .rule { stroke: #cbd2d9 } .good { fill: #0c6b58; font-weight: 600 }
  .bad { fill: #9a4708; font-weight: 600 } .code { font: 13px ui-monospace, monospace }
  @media (prefers-color-scheme: dark) {
    .ink { fill: #f0f4f8 } .soft { fill: #b8c4cf }
    .who { fill: #2b3540; stroke: #8895a3 } .memory { fill: #0f4a3c; stroke: #4fd1a5 }
    .copy { fill: #5a3208; stroke: #f0a35e }
    .line { stroke: #b8c4cf } .tip { fill: #b8c4cf }
    .rule { stroke: #52606d } .good { fill: #6ee0b8 } .bad { fill: #f5b47a }
  }
"""


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: int, y: int, width: int, height: int, kind: str, *lines: str) -> str:
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>']
    middle = y + height / 2 + 5 - 9 * (len(lines) - 1)
    for i, line in enumerate(lines):
        parts.append(text(x + width / 2, middle + 18 * i, line, "soft" if i else "ink"))
    return "".join(parts)


def arrow(x: int, y: int, to_x: int, words: str = "") -> str:
    line = f'<path d="M{x} {y}H{to_x - 8}" class="line"/>'
    tip = f'<path d="M{to_x} {y}l-10 -5v10z" class="tip"/>'
    return line + tip + (text((x + to_x) / 2 - 3, y - 9, words, "soft") if words else "")


def shared(y: int) -> list[str]:
    """One buffer from end to end."""
    return [
        text(20, y, "With shared buffers", "ink head", "start"),
        text(900, y, "0 bytes copied in a run", "good", "end"),
        box(20, y + 20, 130, 60, "who", "Producer", "camera, decoder"),
        arrow(150, y + 50, 215, "writes"),
        box(215, y + 20, 140, 60, "memory", "Input buffer", "memfd or dma-buf"),
        arrow(355, y + 50, 415, "reads"),
        box(415, y + 20, 110, 60, "who", "Kernels", "of a backend"),
        arrow(525, y + 50, 590, "write"),
        box(590, y + 20, 140, 60, "memory", "Output buffer", "memfd or dma-buf"),
        arrow(730, y + 50, 790, "is"),
        box(790, y + 20, 110, 60, "who", "numpy array", "a view of it"),
        text(285, y + 102, "registered once, by its fd", "soft"),
        text(660, y + 102, "registered once, by its fd", "soft"),
        text(470, y + 102, "memory planned at load", "soft"),
    ]


def copied(y: int) -> list[str]:
    """The same with arrays of the program's own."""
    advice = (
        '<tspan class="ink code">session.stats.copied_bytes</tspan> says how many; '
        '<tspan class="ink code">Session(..., strict=True)</tspan> makes a copy an error.'
    )
    return [
        text(20, y, "With arrays of your own, on an accelerator", "ink head", "start"),
        text(900, y, "every copy counted, with its reason", "bad", "end"),
        box(20, y + 20, 130, 60, "who", "Producer", "camera, decoder"),
        arrow(150, y + 50, 185),
        box(185, y + 20, 90, 60, "who", "array"),
        arrow(275, y + 50, 330, "copy"),
        box(330, y + 20, 70, 60, "copy", "staging"),
        arrow(400, y + 50, 430),
        box(430, y + 20, 90, 60, "who", "Kernels"),
        arrow(520, y + 50, 550),
        box(550, y + 20, 70, 60, "copy", "staging"),
        arrow(620, y + 50, 675, "copy"),
        box(675, y + 20, 90, 60, "who", "array"),
        arrow(765, y + 50, 800),
        box(800, y + 20, 100, 60, "who", "Consumer"),
        f'<text x="20" y="{y + 108}" class="soft">{advice}</text>',
    ]


def picture() -> str:
    title = (
        "One shared buffer from the producer to the kernels to numpy, beside the same with copies"
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">',
        f"<title>{title}</title><style>{STYLE}</style>",
        *shared(40),
        f'<path d="M20 190H{WIDTH - 20}" class="rule"/>',
        *copied(230),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if parser.parse_args().check:
        return 0 if TARGET.read_text(encoding="utf-8") == picture() else 1
    TARGET.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
