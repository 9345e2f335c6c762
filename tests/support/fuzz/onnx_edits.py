"""Edits of ONNX models for the mutator: each leaves a valid protobuf."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from .target import WILD_FLOATS, WILD_INTS, WILD_TEXTS

Edit = Callable[[random.Random, onnx.ModelProto], None]
_TYPES = [v for v in TensorProto.DataType.values() if v]
#: What external data of a case may lie in.
DATA = "weights.bin"


# ---- what is there -------------------------------------------------------------------------------


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                yield from _graphs(inner)


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    found = [node for graph in _graphs(model.graph) for node in graph.node]
    return found + [node for function in model.functions for node in function.node]


def _node(chance: random.Random, model: onnx.ModelProto) -> onnx.NodeProto:
    return chance.choice(_nodes(model) or [onnx.NodeProto()])


def _values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    graphs = list(_graphs(model.graph))
    return [v for g in graphs for v in (*g.input, *g.output, *g.value_info)]


def _names(model: onnx.ModelProto) -> list[str]:
    nodes = _nodes(model)
    return sorted(
        {v.name for v in _values(model)}
        | {name for node in nodes for name in (*node.input, *node.output)}
        | {t.name for t in model.graph.initializer}
    )


def _wild_int(chance: random.Random, near: int) -> int:
    made = (
        near + chance.choice((-2, -1, 1, 2)) if chance.random() < 0.4 else chance.choice(WILD_INTS)
    )
    return min(max(made, -(2**63)), 2**63 - 1)


# ---- attributes ----------------------------------------------------------------------------------


def _schema_names(node: onnx.NodeProto) -> list[str]:
    """Attributes that the node's op has, in whatever version."""
    try:
        return sorted(onnx.defs.get_schema(node.op_type, node.domain).attributes)
    except onnx.defs.SchemaError:
        return ["axis"]


def edit_attribute(chance: random.Random, model: onnx.ModelProto) -> None:
    """A value at a limit, of the kind that the attribute has."""
    node = _node(chance, model)
    if not node.attribute or chance.random() < 0.15:
        return add_attribute(chance, model)
    a = chance.choice(node.attribute)
    if a.type == AttributeProto.INT:
        a.i = _wild_int(chance, a.i)
    elif a.type == AttributeProto.FLOAT:
        a.f = float(np.float32(min(max(chance.choice(WILD_FLOATS), -3.4e38), 3.4e38)))
        if chance.random() < 0.3:
            a.f = chance.choice((float("nan"), float("inf"), float("-inf")))
    elif a.type == AttributeProto.STRING:
        a.s = chance.choice((b"\xff\xfe", b"\xc3(", *(t.encode() for t in WILD_TEXTS)))
    elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        _edit_list(chance, {6: a.floats, 7: a.ints, 8: a.strings}[a.type])
    elif a.type == AttributeProto.TENSOR:
        _edit_tensor(chance, a.t)
    elif a.type == AttributeProto.SPARSE_TENSOR:
        _edit_sparse(chance, a.sparse_tensor)


def _edit_list(chance: random.Random, items: Any) -> None:
    kind, at = chance.randrange(5), chance.randrange(len(items)) if items else 0
    fresh: Any = chance.choice(WILD_INTS)
    if items and isinstance(items[0], float):
        fresh = chance.choice((0.0, 1.0, -1.0, 1e30, float("nan"), float("inf")))
    elif items and isinstance(items[0], bytes):
        fresh = chance.choice(WILD_TEXTS).encode()
    if kind <= 1 and items:
        items[at] = _wild_int(chance, items[at]) if isinstance(items[at], int) else fresh
    elif kind == 2 and items:
        del items[at]
    elif kind == 3 and chance.random() < 0.2:
        items.extend([fresh] * chance.choice((1, 3, 100)))
    elif kind == 4 and chance.random() < 0.2:
        del items[:]
    else:
        items.append(fresh)


