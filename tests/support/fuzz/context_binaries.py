"""Context binaries with changed fields, their sizes and checksums put right; and plain damage."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np

import qnnrt
from qnnrt import qnn
from qnnrt.model import Model, Node, Tensor

from .binary_fields import HEADER, Binary, Field, build, parse
from .plain import mutants
from .target import WILD_FLOATS, WILD_INTS, WILD_TEXTS, Target

_BITS = {"B": (0, 8), "I": (0, 32), "Q": (0, 64), "i": (31, 31), "q": (63, 63)}
_MOST_BYTES = 16 << 20
_MOST_WORK = 2e7


class ContextBinaries(Target):
    name = "binary"
    suffix = ".bin"

    def build_bases(self) -> list[bytes]:
        from qnnrt.importers.tflite import load
        from support.binaries import binary_of, deep, dense, prepared
        from support.tflite import cases, quantized, recurrent
        from support.tflite.random import random_network

        found = set()
        files = [*recurrent.STATEFUL.values(), *(random_network(seed)[0] for seed in range(6))]
        made: set[str] = set()
        for case in cases.cases():
            if case.op not in made:
                made.add(case.op)
                files.append(case.build()[0])
                for dtype in (np.int8, np.int16):
                    try:
                        files.append(quantized.quantize(case, dtype).data)
                    except Exception:
                        continue
        for number, data in enumerate(files):
            for backend in ("cpu", "htp", "lpai"):
                for stateful in (False, True):
                    try:
                        model = load(data, stateful=stateful, quantized_io=bool(number % 2))
                        with qnnrt.Session(model, backend, threads=1) as session:
                            found.add(session.context.binary())
                    except qnnrt.Error:
                        continue
        with qnn.Backend.open("htp") as backend_:
            found.add(binary_of(backend_, dense("a", 16), deep("b", 1), dense("c", 32)))
        found.update(prepared(dense(), options={"keep_constants": kept}) for kept in (False, True))
        found.add(prepared(_package_model()))
        whole = [data for data in found if len(data) <= 64 << 10]
        assert all(build(parse(data)) == data for data in whole), "docs/context-binary.md is wrong"
        return sorted(whole)

    def warm(self) -> None:
        super().warm()
        with qnnrt.Session(_package_model()) as session:
            session.run()

    def mutate(self, chance: random.Random) -> bytes:
        data: bytes = chance.choice(self.bases)
        kind = chance.random()
        if kind < 0.06:
            return next(mutants(data, chance.getrandbits(32), 1))
        binary = parse(data)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            chance.choice(EDITS)(chance, binary)
        data = build(binary)
        if kind < 0.10:
            made = bytearray(data)
            made[chance.choice((8, 12, 16, 24, 32, 40, 48, 56, 60, 64, 76, 88, 92, 240, 252))] ^= (
                1 << chance.randrange(8)
            )
            return bytes(made)
        return data

    def run(self, data: bytes, folder: Path) -> str:
        mark = zlib.crc32(data)
        path = folder / "m.bin"
        path.unlink(missing_ok=True)  # a new file: the old one may still be mapped
        path.write_bytes(data)
        binary = qnnrt.load(path)
        assert isinstance(binary, qnnrt.ContextBinary)
        binary.summary()
        backend = ("cpu", "htp", "lpai")[mark % 3]
        with qnn.Backend.open(backend) as opened:
            if mark & 0x70 == 0:
                qnn.Context.validate_binary(opened, binary)
        small = _is_small(data)
        for name in binary.graphs[:3]:
            with qnnrt.Session(binary, backend, options={"graph": name}) as session:
                if not small:
                    return "loaded, too large to run"
                for tensor in session.inputs.values():
                    tensor.array[...] = 0
                session.run()
        return f"ran on {backend}"

    def smaller(self, data: bytes) -> Iterator[bytes]:
        try:
            binary = parse(data)
        except (ValueError, KeyError):
            return
        for number in range(len(binary.graphs)) if len(binary.graphs) > 1 else ():
            less = deepcopy(binary)
            del less.graphs[number]
            less.header[60] = len(less.graphs)
            yield build(less)
        for number, graph in enumerate(binary.graphs):
            if any(graph.weights):
                less = deepcopy(binary)
                less.graphs[number].weights = bytes(len(graph.weights))
                yield build(less)
            for part in ("before", "after", "nodes"):
                for at, field in enumerate(getattr(graph, part)):
                    if field.code == "text" and len(field.value) > 1:
                        less = deepcopy(binary)
                        getattr(less.graphs[number], part)[at].value = field.value[:1]
                        yield build(less)


def _package_model() -> Model:
    """One node of a package's op, with a param of each kind; the op is there from then on."""
    if "Fuzzed" not in qnn.python_ops():
        qnn.register_op("Fuzzed", lambda inputs, **_: inputs[0], _copy)
    shape, dtype = (2, 8), np.dtype(np.float32)
    made = {"real": 0.5, "whole": -3, "flag": True, "text": "t", "list": np.arange(3, dtype="u4")}
    return Model(
        "package",
        {name: Tensor(name, shape, dtype) for name in ("x", "m", "y")},
        [
            Node("fuzzed", f"{qnn.PYTHON_PACKAGE}::Fuzzed", ["x"], ["m"], made),
            Node("relu", "Relu", ["m"], ["y"]),
        ],
        ["x"],
        ["y"],
    )


