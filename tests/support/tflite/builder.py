"""Small .tflite files, written with the schema's own object API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {
    np.dtype(kind): getattr(schema.TensorType, name)
    for name, kind in (
        ("FLOAT32", np.float32),
        ("FLOAT16", np.float16),
        ("FLOAT64", np.float64),
        ("INT8", np.int8),
        ("INT16", np.int16),
        ("INT32", np.int32),
        ("INT64", np.int64),
        ("UINT8", np.uint8),
        ("UINT32", np.uint32),
        ("BOOL", np.bool_),
    )
}


class ModelBuilder:
    """One subgraph, or several; tensors are known by the number that the methods return."""

    def __init__(self, name: str = "main") -> None:
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = "made by a test"
        self.model.buffers = [schema.BufferT()]  # buffer 0 is the empty one
        self.model.operatorCodes = []
        self.model.signatureDefs = None
        self.model.subgraphs = []
        self.subgraph(name)
        self._codes: dict[tuple[int, str | None], int] = {}

    def subgraph(self, name: str) -> int:
        """Begins another subgraph, which what follows belongs to; its number."""
        self.graph = schema.SubGraphT()
        self.graph.name = name
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        return len(self.model.subgraphs) - 1

    def tensor(
        self,
        shape: Sequence[int],
        dtype: Any = np.float32,
        *,
        name: str | None = None,
        data: np.ndarray | None = None,
        signature: Sequence[int] | None = None,
        scale: float | Sequence[float] | None = None,
        zero: int | Sequence[int] = 0,
        axis: int = 0,
        variable: bool = False,
        type_: int | None = None,
    ) -> int:
        t = schema.TensorT()
        t.shape = [int(d) for d in shape]
        t.type = TYPES[np.dtype(dtype)] if type_ is None else type_
        t.name = name if name is not None else f"t{len(self.graph.tensors)}"
        t.isVariable = variable
        t.hasRank = True
        t.shapeSignature = None if signature is None else list(signature)
        t.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if scale is not None:
            q = schema.QuantizationParametersT()
            q.scale = [float(s) for s in np.atleast_1d(scale)]
            q.zeroPoint = [int(z) for z in np.atleast_1d(zero)]
            q.quantizedDimension = axis
            t.quantization = q
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def input(self, shape: Sequence[int], dtype: Any = np.float32, **more: Any) -> int:
        index = self.tensor(shape, dtype, **more)
        self.graph.inputs.append(index)
        return index

    def const(self, array: Any, dtype: Any = None, **more: Any) -> int:
        data = np.asarray(array, dtype)
        return self.tensor(data.shape, data.dtype, data=data, **more)

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int | tuple[Sequence[int], Any]],
        options: str | None = None,
        *,
        custom: str | None = None,
        settings: bytes | None = None,
        version: int = 1,
        **fields: Any,
    ) -> list[int]:
        """One operator; `options` is the table's name, `fields` its fields, in camelCase,
        `settings` the options of a custom one."""
        made = [o if isinstance(o, int) else self.tensor(*o) for o in outputs]
        code = getattr(schema.BuiltinOperator, kind)
        if (code, custom) not in self._codes:
            entry = schema.OperatorCodeT()
            entry.builtinCode = code
            entry.deprecatedBuiltinCode = min(code, 127)
            entry.customCode = custom
            entry.version = version
            self._codes[code, custom] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(entry)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes[code, custom]
        operator.inputs, operator.outputs = list(inputs), made
        if settings is not None:
            operator.customOptions = np.frombuffer(settings, np.uint8)
        if options is not None:
            table = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                assert hasattr(table, field), f"{options} has no {field}"
                setattr(table, field, value)
            number = getattr(schema.BuiltinOptions, options, None)
            if number is not None:
                operator.builtinOptions, operator.builtinOptionsType = table, number
            else:
                operator.builtinOptions2 = table
                operator.builtinOptions2Type = getattr(schema.BuiltinOptions2, options)
        self.graph.operators.append(operator)
        return made

    def output(self, *indices: int) -> None:
        self.graph.outputs.extend(indices)

    def signature(
        self, key: str, inputs: dict[str, int], outputs: dict[str, int], subgraph: int = 0
    ) -> None:
        def maps(names: dict[str, int]) -> list[Any]:
            found = []
            for name, index in names.items():
                entry = schema.TensorMapT()
                entry.name, entry.tensorIndex = name, index
                found.append(entry)
            return found

        s = schema.SignatureDefT()
        s.signatureKey, s.subgraphIndex = key, subgraph
        s.inputs, s.outputs = maps(inputs), maps(outputs)
        self.model.signatureDefs = [*(self.model.signatureDefs or []), s]

    def build(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())
