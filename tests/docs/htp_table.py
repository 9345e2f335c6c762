#!/usr/bin/env python3
"""Write docs/htp-fixed-point.md: our htp backend beside the vendor's HTP simulator.

One node after another runs on the simulator of the package onnxruntime-qnn and on our htp backend,
with the same encodings and inputs: every op of the op table with every fixed-point type. The
simulator works in a process of its own, so a node that crashes it costs only that node.

    python tests/docs/htp_table.py          # run the nodes, write the page
    python tests/docs/htp_table.py --check  # status 1 when a result is worse than the page says
"""

from __future__ import annotations

import sys
from pathlib import Path

import _table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.htp import page as htp_page  # noqa: E402
from support.htp import sweep as htp_sweep  # noqa: E402


def sweep() -> htp_page.Table:
    return htp_sweep.sweep(htp_sweep.trials())


def wrong(table: htp_page.Table, text: str) -> list[str]:
    """What is worse than the page says, and differences without a reason in reasons.py."""
    return htp_page.worse(table, text) + htp_page.unexplained(table)


if __name__ == "__main__":
    sys.exit(_table.main(__doc__ or "", htp_page.PAGE, sweep, htp_page.page, wrong))
