#!/usr/bin/env python3
"""Write what C++, Cython and Python know of the C interface out of its headers, csrc/abi.

    python tools/abi.py            # write the files
    python tools/abi.py --check    # exit status 1 when one of them is not what the headers say

A new declaration is written in a header of csrc/abi and nowhere else. This is run after that, and
after the binding or Python begins to use a name that is declared already:
  qnnrt/_native/qnn.pxd         what the binding uses of the headers in HEADERS
  qnnrt/abi/constants.py        the numbers of the constants and enumerators that Python uses
  qnnrt/abi/structs.py          the layouts of the structs in STRUCTS, to pack and unpack
  qnnrt/abi/error_codes.py      the names and hints of error codes, for exceptions
  csrc/api/error_codes.inc      the messages of error codes, for errorGetMessage
  csrc/abi/qnn_init.h           what a program's structs are before it sets their fields
  csrc/abi/qnn_functions.h      the function tables as functions
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import c_faces  # noqa: E402
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
    "abi/qnn_model.h",
    "abi/qnn_system.h",
    "abi/qnn_htp_perf.h",
    "abi/qnn_htp.h",
    "abi/qnn_gpu.h",
    "abi/qnn_lpai.h",
    "abi/qnn_op_package.h",
    "abi/qnnrt_ext.h",
    "abi/qnnrt_op_package.h",
    "abi/qnnrt_opencl.h",
    "abi/rpcmem.h",
    "memory/memory_api.h",
    "ipc/ipc_api.h",
    "ipc/ring_api.h",
    "client/dlpack.h",
)
#: Structs of these, and of those above that are QNN's, have initializers.
MORE_STRUCTS = (
    "abi/qnn_cpu.h",
    "abi/qnn_ir.h",
    "abi/qnn_saver.h",
)
#: What Python packs or unpacks; tests/native/abi_layout_test.cc has to have each of them.
STRUCTS = (
    "QnnGpuGraph_CustomConfig_t",
    "QnnHtpContext_CustomConfig_t",
    "QnnHtpContext_CustomProperty_t",
    "QnnHtpDevice_CustomConfig_t",
    "QnnHtpGraph_CustomConfig_t",
    "QnnHtpPerfInfrastructure_DcvsV3_t",
    "QnnHtpSystemContext_ContextBlobInfo_t",
    "QnnHtpSystemContext_GraphBlobInfo_t",
    "QnnHtpSystemContext_GraphBlobInfoV1_t",
    "QnnHtpSystemContext_GraphBlobInfoV2_t",
    "Qnnrt_ArenaItem_t",
    "Qnnrt_GraphConfig_t",
)
_BINDING = "qnn.pxd"
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
    used = _words(path for path in (ROOT / "qnnrt").rglob("*.p[yx][xid]") if path.name != _BINDING)
    return _PXD + "".join(_block(*found) for found in _used(headers, used) if found[1])


def _words(sources: Iterable[Path]) -> set[str]:
    """Every identifier of these sources, comments and strings aside."""
    text = "\n".join(path.read_text() for path in sources)
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"""(?s:.*?)"""|#.*', "", text)))


def _used(headers: list[Header], words: set[str]) -> list[tuple[Header, list[Declaration]]]:
    """What is named by ``words``, with the types that it is made of; of structs and enums the
    fields and values that are named.
    """
    declared = {}
    for one in (one for header in headers for one in header.declarations):
        declared[one.variable.name if isinstance(one, Typedef) else one.name] = one
        if isinstance(one, Enum):
            declared |= {value.name: one for value in one.values}
    kept: dict[int, Declaration] = {}
    todo = [declared[word] for word in words & declared.keys()]
    while todo:
        one = todo.pop()
        if id(one) not in kept:
            kept[id(one)] = part = _part(one, words)
            todo += [declared[name] for name in _types(part) & declared.keys()]
    return [
        (header, [kept[id(one)] for one in header.declarations if id(one) in kept])
        for header in headers
    ]


def _part(d: Declaration, words: set[str]) -> Declaration:
    if isinstance(d, Enum):
        return replace(d, values=[value for value in d.values if value.name in words])
    if isinstance(d, Struct):
        return replace(d, members=[field for field in d.fields() if field.name in words])
    return d


def _types(d: Declaration) -> set[str]:
    """The names of the types that a declaration is made of."""
    if isinstance(d, Define | Enum):
        return set()
    if isinstance(d, Typedef):
        todo = [d.variable]
    elif isinstance(d, Struct):
        todo = list(d.fields())
    else:
        todo = [Variable(d.type, d.name, params=d.params)]
    found = set()
    while todo:
        one = todo.pop()
        found.update(one.type.replace("*", " ").split())
        todo += one.params or []
    return found


def _block(header: Header, declarations: list[Declaration]) -> str:
    parts = []
    for kind, group in groupby(declarations, _kind):
        if kind == "constants":
            parts.append(_listed("enum:", [d.name for d in group]))
        else:
            parts.append("\n".join(map(_declaration, group)))
    text = textwrap.indent("\n\n".join(parts), "    ")
    return f'\n\ncdef extern from "{header.path}" nogil:\n{text}\n'


def _kind(d: Declaration) -> str:
    """Declarations of one kind are grouped."""
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
        names = [value.name for value in d.values] or ["pass"]
        return _listed(f"{'ctypedef ' * d.is_typedef}enum {d.name}:", names)
    fields = []
    for (type_, plain), group in groupby(d.fields(), lambda f: (f.type, _is_plain(f))):
        if plain:
            names = textwrap.wrap(", ".join(f.name for f in group), _WIDTH - 9 - len(type_))
            fields += [f"{type_} {line.rstrip(',')}" for line in names]
        else:
            fields += map(_declared, group)
    lines = textwrap.indent("\n".join(fields or ["pass"]), "    ")
    return f"ctypedef struct {d.name}:\n{lines}"


def _is_plain(field: Variable) -> bool:
    """Whether it may share a line with its neighbours of the same type."""
    return field.length is None and field.params is None and "*" not in field.type


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


# ---- qnnrt/abi/structs.py

_STRUCTS = f"""\
\"""Structs of the C interface, {_MADE}: csrc/abi has them.\"""

from .layout import Layout

# fmt: off
"""


