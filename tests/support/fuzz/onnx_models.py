"""ONNX models, changed where their grammar has a choice: always a valid protobuf."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import qnnrt
from qnnrt.importers import onnx as importer
from qnnrt.importers.onnx import child

from .models import onnx_graphs
from .onnx_edits import DATA, EDITS, add_case, to_constant
from .small import run_small
from .target import Target

_MOST = 60_000  # bytes of a base


class OnnxModels(Target):
    name = "onnx"
    suffix = ".onnx"

    def build_bases(self) -> list[tuple[bytes, dict[str, bytes]]]:
        """Models, and tensors for their inputs, so that inputs can become constants."""
        from support.onnx import cases

        found = []
        for case in cases.cases().values():
            data = case.model.SerializeToString()
            tensors = {}
            for value, x in zip(case.model.graph.input, case.inputs, strict=False):
                if isinstance(x, TensorProto):
                    tensors[value.name] = x.SerializeToString()
                elif isinstance(x, (np.ndarray, np.generic)):
                    try:
                        made = numpy_helper.from_array(np.asarray(x), value.name)
                    except (TypeError, ValueError, NotImplementedError):
                        continue
                    tensors[value.name] = made.SerializeToString()
            if len(data) + sum(map(len, tensors.values())) < _MOST:
                found.append((data, tensors))
        graphs = [(m.SerializeToString(), {}) for m in onnx_graphs()]
        # As many graphs of several nodes as would make a sixth of all cases.
        return found + graphs * max(1, len(found) // 6 // len(graphs))

    def mutate(self, chance: random.Random) -> bytes:
        data, tensors = chance.choice(self.bases)
        model = onnx.ModelProto.FromString(data)
        kind = chance.random()
        for value in [*model.graph.input]:
            if value.name in tensors and chance.random() < (1.0 if kind < 0.4 else 0.3):
                to_constant(model, value, TensorProto.FromString(tensors[value.name]))
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
            edit = chance.choice(EDITS)
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            try:
                edit(chance, changed)
            except (TypeError, ValueError):
                continue  # a value that the field cannot hold
            model = changed
        if chance.random() < 0.1 and model.graph.node:
            add_case(chance, model, chance.choice(self.bases)[0])
        made: bytes = model.SerializeToString()
        if chance.random() < 0.01:
            made = made.replace(b"x", b"\xff", 1)
        return made

    def warm(self) -> None:
        super().warm()
        keep_processes()

    def run(self, data: bytes, folder: Path) -> str:
        mark = zlib.crc32(data)
        options: dict[str, Any] = {}
        if mark & 0x30 == 0:
            options["layout"] = "nhwc"
        if mark & 0xC0 == 0:
            options["stateful"] = True
        if mark & 0x300 == 0:
            options["quantized_io"] = True
        if mark & 1:
            (folder / DATA).write_bytes(bytes(range(256)) * 16)
            path = folder / "m.onnx"
            path.write_bytes(data)
            model = qnnrt.load(path, **options)
        else:
            model = importer.load(data, **options)
        assert isinstance(model, qnnrt.Model)
        return run_small(model, self.backend or ("htp" if mark & 0x1C00 == 0 else "cpu"))

    def smaller(self, data: bytes) -> Iterator[bytes]:
        model = onnx.ModelProto.FromString(data)
        for where in list(_parts(model)):
            less = onnx.ModelProto()
            less.CopyFrom(model)
            owner: Any = less
            for step in where[:-1]:
                owner = getattr(owner, step) if isinstance(step, str) else owner[step]
            last = where[-1]
            if isinstance(last, str):
                owner.ClearField(last)
            else:
                del owner[last]
            made = less.SerializeToString()
            if len(made) < len(data):
                yield made


def keep_processes() -> None:
    """The process that a load starts for onnx's own code serves the loads that follow, too: to
    start one takes longer than everything else of a case. One that fails is ended, as ever."""
    idle: list[Any] = []
    exchange, start, close = child.Child._exchange, child.Child._start, child.Child.close

    def exchanging(self: Any, parts: Any, longest: int) -> Any:
        self.healthy = False
        answer = exchange(self, parts, longest)
        self.healthy = True
        return answer

    def starting(self: Any) -> None:
        if idle:
            self._process = idle.pop()
        else:
            start(self)

    def closing(self: Any) -> None:
        if self._process is not None and getattr(self, "healthy", False):
            idle.append(self._process)
            self._process = None
        close(self)

    child.Child._exchange, child.Child._start = exchanging, starting  # type: ignore[method-assign]
    child.Child.close = closing  # type: ignore[method-assign]


def _parts(message: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field and element that can be left out, the outer ones first."""
    inner = []
    for field, value in message.ListFields():
        name = field.name
        is_message = field.type == field.TYPE_MESSAGE
        if not hasattr(value, "append") and not hasattr(value, "add"):
            yield (*path, name)
            inner += [((*path, name), value)] if is_message else []
            continue
        yield (*path, name)
        for at in range(min(len(value), 40)):
            yield (*path, name, at)
            inner += [((*path, name, at), value[at])] if is_message else []
    for where, part in inner:
        yield from _parts(part, where)
