#!/usr/bin/env python3
"""Write docs/htp-fixed-point.md: our htp backend beside the vendor's HTP simulator.

One node after another runs on the simulator of the package onnxruntime-qnn and on our htp backend,
with the same encodings and inputs: every op of the op table with every fixed-point type. The
simulator works in a process of its own, so a node that crashes it costs only that node.

    python tests/docs/htp_table.py          # run the nodes, write the page
    python tests/docs/htp_table.py --check  # status 1 when a result is worse than the page says
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.htp import page as htp_page  # noqa: E402
from support.htp import sweep as htp_sweep  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the page, do not write")
    args = parser.parse_args()
    table = htp_sweep.sweep(htp_sweep.trials())
    if args.check:
        worse = htp_page.worse(table)
        print("\n".join(worse) or "no result is worse than the page says")
        return bool(worse)
    if unexplained := htp_page.unexplained(table):
        print("no reason in tests/support/htp/reasons.py for:", *unexplained, sep="\n  ")
        return 1
    htp_page.PAGE.write_text(htp_page.page(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
