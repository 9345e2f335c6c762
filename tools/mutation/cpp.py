"""The mutants of C++ sources, found in their tokens and written beside what they replace.

A source is formatted by clang-format, which tells operators from other things: a `<` between two
spaces compares, a `&` between two spaces is no reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .mutant import Mutant, Numbering

_TOKENS = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\])*"
        |'(?:\\.|[^'\\])+')
    | (?P<number>(?:0[xX][\da-fA-F'.]+(?:[pP][+-]?\d+)?
        |\d[\d']*\.?[\d']*(?:[eE][+-]?\d+)?)[uUlLfF]*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><<=|>>=|->\*|\.\.\.|<=|>=|==|!=|&&|\|\||<<|>>|->|::|\+\+|--|[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
#: Operator -> its name in mutation.h and its mutants, in the order that they have there.
BINARY = {
    "<": ("Lt", ("<=", ">=")),
    "<=": ("Le", ("<", ">")),
    ">": ("Gt", (">=", "<=")),
    ">=": ("Ge", (">", "<")),
    "==": ("Eq", ("!=",)),
    "!=": ("Ne", ("==",)),
    "+": ("Add", ("-",)),
    "-": ("Sub", ("+",)),
    "*": ("Mul", ("/",)),
    "/": ("Div", ("*",)),
    "%": ("Mod", ("*",)),
    "<<": ("Shl", (">>",)),
    ">>": ("Shr", ("<<",)),
    "&": ("And", ("|",)),
    "|": ("Or", ("&",)),
    "+=": ("AddTo", ("-=",)),
    "-=": ("SubTo", ("+=",)),
}
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_CONDITIONS = {"<", "<=", ">", ">=", "==", "!=", "!", "&&", "||"}
_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = {")", "]", "}"}
_ENDS = _ASSIGN | {",", ";", "?", ":", "return"}
#: Statements that begin with one of these are not deleted.
_KEYWORDS = {
    *("return", "if", "for", "while", "do", "switch", "case", "default", "break", "continue"),
    *("else", "goto", "using", "static_assert", "constexpr", "const", "auto", "delete", "new"),
    *("try", "catch", "throw", "public", "private", "protected", "template", "typename"),
    *("struct", "class", "enum", "union", "namespace", "operator", "static", "inline", "void"),
}


@dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int
    code: bool = False  # within the body of a function
    left_out: bool = False  # where the compiler needs constants
    partner: int = -1  # of a bracket


@dataclass
class Change:
    """Text around, or in the place of, a span of the source."""

    begin: int
    end: int
    before: str
    after: str
    mutants: list[Mutant]
    replaces: bool = False


class Source:
    """A C++ file and its mutants."""

    def __init__(self, path: str, text: str, numbering: Numbering) -> None:
        self.path, self.text, self._numbering = path, text, numbering
        self.tokens = _tokens(text)
        self.left_out = 0  # places among constants
        self.changes = sorted(self._changes(), key=lambda c: (c.begin, -c.end))

    def mutants(self) -> list[Mutant]:
        found = {mutant.id: mutant for change in self.changes for mutant in change.mutants}
        return list(found.values())

    def rewritten(self, dropped: set[int]) -> str:
        """The source with all mutants but those of changes one of whose ids is dropped."""
        opening: dict[int, list[str]] = {}
        closing: dict[int, list[str]] = {}
        replaced: dict[int, tuple[int, str]] = {}
        for change in self.changes:
            if any(mutant.id in dropped for mutant in change.mutants):
                continue
            if change.replaces:
                replaced[change.begin] = (change.end, change.before)
            else:
                opening.setdefault(change.begin, []).append(change.before)
                closing.setdefault(change.end, []).insert(0, change.after)
        parts, at = [], 0
        for begin in sorted({*opening, *closing, *replaced}):
            if begin < at:
                raise ValueError(f"{self.path}: changes overlap at {begin}")
            parts += [self.text[at:begin], *closing.get(begin, []), *opening.get(begin, [])]
            at, new = replaced.get(begin, (begin, ""))
            if new:  # lines stay where they are
                parts.append(new + "\n" * self.text.count("\n", begin, at))
            at = max(at, begin)
        parts.append(self.text[at:])
        return f'#include "mutation.h"\n#line 1 "{self.path}"\n' + "".join(parts)

    # ---- what is mutated

    def _changes(self) -> Iterator[Change]:
        for i, token in enumerate(self.tokens):
            for change in self._at(i, token):
                if token.left_out:
                    self.left_out += 1
                else:
                    yield change

    def _at(self, i: int, token: Token) -> Iterator[Change]:
        if not token.code:
            return
        if token.kind == "sign":
            yield from self._sign(i, token)
        elif token.kind == "number":
            yield from self._number(i, token)
        elif token.text in ("true", "false"):
            yield self._instead(
                token, f"(mutation::On({{0}}) != {token.text})", f"{token.text} negated"
            )
        elif token.text in ("min", "max") and self._before(i, 2) == "std ::":
            yield from self._least(i, token)
        elif token.text in ("if", "while") and self._after(i) == "(":
            yield from self._condition(i, token)
        elif self._begins_statement(i):
            yield from self._statement(i)

    def _before(self, i: int, count: int = 1) -> str:
        return " ".join(t.text for t in self.tokens[max(0, i - count) : i])

    def _after(self, i: int) -> str:
        return self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""

    def _spaced(self, token: Token) -> bool:
        around = self.text[token.begin - 1] + self.text[token.end]
        return around.isspace()

    def _instead(self, token: Token, new: str, what: str, key: Token | None = None) -> Change:
        mutant = self._numbering.make(self.path, self.text, (key or token).begin, what)
        return Change(token.begin, token.end, new.format(mutant.id), "", [mutant], replaces=True)

    def _sign(self, i: int, token: Token) -> Iterator[Change]:
        if token.text in ("&&", "||") and self._spaced(token):
            yield from self._logic(i, token)
        elif token.text in BINARY and self._spaced(token):
            name, others = BINARY[token.text]
            made = [
                self._numbering.make(self.path, self.text, token.begin, f"{token.text} -> {other}")
                for other in others
            ]
            new = f"{token.text} mutation::{name}<{made[0].id}>{{}} {token.text}"
            yield Change(token.begin, token.end, new, "", made, replaces=True)
        elif token.text == "!" and self._after(i) != "=":
            yield self._instead(token, "mutation::Not<{0}>{{}} ->* ", "! removed")

    def _number(self, i: int, token: Token) -> Iterator[Change]:
        before, after = self.tokens[i - 1], self.tokens[i + 1]
        if before.text == "[" and i > 2 and self.tokens[i - 2].kind == "word":
            declared = self.tokens[i - 3]
            if declared.kind == "word" and declared.text not in _KEYWORDS:
                return  # the length of an array
        if before.text in ("<", "-") and not self._spaced(before):
            return  # an argument of a template; the sign of a number
        if after.text == ">" and self.text[token.end] == ">":
            return
        yield self._instead(token, f"({token.text} + mutation::On({{0}}))", f"{token.text} + 1")

    def _least(self, i: int, token: Token) -> Iterator[Change]:
        if self._after(i) not in ("(", "<"):
            return
        begin = self.tokens[i - 2]
        other = "max" if token.text == "min" else "min"
        mutant = self._numbering.make(
            self.path, self.text, token.begin, f"std::{token.text} -> std::{other}"
        )
        new = f"mutation::Least<{mutant.id}, {str(token.text == 'min').lower()}>::Of"
        yield Change(begin.begin, token.end, new, "", [mutant], replaces=True)

    def _condition(self, i: int, token: Token) -> Iterator[Change]:
        close = self.tokens[i + 1].partner
        inside = self.tokens[i + 2 : close]
        if not inside or any(t.text in ("=", ";") for t in self._outer(i + 2, close)):
            return  # a declaration
        begin, end = self.tokens[i + 1].end, self.tokens[close].begin
        # One that has operators is made true by their mutants. Loops that never end tell nothing.
        plain = token.text == "if" and not any(t.text in _CONDITIONS for t in inside)
        for what in ("never", "always") if plain else ("never",):
            mutant = self._numbering.make(self.path, self.text, token.begin, what)
            new = f"mutation::{what.capitalize()}<{mutant.id}>("
            yield Change(begin, end, new, ")", [mutant])

    def _outer(self, begin: int, end: int) -> Iterator[Token]:
        """The tokens of a span that stand in no brackets."""
        i = begin
        while i < end:
            yield self.tokens[i]
            i = self.tokens[i].partner if self.tokens[i].text in _OPEN else i
            i += 1

    def _logic(self, i: int, token: Token) -> Iterator[Change]:
        ends = _ENDS if token.text == "||" else _ENDS | {"||"}
        first = i
        while True:  # operators of the same kind bind from the left
            before = self.tokens[first - 1]
            if before.text in _CLOSE:
                first = before.partner
            elif before.text in ends or before.text in _OPEN:
                break
            else:
                first -= 1
        last = i
        while True:
            after = self.tokens[last + 1]
            if after.text in _OPEN:
                last = after.partner
            elif after.text in ends or after.text in _CLOSE or after.text == token.text:
                break
            else:
                last += 1
        mutant = self._numbering.make(
            self.path,
            self.text,
            token.begin,
            f"{token.text} -> {'||' if token.text == '&&' else '&&'}",
        )
        # `a && b` is (a != on) ? b : on.
        on = f"mutation::On({mutant.id})"
        how, other = ("!=", on) if token.text == "&&" else ("==", f"!{on}")
        yield Change(
            self.tokens[first].begin,
            token.begin,
            "((static_cast<bool>(",
            f") {how} {on}) ? static_cast<bool>(",
            [mutant],
        )
        yield Change(token.begin, token.end, " ", "", [mutant], replaces=True)
        yield Change(token.end, self.tokens[last].end, "", f") : {other})", [mutant])

    # ---- statements

    def _begins_statement(self, i: int) -> bool:
        token, before = self.tokens[i], self.tokens[i - 1]
        if token.kind != "word" or token.text in _KEYWORDS or "ASSIGN" in token.text:
            return False  # a macro that ASSIGNs declares
        if before.text in (";", "{", "}", "else"):
            return True
        if before.text != ")":
            return False
        head = self.tokens[before.partner - 1].text  # of `if (...) statement;`
        return head in ("if", "for", "while")

    def _statement(self, i: int) -> Iterator[Change]:
        """Deletes `a.b(...);`, `a[i] = ...;`, `++a;`: what is no declaration."""
        j = i
        while True:
            if self.tokens[j].kind != "word":
                return
            j += 1
            while self.tokens[j].text in ("(", "["):
                j = self.tokens[j].partner + 1
            if self.tokens[j].text not in (".", "->", "::"):
                break
            j += 1
        calls = self.tokens[j].text == ";" and j > i + 1
        if not (calls or self.tokens[j].text in _ASSIGN | {"++", "--"}):
            return
        while self.tokens[j].text != ";":
            if self.tokens[j].text in _CLOSE:
                return
            j = self.tokens[j].partner + 1 if self.tokens[j].text in _OPEN else j + 1
        mutant = self._numbering.make(
            self.path, self.text, self.tokens[i].begin, "statement deleted"
        )
        begin, end = self.tokens[i].begin, self.tokens[j].end
        yield Change(begin, end, f"{{ if (!mutation::On({mutant.id})) ", " }", [mutant])


def _tokens(text: str) -> list[Token]:
    blank = _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    tokens = [
        Token(str(m.lastgroup if m.lastgroup != "mark" else "text"), m.group(), m.start(), m.end())
        for m in _TOKENS.finditer(blank)
        if m.lastgroup != "skip"
    ]
    stack: list[tuple[int, bool]] = []
    since = 0  # where the present statement begins
    constant_until = -1
    for i, token in enumerate(tokens):
        code = any(kind for _, kind in stack)
        token.code = code
        if token.text in ("constexpr", "static_assert", "case", "using", "alignas", "noexcept"):
            constant_until = max(constant_until, _constant_end(tokens, i))
        if token.text in ("template", "enum") and not code:
            constant_until = max(constant_until, i)
        token.left_out = i <= constant_until
        if token.text in _OPEN:
            stack.append((i, token.text == "{" and _is_body(tokens, since, i, code)))
        elif token.text in _CLOSE and stack:
            opened, _ = stack.pop()
            token.partner, tokens[opened].partner = opened, i
        if token.text in (";", "{", "}"):
            since = i + 1
    return tokens


def _constant_end(tokens: list[Token], i: int) -> int:
    """The last token of a constant: a declaration's `;`, a label's `:`. A function has none."""
    depth = 0
    for j in range(i + 1, len(tokens)):
        text = tokens[j].text
        if tokens[i].text == "case" and text == ":":
            return j
        if tokens[i].text in ("noexcept", "alignas") and depth == 0 and text in (")", "{", ";"):
            return j if text == ")" else i
        if text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
            if depth < 0 or (tokens[i - 1].text == "if" and depth == 0):
                return j
        elif depth == 0 and text == ";":
            return j
        elif depth == 0 and text == "{" and tokens[j - 1].text in (")", "const"):
            return i  # a function, which may well run
    return i


def _is_body(tokens: list[Token], since: int, at: int, within_code: bool) -> bool:
    before = tokens[at - 1].text if at else ""
    if before in (")", "]", "const", "override", "final", "noexcept", "else", "do", "try"):
        return True
    return within_code and since == at  # a block of its own; never a namespace, class or list
