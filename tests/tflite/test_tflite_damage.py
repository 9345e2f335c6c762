"""Damaged .tflite files: one ModelError each, in bounded time and memory, whatever is wrong."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import tflite
from ai_edge_litert import schema_py_generated as schema

import qnnrt
from qnnrt.errors import ModelError
from qnnrt.importers import tflite as importer
from qnnrt.tflite import Interpreter
from support.tflite.builder import ModelBuilder
from support.tflite.damage import BASES, mutants

SEED = 20261121
#: Constants that importing makes are limited to this, for files this small.
MOST_MEMORY = 80 * 2**20


@pytest.mark.parametrize("name", BASES)
def test_a_damaged_file_is_a_model_error_or_loads(name: str) -> None:
    """A changed weight is not seen; anything else than `ModelError` fails the test."""
    refused = 0
    tracemalloc.start()
    try:
        for data in mutants(BASES[name], SEED, 40):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                importer.load(data)
            except ModelError:
                refused += 1
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < MOST_MEMORY, f"{used} bytes for a file of {len(data)}"
    finally:
        tracemalloc.stop()
    assert refused > 5, f"seed {SEED}: hardly anything was damaged"


@pytest.mark.parametrize("name", BASES)
def test_a_damaged_file_is_refused_by_the_interpreter_too(name: str) -> None:
    """Opened operator by operator, with what is folded from the whole graph."""
    for data in mutants(BASES[name], SEED + 1, 8):
        try:
            Interpreter(model_content=data).close()
        except ModelError:
            continue


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    """Files of the schema package end with the root's tables: nothing can be left out."""
    data = BASES["CONV_2D"]
    path = tmp_path / "cut.tflite"
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(ModelError) as info:
            qnnrt.load(path)
        assert str(path) in str(info.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"TFL3", "without the mark"),
        (b"\x08\0\0\0ONNX" + bytes(100), "without the mark"),
    ],
)
def test_what_is_no_tflite_file_is_said(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=f"not a TFLite model: it .*{message}"):
        importer.load(data)


def one_operator() -> ModelBuilder:
    b = ModelBuilder()
    x = b.input((2, 3), name="x")
    (y,) = b.op("ADD", [x, b.const(np.ones(3, np.float32), name="c")], [((2, 3), np.float32)],
                "AddOptions")  # fmt: skip
    b.output(y)
    return b


def wrong_version(b: ModelBuilder) -> None:
    b.model.version = 2


def wrong_buffer_size(b: ModelBuilder) -> None:
    b.model.buffers[1].data = np.zeros(11, np.uint8)


def wrong_buffer(b: ModelBuilder) -> None:
    b.graph.tensors[1].buffer = 7


def wild_large_buffer(b: ModelBuilder) -> None:
    b.model.buffers[1].data = None
    b.model.buffers[1].offset, b.model.buffers[1].size = 1 << 40, 12


def wrong_tensor(b: ModelBuilder) -> None:
    b.graph.operators[0].inputs = [0, 9]


def wrong_opcode(b: ModelBuilder) -> None:
    b.graph.operators[0].opcodeIndex = 4


def wrong_order(b: ModelBuilder) -> None:
    (z,) = b.op("EXP", [2], [((2, 3), np.float32)])
    b.graph.operators[0].inputs = [0, z]
    b.graph.outputs = [z]


def written_twice(b: ModelBuilder) -> None:
    b.op("EXP", [0], [2])


def written_constant(b: ModelBuilder) -> None:
    b.graph.operators[0].outputs = [1]
    b.graph.outputs = [1]


def wrong_output(b: ModelBuilder) -> None:
    b.graph.outputs = [-1]


def no_output(b: ModelBuilder) -> None:
    b.graph.outputs = []


def output_of_nothing(b: ModelBuilder) -> None:
    b.graph.outputs = [b.tensor((2,), name="lost")]


def constant_input(b: ModelBuilder) -> None:
    b.graph.inputs = [0, 1]


def wrong_options(b: ModelBuilder) -> None:
    b.graph.operators[0].builtinOptions = schema.PadOptionsT()
    b.graph.operators[0].builtinOptionsType = schema.BuiltinOptions.PadOptions


def wrong_shapes(b: ModelBuilder) -> None:
    b.graph.tensors[0].shape = [2, 4]


def wrong_type(b: ModelBuilder) -> None:
    b.graph.tensors[2].type = 2


