"""``qnnrt lib-dir`` and ``qnnrt include-dir``: where C programs find them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
LIB_DIR = PACKAGE / "lib"
INCLUDE_DIR = PACKAGE / "include"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    for name, folder, what in (
        ("lib-dir", LIB_DIR, "the folder of libQnnCpu.so and the other drop-in libraries"),
        ("include-dir", INCLUDE_DIR, "the folder to give to -I; headers are qnnrt/*.h in it"),
    ):
        parser = commands.add_parser(name, help=f"print {what}", description=f"Prints {what}.")
        parser.set_defaults(run=run, folder=folder)


def run(options: argparse.Namespace) -> int:
    print(options.folder)
    return 0
