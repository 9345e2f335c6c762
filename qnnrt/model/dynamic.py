"""Models of many shapes: one file, and a `Model` for each shape that is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ..errors import ModelError
from ..support.guard import Guard
from .model import Model, names_of_new

__all__ = ["DynamicModel", "OpenInput"]

#: Of each input, in the model's order.
Shape: TypeAlias = tuple[tuple[int, ...], ...]
#: Likewise; None for a size, or a whole shape, that may be any.
Pattern: TypeAlias = tuple["tuple[int | None, ...] | None", ...]

#: Shapes that an error message lists.
_SHOWN: Final = 12


@dataclass(frozen=True)
class OpenInput:
    """An input of a model of many shapes.

    Attributes:
        name: of the input.
        dims: for each dimension its size, its name, or None where the file gives it neither; None
            where the file does not say how many there are.
    """

    name: str
    dims: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.name} [...]"
        return f"{self.name} [{', '.join('?' if d is None else str(d) for d in self.dims)}]"


class DynamicModel:
    """A model whose inputs may have several shapes: what ``qnnrt.load`` returns for ``shapes=``
    with lists or "any". A session of it runs the graph of the shape that it is fed.

    Open dimensions go by their names in the file; one without a name by its input and its place,
    "x_0" for the first one of "x". What has the same name has the same size, in all inputs, unless
    the shapes of the inputs are listed themselves.

    Attributes:
        name: of the file's graph; the graph of a shape is called as it, with the name and size of
            each open dimension behind: "main_graph_batch_1_seq_64". What is neither a letter, a
            digit nor "_" in the name of a dimension is "_" there.
        source: the file.
        inputs: name -> ``OpenInput``, in the model's order.
        outputs: their names.
        state: what executions read and update in place, input -> output; see ``set_state``.
    """

    def __init__(
        self,
        name: str,
        source: str,
        inputs: Sequence[OpenInput],
        outputs: Sequence[str],
        patterns: Sequence[Pattern],
        make: Callable[[dict[str, tuple[int, ...]]], Model],
        again: tuple[Any, ...],
        *,
        first: bool = True,
        remedy: str = "Load it with this shape among shapes=, or with 'any'",
    ) -> None:
        """Made by ``qnnrt.load``.

        Args:
            patterns: the shapes that there are.
            make: the model of the shapes of the inputs.
            again: what ``__reduce__`` returns, to load it in another process.
            first: make the first listed shape's model, so that what is wrong with it shows.
            remedy: what to do about a shape that is not there.
        """
        self.name = name
        self.source = source
        self.inputs = {i.name: i for i in inputs}
        self.outputs = tuple(outputs)
        self._names = tuple(self.inputs)
        self._patterns = tuple(dict.fromkeys(patterns))
        self._make = make
        self.state: dict[str, str] = {}
        self._again = again
        self._remedy = remedy
        self._guard = Guard()
        self._first: tuple[Shape, Model] | None = None
        #: Open dimension -> where it is: input, and place in it (None: all of its shape).
        self._axes: dict[str, list[tuple[int, int | None]]] = {}
        for i, given in enumerate(inputs):
            if given.dims is None:
                self._axes.setdefault(given.name, []).append((i, None))
                continue
            for place, dim in enumerate(given.dims):
                if not isinstance(dim, int):
                    self._axes.setdefault(dim or f"{given.name}_{place}", []).append((i, place))
        if first and (listed := self.listed):
            self._first = listed[0], self._import(listed[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return (*self._again, self.state)

    def __setstate__(self, state: dict[str, str]) -> None:
        if state:
            self.set_state(state)

    def set_state(self, pairs: Mapping[str, str] | str) -> None:
        """``Model.set_state``, for every shape. Shapes in which state has equal shapes have one.

        Raises:
            ModelError: no such input or output; "auto", and no input has such an output. That the
                shapes of a pair differ shows when a shape is made, at once for the first listed.
        """
        if isinstance(pairs, str):
            if pairs != "auto":
                raise ModelError(
                    f"state must be 'auto' or a mapping from inputs to outputs, not {pairs!r}"
                )
            named = ((i, new) for i in self.inputs for new in names_of_new(i))
            found = {i: new for i, new in named if new in self.outputs}
            if not found:
                raise ModelError(
                    f"model {self.name!r}: state='auto' finds no input past... with an output "
                    "present..."
                )
        else:
            found = dict(pairs)
            for kind, names, there in (
                ("input", found.keys(), self.inputs),
                ("output", found.values(), self.outputs),
            ):
                if unknown := [n for n in names if n not in there]:
                    raise ModelError(f"model {self.name!r}: state: no {kind} {unknown[0]!r}")
        if self._first is not None:
            self._first[1].set_state(found)
        self.state = found

    # ---- which shapes there are ---------------------------------------------------------------

    @property
    def listed(self) -> tuple[Shape, ...] | None:
        """The shapes of the inputs, for each shape that there is; None when some size is open."""
        found = tuple(w for p in self._patterns if (w := _whole(p)) is not None)
        return found if len(found) == len(self._patterns) else None

    @property
    def shapes(self) -> tuple[dict[str, Any], ...]:
        """The shapes that there are, each as sizes of the open dimensions: a number, or "any"."""
        return tuple(map(self.sizes, self._patterns))

    @property
    def firsts(self) -> list[int] | None:
        """Sizes that the first dimensions of inputs have, in order; None when one may have any."""
        found = {p[0] if p else 0 if p == () else None for one in self._patterns for p in one}
        return None if None in found else sorted(n for n in found if n is not None)

    def sizes(self, shape: Pattern) -> dict[str, Any]:
        """A shape as sizes of the open dimensions; where inputs have different ones for one name,
        as the shapes of these inputs."""
        found: dict[str, Any] = {}
        for label, places in self._axes.items():
            values = [_at(shape, i, place) for i, place in places]
            if values.count(values[0]) == len(values):
                found[label] = "any" if values[0] is None else values[0]
                continue
            for i, _ in places:
                whole = shape[i]
                assert whole is not None
                found[self._names[i]] = tuple("any" if d is None else d for d in whole)
        return found

    def find(self, shape: Mapping[str, int | Sequence[int]]) -> Shape:
        """The shapes of all inputs, in their order.

        Args:
            shape: sizes of open dimensions, and shapes of inputs; those that follow from the others
                may be left out.

        Raises:
            ValueError: there is no such shape, or there are several.
        """
        dims: dict[str, int] = {}
        whole: dict[int, tuple[int, ...]] = {}
        for name, value in shape.items():
            if name in self.inputs and isinstance(value, Sequence):
                whole[self._names.index(name)] = tuple(map(int, value))
            elif name in self._axes and isinstance(value, (int, np.integer)):
                dims[name] = int(value)
            else:
                raise ValueError(
                    f"{name}={value!r} is neither the size of an open dimension "
                    f"({', '.join(self._axes) or 'there are none'}) nor the shape of an input "
                    f"({', '.join(self._names)})"
                )
        filled = [self._filled(p, dims, whole) for p in self._patterns]
        found = dict.fromkeys(w for f in filled if f is not None and (w := _whole(f)) is not None)
        if len(found) == 1:
            return next(iter(found))
        raise ValueError(self._refusal(shape, any(f is not None for f in filled)))

    def _filled(
        self, pattern: Pattern, dims: Mapping[str, int], whole: Mapping[int, tuple[int, ...]]
    ) -> Pattern | None:
        """A pattern with what is known in it; None when it does not fit."""
        found: list[Any] = [None if p is None else list(p) for p in pattern]
        for i, shape in whole.items():
            if found[i] is None:
                found[i] = list(shape)
                continue
            if len(found[i]) != len(shape) or min(shape, default=0) < 0:
                return None
            if any(f is not None and f != s for f, s in zip(found[i], shape, strict=True)):
                return None
            found[i] = list(shape)
        for label, places in self._axes.items():
            was_open = [(i, p) for i, p in places if _at(pattern, i, p) is None]
            sizes = {_at(found, i, p) for i, p in was_open} - {None}
            if label in dims and places[0][1] is not None:
                fixed = {_at(pattern, i, p) for i, p in places} - {None}
                sizes |= fixed | {dims[label]}
            if len(sizes) > 1:
                return None
            for i, p in was_open:
                if sizes and p is not None and found[i] is not None:
                    found[i][p] = next(iter(sizes))
        return tuple(None if f is None else tuple(f) for f in found)

    def _refusal(self, shape: Mapping[str, Any], fits: bool) -> str:
        given = _text(shape) or "nothing"
        inputs = ", ".join(map(str, self.inputs.values()))
        if fits:
            what = f"{given} does not say which shape of {self.name!r} is meant"
        else:
            what = f"{self.name!r} has no graph for {given}"
        text = f"{what}: its inputs are {inputs}"
        if any(self.shapes):
            shown = [_text(s) for s in self.shapes[:_SHOWN]]
            if len(self.shapes) > _SHOWN:
                shown.append(f"and {len(self.shapes) - _SHOWN} more")
            text += f"; there is {'; '.join(shown)}"
        if not fits:
            if self.listed is None:
                text += " (a name has the same size wherever it stands)"
            text += f". {self._remedy}, or pad the inputs to a shape that there is"
        return text

    # ---- the model of a shape -----------------------------------------------------------------

    def at(self, shape: Mapping[str, int | Sequence[int]]) -> Model:
        """The `Model` of one shape, which is called as its graph.

        Args:
            shape: as for ``find``.

        Raises:
            ValueError: there is no such shape.
            ModelError, UnsupportedOpError: as ``qnnrt.load``, for what is wrong in this shape.
        """
        return self.model(self.find(shape))

    def model(self, shape: Shape) -> Model:
        """``at``, for the shapes of all inputs, as ``find`` returns them."""
        with self._guard.lock:
            if self._first is not None and self._first[0] == shape:
                model, self._first = self._first[1], None
                return model
            return self._import(shape)

    def _import(self, shape: Shape) -> Model:
        model = self._make(dict(zip(self._names, shape, strict=True)))
        model.name = self.graph_name(shape)
        if self.state:
            model.set_state(self.state)
        return model

    def graph_name(self, shape: Shape) -> str:
        """What the graph of a shape is called."""
        parts = [self.name or "model"]
        for label, size in self.sizes(shape).items():
            sizes = "x".join(map(str, size)) if isinstance(size, tuple) else str(size)
            parts += [re.sub(r"[^0-9A-Za-z_]", "_", label), sizes or "scalar"]
        return "_".join(parts)

    def summary(self) -> str:
        """A few lines: inputs, outputs and shapes."""
        lines = [f"Model {self.name!r} of many shapes from {self.source}"]
        lines += [f"  input   {given}" for given in self.inputs.values()]
        lines += [f"  output  {name}" for name in self.outputs]
        lines += [f"  shape   {_text(shape) or 'as the file says'}" for shape in self.shapes]
        return "\n".join(lines)

    __repr__ = summary


def _at(shape: Sequence[Any], i: int, place: int | None) -> Any:
    """A size, or a whole shape, of a pattern; None where it is open."""
    found = shape[i]
    if place is None:
        return None if found is None else tuple(found)
    return None if found is None else found[place]


def _whole(pattern: Pattern) -> Shape | None:
    """A pattern in which nothing is open."""
    found = tuple(tuple(d for d in p if d is not None) for p in pattern if p is not None)
    same = len(found) == len(pattern) and list(map(len, found)) == [len(p or ()) for p in pattern]
    return found if same else None


def _text(shape: Mapping[str, Any]) -> str:
    return " ".join(_parts(shape))


def _parts(shape: Mapping[str, Any]) -> Iterator[str]:
    for name, size in shape.items():
        yield f"{name}={list(size) if isinstance(size, (tuple, list)) else size}"
