"""No exception leaves a C function or a thread: each one that a C program can reach goes through
`Contained` (csrc/support/guard.h), by itself or by what it calls, or is listed here with the reason
why nothing in it can throw."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

#: Templates that run their argument inside `Contained`, or call another one of these.
GUARDS = {"Contained"}
#: Functions in which nothing can throw, and why.
FREE = {
    "qnnrt_rpcmem_init": "empty",
    "qnnrt_rpcmem_deinit": "empty",
    "qnnrt_version": "a constant",
    "qnnrt_debug_allocations": "an atomic number",
    "qnnrt_debug_fail_allocation": "an atomic number",
    "qnnrt_last_error": "LastStatus is noexcept",
    "qnnrt_error_message": "LastStatus is noexcept",
    "qnnrt_ipc_last_error": "LastStatus is noexcept",
    "qnnrt_ring_bytes": "arithmetic",
    "qnnrt_tflite_error": "LastStatus is noexcept",
    "TfLiteQnnDelegateGetApiVersion": "a constant",
    "TfLiteQnnDelegateHasCapability": "a switch",
    "TfLiteQnnDelegateOptionsDefault": "sets the members of a struct",
    "GetApiVersion": "sets the members of a struct",
    "GetBuildId": "a constant",
    "HasCapability": "a search in a constant table",
    "qnnrt_opencl_list_executor": "sets the members of a struct",
    "GetMessage": "a search in a constant table",
    "GetVerboseMessage": "strdup, which throws nothing",
    "FreeVerboseMessage": "free",
}
WORD = re.compile(r"\b([A-Za-z_]\w*)(?:<[^<>;(){}]*>)?\(")


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def closing(text: str, at: int) -> int:
    """Where the bracket closes that opens at `at`."""
    pairs = {"(": 1, "{": 1, ")": -1, "}": -1}
    depth = 0
    for i in range(at, len(text)):
        depth += pairs.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def definitions(text: str) -> dict[str, str]:
    """The bodies of a file's functions, by name; those of one name together."""
    found: dict[str, str] = {}
    for match in re.finditer(r"^ {0,2}[A-Za-z_][\w :<>,*&\"]*[ *&](\w+)\(", text, re.MULTILINE):
        end = closing(text, match.end() - 1)
        body = re.match(r"\)(?: const)?(?: noexcept)?\s*(?=\{)", text[end : end + 40])
        if body:
            begin = end + body.end()
            found[match[1]] = found.get(match[1], "") + text[begin : closing(text, begin)]
    return found


FILES = {p: without_comments(p.read_text()) for p in sorted(CSRC.rglob("*.cc"))}
ROOMS = [
    f
    for room in ("api", "gpu", "ipc", "memory", "opencl", "saver", "tflite")
    for f in CSRC.glob(f"{room}/**/*")
]
FUNCTIONS = {
    p: definitions(without_comments(p.read_text())) for p in ROOMS if p.suffix in (".cc", ".h")
}


def _shared(paths: list[Path]) -> dict[str, str]:
    """What one file defines and others may call: headers first; of two of one name neither."""
    found: dict[str, str] = {}
    for suffix in (".cc", ".h"):
        here: dict[str, str] = {}
        for path in paths:
            for name, body in FUNCTIONS[path].items() if path.suffix == suffix else ():
                here[name] = "" if name in here else body
        found |= here
    return found


#: The saver's functions have the names of those that they record calls of.
SAVER = CSRC / "saver"
_RECORDING = [p for p in FUNCTIONS if SAVER in p.parents]
_OTHERS = [p for p in FUNCTIONS if SAVER not in p.parents]
SHARED = {
    True: _shared([p for p in _OTHERS if p.suffix == ".h"]) | _shared(_RECORDING),
    False: _shared(_OTHERS),
}


def guarded(path: Path, name: str, seen: frozenset[str] = frozenset()) -> bool:
    if name in FREE or name in GUARDS:
        return True
    body = FUNCTIONS[path].get(name, SHARED[SAVER in path.parents].get(name))
    if body is None or name in seen:
        return False
    called = WORD.findall(body)
    return any(guarded(path, c, seen | {name}) for c in called if c != name)


def exported() -> list[tuple[Path, str]]:
    names = [
        line
        for listing in (CSRC / "exports.txt", CSRC / "tflite/delegate/exports.txt")
        for line in listing.read_text().split("\n")
        if line and not line.startswith("#")
    ]
    where = {n: p for p, names in FUNCTIONS.items() if p.suffix == ".cc" for n in names}
    assert not [n for n in names if n not in where], "an exported function was not found"
    return [(where[n], n) for n in names]


def entries() -> list[tuple[Path, str]]:
    """What the function tables hold."""
    return [
        (path, name)
        for path, text in FILES.items()
        for name in re.findall(r"table->\w+ = (?:api::)?(\w+);", text)
    ]


CALLED = {(str(p.relative_to(CSRC)), n): p for p, n in [*exported(), *entries()]}


def test_the_lists_are_whole() -> None:
    assert len(exported()) > 90
    assert len(entries()) > 60


@pytest.mark.parametrize(("path", "name"), CALLED)
def test_no_exception_leaves(path: str, name: str) -> None:
    assert guarded(CALLED[path, name], name), (
        f"{name} in csrc/{path} calls nothing that stops exceptions: run its body in Guarded or "
        f"Contained, or say in FREE why it cannot throw"
    )


def test_nothing_else_catches_everything() -> None:
    """One place decides what an exception becomes; elsewhere they are only passed on."""
    for path, text in FILES.items():
        for match in re.finditer(r"catch \(\.\.\.\) \{([^}]*)\}", text):
            assert "throw;" in match[1], f"{path.name}: catch (...) that does not pass it on"


def test_no_thread_local_needs_a_destructor_or_memory() -> None:
    """The C library ends the process when it has no memory for those: PerThread says so."""
    for text in FILES.values():
        for line in text.split("\n"):
            if "thread_local" in line:
                assert "initial-exec" in line, line
                assert re.search(r"\* ?\w+ = nullptr;", line), line
