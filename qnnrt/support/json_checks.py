"""JSON config files: read, and checked key by key, with errors that say where."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .files import read_text

Check: TypeAlias = Callable[[str, Any], Any]

_MOST_SHOWN = 120


class JsonError(ValueError):
    """A file, a key or a value that is wrong; the message says where."""


def shown(value: Any) -> str:
    """A value for a message, which may be of any size."""
    try:
        text = repr(value)
    except ValueError:  # a number with more digits than Python writes
        text = f"a number of {value.bit_length()} bits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def whole(low: int, high: int = 2**32 - 1) -> Check:
    def check(where: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise JsonError(
                f"{where}: expected a whole number from {low} to {high}, not {shown(value)}"
            )
        return value

    return check


def one_of(*names: str) -> Check:
    def check(where: str, value: Any) -> str:
        if value not in names:
            raise JsonError(f"{where}: expected one of {', '.join(names)}, not {shown(value)}")
        return str(value)

    return check


def flag(where: str, value: Any) -> bool:
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    raise JsonError(f"{where}: expected true or false, not {shown(value)}")


def text(where: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise JsonError(f"{where}: expected a string, not {shown(value)}")


def texts(where: str, value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise JsonError(f"{where}: expected a list of strings, not {shown(value)}")


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
            raise JsonError(f"{where}: unknown key {shown(key)}; there are {', '.join(known)}")
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
        value = json.loads(read_text(path), object_pairs_hook=_pairs)
    except FileNotFoundError as error:
        why = "no such file" if error.errno == errno.ENOENT else error.strerror
        raise JsonError(f"{shown(str(path))[1:-1]}: {why}") from None
    except UnicodeDecodeError:
        raise JsonError(f"{path}: not a text file") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except _TwiceError as error:
        raise JsonError(f"{path}: the key {error} is there twice") from None
    except RecursionError:
        raise JsonError(
            f"{path}: nested too deeply: no config has more than a few levels"
        ) from None
    except ValueError as error:  # a number with thousands of digits
        raise JsonError(f"{path}: a number is too long: {error}") from None
    if unusable := _unusable(value):
        raise JsonError(
            f"{path}: the text {shown(unusable)} has a zero byte or half of a character in it"
        )
    if not isinstance(value, dict):
        raise JsonError(f"{path}: expected one JSON object")
    return value


class _TwiceError(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(shown(key))
        found[key] = value
    return found


def _unusable(value: Any) -> str | None:
    """A text in it that cannot be a name or a path: C would end it early, or it is no Unicode."""
    left = [value]
    while left:  # not one call in another: as deep as it may be
        part = left.pop()
        if isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str) and (
            "\0" in part or any("\ud800" <= c <= "\udfff" for c in part)
        ):
            return part
    return None
