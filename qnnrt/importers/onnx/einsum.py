"""The equation of an Einsum: which letters its inputs and its result have."""

from __future__ import annotations

import string
from collections.abc import Sequence

_LETTERS = set(string.ascii_letters)

#: Letters that are left for the dimensions of an ellipsis have to suffice.
_LONGEST = 1000


def equation(text: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str, dict[str, int]]:
    """The terms of the inputs, that of the result, and the size of each letter.

    An ellipsis is spelled out in letters that are free. Raises `ValueError`.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"an equation of {len(text)} characters")
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"{text!r} has {len(terms)} terms for {len(shapes)} inputs")
    for term in (*terms, right):
        if term.count("...") > 1 or not set(term.replace("...", "", 1)) <= _LETTERS:
            raise ValueError(f"{text!r}: {term!r} is no term; letters and one ... make it")
    ranks = [len(s) for s in shapes]
    own = [r - len(t.replace("...", "")) for t, r in zip(terms, ranks, strict=True)]
    for term, rank, rest in zip(terms, ranks, own, strict=True):
        if rest < 0 or (rest and "..." not in term):
            raise ValueError(f"{text!r}: the term {term!r} on a tensor of rank {rank}")
    width = max((w for w, t in zip(own, terms, strict=True) if "..." in t), default=0)
    free = [ch for ch in string.ascii_uppercase + string.ascii_lowercase if ch not in text]
    if width > len(free):
        raise ValueError(f"{text!r} on tensors of the ranks {ranks}: too many dimensions")
    spare = "".join(free[:width])
    spread = [
        t.replace("...", spare[width - w :]) if "..." in t else t
        for t, w in zip(terms, own, strict=True)
    ]
    if arrow:
        result = right.replace("...", spare)
    else:
        letters = "".join(spread)
        once = sorted(ch for ch in set(letters) - set(spare) if letters.count(ch) == 1)
        result = spare + "".join(once)
    if len(set(result)) != len(result) or not set(result) <= set("".join(spread)):
        raise ValueError(f"{text!r}: an index of the result is there twice, or in no input")
    return spread, result, _sizes(text, spread, shapes)


def _sizes(text: str, terms: list[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """A dimension of size 1 is broadcast to that of another input, as in numpy."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, int] = {}
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if own.setdefault(letter, size) != size or (known != size and 1 not in (known, size)):
                raise ValueError(
                    f"{text!r}: a dimension is {own[letter] if known == size else known} in one "
                    f"place and {size} in another"
                )
            sizes[letter] = size if known == 1 else known
    return sizes
