"""TFLite files, changed by their schema: fields, wiring, shapes, options, quantization, buffers."""

from __future__ import annotations

import copy
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

import qnnrt
from qnnrt.importers.tflite import load
from qnnrt.tflite import Interpreter

from .plain import mutants
from .small import is_small, run_small
from .target import WILD_FLOATS, WILD_INTS, WILD_TEXTS, Target

#: Most of the schema's numbers have 32 bits.
_INTS = [i for i in WILD_INTS if -(2**31) <= i < 2**31]

#: Operators of the schema by number.
_OPERATORS = [v for v in vars(schema.BuiltinOperator).values() if isinstance(v, int)]
_TYPES = [v for v in vars(schema.TensorType).values() if isinstance(v, int)]
_OPTIONS = {v: k for k, v in vars(schema.BuiltinOptions).items() if isinstance(v, int) and v}


def unpacked(data: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


class TfliteFiles(Target):
    name = "tflite"
    suffix = ".tflite"

    def build_bases(self) -> list[bytes]:
        from support.tflite import cases, damage, quantized, recurrent
        from support.tflite import random as networks

        found = [*damage.BASES.values(), *recurrent.STATEFUL.values()]
        for case in cases.cases():
            found.append(case.build()[0])
            for dtype in (np.int8, np.int16, np.uint8):
                try:
                    found.append(quantized.quantize(case, dtype).data)
                except Exception:
                    continue
        found += [networks.random_network(seed, fixed)[0] for seed in range(8) for fixed in (0, 1)]
        return sorted({data for data in found if len(data) < 30_000})

    def mutate(self, chance: random.Random) -> bytes:
        data = chance.choice(self.bases)
        if chance.random() < 0.2:
            return next(mutants(data, chance.getrandbits(32), 1))
        model = unpacked(data)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            changed = copy.deepcopy(model)
            chance.choice(EDITS)(chance, changed)
            try:
                data = packed(changed)
            except Exception:
                continue
            model = changed
        return data

    def run(self, data: bytes, folder: Path) -> str:
        # Every file has a life of its own: by bytes or by path, with state or without.
        mark = zlib.crc32(data)
        options: dict[str, Any] = [{}, {"stateful": True}, {"variables": "io"}, {}][mark % 4]
        if mark & 16:
            options["quantized_io"] = True
        path = folder / "m.tflite"
        if mark & 32:
            path.write_bytes(data)
        model = qnnrt.load(path, **options) if mark & 32 else load(data, **options)
        if not is_small(model):
            return "loaded, too large to run"
        if mark & 64 or self.backend:
            return run_small(model, self.backend or ("htp" if mark & 128 else "cpu"))
        with Interpreter(model_content=data, num_threads=1) as it:
            if sum(it._graph.nbytes(i) for i in it._graph.sizes) > 1 << 24:
                return "loaded, too large to run"
            it.allocate_tensors()
            it.invoke()
        return "ran"

    def smaller(self, data: bytes) -> Iterator[bytes]:
        try:
            model = unpacked(data)
            paths = list(_paths(model))
        except Exception:
            yield from super().smaller(data)
            return
        for path, names in paths:
            for name in names:
                changed = copy.deepcopy(model)
                owner = _at(changed, path)
                if isinstance(owner, list):
                    del owner[name]
                else:
                    setattr(owner, name, None)
                try:
                    made = packed(changed)
                except Exception:
                    continue
                if len(made) < len(data):
                    yield made


# ---- edits ---------------------------------------------------------------------------------------


def _graph(chance: random.Random, model: Any) -> Any:
    return chance.choice(model.subgraphs or [schema.SubGraphT()])


def _pick(chance: random.Random, items: Any) -> Any:
    return chance.choice(list(items)) if items is not None and len(items) else None


def _wild(chance: random.Random, old: Any) -> Any:
    """Another value of the kind that is there."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, np.integer)):
        near = int(old) + chance.choice((-2, -1, 1, 2))
        return near if chance.random() < 0.4 else chance.choice(_INTS)
    if isinstance(old, (float, np.floating)):
        return chance.choice(WILD_FLOATS)
    if isinstance(old, (str, bytes)):
        return chance.choice(WILD_TEXTS).encode()
    return old


def _list(chance: random.Random, items: Any, fresh: Any = 0) -> list[Any]:
    """A list with an element changed, left out, added, doubled, or all gone."""
    items = [] if items is None else list(items)
    kind = chance.randrange(6)
    at = chance.randrange(len(items)) if items else 0
    if kind <= 2 and items:
        items[at] = _wild(chance, items[at])
    elif kind == 3 and items:
        del items[at]
    elif kind == 4:
        items.insert(at, items[at] if items and chance.random() < 0.5 else fresh)
    elif kind == 5 and chance.random() < 0.3:
        items = []
    else:
        items.append(chance.choice(_INTS) if isinstance(fresh, int) else fresh)
    return items


def edit_shape(chance: random.Random, model: Any) -> None:
    tensor = _pick(chance, _graph(chance, model).tensors)
    if tensor is None:
        return
    if chance.random() < 0.2:
        tensor.shapeSignature = _list(chance, tensor.shape, -1)
    else:
        tensor.shape = _list(chance, tensor.shape, 1)


def edit_type(chance: random.Random, model: Any) -> None:
    tensor = _pick(chance, _graph(chance, model).tensors)
    if tensor is not None:
        tensor.type = chance.choice(_TYPES) if chance.random() < 0.9 else chance.randrange(128)


def edit_tensor(chance: random.Random, model: Any) -> None:
    tensor = _pick(chance, _graph(chance, model).tensors)
    if tensor is None:
        return
    kind = chance.randrange(5)
    if kind == 0:
        tensor.isVariable = not tensor.isVariable
    elif kind == 1:
        tensor.name = chance.choice(WILD_TEXTS)
    elif kind == 2:
        tensor.buffer = chance.randrange(len(model.buffers) + 1)
    elif kind == 3:
        tensor.buffer = 0
    else:
        sparsity = schema.SparsityParametersT()
        sparsity.traversalOrder = [chance.choice((0, 1, -1, 7))]
        tensor.sparsity = sparsity


def edit_quantization(chance: random.Random, model: Any) -> None:
    tensor = _pick(chance, _graph(chance, model).tensors)
    if tensor is None:
        return
    if tensor.quantization is None:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [0.5], [0]
    q = tensor.quantization
    kind = chance.randrange(5)
    if kind == 0:
        q.scale = [float(s) for s in _list(chance, q.scale, 0.5)]
    elif kind == 1:
        q.zeroPoint = [int(z) for z in _list(chance, q.zeroPoint, 0)]
    elif kind == 2:
        q.quantizedDimension = chance.choice(_INTS)
    elif kind == 3:
        tensor.quantization = None
    elif tensor.shape is not None and len(tensor.shape):
        axis = chance.randrange(len(tensor.shape))
        count = int(tensor.shape[axis])
        if 0 <= count < 1000:
            q.scale, q.zeroPoint = [0.25] * count, [chance.choice((0, 1, -128))] * count
            q.quantizedDimension = axis


def edit_wiring(chance: random.Random, model: Any) -> None:
    graph = _graph(chance, model)
    owner = _pick(chance, [*(graph.operators or []), graph])
    count = len(graph.tensors or [])
    which = chance.choice(("inputs", "outputs"))
    held = getattr(owner, which)
    items = [] if held is None else [int(i) for i in held]
    kind = chance.randrange(5)
    if kind <= 1 and items:
        items[chance.randrange(len(items))] = chance.randrange(-1, count + 1)
    elif kind == 2 and items:
        del items[chance.randrange(len(items))]
    elif kind == 3:
        items.insert(chance.randrange(len(items) + 1), chance.randrange(-1, max(count, 1)))
    else:
        chance.shuffle(items)
    setattr(owner, which, items)


def edit_options(chance: random.Random, model: Any) -> None:
    operator = _pick(chance, _graph(chance, model).operators)
    if operator is None:
        return
    table = operator.builtinOptions
    if table is None or chance.random() < 0.08:
        number = chance.choice(list(_OPTIONS))
        made = getattr(schema, f"{_OPTIONS[number]}T", None)
        if made is not None:
            operator.builtinOptionsType, operator.builtinOptions = number, made()
        return
    fields = [k for k in vars(table) if vars(table)[k] is not None]
    if not fields:
        return
    name = chance.choice(fields)
    old = getattr(table, name)
    many = isinstance(old, (list, np.ndarray))
    setattr(table, name, _list(chance, old) if many else _wild(chance, old))


def edit_code(chance: random.Random, model: Any) -> None:
    code = _pick(chance, model.operatorCodes)
    if code is None:
        return
    if chance.random() < 0.7:
        code.builtinCode = chance.choice(_OPERATORS)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    elif chance.random() < 0.5:
        code.version = chance.choice(_INTS)
    else:
        code.customCode = chance.choice(WILD_TEXTS)
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM


def edit_constant(chance: random.Random, model: Any) -> None:
    """Other values in a buffer: of the same length, mostly, so that they are read."""
    graph = _graph(chance, model)
    held = [
        t for t in graph.tensors or []
        if 0 < t.buffer < len(model.buffers) and model.buffers[t.buffer].data is not None
    ]  # fmt: skip
    tensor = _pick(chance, held)
    if tensor is None:
        return
    buffer = model.buffers[tensor.buffer]
    data = np.array(buffer.data, np.uint8)
    kind = {0: "<f4", 2: "<i4", 4: "<i8", 3: "u1", 9: "i1", 7: "<i2", 1: "<f2"}.get(tensor.type)
    if chance.random() < 0.15 or kind is None or data.size % np.dtype(kind).itemsize:
        buffer.data = data[: chance.randrange(data.size + 1)]
        return
    values = data.view(kind).copy()
    for _ in range(chance.choice((1, 1, 2, 8))):
        if not values.size:
            break
        at = chance.randrange(values.size)
        if values.dtype.kind == "f":
            with np.errstate(all="ignore"):
                values[at] = np.float64(chance.choice(WILD_FLOATS)).astype(values.dtype)
        else:
            info = np.iinfo(values.dtype)
            values[at] = min(max(_wild(chance, values[at]), info.min), info.max)
    buffer.data = values.view(np.uint8)


def edit_to_constant(chance: random.Random, model: Any) -> None:
    """An input becomes a constant: what depends on constants alone is folded."""
    graph = _graph(chance, model)
    for index in list(graph.inputs if graph.inputs is not None else []):
        if not 0 <= index < len(graph.tensors or []):
            continue  # an edit before this one has led it elsewhere
        tensor = graph.tensors[index]
        sizes = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 9: 1}
        count = int(np.prod([int(d) for d in (tensor.shape if tensor.shape is not None else [])]))
        if chance.random() < 0.7 and tensor.type in sizes and 0 <= count < 4096:
            buffer = schema.BufferT()
            low, high = chance.choice(((0, 2), (0, 256), (0, 1)))
            values = [chance.randrange(low, high) for _ in range(count * sizes[tensor.type])]
            buffer.data = np.array(values, np.uint8)
            tensor.buffer = len(model.buffers)
            model.buffers.append(buffer)
            graph.inputs = [i for i in graph.inputs if i != index]


def edit_structure(chance: random.Random, model: Any) -> None:
    kind = chance.randrange(7)
    graph = _graph(chance, model)
    if kind == 0 and graph.operators:
        graph.operators.insert(0, graph.operators.pop(chance.randrange(len(graph.operators))))
    elif kind == 1 and graph.operators:
        graph.operators.append(copy.deepcopy(chance.choice(graph.operators)))
    elif kind == 2 and graph.operators:
        del graph.operators[chance.randrange(len(graph.operators))]
    elif kind == 3:
        model.subgraphs.append(copy.deepcopy(graph))
    elif kind == 4:
        model.version = chance.choice((0, 1, 2, 4, 2**32 - 1))
    elif kind == 5 and model.buffers:
        buffer = chance.choice(model.buffers)
        buffer.offset, buffer.size = (chance.choice(WILD_INTS) & (2**64 - 1) for _ in range(2))
    else:
        code = _pick(chance, graph.operators)
        if code is not None:
            code.opcodeIndex = chance.choice((0, 1, 2, 2**31, 2**32 - 1))


def edit_signature(chance: random.Random, model: Any) -> None:
    entry = schema.SignatureDefT()
    entry.signatureKey = chance.choice(WILD_TEXTS)
    entry.subgraphIndex = chance.choice((0, 0, 1, 7))
    entry.inputs, entry.outputs = [], []
    for names in (entry.inputs, entry.outputs):
        for _ in range(chance.randrange(3)):
            pair = schema.TensorMapT()
            pair.name, pair.tensorIndex = chance.choice(WILD_TEXTS), chance.choice((0, 1, 2, 9))
            names.append(pair)
    model.signatureDefs = [*(model.signatureDefs or []), entry]


EDITS = (
    edit_shape, edit_shape, edit_type, edit_tensor, edit_quantization, edit_quantization,
    edit_wiring, edit_wiring, edit_options, edit_options, edit_options, edit_code, edit_constant,
    edit_constant, edit_to_constant, edit_to_constant, edit_structure, edit_signature,
)  # fmt: skip


# ---- parts ---------------------------------------------------------------------------------------


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """What holds parts, from the outside in: where it is, and the names of its parts."""
    if isinstance(value, list):
        yield path, list(range(len(value)))[::-1]
        parts: dict[Any, Any] = dict(enumerate(value))
    elif hasattr(value, "Pack"):
        parts = {k: v for k, v in vars(value).items() if v is not None}
        yield path, list(parts)
    else:
        return
    for name, part in parts.items():
        yield from _paths(part, (*path, name))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name] if isinstance(value, list) else getattr(value, name)
    return value
