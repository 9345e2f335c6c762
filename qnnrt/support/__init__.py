"""What every other part uses: the logger and checks of values that callers give."""

from __future__ import annotations

import logging
import operator
from collections.abc import Collection, Mapping
from typing import Any

log = logging.getLogger("qnnrt")
log.addHandler(logging.NullHandler())  # a library is silent until the program sets logging up


def named(what: str, value: object, names: Collection[str]) -> None:
    """A value that is one of some names.

    Raises:
        ValueError: it is none; the message lists the names and calls the value ``what``.
    """
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(names)}, not {value!r}")


def choice(what: str, value: str | int, choices: Mapping[str, int]) -> int:
    """The number behind a name; numbers go as they are, for those that have no name here.

    Raises:
        ValueError: no such name; the message lists the names and calls the value ``what``.
    """
    if isinstance(value, int):
        return value
    if value not in choices:
        named(what, value, choices)
    return choices[value]


def uint32(what: str, value: Any) -> int:
    """A number that fits into 32 bits.

    Raises:
        ValueError: it does not, or is no whole number; the message calls it ``what``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 32:
        raise ValueError(f"{what} must be a whole number from 0 to 2^32 - 1, not {value!r}")
    return number