def structs(reader: Reader) -> str:
    text = _STRUCTS
    for name in STRUCTS:
        layout = reader.layout(name)
        fields = [f'"{f}": ({offset}, "{one.text()}")' for f, offset, one in layout.fields]
        text += f"{name} = Layout({layout.size}, {{\n{_filled(fields, '    ')}}})\n"
    return text


def _filled(items: list[str], indent: str) -> str:
    """Items of a display, as many on a line as fit."""
    text = ", ".join(item.replace(" ", "\0") for item in items) + ","
    lines = textwrap.wrap(text, _WIDTH - len(indent))
    return "".join(f"{indent}{line}\n" for line in lines).replace("\0", " ")


# ---- the tables of error codes

#: Components whose messages, where the header has none, are the code's name alone.
_BARE = ("saver", "perf_infrastructure", "system")
_CODES = f"""\
\"""QNN's error codes, {_MADE}: csrc/abi/qnn_errors.h has them.\"""

from typing import Final

# fmt: off
"""


@dataclass
class ErrorCode:
    component: str
    code: int
    name: str
    message: str
    hint: str


def error_codes(headers: list[Header]) -> list[ErrorCode]:
    """In the header's order; codes that several components return are there for each."""
    found = []
    enums = next(h for h in headers if h.path.endswith("qnn_errors.h")).enums()
    for enum in enums.values():
        stem = enum.name.removeprefix("Qnn").removesuffix("_Error_t").removeprefix("Htp")
        component = re.sub(r"(?<!^)([A-Z])", r"_\1", stem).lower()
        if component.endswith("interface"):
            continue  # codes of getProviders, which are common ones
        if component.startswith("system_"):
            component = "system"
        for one in enum.values:
            if one.value != 0:
                message, _, hint = " ".join(one.comment).partition("Hint: ")
                said = message.strip() or _in_words(component, one.name)
                found.append(ErrorCode(component, one.value, one.name, said, hint))
    return found


def _in_words(component: str, name: str) -> str:
    text = name.partition("ERROR_")[2].lower().replace("_", " ")
    return text if component in _BARE else f"{component.replace('_', ' ')}: {text}"


def error_rows(codes: list[ErrorCode]) -> str:
    """Rows of a C++ table, by code; for one that several components return, the common message."""
    first: dict[int, ErrorCode] = {}
    for code in codes:
        first.setdefault(code.code, code)
    text = f"// {_MADE[0].upper()}{_MADE[1:]}: abi/qnn_errors.h has them.\n"
    for code, found in sorted(first.items()):
        row = f"{{{code},"
        said = _quoted(found.message, "    ")
        fits = "\n" not in said and len(row) + len(said) < _WIDTH - 3
        text += f"{row}{' ' if fits else chr(10) + '    '}{said}}},\n"
    return text


