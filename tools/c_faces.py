"""Headers made from those of csrc/abi: initializers of the structs, and the API as functions."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from c_headers import Enum, Header, Reader, Struct, Typedef, Variable

_WIDTH = 100
#: Fields whose unset value is not the general one: as clients send them.
_UNSET = {
    "Qnn_TensorMemType_t": "QNN_TENSORMEMTYPE_RAW",
    "Qnn_ParamType_t": "QNN_PARAMTYPE_UNDEFINED",
}
#: Other spellings that programs use.
_ALIASES = {
    "QNN_GPU_MEMINFO_CUSTOM_INIT": "QNN_GPU_MEM_INFO_CUSTOM_INIT",
    "QNN_OPCONFIG_INIT": "QNN_OP_CONFIG_INIT",
    "QNN_OPCONFIG_V1_INIT": "QNN_OP_CONFIG_V1_INIT",
}
_INIT = """\
// What a struct is before its fields are set, made by tools/abi.py; do not edit. Enums are
// UNDEFINED, versions the first, file descriptors QNN_INVALID_FD, everything else is 0.
//   Qnn_Tensor_t tensor = QNN_TENSOR_INIT;
#pragma once

#include <stddef.h>

{includes}

// clang-format off

"""
_FUNCTIONS = """\
// The API as functions, made by tools/abi.py; do not edit. For programs that call
// QnnMem_register(...) rather than table->memRegister(...).
//
// All sources of one program or library share one choice: qnnrt_use_interface(provider) with one
// that QnnInterface_getProviders listed, and qnnrt_use_system_interface likewise. A function
// returns QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED before that, QNN_COMMON_ERROR_NOT_SUPPORTED
// where the provider's table has no such entry.
#pragma once

#include <stddef.h>

#include "qnn_errors.h"
#include "qnn_interface.h"
#include "qnn_system.h"
#include "qnn_versions.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((weak, visibility("hidden")))
const QnnInterface_ImplementationV2_32_t* qnnrt_chosen_interface;
__attribute__((weak, visibility("hidden")))
const QnnSystemInterface_ImplementationV1_7_t* qnnrt_chosen_system_interface;

// NULL: none any more. Refused with QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES: a provider of another
// major version, or one whose table may be shorter than this header's.
static inline Qnn_ErrorHandle_t qnnrt_use_interface(const QnnInterface_t* provider) {
  if (provider != NULL) {
    const Qnn_Version_t* core = &provider->apiVersion.coreApiVersion;
    if (core->major != QNN_API_VERSION_MAJOR || core->minor < QNN_API_VERSION_MINOR)
      return QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES;
  }
  qnnrt_chosen_interface = provider == NULL ? NULL : &provider->v2_32;
  return QNN_SUCCESS;
}

static inline Qnn_ErrorHandle_t qnnrt_use_system_interface(const QnnSystemInterface_t* provider) {
  if (provider != NULL) {
    const Qnn_Version_t* version = &provider->systemApiVersion;
    if (version->major != QNN_SYSTEM_API_VERSION_MAJOR ||
        version->minor < QNN_SYSTEM_API_VERSION_MINOR)
      return QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES;
  }
  qnnrt_chosen_system_interface = provider == NULL ? NULL : &provider->v1_7;
  return QNN_SUCCESS;
}

// clang-format off