def add_attribute(chance: random.Random, model: onnx.ModelProto) -> None:
    """One that the op knows or does not; twice; of another kind; without a value."""
    node = _node(chance, model)
    names = _schema_names(node)
    name = chance.choice(names) if names and chance.random() < 0.9 else chance.choice(WILD_TEXTS)
    value: Any = chance.choice((
        chance.choice(WILD_INTS), chance.choice((0, 1, 2, -1)), 0.5, "x", b"\xff",
        [chance.choice(WILD_INTS) for _ in range(chance.choice((1, 2, 2, 4)))],
        [1, 1], [0.5], ["a", "b"], numpy_helper.from_array(np.array([1.5], np.float32)),
        helper.make_graph([], "g", [], []),
    ))  # fmt: skip
    made = helper.make_attribute(name, value)
    kind = chance.randrange(5)
    if kind == 0:
        made.type = chance.choice(AttributeProto.AttributeType.values())
    elif kind == 1:
        made.ClearField("type")
    elif kind == 2:
        made.ref_attr_name = chance.choice(("axis", "", name))
    if chance.random() < 0.7:
        for at, old in enumerate(node.attribute):
            if old.name == name:
                del node.attribute[at]
                break
    node.attribute.append(made)


def drop_attribute(chance: random.Random, model: onnx.ModelProto) -> None:
    node = _node(chance, model)
    if node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]


# ---- tensors -------------------------------------------------------------------------------------


def to_constant(model: onnx.ModelProto, value: onnx.ValueInfoProto, tensor: TensorProto) -> None:
    tensor.name = value.name
    model.graph.initializer.append(tensor)
    for at, old in enumerate(model.graph.input):
        if old.name == value.name:
            del model.graph.input[at]
            break


def _edit_tensor(chance: random.Random, tensor: TensorProto) -> None:
    kind = chance.randrange(9)
    if kind <= 2:
        _edit_values(chance, tensor)
    elif kind == 3:
        _edit_list(chance, tensor.dims)
    elif kind == 4:
        tensor.data_type = chance.choice([*_TYPES, 0, 99])
    elif kind == 5:
        tensor.raw_data = tensor.raw_data[: chance.randrange(len(tensor.raw_data) + 1)]
    elif kind == 6:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
        for key, values in (
            ("location", (DATA, DATA, "../x", "/dev/zero", "", "a\0b", ".", "missing", "m.onnx")),
            ("offset", ("0", "8", "4095", "-1", str(2**63), "x", "1e3")),
            ("length", ("0", "4", "64", str(2**62), "-4", "")),
        ):
            if chance.random() < 0.8:
                tensor.external_data.add(key=key, value=chance.choice(values))
    elif kind == 7:
        tensor.name = chance.choice(WILD_TEXTS)
    else:  # many elements, all of them written
        count = chance.choice((1000, 100_000))
        made = numpy_helper.from_array(np.zeros(count, np.int8), tensor.name)
        tensor.CopyFrom(made)


def _edit_values(chance: random.Random, tensor: TensorProto) -> None:
    try:
        array = numpy_helper.to_array(tensor).copy()
    except Exception:
        return
    if array.size == 0 or array.dtype.kind not in "iufb":
        return
    flat = array.reshape(-1)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(flat.size)
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                flat[at] = np.float64(chance.choice(WILD_FLOATS)).astype(array.dtype)
        elif array.dtype.kind == "b":
            flat[at] = not flat[at]
        else:
            info = np.iinfo(array.dtype)
            flat[at] = min(max(_wild_int(chance, int(flat[at])), info.min), info.max)
    tensor.CopyFrom(numpy_helper.from_array(flat.reshape(array.shape), tensor.name))


def _edit_sparse(chance: random.Random, sparse: onnx.SparseTensorProto) -> None:
    kind = chance.randrange(3)
    if kind == 0:
        _edit_list(chance, sparse.dims)
    else:
        _edit_tensor(chance, sparse.values if kind == 1 else sparse.indices)


def edit_initializer(chance: random.Random, model: onnx.ModelProto) -> None:
    tensors = [t for g in _graphs(model.graph) for t in g.initializer]
    if tensors:
        _edit_tensor(chance, chance.choice(tensors))


def edit_constant_values(chance: random.Random, model: onnx.ModelProto) -> None:
    tensors = [t for g in _graphs(model.graph) for t in g.initializer]
    if tensors:
        _edit_values(chance, chance.choice(tensors))


