"""Models as the C++ of a model library, as the SDK's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qnnrt
from qnnrt.abi import constants as abi
from qnnrt.dtypes import data_type, data_type_name
from qnnrt.model import Model, Quantization
from qnnrt.qnn.params import params_of
from support.building import ROOT, WARNINGS, Builder

INCLUDE = Path(qnnrt.__file__).parent / "include" / "qnnrt"


def library(
    folder: Path,
    models: Sequence[Model],
    *flags: str,
    memhandle: Sequence[str] = (),
    name: str = "libqnn_model",
) -> Path:
    """A model library of these models, compiled against the installed headers.

    Args:
        flags: of the compiler: -DTABLE_ENTRIES=N, -DOLD_SIGNATURE.
        memhandle: inputs and outputs that are declared so.
    """
    text = source(models, memhandle)
    path = folder / f"{name}.cc"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    include = [f"-I{INCLUDE}", f"-I{ROOT / 'tests/clients'}"]
    return Builder(folder).library(path, "-O1", *WARNINGS, *include, *flags, name=f"{name}.so")


def source(models: Sequence[Model], memhandle: Sequence[str] = ()) -> str:
    """The C++ of a library with a graph for each model."""
    graphs = ", ".join(_text(m.name) for m in models)
    parts = [
        '#include "model_library.h"',
        f"const std::vector<const char*> kGraphs = {{{graphs}}};",
    ]
    parts += ["namespace {"]
    bodies = []
    for number, model in enumerate(models):
        data: list[str] = []
        body = _Body(number, model, memhandle, data).lines()
        parts += data
        bodies += [f"  if (name == {_text(model.name)}) {{", *body, "  }"]
    parts += ["}  // namespace", "void Compose(Graph& graph, const std::string& name) {"]
    return "\n".join([*parts, *bodies, "}", ""])


class _Body:
    def __init__(
        self, number: int, model: Model, memhandle: Sequence[str], data: list[str]
    ) -> None:
        self._prefix = f"g{number}"
        self._model = model
        self._memhandle = memhandle
        self._data = data

    def lines(self) -> list[str]:
        m = self._model
        kinds = dict.fromkeys(m.inputs, "APP_WRITE") | dict.fromkeys(m.outputs, "APP_READ")
        found = [
            self._tensor(
                name,
                kinds.get(name, "NATIVE" if t.data is None else "STATIC"),
                data_type(t.dtype, quantized=t.quantization is not None),
                t.shape,
                t.data,
                t.quantization,
            )
            for name, t in m.tensors.items()
        ]
        for node in m.nodes:
            params = []
            for param in params_of(node.params, lambda name, array: array):
                if len(param) == 2:
                    name = f"{node.name}.{param[0]}"
                    code, array = data_type(param[1].dtype), param[1]
                    found.append(self._tensor(name, "STATIC", code, array.shape, array, None))
                    params.append(f"{{QNN_PARAMTYPE_TENSOR, {_text(name)}, {{}}}}")
                else:
                    params.append(_scalar(*param))
            ins, outs = (", ".join(map(_text, n)) for n in (node.inputs, node.outputs))
            found.append(
                f"    graph.Node({_text(node.name)}, {_text(node.type)}, {{{', '.join(params)}}}, "
                f"{{{ins}}}, {{{outs}}});"
            )
        return found

    def _tensor(
        self,
        name: str,
        kind: str,
        code: int,
        shape: Sequence[int],
        data: np.ndarray | None,
        q: Quantization | None,
    ) -> str:
        pointer, nbytes = "nullptr", 0
        if data is not None:
            pointer, nbytes = self._array(np.ascontiguousarray(data)), data.nbytes
        dims = ", ".join(map(str, shape))
        mem = "MEMHANDLE" if name in self._memhandle else "RAW"
        return (
            f"    graph.Tensor({_text(name)}, QNN_TENSOR_TYPE_{kind}, "
            f"QNN_DATATYPE_{data_type_name(code)}, {self._encoding(q)}, {{{dims}}}, "
            f"QNN_TENSORMEMTYPE_{mem}, {pointer}, {nbytes});"
        )

    def _array(self, array: np.ndarray) -> str:
        name = f"{self._prefix}_{len(self._data)}"
        numbers = ", ".join(str(b) for b in array.tobytes())
        self._data.append(f"alignas(64) const unsigned char {name}[] = {{{numbers}}};")
        return name

    def _encoding(self, q: Quantization | None) -> str:
        if q is None:
            return (
                "Qnn_QuantizeParams_t{QNN_DEFINITION_UNDEFINED, "
                "QNN_QUANTIZATION_ENCODING_UNDEFINED, {}}"
            )
        assert q.bitwidth is None
        if q.axis is None:
            pair = f"{float(q.scale)!r}f, {int(q.offset)}"
            return (
                "[] { Qnn_QuantizeParams_t q{}; q.encodingDefinition = QNN_DEFINITION_DEFINED; "
                "q.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET; "
                f"q.scaleOffsetEncoding = {{{pair}}}; return q; }}()"
            )
        name = f"{self._prefix}_{len(self._data)}"
        pairs = ", ".join(
            f"{{{float(s)!r}f, {int(o)}}}" for s, o in zip(q.scale, q.offset, strict=True)
        )
        self._data.append(f"Qnn_ScaleOffset_t {name}[] = {{{pairs}}};")
        return (
            "[] { Qnn_QuantizeParams_t q{}; q.encodingDefinition = QNN_DEFINITION_DEFINED; "
            "q.quantizationEncoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET; "
            f"q.axisScaleOffsetEncoding = {{{q.axis}, {len(q.scale)}, {name}}}; return q; }}()"
        )


_MEMBERS: Mapping[int, str] = {
    abi.QNN_DATATYPE_FLOAT_32: "floatValue",
    abi.QNN_DATATYPE_UINT_32: "uint32Value",
    abi.QNN_DATATYPE_INT_32: "int32Value",
    abi.QNN_DATATYPE_BOOL_8: "bool8Value",
}


def _scalar(name: str, code: int, value: Any) -> str:
    number = f"{float(value)!r}f" if code == abi.QNN_DATATYPE_FLOAT_32 else str(int(value))
    return (
        f"[] {{ Qnn_Param_t p{{}}; p.paramType = QNN_PARAMTYPE_SCALAR; p.name = {_text(name)}; "
        f"p.scalarParam.dataType = QNN_DATATYPE_{data_type_name(code)}; "
        f"p.scalarParam.{_MEMBERS[code]} = {number}; return p; }}()"
    )


def _text(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
