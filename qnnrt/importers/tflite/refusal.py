"""Why one operator cannot be lowered."""

from __future__ import annotations


class Unsupported(Exception):
    """This operator cannot be expressed; the text is the reason."""


class Damaged(Exception):
    """This operator contradicts itself or its inputs; the text says how."""
