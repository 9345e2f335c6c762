"""Which rules a node goes by whose inputs have sizes, or numbers of rows, that the data decide.

The rules are imported where a model has such values; most have none.
"""

from __future__ import annotations

from collections.abc import Callable

from .nodes import OnnxNode, Unsupported
from .scope import ROWS, TAKEN, Lower, Results, Scope
from .values import Value

#: ONNX op type -> the inputs of which it makes a shape.
SHAPED: dict[str, slice] = {
    "Concat": slice(None),
    "ConstantOfShape": slice(1),
    "Expand": slice(1, 2),
    "Range": slice(3),
    "Resize": slice(3, 4),
    "Slice": slice(2, 3),
    "Tile": slice(1, 2),
}

#: And those that a capacity is for.
HELD: dict[str, slice] = SHAPED | {"Loop": slice(1)}

#: The node through the function that ONNX defines it by; None where there is none.
Expand = Callable[[], Results | None]


def of_counts(g: Scope, n: OnnxNode) -> None:
    """Replaces computed numbers that count what is true, where they decide a shape."""
    given = n.inputs[SHAPED[n.op]]
    if any(v is not None and not v.is_const and v.dtype.kind in "iu" for v in given):
        from . import sizes

        sizes.of_counts(g, n)


def of_sizes(
    g: Scope, n: OnnxNode, opsets: dict[str, int], lower: Lower, expand: Expand
) -> Results | None:
    """The results of a node with such sizes; None where it takes them as data."""
    from . import sizes

    return sizes.computed(g, n, opsets, lambda: by_rows(g, n, lower, expand))


def sliced(g: Scope, n: OnnxNode) -> Value | None:
    """A part whose ends are computed; None where they are known, or it says too little."""
    if all(v is None or v.is_const for v in n.inputs[1:3]):
        return None
    from .computed_slices import sliced

    return sliced(g, n)


def along_two_axes(g: Scope, n: OnnxNode, lower: Lower, expand: Expand) -> Results:
    """A node of tensors of which the data decide along two axes how many rows count."""
    from . import squares

    return squares.taken(g, n, lower, expand)


def by_rows(g: Scope, n: OnnxNode, lower: Lower, expand: Expand) -> Results:
    """A node of tensors, some of them maybe with as many rows as the data decide."""
    plain = all(v is None or v.count is None for v in n.inputs)
    if not plain and n.domain == "":
        from . import squares

        if (made := squares.joined(g, n, lower)) is not None:
            return made
    rule = ROWS.get(n.op) if n.domain == "" else None
    if rule is None and not plain and n.domain == "":
        rule = TAKEN.get(n.op)
    if rule is not None and (made := rule(g, n, lower)) is not None:
        return made
    if plain or all(v is None or v.count is None for v in n.inputs):
        return lower()
    from . import bounded

    if n.op in bounded.RULES:
        return bounded.kept_apart(g, n, lower)
    expanded = expand()
    if expanded is None:
        raise Unsupported("an input with as many rows as the data decide")
    return expanded
