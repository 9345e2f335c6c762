#!/usr/bin/env python3
"""Write docs/htp-half-precision.md: our htp backend in FLOAT_16 beside the vendor's HTP simulator.

python tests/docs/half_table.py          # run the nodes, write the page
python tests/docs/half_table.py --check  # status 1 when a result is worse than the page says
"""

from __future__ import annotations

import sys
from pathlib import Path

import _table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.htp import half  # noqa: E402

if __name__ == "__main__":
    sys.exit(_table.main(__doc__ or "", half.PAGE, half.sweep, half.page, half.worse))
