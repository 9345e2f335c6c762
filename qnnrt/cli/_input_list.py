"""Input lists of the SDK's tools: which files go into which tensor, one line for an inference."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._native import _core
from ..support.files import read_text
from ._common import UsageError, number_of
from ._values import FILE_FLOAT, described, elements, nbytes

SKIP = "__"  # instead of an input list: a graph that is not run


def sanitized(name: str) -> str:
    """A tensor's name as files are called after it: word characters, not a digit first."""
    clean = re.sub(r"\W", "_", name, flags=re.ASCII)
    return clean if re.match("[A-Za-z_]", clean) else f"_{clean}"


@dataclass(frozen=True)
class Entry:
    """``path`` or ``name:=path``."""

    path: Path
    name: str | None


@dataclass(frozen=True)
class Line:
    """One inference's files; ``where`` is "file:number" for messages."""

    where: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class InputList:
    """A file read.

    Attributes:
        path: of the file.
        lines: the inferences.
        selected: what the lines ``#`` and ``%`` at its beginning name; None without such a line.
    """

    path: Path
    lines: tuple[Line, ...]
    selected: tuple[str, ...] | None


def read_input_list(path: Path) -> InputList:
    """Read an input list.

    Raises:
        UsageError: no such file, or not text, or without any inference.
    """
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such input list") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not an input list: it is not text") from None
    numbered = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1)]
    numbered = [(n, line) for n, line in numbered if line]
    for n, line in numbered:
        if "\0" in line:
            raise UsageError(f"{path}:{n}: a zero byte: no file and no tensor is called so")
    selected: tuple[str, ...] | None = None
    for mark in "#%":  # in this order, and nowhere else
        if numbered and numbered[0][1].startswith(mark):
            names = numbered.pop(0)[1][1:].split()
            selected = (*(selected or ()), *names)
    lines = [
        Line(f"{path}:{n}", tuple(_entry(text) for text in line.split())) for n, line in numbered
    ]
    if not lines:
        raise UsageError(f"{path}: the input list names no files")
    return InputList(path, tuple(lines), selected)


def _entry(text: str) -> Entry:
    name, separator, path = text.partition(":=")
    return Entry(Path(path), name) if separator else Entry(Path(text), None)


def arrange(given: InputList, inputs: Sequence[_core.Tensor]) -> Iterator[tuple[str, list[Path]]]:
    """For each line where it stands and its files, in the order of the graph's inputs.

    Names count when every entry of the first line has one, else the order does.

    Raises:
        UsageError: another number of files than inputs, an unknown name, a name given twice.
    """
    by_name = all(entry.name is not None for entry in given.lines[0].entries)
    order: list[int] = []
    for line in given.lines:
        if len(line.entries) != len(inputs):
            raise UsageError(
                f"{line.where}: {number_of(len(line.entries), 'file')}, but the graph has "
                f"{number_of(len(inputs), 'input')}: {', '.join(t.name for t in inputs)} (spaces "
                "stand between files)"
            )
        named = [entry.name for entry in line.entries if entry.name is not None]
        if not by_name:
            order = list(range(len(inputs)))
        elif named and len(named) < len(inputs):
            raise UsageError(f"{line.where}: only some files have names; give all of them, or none")
        elif named or not order:
            order = [_position(name, inputs, line.where) for name in named]
            if len(set(order)) < len(order):
                raise UsageError(f"{line.where}: an input is given twice")
        paths = [Path()] * len(inputs)
        for index, entry in zip(order, line.entries, strict=True):
            paths[index] = entry.path
        yield line.where, paths


def unused_names(given: InputList) -> bool:
    """Whether the first line names some of its files, but not all: then the names do not count."""
    named = [entry.name is not None for entry in given.lines[0].entries]
    return any(named) and not all(named)


def find(name: str, tensors: Sequence[_core.Tensor]) -> list[int]:
    """Indices of the tensors with this name; without one, of those with this name sanitised."""
    exact = [i for i, t in enumerate(tensors) if t.name == name]
    clean = sanitized(name)
    return exact or [i for i, t in enumerate(tensors) if sanitized(t.name) == clean]


def _position(name: str, inputs: Sequence[_core.Tensor], where: str) -> int:
    indices = find(name, inputs)
    if len(indices) != 1:
        what = "no input" if not indices else "more than one input"
        raise UsageError(
            f"{where}: the graph has {what} {name!r}; it has {', '.join(t.name for t in inputs)}"
        )
    return indices[0]


# ---- sizes and batches ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Part of a file, in elements: from ``file_start`` on, at ``start`` of the tensor."""

    path: Path
    file_start: int
    start: int
    count: int


@dataclass(frozen=True)
class Part:
    """Part of an output, in elements: ``Result_<result>``, from ``file_start`` of the file on."""

    result: int
    file_start: int
    start: int
    count: int


@dataclass(frozen=True)
class Inference:
    """One execution.

    Attributes:
        inputs: what is read into each input.
        outputs: which results each output goes to.
        completes: how many lines of the list are done with it.
    """

    inputs: tuple[tuple[Piece, ...], ...]
    outputs: tuple[tuple[Part, ...], ...]
    completes: int


