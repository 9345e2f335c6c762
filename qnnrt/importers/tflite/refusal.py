"""Why one operator cannot be lowered."""

from __future__ import annotations


class Unsupported(Exception):
    """This operator cannot be expressed; the text is the reason."""


class Damaged(Exception):
    """This operator contradicts itself or its inputs; the text says how."""


class RefusedInside(Exception):
    """An operator of a subgraph that this one runs was refused, and its refusal noted."""


class WrongType(Exception):
    """The text is the element type of an output that is declared with another."""

    def __init__(self, type_: str, output: int) -> None:
        super().__init__(type_)
        self.output = output
