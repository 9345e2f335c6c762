"""Float networks of the tests as full-integer files, as TensorFlow's converter writes them.

Ranges are those of one input, by TFLite's own interpreter. Activations get one encoding each,
weights one scale for each output channel, biases the scale of the products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from support.tflite.builder import TYPES
from support.tflite.quantized import (
    BIAS,
    F32,
    SAME_ENCODING,
    WEIGHTS,
    Encoding,
    prescribed,
    spanning,
    symmetric,
)

_NAMES = {code: name for name, code in vars(schema.BuiltinOperator).items() if name.isupper()}


def ranges(data: bytes, feeds: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Every tensor of the float network, for these inputs."""
    runner = Interpreter(
        model_content=data,
        num_threads=1,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    runner.allocate_tensors()
    for detail, x in zip(runner.get_input_details(), feeds, strict=True):
        runner.set_tensor(detail["index"], x)
    runner.invoke()
    return {
        d["index"]: np.array(runner.get_tensor(d["index"])) for d in runner.get_tensor_details()
    }


class Quantizer:
    """`float_io`: inputs and outputs stay float32, with QUANTIZE and DEQUANTIZE at the edges."""

    def __init__(
        self, data: bytes, feeds: Sequence[np.ndarray], dtype: Any, float_io: bool
    ) -> None:
        self.model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
        self.graph = self.model.subgraphs[0]
        self.kind = np.dtype(dtype)
        self.values = ranges(data, feeds)
        self.encodings: dict[int, Encoding] = {}
        self.activations()
        for op in self.graph.operators:
            self.constants(op)
        for index, encoding in self.encodings.items():
            self.write(index, encoding)
        if float_io:
            self.edges()

    def name(self, op: Any) -> str:
        return _NAMES[self.model.operatorCodes[op.opcodeIndex].builtinCode]

    def is_constant(self, index: int) -> bool:
        return self.model.buffers[self.graph.tensors[index].buffer].data is not None

    def activations(self) -> None:
        """One encoding for all that operators of one encoding join."""
        groups: dict[int, list[int]] = {}
        outputs: dict[int, str] = {}
        for op in self.graph.operators:
            name = self.name(op)
            given = [i for i in op.inputs if i >= 0 and self.values[i].dtype == F32]
            if name in WEIGHTS:
                given = [i for i in given if not self.is_constant(i)]
            together = [*given, *op.outputs] if name in SAME_ENCODING else []
            for i in (*given, *op.outputs):
                groups.setdefault(i, [i])
            for i in together[1:]:
                first, other = groups[together[0]], groups[i]
                if first is not other:
                    first += other
                    groups.update(dict.fromkeys(other, first))
            outputs.update(dict.fromkeys(op.outputs, name))
        for i, group in groups.items():
            encoding = spanning(self.kind, *(self.values[j] for j in group))
            if len(group) == 1 and i in outputs:
                encoding = prescribed(outputs[i], self.kind, self.values[i])
            self.encodings[i] = encoding

    def constants(self, op: Any) -> None:
        name = self.name(op)
        if name not in WEIGHTS:
            return
        at, axis = WEIGHTS[name]
        weights, bias = op.inputs[at], op.inputs[BIAS[name]]
        if self.kind.kind == "u":
            self.encodings[weights] = spanning(self.kind, self.values[weights])
        else:
            self.encodings[weights] = symmetric(self.values[weights], axis)
        wide = np.dtype(np.int64 if self.kind == np.int16 else np.int32)
        (data,) = (i for i in op.inputs if i in self.encodings and i != weights)
        scale = self.encodings[data].scale * self.encodings[weights].scale
        self.encodings[bias] = Encoding(wide, scale.astype(F32))

    def write(self, index: int, encoding: Encoding) -> None:
        tensor = self.graph.tensors[index]
        if self.is_constant(index):
            q = encoding.encode(self.values[index])
            self.model.buffers[tensor.buffer].data = np.frombuffer(q.tobytes(), np.uint8)
        tensor.type = TYPES[encoding.dtype]
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = encoding.scale.tolist()
        tensor.quantization.zeroPoint = [encoding.zero] * encoding.scale.size
        tensor.quantization.quantizedDimension = encoding.axis

    def edges(self) -> None:
        """A float tensor before every input and behind every output."""
        self.graph.inputs, self.graph.outputs = list(self.graph.inputs), list(self.graph.outputs)
        for ends, kind, first in (
            (self.graph.inputs, "QUANTIZE", True),
            (self.graph.outputs, "DEQUANTIZE", False),
        ):
            code = schema.OperatorCodeT()
            code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
            self.model.operatorCodes.append(code)
            for at, inner in enumerate(ends):
                outer = schema.TensorT()
                outer.shape, outer.type = self.graph.tensors[inner].shape, schema.TensorType.FLOAT32
                outer.name, outer.buffer = f"float_{kind}_{at}".encode(), 0
                self.graph.tensors.append(outer)
                ends[at] = len(self.graph.tensors) - 1
                op = schema.OperatorT()
                op.opcodeIndex = len(self.model.operatorCodes) - 1
                op.inputs, op.outputs = ([ends[at]], [inner]) if first else ([inner], [ends[at]])
                self.graph.operators.insert(0 if first else len(self.graph.operators), op)
        self.model.signatureDefs = None

    def build(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def quantized_network(
    data: bytes, feeds: Sequence[np.ndarray], dtype: Any, *, float_io: bool = False
) -> tuple[bytes, list[np.ndarray]]:
    """The file, and `feeds` as its inputs."""
    found = Quantizer(data, feeds, dtype, float_io)
    if float_io:
        return found.build(), list(feeds)
    codes = [found.encodings.get(i) for i in found.graph.inputs]
    return found.build(), [
        x if c is None else c.encode(x) for c, x in zip(codes, feeds, strict=True)
    ]
