"""A reader for the C of csrc/abi: constants, enums, structs, unions, typedefs and functions.

It takes what those headers are written in and no more, and stops with file and line at the rest:
no bit fields, no expressions beyond one literal or name, no nested declarators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Scalar types as struct formats; enums and typedefs join them as they are read.
_SCALARS = {
    "bool": "?", "char": "b", "double": "d", "float": "f", "int": "i", "int16_t": "h",
    "int32_t": "i", "int64_t": "q", "int8_t": "b", "size_t": "Q", "uint16_t": "H",
    "uint32_t": "I", "uint64_t": "Q", "uint8_t": "B",
}  # fmt: skip
_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8, "d": 8}
_POINTER = "Q"
_TOKEN = re.compile(r'\s+|//[^\n]*|"[^"]*"|0[xX][0-9A-Fa-f]+u?|\d+u?|\w+|[{}()\[\];,*=-]')
_DEFINE = re.compile(r"#define\s+(\w+)\s+(.+?)\s*(//.*)?$")
_SKIPPED = ("QNN_API", "__extension__")


@dataclass
class Variable:
    """A field, a parameter, or what a typedef names; with ``params`` a pointer to a function."""

    type: str  # as C writes it: "const char*"
    name: str
    length: int | None = None  # of an array
    params: list[Variable] | None = None


@dataclass
class Define:
    name: str
    value: int | str


@dataclass
class Enumerator:
    name: str
    value: int
    comment: list[str]  # the lines above it


@dataclass
class Enum:
    name: str
    values: list[Enumerator]
    is_typedef: bool


@dataclass
class Struct:
    """``members`` are fields and, as lists, anonymous unions; None: declared, not defined."""

    name: str
    members: list[Variable | list[Variable]] | None

    def fields(self) -> Iterator[Variable]:
        for member in self.members or ():
            yield from member if isinstance(member, list) else [member]


@dataclass
class Typedef:
    variable: Variable


@dataclass
class Function:
    type: str
    name: str
    params: list[Variable]


Declaration = Define | Enum | Struct | Typedef | Function


@dataclass
class Header:
    path: str  # from csrc: "abi/qnn_types.h"
    declarations: list[Declaration] = field(default_factory=list)

    def enums(self) -> dict[str, Enum]:
        return {d.name: d for d in self.declarations if isinstance(d, Enum)}


@dataclass
class Layout:
    """Of a struct, with its fields and their offsets, or of a scalar or an array of some."""

    size: int
    align: int
    fields: list[tuple[str, int, Layout]]
    format: str = ""
    has_union: bool = False

    def text(self) -> str:
        """As a format of Python's struct; bytes where fields overlap."""
        if self.format:
            return self.format
        if self.has_union:
            return f"{self.size}s"
        text, end = "", 0
        for _, offset, one in self.fields:
            text += _pad(offset - end) + one.text()
            end = offset + one.size
        return text + _pad(self.size - end)


def _pad(size: int) -> str:
    return f"{size}x" if size > 1 else "x" * size


