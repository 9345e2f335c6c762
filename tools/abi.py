#!/usr/bin/env python3
"""Write what C++, Cython and Python know of the C interface out of its headers, csrc/abi.

    python tools/abi.py            # write the files
    python tools/abi.py --check    # exit status 1 when one of them is not what the headers say

A new declaration is written in a header of csrc/abi and nowhere else; then this is run:
  qnnrt/_native/qnn.pxd   what the binding can use: everything that the headers in HEADERS declare
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from c_headers import (  # noqa: E402
    Declaration,
    Define,
    Enum,
    Function,
    Header,
    Reader,
    Struct,
    Typedef,
    Variable,
)

#: From csrc, each after those that it includes.
HEADERS = (
    "abi/qnn_enums.h",
    "abi/qnn_errors.h",
    "abi/qnn_property.h",
    "abi/qnn_types.h",
    "abi/qnn_objects.h",
    "abi/qnn_context.h",
    "abi/qnn_interface.h",
    "abi/qnn_system.h",
    "abi/qnn_htp_perf.h",
    "abi/qnn_htp.h",
    "abi/qnn_gpu.h",
    "abi/qnn_lpai.h",
    "abi/qnnrt_ext.h",
    "abi/rpcmem.h",
    "memory/memory_api.h",
    "client/dlpack.h",
)
_MADE = "made by tools/abi.py; do not edit"
_WIDTH = 100

# ---- qnnrt/_native/qnn.pxd

_PXD = f"""\
# The C interface as Cython sees it, {_MADE}.
#
# Members of anonymous unions are plain fields: the field beside them (memType, option, version,
# paramType, ...) says which one is live. Every call may be made without the GIL.

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from libcpp cimport bool


cdef extern from "<stdarg.h>" nogil:
    ctypedef struct va_list:
        pass
"""


def pxd(headers: list[Header]) -> str:
    return _PXD + "".join(map(_block, headers))


def _block(header: Header) -> str:
    parts = []
    for kind, group in groupby(header.declarations, _kind):
        if kind == "constants":
            parts.append(_listed("enum:", [d.name for d in group]))
        else:
            parts.append(("\n\n" if kind == "types" else "\n").join(map(_declaration, group)))
    text = textwrap.indent("\n\n".join(parts), "    ")
    return f'\n\ncdef extern from "{header.path}" nogil:\n{text}\n'


def _kind(d: Declaration) -> str:
    """Declarations of one kind stand together."""
    if isinstance(d, Define) and isinstance(d.value, int) and d.value <= 0x7FFFFFFF:
        return "constants"
    return "types" if isinstance(d, Enum | Struct) else type(d).__name__


def _listed(head: str, names: list[str]) -> str:
    lines = textwrap.wrap(", ".join(names), _WIDTH - 9, break_long_words=False)
    return "\n    ".join([head, *(line.rstrip(",") for line in lines)])


def _declaration(d: Declaration) -> str:
    if isinstance(d, Define):
        return f"{'const uint32_t' if isinstance(d.value, int) else 'const char*'} {d.name}"
    if isinstance(d, Function):
        return _call(f"{d.type} {d.name}", d.params, "")
    if isinstance(d, Typedef):
        return "ctypedef " + _declared(d.variable)
    if isinstance(d, Enum):
        return _listed(f"{'ctypedef ' * d.is_typedef}enum {d.name}:", [v.name for v in d.values])
    fields = [textwrap.indent(_declared(f), "    ") for f in d.fields()] or ["    pass"]
    return "\n".join([f"ctypedef struct {d.name}:", *fields])


def _declared(v: Variable) -> str:
    length = "" if v.length is None else f"[{v.length}]"
    if v.params is None:
        return f"{v.type} {v.name}{length}".rstrip()
    return _call(f"{v.type} (*{v.name}{length})", v.params, " noexcept nogil")


def _call(head: str, params: list[Variable], tail: str) -> str:
    listed = ", ".join(_declared(p).replace(" ", "\0") for p in params)  # no line ends in one
    listed += f"){tail}".replace(" ", "\0")
    if len(head) + len(listed) < _WIDTH - 20:
        lines = [f"{head}({listed}"]
    else:
        lines = [f"{head}(", *textwrap.wrap(listed, _WIDTH - 13, break_long_words=False)]
    return "\n    ".join(lines).replace("\0", " ")


# ---- all of it


def made() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with its text."""
    reader = Reader(ROOT / "csrc")
    headers = [reader.read(path) for path in HEADERS]
    writers: dict[str, Callable[[list[Header]], str]] = {"qnnrt/_native/qnn.pxd": pxd}
    for path, write in writers.items():
        yield ROOT / path, write(headers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the files, do not write")
    args = parser.parse_args()
    stale = [(p, text) for p, text in made() if not p.exists() or p.read_text() != text]
    for path, text in stale:
        if args.check:
            print(f"{path.relative_to(ROOT)} is not what csrc/abi says: run python tools/abi.py")
        else:
            path.write_text(text)
    return bool(stale) and args.check


if __name__ == "__main__":
    sys.exit(main())
