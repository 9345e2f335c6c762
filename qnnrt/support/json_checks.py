"""JSON config files: read, and checked key by key, with errors that say where."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[str, Any], Any]


class JsonError(ValueError):
    """A file, a key or a value that is wrong; the message says where."""


def whole(low: int, high: int = 2**32 - 1) -> Check:
    def check(where: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise JsonError(f"{where}: expected a whole number from {low} to {high}, not {value!r}")
        return value

    return check


def one_of(*names: str) -> Check:
    def check(where: str, value: Any) -> str:
        if value not in names:
            raise JsonError(f"{where}: expected one of {', '.join(names)}, not {value!r}")
        return str(value)

    return check


def flag(where: str, value: Any) -> bool:
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    raise JsonError(f"{where}: expected true or false, not {value!r}")


def text(where: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise JsonError(f"{where}: expected a string, not {value!r}")


def texts(where: str, value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise JsonError(f"{where}: expected a list of strings, not {value!r}")


def objects(where: str, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise JsonError(f"{where}: expected a list of objects")


def an_object(where: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise JsonError(f"{where}: expected an object")


def check_keys(
    where: str, given: Mapping[str, Any], known: Mapping[str, Check], needed: Sequence[str] = ()
) -> dict[str, Any]:
    """The values, checked.

    Raises:
        JsonError: an unknown key, one that is missing, or a value of the wrong kind.
    """
    for key in given:
        if key not in known:
            raise JsonError(f"{where}: unknown key {key!r}; there are {', '.join(known)}")
    for key in needed:
        if key not in given:
            raise JsonError(f"{where}: {key!r} is missing")
    return {key: known[key](f"{where}: {key}", value) for key, value in given.items()}


def read_json(path: Path) -> dict[str, Any]:
    """A file with one JSON object.

    Raises:
        JsonError: no such file, or not JSON, or another value than an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_pairs)
    except FileNotFoundError:
        raise JsonError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise JsonError(f"{path}: not a text file") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except _TwiceError as error:
        raise JsonError(f"{path}: the key {error} is there twice") from None
    if not isinstance(value, dict):
        raise JsonError(f"{path}: expected one JSON object")
    return value


class _TwiceError(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(repr(key))
        found[key] = value
    return found
