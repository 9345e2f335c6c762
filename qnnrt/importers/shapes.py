"""``shapes=`` of ``load``: one shape, several, or any."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ..errors import ModelError
from ..model.dynamic import OpenInput, Pattern
from .guard import shortened

ANY: Final = "any"
#: What ``shapes=`` may be.
Shapes: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | str"

#: Shapes that may be listed.
_MOST: Final = 4096


def check_form(shapes: Shapes) -> None:
    """Raises `TypeError` or `ValueError` for what ``load`` takes at no value of a model."""
    if isinstance(shapes, str):
        if shapes != ANY:
            raise ValueError(f"shapes is a dict, a list of dicts or {ANY!r}, not {shapes!r:.100}")
    elif not isinstance(shapes, Mapping) and (
        not isinstance(shapes, Sequence) or not all(isinstance(s, Mapping) for s in shapes)
    ):
        raise TypeError(
            f"shapes is a dict, a list of dicts or {ANY!r}, not {shortened(repr(shapes))}"
        )


def wants_many(shapes: Shapes, inputs: Collection[str]) -> bool:
    """Whether `shapes` lists several, or leaves some open, in a model with these inputs."""
    if not isinstance(shapes, Mapping):
        return True
    return any(_lists(value, name in inputs) for name, value in shapes.items())


def _lists(value: Any, is_input: bool) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return isinstance(value, str)
    return not is_input or any(isinstance(d, (str, Sequence)) for d in value)


def patterns(
    shapes: Shapes, inputs: Sequence[OpenInput], known: Collection[str], where: str
) -> list[Pattern]:
    """Every combination that `shapes` lists, as the shapes of the inputs.

    Args:
        known: names that it may have besides those of `inputs` and of their dimensions.

    Raises:
        ModelError: a name that is not there, a size that the file has otherwise, an open dimension
            of which nothing is said, a value that is no size, or too many combinations.
    """
    names = {i.name for i in inputs}
    dims = {d for i in inputs for d in i.dims or () if isinstance(d, str)}
    found: list[Pattern] = []
    listed: Sequence[Mapping[str, Any]]
    if isinstance(shapes, str):
        listed = [{}]
    else:
        listed = [shapes] if isinstance(shapes, Mapping) else shapes
        if not listed:
            raise ModelError(f"{where}: shapes= lists no shape")
    for each in listed:
        if stray := sorted(set(each) - names - dims - set(known)):
            there = ", ".join(map(repr, map(shortened, stray)))
            raise ModelError(f"{where} has no input or dimension named {there}")
        choices = {n: _choices(n, value, n in names, where) for n, value in each.items()}
        if len(found) + int(np.prod([float(len(c)) for c in choices.values()])) > _MOST:
            raise ModelError(
                f"{where}: shapes= lists more than {_MOST} shapes: leave dimensions {ANY!r}, or "
                "list the combinations that are needed as dicts"
            )
        for values in itertools.product(*choices.values()):
            one = dict(zip(choices, values, strict=True))
            found.append(tuple(_pattern(i, one, isinstance(shapes, str), where) for i in inputs))
    return list(dict.fromkeys(found))


def _choices(name: str, value: Any, is_input: bool, where: str) -> list[Any]:
    """The sizes of a dimension, or the shapes of an input; None for any."""

    def size(given: Any) -> int | None:
        if isinstance(given, str) and given == ANY:
            return None
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 0:
            raise ModelError(
                f"{where}: shapes= takes whole numbers and {ANY!r}, and has "
                f"{shortened(repr(given))} for {shortened(repr(name))}"
            )
        return int(given)

    if is_input and value == ANY:
        return [None]
    values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
    if not is_input:
        if not values:
            raise ModelError(f"{where}: shapes= lists no size for {shortened(repr(name))}")
        return [size(v) for v in values]
    if values and all(isinstance(v, Sequence) and not isinstance(v, str) for v in values):
        return [tuple(map(size, shape)) for shape in values]
    return [tuple(map(size, values))]


def _pattern(
    given: OpenInput, one: Mapping[str, Any], free: bool, where: str
) -> tuple[int | None, ...] | None:
    if given.name in one:
        whole: tuple[int | None, ...] | None = one[given.name]
        if whole is None:  # any shape: of the rank that the file says
            if given.dims is None:
                return None
            return tuple(d if isinstance(d, int) else None for d in given.dims)
        if given.dims is not None and not _fits(given.dims, whole):
            sizes = [ANY if d is None else d for d in whole]
            raise ModelError(f"{where}: input {given}; shapes= gives it {sizes}")
        if given.dims is None:
            return whole
        return tuple(d if isinstance(d, int) else w for d, w in zip(given.dims, whole, strict=True))
    if given.dims is None:
        if free:
            return None
        raise _unsaid(given, where)
    return tuple(_dims(given, one, free, where))


def _dims(given: OpenInput, one: Mapping[str, Any], free: bool, where: str) -> Iterator[int | None]:
    for dim in given.dims or ():
        if isinstance(dim, int):
            yield dim
        elif dim is not None and dim in one:
            yield one[dim]
        elif free:
            yield None
        else:
            raise _unsaid(given, where)


def _unsaid(given: OpenInput, where: str) -> ModelError:
    return ModelError(
        f"{where}: the shape of input {given} is not fixed, and shapes= does not say it: give each "
        f"of its open dimensions a size, a list of sizes, or {ANY!r}"
    )


def _fits(dims: Sequence[int | str | None], whole: Sequence[int | None]) -> bool:
    return len(dims) == len(whole) and all(
        not isinstance(d, int) or w is None or d == w for d, w in zip(dims, whole, strict=True)
    )