def wrong_scales(b: ModelBuilder) -> None:
    b.graph.inputs.append(b.tensor((4,), np.int8, scale=[0.1, 0.2], zero=[0, 0]))


def wild_signature(b: ModelBuilder) -> None:
    b.signature("serving_default", {"x": 77}, {})


def no_subgraph(b: ModelBuilder) -> None:
    b.model.subgraphs = []


def far_reshape(b: ModelBuilder) -> None:
    shape = b.const(np.array([1 << 20, 1 << 20, 1 << 3], np.int32))
    (y,) = b.op("FILL", [shape, b.const(np.float32(1))], [((2,), np.float32)])
    b.graph.outputs = [y]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (wrong_version, "schema version 2"),
        (wrong_buffer_size, r"tensor 1 .*'c'.*needs 12 bytes; its buffer has 11"),
        (wrong_buffer, "'c'.* names buffer 7; there are 2"),
        (wild_large_buffer, "buffer 1 is 12 bytes at 1099511627776"),
        (wrong_tensor, r"inputs of operator 0 \(ADD\).* name tensor 9; there are 3"),
        (wrong_opcode, "operator 0 .*uses op code 4 of 1"),
        (wrong_order, "ADD_0 reads 't3', which is neither"),
        (written_twice, "EXP_1 writes 't2', which has a value already"),
        (written_constant, "ADD_0 writes 'c', which has a value already"),
        (wrong_output, "outputs of subgraph 0 name tensor -1"),
        (no_output, "subgraph 0 has no output"),
        (output_of_nothing, "nothing produces the output 'lost'"),
        (constant_input, "input 'c' is a constant"),
        (wrong_options, "ADD_0 .*has PadOptions instead of AddOptions"),
        (wrong_shapes, r"ADD_0 \(float32\[2, 4\], float32\[3\]\) is not valid"),
        (wrong_type, "ADD_0 gives float32; its output 't2' is declared int32"),
        (wrong_scales, r"int8\[4\], has 2 scales along dimension 0"),
        (wild_signature, "signature 'serving_default' names tensor 77"),
        (no_subgraph, "no subgraph"),
        (far_reshape, "FILL_1 wants 35,184,372,088,832 bytes"),
    ],
)
def test_a_contradiction_is_said_in_one_message(damage: object, message: str) -> None:
    b = one_operator()
    assert importer.load(b.build()).nodes
    damage(b)  # type: ignore[operator]
    with pytest.raises(ModelError, match=message):
        importer.load(b.build())


def test_weights_that_share_a_buffer_cannot_grow_without_end() -> None:
    """As float32 each is four times the buffer that all of them share."""
    b = ModelBuilder()
    first = b.const(np.zeros(1 << 16, np.int8), scale=0.5)
    for i in range(400):
        tensor = b.tensor((1 << 16,), np.int8, scale=1 + i)
        b.graph.tensors[tensor].buffer = b.graph.tensors[first].buffer
        b.output(*b.op("DEQUANTIZE", [tensor], [((1 << 16,), np.float32)], "DequantizeOptions"))
    with pytest.raises(ModelError, match=r"DEQUANTIZE_\d+ wants .* bytes of constants"):
        importer.load(b.build())


def test_tables_that_overlap_cannot_ask_for_more_than_the_file_has() -> None:
    """Every entry of the subgraphs' vector leads to the one large subgraph: each is right, all
    together would take hundreds of times the file."""
    b = ModelBuilder()
    x = b.input((2,))
    for _ in range(1000):
        (x,) = b.op("EXP", [x], [((2,), np.float32)])
    b.output(x)
    count = 400
    for _ in range(count - 1):
        empty = schema.SubGraphT()
        empty.tensors, empty.operators, empty.inputs, empty.outputs = [], [], [], []
        b.model.subgraphs.append(empty)
    data = bytearray(b.build())
    assert importer.load(bytes(data)).nodes
    table = tflite.Model.GetRootAs(bytes(data), 0)
    first = table.Subgraphs(0)._tab.Pos
    entries = table._tab.Vector(table._tab.Offset(8))
    for i in range(count):
        at = entries + 4 * i
        struct.pack_into("<I", data, at, (first - at) % 2**32)
    assert tflite.Model.GetRootAs(bytes(data), 0).Subgraphs(7).OperatorsLength() == 1000
    with pytest.raises(ModelError, match="tables overlap"):
        importer.load(bytes(data))
