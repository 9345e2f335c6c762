"""TFLite files to checked Python records: every way in which a file can be bad is one ModelError.

The flatbuffer is read through the accessors of the ``tflite`` package, which follow whatever
offsets they find. Three guards make that safe: whatever they raise becomes a `ModelError`, the
elements read are counted against the size of the file (a file cannot hold more than it has bytes,
so a vector that claims more is a wild one), and every index is checked before it is used.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags

from ..._native import _core
from ...errors import ModelError
from ..guard import read_file
from .options import Options, read_options
from .reader import Reader
from .types import TensorInfo, read_buffer, read_tensor

IDENTIFIER = b"TFL3"
_BUILTIN_CODE = 10  # where an OperatorCode's table has that field


@dataclass
class OperatorInfo:
    """One operator. Tensors are given by index; -1 is an omitted optional input."""

    index: int
    op: str  # BuiltinOperator's name; for custom operators "CUSTOM"
    version: int
    inputs: list[int]
    outputs: list[int]
    options: Options
    custom: str = ""  # the custom operator's own name

    @property
    def name(self) -> str:
        return f"{self.op}_{self.index}"


@dataclass
class SubgraphInfo:
    """One subgraph, with every index checked."""

    index: int
    name: str
    tensors: list[TensorInfo]
    inputs: list[int]
    outputs: list[int]
    operators: list[OperatorInfo]


@dataclass
class SignatureInfo:
    """One entry point: its key, its subgraph, and names for inputs and outputs by tensor."""

    key: str
    subgraph: int
    inputs: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, str] = field(default_factory=dict)


@dataclass
class FileInfo:
    """All that is used of a file."""

    where: str
    size: int
    subgraphs: list[SubgraphInfo]
    signatures: list[SignatureInfo]


class FileReader(Reader):
    """Reads the tables of a file, from its root on."""

    def file(self) -> FileInfo:
        model = tflite.Model.GetRootAs(self.data, 0)
        if model.Version() != 3:
            raise ModelError(
                f"{self.where} is of TFLite schema version {model.Version()}; version 3, which "
                "every converter since 2017 writes, is understood"
            )
        codes = [self.operator_code(c) for c in self.tables(model, "OperatorCodes", "the op codes")]
        buffers = [
            read_buffer(self, b, i)
            for i, b in enumerate(self.tables(model, "Buffers", "the buffers"))
        ]
        subgraphs = [
            self.subgraph(s, i, codes, buffers)
            for i, s in enumerate(self.tables(model, "Subgraphs", "the subgraphs"))
        ]
        if not subgraphs:
            raise ModelError(f"{self.where} has no subgraph: there is nothing to run")
        signatures = [
            self.signature(s, subgraphs)
            for s in self.tables(model, "SignatureDefs", "the signatures")
        ]
        return FileInfo(self.where, len(self.data), subgraphs, signatures)

    def operator_code(self, code: Any) -> tuple[str, int, str]:
        # Codes above 127 are in the newer field; older writers fill the older one only, and some
        # of today's the newer one only, which the package's own accessor does not read below 127.
        table = code._tab
        at = table.Offset(_BUILTIN_CODE)
        newer = table.Get(Int32Flags, table.Pos + at) if at else 0
        number = max(int(code.DeprecatedBuiltinCode()), int(newer))
        name = OPERATORS.get(number, f"BUILTIN_{number}")
        custom = self.text(code.CustomCode(), "a custom code")
        return name, int(code.Version()), custom

    def subgraph(
        self,
        table: Any,
        index: int,
        codes: list[tuple[str, int, str]],
        buffers: list[np.ndarray | None],
    ) -> SubgraphInfo:
        what = f"subgraph {index}"
        tensors = [
            read_tensor(self, t, i, buffers, what)
            for i, t in enumerate(self.tables(table, "Tensors", f"the tensors of {what}"))
        ]
        count = len(tensors)
        operators = []
        for i, op in enumerate(self.tables(table, "Operators", f"the operators of {what}")):
            code = int(op.OpcodeIndex())
            if not 0 <= code < len(codes):
                raise self.fail(f"operator {i} of {what} uses op code {code} of {len(codes)}")
            name, version, custom = codes[code]
            if name == "CUSTOM" and custom in CUSTOM:
                name, custom = custom, ""
            label = f"operator {i} ({name}) of {what}"
            operators.append(
                OperatorInfo(
                    i,
                    name,
                    version,
                    self.indices(op, "Inputs", f"the inputs of {label}", count, optional=True),
                    self.indices(op, "Outputs", f"the outputs of {label}", count),
                    read_options(self, op, label),
                    custom,
                )
            )
        inputs = self.indices(table, "Inputs", f"the inputs of {what}", count)
        outputs = self.indices(table, "Outputs", f"the outputs of {what}", count)
        name = self.text(table.Name(), "a subgraph's name")
        return SubgraphInfo(index, name, tensors, inputs, outputs, operators)

    def indices(
        self, owner: Any, field_name: str, what: str, count: int, optional: bool = False
    ) -> list[int]:
        found = self.ints(owner, field_name, what)
        for i in found:
            if not (0 <= i < count or (optional and i == -1)):
                raise self.fail(f"{what} name tensor {i}; there are {count}")
        return found

    def signature(self, table: Any, subgraphs: list[SubgraphInfo]) -> SignatureInfo:
        key = self.text(table.SignatureKey(), "a signature's key")
        at = int(table.SubgraphIndex())
        if not 0 <= at < len(subgraphs):
            raise self.fail(f"signature {key!r} names subgraph {at}; there are {len(subgraphs)}")
        result = SignatureInfo(key, at)
        for field_name, names in (("Inputs", result.inputs), ("Outputs", result.outputs)):
            for entry in self.tables(table, field_name, f"the names of signature {key!r}"):
                tensor = int(entry.TensorIndex())
                if not 0 <= tensor < len(subgraphs[at].tensors):
                    raise self.fail(f"signature {key!r} names tensor {tensor} of subgraph {at}")
                names.setdefault(tensor, self.text(entry.Name(), "a name in a signature"))
        return result


#: Custom operators that are lowered as if they were builtin, by their own names.
CUSTOM = frozenset(
    row["name"]
    for row in json.loads(_core.tflite_operators_json())
    if row["code"] == tflite.BuiltinOperator.CUSTOM
)

#: BuiltinOperator's number -> name.
OPERATORS: dict[int, str] = {
    code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)
}


@contextmanager
def _guarded(where: str, size: int) -> Iterator[None]:
    """Whatever reading a damaged flatbuffer raises, as one ModelError."""
    try:
        yield
    except ModelError:
        raise
    except (struct.error, ValueError, TypeError, IndexError, OverflowError, AttributeError) as exc:
        raise ModelError(
            f"{where} is damaged: a table or vector lies outside its {size} bytes, or is not what "
            f"it should be ({exc})"
        ) from exc


def read(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> FileInfo:
    """Everything that is used of a file, with every index and size checked.

    Raises `ModelError`, and `OSError` when the file cannot be opened.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        data, where = bytes(source), f"the given bytes ({len(source)})"
    else:
        path = Path(source)
        data, where = read_file(path, "a TFLite model"), str(path)
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        what = "is empty" if not data else f"has {len(data)} bytes, without the mark {IDENTIFIER!r}"
        raise ModelError(f"{where} is not a TFLite model: it {what}")
    with _guarded(where, len(data)):
        return FileReader(data, where).file()
