"""Facts of the C interface for Python, made from csrc/abi by tools/abi.py."""

from __future__ import annotations

from . import constants

__all__ = ["numbers"]


def numbers(prefix: str) -> dict[str, int]:
    """The constants with a prefix, by what follows it; UNDEFINED is none of them."""
    found = {n.removeprefix(prefix): v for n, v in vars(constants).items() if n.startswith(prefix)}
    found.pop("UNDEFINED", None)
    return found