def to_sparse(chance: random.Random, model: onnx.ModelProto) -> None:
    """A dense initializer, or a new one, as a sparse one."""
    sparse = model.graph.sparse_initializer.add()
    names = [t.name for t in model.graph.initializer]
    name = chance.choice(names) if names else chance.choice(_names(model) or ["x"])
    size = chance.choice((4, 10, 2**31, 2**62))
    places = [chance.choice((0, 1, 3, size, -1, size - 1)) for _ in range(chance.randrange(4))]
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(len(places), np.float32), name))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(places, np.int64), f"{name}_at"))
    sparse.dims.extend([size] if chance.random() < 0.7 else [size, size])
    for at, old in enumerate(model.graph.initializer):
        if old.name == name and chance.random() < 0.9:
            del model.graph.initializer[at]
            break


def input_to_constant(chance: random.Random, model: onnx.ModelProto) -> None:
    """An input without values of its own becomes a constant, of a size within reason."""
    inputs = [v for v in model.graph.input if v.type.HasField("tensor_type")]
    if not inputs:
        return
    value = chance.choice(inputs)
    shape = [min(d.dim_value, 10_000) for d in value.type.tensor_type.shape.dim]
    if np.prod(shape, dtype=np.float64) > 300_000:
        return
    try:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    except KeyError:
        return
    if dtype.kind not in "iufb":
        return
    fill = chance.choice((0, 1, 2, 3, 127))
    tensor = numpy_helper.from_array(np.full(shape, fill, dtype), value.name)
    to_constant(model, value, tensor)


# ---- shapes, types, names ------------------------------------------------------------------------


def edit_shape(chance: random.Random, model: onnx.ModelProto) -> None:
    values = [v for v in _values(model) if v.type.HasField("tensor_type")]
    if not values:
        return
    shape = chance.choice(values).type.tensor_type.shape
    kind, count = chance.randrange(5), len(shape.dim)
    if kind <= 2 and count:
        dim = shape.dim[chance.randrange(count)]
        if chance.random() < 0.2:
            dim.Clear()
            if chance.random() < 0.5:
                dim.dim_param = chance.choice(("N", "", "a\0b"))
        else:
            dim.dim_value = _wild_int(chance, dim.dim_value)
    elif kind == 3 and count:
        del shape.dim[chance.randrange(count)]
    else:
        shape.dim.add().dim_value = chance.choice((0, 1, 2, 3, -1, 2**31, 2**62))


def edit_type(chance: random.Random, model: onnx.ModelProto) -> None:
    values = _values(model)
    if not values:
        return
    value = chance.choice(values)
    kind = chance.randrange(8)
    if kind <= 5:
        value.type.tensor_type.elem_type = chance.choice([*_TYPES, 0, 99])
    elif kind == 6:
        value.ClearField("type")
    else:
        inner = onnx.TypeProto()
        inner.CopyFrom(value.type)
        chosen = chance.choice(("sequence_type", "optional_type"))
        getattr(value.type, chosen).elem_type.CopyFrom(inner)


def rename(chance: random.Random, model: onnx.ModelProto) -> None:
    """A name everywhere, or in one place only."""
    names = _names(model)
    if not names:
        return
    old = chance.choice(names)
    new = chance.choice([*WILD_TEXTS, *names])
    everywhere = chance.random() < 0.7
    for node in _nodes(model):
        for part in (node.input, node.output):
            for at, name in enumerate(part):
                if name == old and (everywhere or chance.random() < 0.3):
                    part[at] = new
    for value in (*_values(model), *model.graph.initializer):
        if value.name == old and (everywhere or chance.random() < 0.3):
            value.name = new


def edit_wiring(chance: random.Random, model: onnx.ModelProto) -> None:
    node = _node(chance, model)
    part = chance.choice((node.input, node.input, node.output))
    kind, names = chance.randrange(6), [*_names(model), "", "new"]
    if kind <= 1 and part:
        part[chance.randrange(len(part))] = chance.choice(names)
    elif kind == 2 and part:
        del part[chance.randrange(len(part))]
    elif kind == 3:
        part.append(chance.choice(names))
    elif kind == 4:
        part.extend(["new" + str(i) for i in range(chance.choice((1, 2, 20)))])
    elif part:
        part[0] = ""


# ---- nodes, versions, functions ------------------------------------------------------------------


