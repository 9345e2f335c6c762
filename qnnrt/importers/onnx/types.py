"""Shapes and element types: of values as ONNX writes them, and of a graph's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from ...dtypes import has_data_type
from ...errors import ModelError
from .values import Value

#: Shape and element type; None when either is not fully known.
TypeOf = tuple[tuple[int, ...], np.dtype] | None


def type_proto(value: Value) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(
        onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    )


def graph_inputs(
    graph: onnx.GraphProto,
    where: str,
    shapes: Mapping[str, object],
    constants: Mapping[str, np.ndarray],
    values: Iterable[onnx.ValueInfoProto],
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of the inputs `values`, symbolic dimensions filled from `shapes`.

    `graph`: that they are of; its other inputs may be among `shapes` and `constants`, too.
    """
    found: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    unknown: list[str] = []
    names = _names(graph.input)
    for value in values:
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "nothing"
            raise ModelError(f"{where}: input {value.name!r} is a {kind}, not a tensor")
        names |= _names([value])
        tensor = value.type.tensor_type
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except KeyError:
            raise ModelError(
                f"{where}: input {value.name!r} has the unknown element type {tensor.elem_type}"
            ) from None
        if value.name not in constants and not has_data_type(dtype):
            kind = "string" if dtype.kind == "O" else dtype.name
            raise ModelError(f"{where}: input {value.name!r} is {kind}; QNN has no such type")
        given = shapes.get(value.name)
        if isinstance(given, int) and not any(d.dim_param == value.name for d in tensor.shape.dim):
            raise ModelError(
                f"{where}: shapes= gives input {value.name!r} one size, {given}: give its whole "
                "shape, (d0, d1, ...)"
            )
        if given is not None and not isinstance(given, int):  # else a dimension is called so, too
            wanted = tuple(int(d) for d in given)  # type: ignore[attr-defined]
            _check_given(value, wanted, where, "shapes=")
        elif value.name in constants and is_open(value, shapes):
            wanted = constants[value.name].shape
            _check_given(value, wanted, where, "constants=")
        else:
            dims = _sizes(tensor.shape, shapes)
            if not tensor.HasField("shape") or not all(isinstance(d, int) for d in dims):
                text = ", ".join(map(str, dims)) if tensor.HasField("shape") else "any rank"
                unknown.append(f"{value.name!r} [{text}]")
                continue
            wanted = tuple(dims)  # type: ignore[arg-type]
        if not all(d >= 0 for d in wanted) and value.name not in constants:
            raise ModelError(f"{where}: input {value.name!r} has the shape {list(wanted)}")
        found[value.name] = (wanted, dtype)
    if unknown:
        raise ModelError(
            f"{where}: the shape of {'an input' if len(unknown) == 1 else 'some inputs'} is not "
            f"fixed: {', '.join(unknown)}. Give it when loading: shapes={{name: (d0, d1, ...)}}, "
            "or shapes={dimension name: size}"
        )
    stray = sorted((set(shapes) | set(constants)) - names)
    if stray:
        raise ModelError(f"{where} has no input or dimension named {', '.join(map(repr, stray))}")
    return found


def _names(values: Iterable[onnx.ValueInfoProto]) -> set[str]:
    """Of inputs, and of their symbolic dimensions."""
    found = set()
    for value in values:
        found.add(value.name)
        found |= {d.dim_param for d in value.type.tensor_type.shape.dim if d.dim_param}
    return found


def is_size(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Has the file a size? Some converters write -1 for a dimension that is open."""
    return bool(dim.HasField("dim_value")) and dim.dim_value != -1


def _sizes(shape: onnx.TensorShapeProto, shapes: Mapping[str, object]) -> list[object]:
    """The dimensions, with a text for each that is not known."""
    return [
        d.dim_value if is_size(d) else shapes.get(d.dim_param, d.dim_param or "?")
        for d in shape.dim
    ]


def is_open(value: onnx.ValueInfoProto, shapes: Mapping[str, object]) -> bool:
    """Is there more to know of a tensor than it says itself, and `shapes`?"""
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return True
    if value.name in shapes:
        return False
    return not tensor.HasField("shape") or not all(
        isinstance(d, int) for d in _sizes(tensor.shape, shapes)
    )


def _check_given(
    value: onnx.ValueInfoProto, wanted: tuple[int, ...], where: str, option: str
) -> None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    dims = tensor.shape.dim
    fits = len(dims) == len(wanted) and all(
        not is_size(d) or d.dim_value == w for d, w in zip(dims, wanted, strict=True)
    )
    if not fits:
        text = ", ".join(str(d.dim_value if is_size(d) else d.dim_param or "?") for d in dims)
        raise ModelError(
            f"{where}: input {value.name!r} is [{text}]; {option} gives it {list(wanted)}"
        )
