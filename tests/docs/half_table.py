#!/usr/bin/env python3
"""Write docs/htp-half-precision.md: our htp backend in FLOAT_16 beside the vendor's HTP simulator.

python tests/docs/half_table.py          # run the nodes, write the page
python tests/docs/half_table.py --check  # status 1 when a result is worse than the page says
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.htp import half  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the page, do not write")
    args = parser.parse_args()
    found = half.sweep()
    text = half.PAGE.read_text() if args.check else half.page(found)
    if wrong := half.worse(found, text):
        print("\n".join(wrong))
        return 1
    if not args.check:
        half.PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
