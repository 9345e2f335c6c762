"""The same ONNX model with operands that an importer holds in other orders, or not yet reshaped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

Arrays = dict[str, np.ndarray]


def reordered(
    proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[onnx.ModelProto, Arrays]:
    """Most inputs come in transposed, or as a matrix that is transposed and reshaped; nodes in
    front make of them what they were. Importers move no data for either, so what reads them finds
    a tensor in another order. The names of outputs stay."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    graph, given, first = model.graph, {}, []
    inputs = list(graph.input)
    del graph.input[:]
    for info in inputs:
        name, x = info.name, np.asarray(feeds[info.name])
        how = rng.integers(0, 4)
        if how == 0 or x.ndim == 0 or x.size < 2:
            graph.input.append(info)
            given[name] = x
            continue
        raw = f"{name}.raw"
        if how == 1 and x.ndim > 1:
            perm = rng.permutation(x.ndim).tolist()
            y = x.transpose(np.argsort(perm))
            first.append(helper.make_node("Transpose", [raw], [name], f"{name}.t", perm=perm))
        else:
            rows = int(rng.choice([d for d in range(1, x.size + 1) if x.size % d == 0]))
            y = x.reshape(rows, -1).T
            shape = np.array(x.shape, np.int64)
            graph.initializer.append(numpy_helper.from_array(shape, f"{name}.shape"))
            matrix = f"{name}.matrix"
            first.append(helper.make_node("Transpose", [raw], [matrix], f"{name}.t", perm=[1, 0]))
            first.append(
                helper.make_node("Reshape", [matrix, f"{name}.shape"], [name], f"{name}.r")
            )
        given[raw] = np.ascontiguousarray(y)
        kind = info.type.tensor_type.elem_type
        graph.input.append(helper.make_tensor_value_info(raw, kind, y.shape))
    nodes = [*first, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return model, given