def _copy(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], **_: object) -> None:
    outputs[0][:] = inputs[0]


def _is_small(data: bytes) -> bool:
    try:
        graphs = parse(data).graphs
    except (ValueError, KeyError):
        return True  # nothing that this cannot read is run
    return all(g.work <= _MOST_WORK and g.nbytes <= _MOST_BYTES for g in graphs)


# ---- edits ---------------------------------------------------------------------------------------


def _part(chance: random.Random, binary: Binary) -> list[Field]:
    graph = chance.choice(binary.graphs)
    return chance.choice((graph.before, graph.after, graph.nodes, graph.nodes, graph.nodes))


def _other(chance: random.Random, field: Field) -> None:
    """Another value that the field can hold."""
    if field.code in ("f", "d"):
        field.value = chance.choice(
            [f for f in WILD_FLOATS if field.code == "d" or abs(f) != 1e300]
        )
    elif field.code == "text":
        wild = chance.choice(WILD_TEXTS).encode()
        cut = field.value[: chance.randrange(len(field.value) + 1)]
        field.value = chance.choice((wild, cut, field.value + wild))
    elif field.code == "raw":
        made = bytearray(field.value)
        if made:
            made[chance.randrange(len(made))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        field.value = bytes(made)
    else:
        below, above = _BITS[field.code]
        low, high = -(1 << below) if below else 0, (1 << above) - 1
        near = field.value + chance.choice((-64, -8, -2, -1, 1, 2, 8, 64))
        value = near if chance.random() < 0.5 else chance.choice(WILD_INTS)
        if not low <= value <= high:
            value = value & high if chance.random() < 0.5 else chance.choice((low, high))
        field.value = value


def edit_field(chance: random.Random, binary: Binary) -> None:
    part = _part(chance, binary)
    if part:
        _other(chance, chance.choice(part))


def edit_kind(chance: random.Random, binary: Binary) -> None:
    """As `edit_field`, but each kind of field is as likely as another."""
    part = _part(chance, binary)
    if part:
        label = chance.choice(sorted({f.label for f in part}))
        _other(chance, chance.choice([f for f in part if f.label == label]))


def edit_copy(chance: random.Random, binary: Binary) -> None:
    """The value of another field of the kind."""
    part = _part(chance, binary)
    if part:
        one = chance.choice(part)
        one.value = chance.choice([f.value for f in part if f.code == one.code])


def edit_leave_out(chance: random.Random, binary: Binary) -> None:
    part = _part(chance, binary)
    if part:
        at = chance.randrange(len(part))
        del part[at : at + chance.choice((1, 1, 2, 8))]


def edit_repeat(chance: random.Random, binary: Binary) -> None:
    part = _part(chance, binary)
    if part:
        at = chance.randrange(len(part))
        part[at:at] = deepcopy(part[at : at + chance.choice((1, 1, 2, 8))])


def edit_header(chance: random.Random, binary: Binary) -> None:
    at = chance.choice((8, 12, 56, 60, 64, 76, 88, *range(96, HEADER - 4)))
    binary.header[at] = chance.choice((0, 1, 2, 3, 6, 12, 0x7F, 0xFF))


def edit_weights(chance: random.Random, binary: Binary) -> None:
    graph = chance.choice(binary.graphs)
    if chance.random() < 0.3:
        size = max(0, len(graph.weights) + chance.choice((-4096, 4096, 1, -1, 64)))
        graph.weights = graph.weights[:size].ljust(size, b"\0")
    elif graph.weights:
        made = bytearray(graph.weights)
        for _ in range(chance.choice((1, 8))):
            made[chance.randrange(len(made))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        graph.weights = bytes(made)


def edit_graphs(chance: random.Random, binary: Binary) -> None:
    if chance.random() < 0.5:
        binary.graphs.append(deepcopy(chance.choice(binary.graphs)))
    else:
        chance.shuffle(binary.graphs)
    if chance.random() < 0.8:
        binary.header[60] = len(binary.graphs)


EDITS: tuple[Callable[[random.Random, Binary], None], ...] = (
    edit_field, edit_field, edit_field, edit_kind, edit_kind, edit_kind, edit_copy, edit_copy,
    edit_leave_out, edit_repeat, edit_header, edit_weights, edit_graphs,
)  # fmt: skip