class Reader:
    """Reads one header after the other; what earlier ones declare is known in later ones."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.constants: dict[str, int | str] = {}
        self.structs: dict[str, Struct] = {}
        self._formats = dict(_SCALARS)  # of every type that is not a struct

    def read(self, path: str) -> Header:
        header = Header(path)
        code = self._directives((self._root / path).read_text(), header)
        self._path, self._at = path, 0
        self._tokens: list[tuple[str, int]] = []
        self._split(code)
        while self._peek():
            header.declarations.append(self._declaration())
        return header

    # ---- the preprocessor's lines and the tokens

    def _directives(self, text: str, header: Header) -> str:
        """Takes the constants; in the result the preprocessor's lines are blank."""
        code, for_cplusplus, goes_on = [], False, False
        for line in text.split("\n"):
            if line == "#ifdef __cplusplus":
                for_cplusplus = True
            found = _DEFINE.match(line)
            if found and (value := self._value(found[2])) is not None:
                self.constants[found[1]] = value
                header.declarations.append(Define(found[1], value))
            directive = goes_on or line.startswith("#")
            goes_on = directive and line.endswith("\\")
            code.append("" if for_cplusplus or directive else line)
            for_cplusplus &= line != "#endif"
        return "\n".join(code)

    def _value(self, text: str) -> int | str | None:
        """Of a literal or of an earlier constant; None of everything else, as of an attribute."""
        text = text.strip("()")
        if re.fullmatch(r"-?(0[xX][0-9A-Fa-f]+|\d+)u?", text):
            return int(text.rstrip("u"), 0)
        return text.strip('"') if text.startswith('"') else self.constants.get(text)

    def _split(self, code: str) -> None:
        at, line = 0, 1
        while at < len(code):
            found = _TOKEN.match(code, at)
            if found is None:
                raise SyntaxError(f"{self._path}:{line}: {code[at : at + 20]!r} is not read")
            if not found[0].isspace() and found[0] not in _SKIPPED:
                self._tokens.append((found[0], line))
            line += found[0].count("\n")
            at = found.end()

    def _comment(self) -> list[str]:
        """Passes over comments and returns their lines."""
        lines = []
        while self._at < len(self._tokens) and self._tokens[self._at][0].startswith("//"):
            lines.append(self._tokens[self._at][0][2:].strip())
            self._at += 1
        return lines

    def _peek(self) -> str:
        self._comment()
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self, *expected: str) -> str:
        word = self._peek()
        if not word or (expected and word not in expected):
            line = self._tokens[min(self._at, len(self._tokens) - 1)][1]
            raise SyntaxError(f"{self._path}:{line}: {word!r} instead of {' or '.join(expected)}")
        self._at += 1
        return word

    def _take(self, word: str) -> bool:
        found = self._peek() == word
        self._at += found
        return found

    # ---- declarations

    def _declaration(self) -> Enum | Struct | Typedef | Function:
        if self._take("enum"):
            made = self._enum(is_typedef=False)
            self._next(";")
            return made
        if not self._take("typedef"):
            type_, name = self._type(), self._next()
            params = self._params()
            self._next(";")
            return Function(type_, name, params)
        if self._take("enum"):
            made = self._enum(is_typedef=True)
            self._next(made.name)
            self._next(";")
            return made
        if self._take("struct"):
            return self._struct()
        variable = self._variable()
        self._next(";")
        self._formats[variable.name] = self._format(variable)
        return Typedef(variable)

    def _enum(self, is_typedef: bool) -> Enum:
        made = Enum(self._next(), [], is_typedef)
        self._next("{")
        comment = self._comment()
        while not self._take("}"):
            name = self._next()
            self._next("=")
            value = self._value(self._next())
            assert isinstance(value, int), name
            made.values.append(Enumerator(name, value, comment))
            self._next(",")
            comment = self._comment()
        self._formats[made.name] = "I"
        return made

    def _struct(self) -> Struct:
        name = self._next() if self._peek() != "{" else ""
        made = Struct(name, None)
        if self._take("{"):
            if name:
                self.structs[name] = made
            made.members = self._members(self._union)
        made.name = self._next(name) if name else self._next()
        self.structs[made.name] = made
        self._next(";")
        return made

    def _union(self) -> Variable | list[Variable]:
        if not self._take("union"):
            return self._field()
        self._next("{")
        fields = self._members(self._field)
        self._next(";")
        return fields

    def _members(self, read: Callable[[], Any]) -> list[Any]:
        members = []
        while not self._take("}"):
            members.append(read())
        return members

    def _field(self) -> Variable:
        variable = self._variable()
        self._next(";")
        return variable

    def _type(self) -> str:
        """As C writes it, without "struct" and "enum"."""
        text = "const " if self._take("const") else ""
        if not self._take("struct"):
            self._take("enum")
        text += self._next()
        while (word := self._peek()) in ("*", "const"):
            text += self._next() if word == "*" else " const" * bool(self._next())
        return text

    def _variable(self) -> Variable:
        made = Variable(self._type(), "")
        pointer = self._take("(")
        if pointer:
            self._next("*")
        if self._peek() not in (",", ")"):
            made.name = self._next()
        if self._take("["):
            length = self._value(self._next())
            assert isinstance(length, int), made.name
            made.length = length
            self._next("]")
        if pointer:
            self._next(")")
            made.params = self._params()
        return made

    def _params(self) -> list[Variable]:
        self._next("(")
        params = [self._variable()]
        while self._take(","):
            params.append(self._variable())
        self._next(")")
        return [] if params[0].type == "void" else params

    # ---- layout, as on 64-bit Linux

    def _format(self, variable: Variable) -> str:
        if variable.params is not None or "*" in variable.type:
            return _POINTER
        return self._formats.get(variable.type, "")

    def layout(self, name: str) -> Layout:
        """The offsets of a struct's fields."""
        made, end = Layout(0, 1, []), 0
        for member in self.structs[name].members or ():
            fields = member if isinstance(member, list) else [member]
            found = [(f.name, self._placed(f)) for f in fields]
            align = max(one.align for _, one in found)
            start = -(-end // align) * align
            made.fields += [(field, start, one) for field, one in found]
            made.has_union |= isinstance(member, list) or any(one.has_union for _, one in found)
            made.align = max(made.align, align)
            end = start + max(-(-one.size // align) * align for _, one in found)
        made.size = -(-end // made.align) * made.align
        return made

    def _placed(self, variable: Variable) -> Layout:
        format_ = self._format(variable)
        if format_:
            size = _SIZES[format_]
            one = Layout(size, size, [], format_)
        else:
            one = self.layout(variable.type)
        if variable.length is not None:
            one.format = one.text() * variable.length
            one.size *= variable.length
        return one
