"""``qnnrt lib-dir``, ``include-dir``, ``cmake-dir``, ``pkgconfig-dir``: for C and C++ programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
LIB_DIR = PACKAGE / "lib"
INCLUDE_DIR = PACKAGE / "include"
CMAKE_DIR = PACKAGE / "cmake"
PKGCONFIG_DIR = PACKAGE / "pkgconfig"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    for name, folder, what in (
        ("lib-dir", LIB_DIR, "the folder of libQnnCpu.so and the other drop-in libraries"),
        ("include-dir", INCLUDE_DIR, "the folder to give to -I; headers are qnnrt/*.h in it"),
        ("cmake-dir", CMAKE_DIR, "the folder for CMAKE_PREFIX_PATH: find_package(qnnrt CONFIG)"),
        ("pkgconfig-dir", PKGCONFIG_DIR, "the folder for PKG_CONFIG_PATH; the package is qnnrt"),
    ):
        parser = commands.add_parser(name, help=f"print {what}", description=f"Prints {what}.")
        parser.set_defaults(run=run, folder=folder)


def run(options: argparse.Namespace) -> int:
    print(options.folder)
    return 0
