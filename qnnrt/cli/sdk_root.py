"""``qnnrt sdk-root``: a folder that lies as a QNN SDK does, for tools that expect one.

``lib/`` and ``include/`` lead to this package, ``bin/`` has the tools. The folder is the user's,
outside of the package, since installed packages are often not to be written to and wheels hold no
links. It is named after the package and the interpreter that it leads to, and checked each time:
two installations have two, and a damaged one is mended.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .paths import INCLUDE_DIR, LIB_DIR, PACKAGE

#: The SDK's names for this processor: tools look in one of them.
TARGETS = {
    "x86_64": ("x86_64-linux-clang",),
    "aarch64": ("aarch64-linux-clang", "aarch64-oe-linux-gcc11.2", "aarch64-ubuntu-gcc9.4"),
}
#: In bin/, under the SDK's names.
TOOLS = (
    "context-binary-generator",
    "context-binary-utility",
    "net-run",
    "platform-validator",
    "profile-viewer",
    "throughput-net-run",
)


def add(commands: argparse._SubParsersAction[Any]) -> None:
    what = "a folder that lies as a QNN SDK does: lib/, include/QNN/, bin/"
    parser = commands.add_parser(
        "sdk-root",
        help=f"print {what}",
        description=f"Prints {what}. It is made where it is missing. "
        "For tools that expect one: export QNN_SDK_ROOT=$(qnnrt sdk-root)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="make it there (default: a folder of this installation's in $XDG_CACHE_HOME/qnnrt or "
        "~/.cache/qnnrt)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    root = default_folder() if options.folder is None else options.folder.absolute()
    make(root)
    print(root)
    return 0


def default_folder() -> Path:
    leads_to = os.fsencode(f"{PACKAGE}\0{sys.executable}")
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return base / "qnnrt" / f"sdk-{hashlib.sha256(leads_to).hexdigest()[:12]}"


def make(root: Path) -> None:
    """Makes what is missing or differs, each entry at once, so that others may do so meanwhile.

    Raises:
        OSError: something else stands there, or it cannot be written to.
    """
    for name, content in _entries():
        path = root / name
        if _is(path, content):
            continue
        if path.is_dir() and not path.is_symlink():
            raise IsADirectoryError(errno.EISDIR, "a folder stands where a link belongs", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            new = Path(folder) / path.name
            if isinstance(content, Path):
                new.symlink_to(content)
            else:
                new.write_text(content)
                new.chmod(0o755)
            new.replace(path)


def _entries() -> Iterator[tuple[str, Path | str]]:
    """Where in the folder -> what it leads to, or the text of a program."""
    machine = platform.machine()
    targets = TARGETS.get(machine, (f"{machine}-linux-clang",))
    yield "include/QNN", INCLUDE_DIR / "qnnrt/QNN"
    yield "include/qnnrt", INCLUDE_DIR / "qnnrt"
    yield "bin/envsetup.sh", _SETUP.format(lib=f"lib/{targets[0]}", bin=f"bin/{targets[0]}")
    for target in targets:
        yield f"lib/{target}", LIB_DIR
        yield from ((f"bin/{target}/qnn-{tool}", _program(tool)) for tool in TOOLS)


def _program(tool: str) -> str:
    """Runs this interpreter and this package, installed or not, wherever it is called from."""
    code = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); "
    code += "from qnnrt.cli import main; sys.exit(main())"
    return f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", "-c", code, tool])} "$@"\n'


_SETUP = """\
# To be sourced by bash: where this SDK, its tools and its libraries are.
QNN_SDK_ROOT="$(cd "$(dirname "${{BASH_SOURCE[0]}}")/.." && pwd)"
export QNN_SDK_ROOT
export PATH="$QNN_SDK_ROOT/{bin}:$PATH"
export LD_LIBRARY_PATH="$QNN_SDK_ROOT/{lib}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
"""


def _is(path: Path, content: Path | str) -> bool:
    try:
        if isinstance(content, Path):
            return path.readlink() == content
        return os.access(path, os.X_OK) and path.read_text() == content
    except (OSError, ValueError):
        return False