"""
_END = """\
// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif
"""


# ---- initializers


def initializers(headers: list[Header], reader: Reader) -> str:
    enums = {d.name: d for h in headers for d in h.declarations if isinstance(d, Enum)}
    structs = [
        d
        for h in headers
        for d in h.declarations
        if isinstance(d, Struct) and d.members and d.name.startswith(("Qnn_", "Qnn"))
        if not d.name.startswith("Qnnrt_")
    ]
    text = _INIT.format(
        includes="\n".join(
            f'#include "{name}"' for name in sorted(h.path.removeprefix("abi/") for h in headers)
        )
    )
    unset = {name: _enumerator(enum) for name, enum in enums.items()} | _UNSET
    for d in (d for h in headers for d in h.declarations):
        if isinstance(d, Typedef) and _is_pointer(d.variable, unset):
            unset[d.variable.name] = "NULL"
    unset |= {struct.name: _macro(struct.name) for struct in structs}
    for struct in structs:
        values = [_value(struct, member, unset, reader) for member in struct.members or ()]
        text += _defined(unset[struct.name], values)
    for alias, name in _ALIASES.items():
        assert name in unset.values(), name
        text += f"#define {alias} {name}\n"
    return text


def _macro(type_: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type_.removesuffix("_t"))
    return words.replace("__", "_").upper() + "_INIT"


def _is_pointer(variable: Variable, unset: dict[str, str]) -> bool:
    if "*" in variable.type or variable.params is not None:
        return True
    return unset.get(variable.type.removeprefix("const ")) == "NULL"


def _value(
    struct: Struct, member: Variable | list[Variable], unset: dict[str, str], reader: Reader
) -> str:
    if isinstance(member, list):  # a union: its first member
        return "{" + _value(struct, member[0], unset, reader) + "}"
    if member.length is not None:
        return "{0}"
    if _is_pointer(member, unset):
        return "NULL"
    if member.name == "fd" and not struct.name.startswith("QnnLpai"):
        return "QNN_INVALID_FD"
    number = {"float": "0.0f", "double": "0.0", "bool": "false"}.get(member.type, "0")
    return unset.get(member.type.removeprefix("const "), number)


def _enumerator(enum: Enum) -> str:
    values = {one.name: one.value for one in enum.values}
    unset = [name for name in values if re.search(r"_(UNDEFINED|UNKNOWN)$", name)]
    if enum.name.endswith("Version_t") or not unset:
        return min(values, key=lambda name: values[name])
    return unset[0]


def _defined(name: str, values: list[str]) -> str:
    line = f"#define {name} {{{', '.join(values)}}}\n"
    if len(line) <= _WIDTH + 1:
        return line
    body = textwrap.wrap(", ".join(values), _WIDTH - 8, break_long_words=False)
    return f"#define {name} \\\n  {{" + " \\\n   ".join(body) + "}\n"


# ---- functions


def functions(headers: list[Header], reader: Reader) -> str:
    types = {
        d.variable.name: d.variable
        for h in headers
        for d in h.declarations
        if isinstance(d, Typedef) and d.variable.params is not None
    }
    text = _FUNCTIONS
    for table, chosen in (
        ("QnnInterface_ImplementationV2_32_t", "qnnrt_chosen_interface"),
        ("QnnSystemInterface_ImplementationV1_7_t", "qnnrt_chosen_system_interface"),
    ):
        for entry in reader.structs[table].fields():
            text += "\n".join(_function(entry, types[entry.type], table, chosen)) + "\n\n"
    text += "// As tutorials spell it.\n#define QnnMem_deregister QnnMem_deRegister\n\n"
    return text + _END


def _function(entry: Variable, type_: Variable, table: str, chosen: str) -> Iterator[str]:
    part, _, verb = entry.type.removesuffix("Fn_t").partition("_")
    params = type_.params or []
    names = [p.name or f"argument{i}" for i, p in enumerate(params, 1)]
    listed = ", ".join(f"{p.type} {n}" for p, n in zip(params, names, strict=True)) or "void"
    head = f"static inline Qnn_ErrorHandle_t {part}_{verb[0].lower()}{verb[1:]}("
    yield from _wrapped(head + listed + ") {", 4)
    yield f"  const {table}* table = {chosen};"
    yield "  if (table == NULL) return QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;"
    yield f"  if (table->{entry.name} == NULL) return QNN_COMMON_ERROR_NOT_SUPPORTED;"
    yield from _wrapped(f"  return table->{entry.name}({', '.join(names)});", 6)
    yield "}"


def _wrapped(line: str, indent: int) -> list[str]:
    glued = re.sub(r"(?<![,{(]) (?![{])", "\0", line)  # broken between parameters alone
    lines = textwrap.wrap(glued, _WIDTH, subsequent_indent=" " * indent, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]
