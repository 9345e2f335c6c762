"""What the scripts share that compare a table with the vendor's simulator and write its page."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Table = TypeVar("Table")


def main(
    doc: str,
    path: Path,
    sweep: Callable[[], Table],
    page: Callable[[Table], str],
    wrong: Callable[[Table, str], list[str]],
) -> int:
    """Writes the page, or with --check compares: then status 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the page, do not write")
    args = parser.parse_args()
    table = sweep()
    text = path.read_text() if args.check else page(table)
    if found := wrong(table, text):
        print("\n".join(found))
        return 1
    if args.check:
        print("no result is worse than the page says")
    else:
        path.write_text(text)
    return 0