def edit_node(chance: random.Random, model: onnx.ModelProto) -> None:
    node, nodes = _node(chance, model), model.graph.node
    kind = chance.randrange(7)
    if kind <= 1:
        node.op_type = chance.choice(OPERATORS)
    elif kind == 2:
        node.domain = chance.choice(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x", "a\0b"))
    elif kind == 3:
        nodes.append(node)
    elif kind == 4 and nodes:
        del nodes[chance.randrange(len(nodes))]
    elif kind == 5 and len(nodes) > 1:
        nodes.append(nodes[0])
        del nodes[0]
    else:
        node.name = chance.choice(WILD_TEXTS)


def edit_version(chance: random.Random, model: onnx.ModelProto) -> None:
    kind = chance.randrange(5)
    if kind <= 2 and model.opset_import:
        opset = chance.choice(model.opset_import)
        opset.version = chance.choice((*range(6, 27), 0, -1, 2**31, 2**63 - 1))
    elif kind == 3:
        model.opset_import.add(domain=chance.choice(("", "x", "ai.onnx")), version=13)
    else:
        model.ir_version = chance.choice((0, 1, 3, 8, 99, 2**63 - 1))


def into_function(chance: random.Random, model: onnx.ModelProto) -> None:
    """Nodes move into a function; several of them may call each other."""
    nodes = [*model.graph.node]
    if not nodes:
        return
    node = chance.choice(nodes)
    levels = chance.choice((1, 1, 1, 2, 30))
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inputs = [f"i{n}" for n in range(len(node.input))]
    outputs = [f"o{n}" for n in range(len(node.output))]
    inner.input[:], inner.output[:] = inputs, outputs
    imports = [*model.opset_import, helper.make_opsetid("local", 1)]
    body = [inner]
    for level in range(levels):
        names = [a.name for a in node.attribute] if chance.random() < 0.2 else []
        model.functions.append(
            helper.make_function("local", f"F{level}", inputs, outputs, body, imports, names)
        )
        body = []
        for twice in range(chance.choice((1, 2)) if levels > 1 else 1):
            outs = outputs if twice == 0 else [f"{o}_{twice}" for o in outputs]
            body.append(helper.make_node(f"F{level}", inputs, outs, domain="local"))
    node.op_type, node.domain = f"F{levels - 1}", "local"
    del node.attribute[:]
    if chance.random() < 0.1:  # it calls itself
        model.functions[-1].node[0].op_type = f"F{levels - 1}"
        model.functions[-1].node[0].domain = "local"
    if all(o.domain != "local" for o in model.opset_import):
        model.opset_import.add(domain="local", version=1)


def into_branch(chance: random.Random, model: onnx.ModelProto) -> None:
    """A node moves into the branches of an If, with a condition that is known or not."""
    nodes = model.graph.node
    if not nodes:
        return
    at = chance.randrange(len(nodes))
    node = onnx.NodeProto()
    node.CopyFrom(nodes[at])
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "branch", [], outputs)
    if chance.random() < 0.3 and model.graph.initializer:
        graph.initializer.append(model.graph.initializer[0])
    choice = helper.make_node("If", ["cond"], [o.name for o in outputs],
                              then_branch=graph, else_branch=graph)  # fmt: skip
    nodes[at].CopyFrom(choice)
    if chance.random() < 0.7:
        model.graph.initializer.append(numpy_helper.from_array(np.array(True), "cond"))
    else:
        model.graph.input.append(helper.make_tensor_value_info("cond", TensorProto.BOOL, []))


def add_case(chance: random.Random, model: onnx.ModelProto, data: bytes) -> None:
    """The nodes of another model behind these: its first input is an output of theirs."""
    other = onnx.ModelProto.FromString(data)
    if not other.graph.node or not other.graph.input or not model.graph.output:
        return
    source = chance.choice(model.graph.output).name
    first = other.graph.input[0].name

    def name(old: str) -> str:
        return source if old == first else old and f"b_{old}"

    for node in other.graph.node:
        node.input[:] = [name(n) for n in node.input]
        node.output[:] = [name(n) for n in node.output]
        model.graph.node.append(node)
    for part in ("input", "output", "initializer"):
        for value in getattr(other.graph, part):
            if value.name != first:
                value.name = name(value.name)
                getattr(model.graph, part).append(value)


OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
EDITS: tuple[Edit, ...] = (
    *[edit_attribute] * 8, *[add_attribute] * 3, drop_attribute, *[edit_initializer] * 3,
    *[edit_constant_values] * 5, to_sparse, *[input_to_constant] * 2, *[edit_shape] * 4,
    *[edit_type] * 2, *[rename] * 2, *[edit_wiring] * 4, *[edit_node] * 3, edit_version,
    into_function, into_branch,
)  # fmt: skip