@dataclass(frozen=True)
class FileTypes:
    """Which inputs' files are in the tensor's own type; the others are float32.

    Attributes:
        native: names of the inputs.
        stated: whether the caller said that files are float32: then a size that fits both counts
            as what he said.
    """

    native: frozenset[str] = frozenset()
    stated: bool = False

    def itemsize(self, tensor: _core.Tensor) -> int:
        return tensor.dtype.itemsize if tensor.name in self.native else FILE_FLOAT.itemsize


def plan(
    lines: Iterable[tuple[str, list[Path]]],
    inputs: Sequence[_core.Tensor],
    outputs: Sequence[_core.Tensor],
    types: FileTypes,
    multiplier: int = 1,
) -> list[Inference]:
    """Every execution of a list, with all files' sizes checked before the first.

    A file that is smaller than its tensor is one element of a batch, or a few: as many lines are
    put together as fill the tensor, the last ones padded with zeros. With a ``multiplier`` the
    tensors are taken for that many times as long, and executed piece by piece.

    Raises:
        UsageError: a size that does not fit; both sizes are said.
    """
    measured = [
        (where, paths, _batch(where, paths, inputs, types, multiplier)) for where, paths in lines
    ]
    inferences: list[Inference] = []
    first = 0
    while first < len(measured):
        batch = measured[first][2]
        group = measured[first : first + batch]
        for where, _, other in group:
            if other != batch:
                raise UsageError(
                    f"{where}: its files are 1/{other} of their tensors, but the line that the "
                    f"batch begins with, {group[0][0]}, has 1/{batch}"
                )
        inferences += _group(group, first, batch, inputs, outputs, multiplier)
        first += len(group)
    return inferences


def _group(
    group: Sequence[tuple[str, list[Path], int]],
    first: int,
    batch: int,
    inputs: Sequence[_core.Tensor],
    outputs: Sequence[_core.Tensor],
    multiplier: int,
) -> Iterator[Inference]:
    for t in outputs:
        if batch > 1 and (multiplier * (t.shape[0] if t.shape else 1)) % batch:
            raise UsageError(
                f"{group[0][0]}: {batch} lines make a batch, but output {described(t)} cannot be "
                f"divided into {batch}"
            )
    for k in range(multiplier):
        ins = tuple(
            tuple(
                Piece(group[j][1][i], file_start, start, count)
                for j, file_start, start, count in _overlaps(elements(t), multiplier, batch, k)
                if j < len(group)
            )
            for i, t in enumerate(inputs)
        )
        outs = tuple(
            tuple(
                Part(first + j, file_start, start, count)
                for j, file_start, start, count in _overlaps(elements(t), multiplier, batch, k)
                if j < len(group)
            )
            for t in outputs
        )
        if k > 0 and not any(ins):  # it would hold padding alone, and so would those behind it
            break
        ends = [(j + 1) * multiplier for j in range(len(group))]  # in 1/batch of a tensor
        done = sum(k * batch < end <= (k + 1) * batch for end in ends)
        yield Inference(ins, outs, done)


def _overlaps(
    size: int, multiplier: int, batch: int, k: int
) -> Iterator[tuple[int, int, int, int]]:
    """Of `batch` files that make up `multiplier` tensors: those in tensor k, with their ranges."""
    each = size * multiplier // batch
    begin, end = k * size, (k + 1) * size
    for j in range(begin // each, -(-end // each)):
        low, high = max(begin, j * each), min(end, (j + 1) * each)
        yield j, low - j * each, low - begin, high - low


def _batch(
    where: str,
    paths: Sequence[Path],
    inputs: Sequence[_core.Tensor],
    types: FileTypes,
    multiplier: int,
) -> int:
    """How many lines like this one fill the tensors."""
    batches = [
        _files_for(where, path, t, types, multiplier) for path, t in zip(paths, inputs, strict=True)
    ]
    if len(set(batches)) > 1:
        parts = ", ".join(
            f"{path} is 1/{n} of {t.name}"
            for path, n, t in zip(paths, batches, inputs, strict=True)
        )
        raise UsageError(f"{where}: files of one line must hold equal parts of a batch: {parts}")
    return batches[0] if batches else 1


def _files_for(
    where: str, path: Path, tensor: _core.Tensor, types: FileTypes, multiplier: int
) -> int:
    try:
        found = os.stat(path)
    except OSError as error:
        raise UsageError(f"{where}: {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{where}: {path}: not a file")
    size, full = found.st_size, elements(tensor) * types.itemsize(tensor) * multiplier
    native = nbytes(tensor) * multiplier
    length = multiplier * (tensor.shape[0] if tensor.shape else 1)
    fits = size > 0 and full % size == 0 and length % (full // size) == 0
    read_as_float = tensor.name not in types.native
    if fits and not (size != full and size == native and read_as_float and not types.stated):
        return full // size
    if read_as_float:
        takes = f"{full} as float32 (the default), or {native} in its own type with "
        takes += "--use_native_input_files"
    else:
        takes = f"{full} in its own type, or {elements(tensor) * 4 * multiplier} as float32"
        takes += " without the options for native files"
    hint = ""
    if fits:
        hint = f" (if it is {full // size} parts of a batch in float32: --input_data_type float)"
    elif path.suffix == ".npy":
        hint = " (a .npy file has a header: write the array with tofile)"
    raise UsageError(
        f"{where}: {path}: {size} bytes, but input {described(tensor)} takes {takes}{hint}"
    )
