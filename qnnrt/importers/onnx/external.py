"""Data of tensors in files beside the model."""

from __future__ import annotations

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx

from ...errors import ModelError
from ...model.mapped import MappedFile
from ..guard import beside, name_of, open_file, shortened
from . import wire

#: How many times the bytes that tensors name they may take together: they may share bytes.
_SHARED = 4


@dataclass
class Beside:
    """What lies in files of its own.

    Attributes:
        distinct: how many bytes of the files the tensors name. The rest of a file does not count:
            it can be a hole of any size.
        apart: by the index of a tensor: its data in a file that is mapped.
        mapped: these files.
    """

    distinct: int = 0
    apart: dict[int, memoryview] = field(default_factory=dict)
    mapped: list[MappedFile] = field(default_factory=list)


class _Latest:
    """The data file that the tensor before this one names."""

    location: str | None = None
    file: Path
    _data: BinaryIO | None = None

    def find(self, model: Path, location: str, name: str) -> None:
        self.close()
        file = beside(model, location)
        if file is None:
            raise ModelError(
                f"{name}: its data file {shortened(repr(location))} is not below the model's folder"
            )
        if not _exists(file):
            raise ModelError(f"{name_of(file)} is missing: it holds the data of {name}")
        self.file, self.location = file, location

    def opened(self, name: str) -> BinaryIO:
        if self._data is None:
            self._data = open_file(self.file, f"the data of {name}")
        return self._data

    def close(self) -> None:
        if self._data is not None:
            self._data.close()
        self._data = self.location = None


def load_external(
    tensors: Iterable[onnx.TensorProto], first: int, where: str, model: Path | None
) -> Beside:
    """What lies beside the model. Of the `first` tensors large data stays in its file; the others
    get theirs.

    A data file is a regular file in the folder of the file `model` or below it, links followed.
    """
    with closing(_Latest()) as latest:
        return _load(tensors, first, where, model, latest)


def _load(
    tensors: Iterable[onnx.TensorProto],
    first: int,
    where: str,
    model: Path | None,
    latest: _Latest,
) -> Beside:
    found = Beside()
    files: dict[Path, MappedFile] = {}
    named: dict[Path, list[tuple[int, int]]] = {}  # parts of files, in order, apart from each other
    total = 0
    for index, tensor in enumerate(tensors):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        name = f"tensor {shortened(repr(tensor.name))} of {where}"
        keys = {entry.key: entry.value for entry in tensor.external_data}
        if len(keys) != len(tensor.external_data):
            raise ModelError(f"{name}: where its data lies is said twice")
        location = keys.get("location", "")
        if model is None:
            raise ModelError(
                f"{name} is stored in {shortened(repr(location))} beside the model; "
                "load the model by its path, or call onnx.load_external_data_for_model first"
            )
        if location != latest.location:  # most models have one file for all tensors
            latest.find(model, location, name)
        offset = _number(keys, "offset", 0, name)
        wanted = _bytes_of(tensor, name)
        length = _number(keys, "length", wanted, name)
        if length != wanted:
            raise ModelError(
                f"{name}: its data is said to have {length} bytes; its type and shape make {wanted}"
            )
        total += length
        file, data = latest.file, latest.opened(name)
        size = os.fstat(data.fileno()).st_size
        if offset + length > size:
            raise ModelError(
                f"{file} has {size} bytes: the {length} bytes of {name} at {offset} lie "
                "outside of it"
            )
        found.distinct += _added(named.setdefault(file, []), offset, offset + length)
        if total > _SHARED * found.distinct:
            raise ModelError(
                f"{name}: the tensors up to it read {total} bytes out of {found.distinct} of "
                f"the data files, more than {_SHARED} times as much"
            )
        if index < first and length >= wire.LEAST:
            if file not in files:
                files[file] = MappedFile(data, name_of(file))
            found.apart[index] = files[file].view[offset : offset + length]
        else:
            tensor.raw_data = _read(data.fileno(), offset, length, name)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    found.mapped += files.values()
    return found


def _added(parts: list[tuple[int, int]], begin: int, end: int) -> int:
    """How many bytes of [begin, end) are in none of the parts, which have them from then on."""
    first = bisect_left(parts, begin, key=lambda part: part[1])
    last = bisect_right(parts, end, key=lambda part: part[0])
    met = parts[first:last]
    whole = (min(begin, met[0][0]), max(end, met[-1][1])) if met else (begin, end)
    parts[first:last] = [whole]
    return whole[1] - whole[0] - sum(e - b for b, e in met)


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a name that no file can have
        return False


def _read(descriptor: int, offset: int, length: int, name: str) -> bytes:
    try:
        found = bytearray(length)
    except (MemoryError, OverflowError):
        raise MemoryError(f"{name}: no memory for its {length} bytes") from None
    at, rest = 0, memoryview(found)
    while at < length:  # one call reads 2 GiB at most
        got = os.preadv(descriptor, [rest[at : at + 2**30]], offset + at)
        if not got:
            raise ModelError(f"{name}: its data file became shorter while it was read")
        at += got
    return bytes(found)


def _number(keys: dict[str, str], key: str, default: int, name: str) -> int:
    text = keys.get(key)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"{name}: {key} {shortened(repr(text))} of its data is no number of bytes")
    return int(text)


def _bytes_of(tensor: onnx.TensorProto, name: str) -> int:
    """What type and shape say about the size."""
    four = {"UINT4", "INT4", "FLOAT4E2M1"}
    two = {"UINT2", "INT2"}
    try:
        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, ValueError):
        kind, dtype = "", np.dtype(object)
    if dtype.kind == "O" or any(d < 0 for d in tensor.dims):
        raise ModelError(
            f"{name}: type {tensor.data_type} of shape {shortened(str(list(tensor.dims[:64])))} "
            "cannot lie in a file of its own"
        )
    count = math.prod(tensor.dims)
    bits = 4 if kind in four else 2 if kind in two else 8 * dtype.itemsize
    return int(-(-count * bits // 8))
