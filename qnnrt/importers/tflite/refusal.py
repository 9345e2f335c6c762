"""Why one operator cannot be lowered."""

from __future__ import annotations


class Unsupported(Exception):
    """This operator cannot be expressed; the text is the reason."""


class NotFixed(Unsupported):
    """This operator cannot be expressed in fixed point; in floats it can."""


class Damaged(Exception):
    """This operator contradicts itself or its inputs; the text says how."""
