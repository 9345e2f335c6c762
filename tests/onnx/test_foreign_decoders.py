"""Decoders as others export them: prefill and decode in one session, on a cache of a fixed size
that is updated in place, beside ONNX Runtime whose caches grow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import qnnrt

pytestmark = pytest.mark.foreign

HEADS, GROUPS, SIZE, WIDTH, WORDS, LAYERS, CAPACITY = 4, 2, 16, 64, 101, 2, 64
PARTS = (12, 1, 1, 4, 1, 8, 1)  # tokens of each run
F32 = np.float32
CACHES = [f"past_key_values.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]


class Builder:
    """The nodes that ONNX Runtime GenAI's builder writes. `bits`: of weights, 0 for floats."""

    def __init__(self, bits: int, packed: bool, positions: bool, window: int) -> None:
        self.bits, self.packed, self.positions, self.window = bits, packed, positions, window
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(4)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], outputs: list[str] | None = None, **how: Any) -> str:
        outputs = outputs or [f"{kind}_{len(self.nodes)}"]
        ours = kind in {"GroupQueryAttention", "MatMulNBits", "SkipSimplifiedLayerNormalization"}
        domain = "com.microsoft" if ours else ""
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **how))
        return outputs[0]

    def linear(self, x: str, k: int, n: int, output: str = "") -> str:
        outputs = [output] if output else None
        if not self.bits:
            weights = self.constant((self.rng.standard_normal((k, n)) * k**-0.5).astype(F32))
            return self.op("MatMul", [x, weights], outputs)
        codes = self.rng.integers(0, 256, (n, k // 32, 4 * self.bits)).astype(np.uint8)
        scales = (self.rng.random((n, k // 32)) * 0.3 / 2**self.bits + 0.02).astype(F32)
        how = {"K": k, "N": n, "bits": self.bits, "block_size": 32}
        return self.op(
            "MatMulNBits", [x, self.constant(codes), self.constant(scales)], outputs, **how
        )

    def norm(self) -> str:
        return self.constant((1 + 0.1 * self.rng.standard_normal(WIDTH)).astype(F32))

    def skip(self, x: str, y: str, name: str) -> tuple[str, str]:
        inputs, outputs = [x, y, self.norm()], [f"{name}_n", "", "", f"{name}_s"]
        self.op("SkipSimplifiedLayerNormalization", inputs, outputs, epsilon=1e-5)
        return outputs[0], outputs[3]

    def model(self) -> onnx.ModelProto:
        def info(name: str, shape: list[Any], kind: int = TensorProto.INT64) -> Any:
            return helper.make_tensor_value_info(name, kind, shape)

        batch, length = "batch_size", "sequence_length"
        past, total = "past_sequence_length", "total_sequence_length"
        inputs = [info("input_ids", [batch, length]), info("attention_mask", [batch, total])]
        places = ["position_ids"] if self.positions else []
        inputs += [info(name, [batch, length]) for name in places]
        outputs = [info("logits", [batch, length, WORDS], TensorProto.FLOAT)]
        one = self.constant(np.array([1]))
        filled = self.op("ReduceSum", ["attention_mask", one], keepdims=1)
        last = self.op("Cast", [self.op("Sub", [filled, one])], to=TensorProto.INT32)
        shape = self.op("Shape", ["attention_mask"])
        all_ = self.op("Gather", [shape, self.constant(np.array(1))], axis=0)
        all_ = self.op("Cast", [all_], to=TensorProto.INT32)
        angles = np.outer(np.arange(128), 1e4 ** -(np.arange(0, SIZE, 2) / SIZE))
        turns = [self.constant(f(angles).astype(F32)) for f in (np.cos, np.sin)]
        table = self.constant(self.rng.standard_normal((WORDS, WIDTH)).astype(F32))
        x = self.op("Gather", [table, "input_ids"])
        h = self.op("SimplifiedLayerNormalization", [x, self.norm()], axis=-1, epsilon=1e-5)
        for i in range(LAYERS):
            columns = (WIDTH, GROUPS * SIZE, GROUPS * SIZE)
            parts = (
                [self.linear(h, WIDTH, sum(columns)), "", ""]
                if self.packed
                else [self.linear(h, WIDTH, n) for n in columns]
            )
            caches = CACHES[2 * i : 2 * i + 2]
            present = [name.replace("past_key_values", "present") for name in caches]
            for names, size, where in ((caches, past, inputs), (present, total, outputs)):
                shape_ = [batch, GROUPS, size, SIZE]
                where += [info(name, shape_, TensorProto.FLOAT) for name in names]
            a = self.op(
                "GroupQueryAttention", [*parts, *caches, last, all_, *turns, *places],
                [f"a{i}", *present], num_heads=HEADS, kv_num_heads=GROUPS, scale=SIZE**-0.5,
                do_rotary=1, local_window_size=self.window,
            )  # fmt: skip
            h, x = self.skip(x, self.linear(a, WIDTH, WIDTH), f"p{i}")
            gate, up = (self.linear(h, WIDTH, 96) for _ in range(2))
            gate = self.op("Mul", [gate, self.op("Sigmoid", [gate])])
            h, x = self.skip(x, self.linear(self.op("Mul", [gate, up]), 96, WIDTH), f"f{i}")
        self.linear(h, WIDTH, WORDS, "logits")
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, self.constants)
        sets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)


@pytest.mark.parametrize("mask", ["grows", "is filled"])
@pytest.mark.parametrize(
    ("bits", "packed", "positions", "window"),
    [(0, False, False, -1), (4, False, False, -1), (4, True, False, -1), (8, False, True, 8)],
)
def test_files_of_onnxruntime_genai(
    tmp_path: Path, bits: int, packed: bool, positions: bool, window: int, mask: str
) -> None:
    """The mask has a place for each token so far, or for each slot of the cache."""
    path = tmp_path / "model.onnx"
    onnx.save(Builder(bits, packed, positions, window).model(), path)
    theirs = onnxruntime.InferenceSession(path)
    names = [o.name for o in theirs.get_outputs()]
    grown = {name: np.zeros((1, GROUPS, 0, SIZE), F32) for name in CACHES}
    ids = np.random.default_rng(0).integers(0, WORDS, (1, sum(PARTS)))
    shapes = {
        "batch_size": 1,
        "sequence_length": "any",
        "past_sequence_length": CAPACITY,
        "total_sequence_length": "any" if mask == "grows" else CAPACITY,
    }
    model = qnnrt.load(path, shapes=shapes, state="auto")
    with qnnrt.Session(model, strict=True) as session:
        at = 0
        for n in PARTS:
            end = at + n
            feeds = {"input_ids": ids[:, at:end], "attention_mask": np.ones((1, end), np.int64)}
            if positions:
                feeds["position_ids"] = np.arange(at, end)[None]
            expected = dict(zip(names, theirs.run(None, feeds | grown), strict=True))
            grown = {p: expected[p.replace("past_key_values", "present")] for p in CACHES}
            if mask == "is filled":
                feeds["attention_mask"] = (np.arange(CAPACITY) < end).astype(np.int64)[None]
            one = session.at({name: value.shape for name, value in feeds.items()})
            for name in feeds.keys() & one.inputs.keys():
                one.inputs[name].array[...] = feeds[name]
            one.run()
            scale = np.abs(expected["logits"]).max()
            found = one.outputs["logits"].array
            np.testing.assert_allclose(found, expected["logits"], atol=2e-5 * scale)
            at = end
        for name, cache in session.save_state().items():
            scale = np.abs(grown[name]).max()
            np.testing.assert_allclose(cache[:, :, :at], grown[name], atol=2e-5 * scale)
        assert session.stats.copied_bytes == 0


def merged() -> onnx.ModelProto:
    """One file of Optimum's, with a branch that reads a text and one that goes on."""
    info = helper.make_tensor_value_info
    table = np.random.default_rng(1).standard_normal((WORDS, SIZE)).astype(F32)
    body = {
        "new": helper.make_node("Identity", ["rows"], ["new_rows"]),
        "old": helper.make_node("Concat", ["past_rows", "rows"], ["old_rows"], axis=1),
    }
    rows = ["batch", None, SIZE]
    parts = {
        key: helper.make_graph([node], key, [], [info(f"{key}_rows", TensorProto.FLOAT, rows)])
        for key, node in body.items()
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node(
            "If", ["use_cache_branch"], ["all_rows"], then_branch=parts["old"],
            else_branch=parts["new"],
        ),
        helper.make_node("ReduceMean", ["all_rows"], ["logits"], axes=[1], keepdims=0),
    ]  # fmt: skip
    inputs = [
        info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
        info("past_rows", TensorProto.FLOAT, ["batch", "past", SIZE]),
        info("use_cache_branch", TensorProto.BOOL, [1]),
    ]
    outputs = [
        info("logits", TensorProto.FLOAT, ["batch", SIZE]),
        info("all_rows", TensorProto.FLOAT, rows),
    ]
    graph = helper.make_graph(
        nodes, "merged", inputs, outputs, [numpy_helper.from_array(table, "table")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_program_of_the_page_loads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/state.md").read_text(encoding="utf-8")
    (program,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "merged" in block
    )
    monkeypatch.chdir(tmp_path)
    onnx.save(Builder(4, False, False, -1).model(), "model.onnx")
    onnx.save(merged(), "decoder_model_merged.onnx")
    found: dict[str, Any] = {"qnnrt": qnnrt}
    exec(compile(program, "state.md", "exec"), found)
    assert {dict(shape)["sequence_length"] for shape in found["model"].shapes} == {128, 1}
    with qnnrt.Session(found["model"], strict=True) as session:
        assert sorted(session.at(found["model"].shapes[0]).state) == sorted(CACHES)
    theirs = onnxruntime.InferenceSession("decoder_model_merged.onnx")
    feeds = {"input_ids": np.arange(6)[None], "past_rows": np.zeros((1, 0, SIZE), F32)}
    wanted = theirs.run(["all_rows"], feeds | {"use_cache_branch": np.array([False])})[0]
    with qnnrt.Session(found["prefill"]) as session:
        np.testing.assert_allclose(session.run(feeds)["all_rows"], wanted, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("write", ["index_copy", "index_put"])
def test_a_static_cache_that_torch_exports(tmp_path: Path, write: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=96, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=128,
        initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()

    class Slots(transformers.StaticCache):  # type: ignore[misc, name-defined]
        def update(self, key: Any, value: Any, layer: int, *_: Any, **__: Any) -> Any:
            held = self.layers[layer]
            for cache, new in ((held.keys, key), (held.values, value)):
                if write == "index_copy":
                    cache.index_copy_(2, self.places, new)
                else:
                    cache[:, :, self.places] = new
            return held.keys, held.values

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, places: Any, *caches: Any) -> Any:
            cache = Slots(config=config, max_cache_len=CAPACITY)
            cache.places = places
            for i, layer in enumerate(cache.layers):
                layer.keys, layer.values = (c.clone() for c in caches[2 * i : 2 * i + 2])
                layer.is_initialized = True
            seen = torch.arange(CAPACITY)[None, :] <= places[:, None]
            out = self.model(
                input_ids=input_ids, attention_mask=seen[None, None], cache=cache,
                position_ids=places[None], use_cache=True,
            )  # fmt: skip
            return (out.logits, *(c for x in cache.layers for c in (x.keys, x.values)))

    empty = [torch.zeros(1, GROUPS, CAPACITY, SIZE) for _ in CACHES]
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        Step().eval(), (torch.zeros(1, 3, dtype=torch.int64), torch.arange(3), *empty), dynamo=True,
        opset_version=23, verbose=False, input_names=["input_ids", "places", *CACHES],
        output_names=["logits", *(c.replace("past_key_values", "present") for c in CACHES)],
        dynamic_shapes=({1: "sequence"}, {0: "sequence"}, tuple({} for _ in CACHES)),
    ).save(path)  # fmt: skip
    ids = np.random.default_rng(0).integers(0, WORDS, (1, sum(PARTS)))
    with torch.no_grad():
        expected = model(torch.tensor(ids), use_cache=False).logits.numpy()
    loaded = qnnrt.load(path, shapes={"sequence": [12, 8, 4, 1]}, state="auto")
    for shape in loaded.shapes:
        for node in loaded.at(shape).nodes:
            assert node.type != "Transpose" or not {*CACHES} & {*node.inputs, *node.outputs}
    with qnnrt.Session(loaded, strict=True) as session:
        at = 0
        for n in PARTS:
            one = session.at({"sequence": n})
            one.inputs["input_ids"].array[...] = ids[:, at : at + n]
            one.inputs["places"].array[...] = np.arange(at, at + n)
            one.run()
            found, wanted = one.outputs["logits"].array, expected[:, at : at + n]
            np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())
            at += n
        assert session.stats.copied_bytes == 0