def error_module(codes: list[ErrorCode], constants: dict[str, int | str]) -> str:
    names: dict[str, dict[int, str]] = {}
    for found in codes:
        # The system library's parts share their codes, which have the name of all of them.
        name = re.sub(r"^QNN_SYSTEM_[A-Z]+_ERROR", "QNN_SYSTEM_COMMON_ERROR", found.name)
        names.setdefault(found.component, {}).setdefault(found.code, name)
    common = names.pop("common")
    ranges = {
        one: tuple(constants[f"QNN_ERROR_RANGE_{_range(one)}_{end}"] for end in ("MIN", "MAX"))
        for one in names
    }
    text = f"{_CODES}\n#: What every component may return.\nCOMMON: Final = {{\n"
    text += _filled([f'{code}: "{name}"' for code, name in sorted(common.items())], "    ")
    text += (
        "}\n#: component -> (its first and last code, the names of what it returns). A component\n"
    )
    text += "#: within another one's range stands before that.\n"
    text += "COMPONENTS: Final[dict[str, tuple[int, int, dict[int, str]]]] = {\n"
    for component, (low, high) in sorted(ranges.items(), key=lambda item: item[1][1]):
        rows = [f'{code}: "{name}"' for code, name in sorted(names[component].items())]
        text += f'    "{component}": ({low}, {high}, {{\n{_filled(rows, "        ")}    }}),\n'
    text += "}\n#: What usually causes a code, and what to do.\nHINTS: Final = {\n"
    for hint in sorted({c.code: c.hint for c in codes if c.hint}.items()):
        text += f"    {hint[0]}: {_quoted(hint[1], '    ', len(str(hint[0])) + 2)},\n"
    return text + "}\n"


def _range(component: str) -> str:
    return "BACKEND_SAVER" if component == "saver" else component.upper()


def _quoted(text: str, indent: str, before: int = 0) -> str:
    """A string literal of C++ and Python; on its first line stands something ``before`` it."""
    if len(indent) + before + len(text) + 3 <= _WIDTH:
        return f'"{text}"'
    width = _WIDTH - len(indent) - 3
    lines = textwrap.wrap(text, width, initial_indent=" " * before)
    return '"' + f' "\n{indent}"'.join(line.strip() for line in lines) + '"'


# ---- qnnrt/abi/constants.py

_CONSTANTS = f"""\
\"""Numbers of the C interface, {_MADE}: csrc/abi has them.\"""

"""


def constants(headers: list[Header]) -> str:
    found = {}
    for header in headers:
        for d in header.declarations:
            if isinstance(d, Define) and isinstance(d.value, int):
                found[d.name] = d.value
            elif isinstance(d, Enum):
                found |= {one.name: one.value for one in d.values}
    constants = ROOT / "qnnrt/abi/constants.py"
    sources = [path for path in (ROOT / "qnnrt").rglob("*.py") if path != constants]
    used = _words(sources)
    # What qnnrt.abi.numbers is asked for is used without being named.
    prefixes = {p for path in sources for p in re.findall(r'numbers\("(\w+)"\)', path.read_text())}
    rows = (
        f"{name} = {value}\n"
        for name, value in found.items()
        if name in used or name.startswith(tuple(prefixes))
    )
    return _CONSTANTS + "".join(rows)


# ---- all of it


def made() -> Iterator[tuple[Path, str]]:
    """Every file that is made, with its text."""
    reader = Reader(ROOT / "csrc")
    headers = [reader.read(path) for path in HEADERS]
    codes = error_codes(headers)
    yield ROOT / "qnnrt/_native/qnn.pxd", pxd(headers)
    yield ROOT / "qnnrt/abi/constants.py", constants(headers)
    yield ROOT / "qnnrt/abi/structs.py", structs(reader)
    yield ROOT / "qnnrt/abi/error_codes.py", error_module(codes, reader.constants)
    yield ROOT / "csrc/api/error_codes.inc", error_rows(codes)
    qnn = [h for h in headers if h.path.startswith("abi/qnn_")]
    structs_of = [*qnn, *(reader.read(path) for path in MORE_STRUCTS)]
    yield ROOT / "csrc/abi/qnn_init.h", c_faces.initializers(structs_of, reader)
    yield ROOT / "csrc/abi/qnn_functions.h", c_faces.functions(headers, reader)


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
