"""A decoder on the vendor's HTP simulator, which has neither state nor memory handles.

The graph reads the cache as inputs and gives the new rows alone as outputs. They are bound to their
places in the cache, in memory that accelerators can share, so that no copy is left to the client.
"""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from qnnrt.importers.onnx import load
from support.vendor import vendor_library

LAYERS, WIDTH, CAPACITY, VOCABULARY = 2, 16, 12, 23
CACHES = [f"{what}{layer}" for layer in range(LAYERS) for what in ("keys", "values")]
CACHE_BYTES = CAPACITY * WIDTH * 4


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)

    def some(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    made = {"head": some(WIDTH, VOCABULARY)}
    for layer in range(LAYERS):
        for name in ("q", "k", "v", "o"):
            made[f"{name}{layer}"] = some(WIDTH, WIDTH) / np.float32(np.sqrt(WIDTH))
    return made


def decoder() -> qnnrt.Model:
    """A token: x [1, WIDTH], mask [1, CAPACITY + 1], of the cache's rows and the new one, and the
    caches [CAPACITY, WIDTH]; logits and each cache's new row."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    constants = weights() | {"scale": np.array(WIDTH**-0.5, np.float32)}
    nodes, x = [], "x"

    def add(op: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    for i in range(LAYERS):
        q = add("MatMul", [x, f"q{i}"], f"query{i}")
        add("MatMul", [x, f"k{i}"], f"new_keys{i}")
        add("MatMul", [x, f"v{i}"], f"new_values{i}")
        keys = add("Concat", [f"keys{i}", f"new_keys{i}"], f"all_keys{i}", axis=0)
        values = add("Concat", [f"values{i}", f"new_values{i}"], f"all_values{i}", axis=0)
        turned = add("Transpose", [keys], f"turned{i}", perm=[1, 0])
        scores = add("MatMul", [q, turned], f"scores{i}")
        scaled = add("Mul", [scores, "scale"], f"scaled{i}")
        masked = add("Add", [scaled, "mask"], f"masked{i}")
        parts = add("Softmax", [masked], f"parts{i}", axis=-1)
        mixed = add("MatMul", [parts, values], f"mixed{i}")
        projected = add("MatMul", [mixed, f"o{i}"], f"projected{i}")
        x = add("Add", [x, projected], f"x{i}")
    add("MatMul", [x, "head"], "logits")

    def value(name: str, *shape: int) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "token",
        [value("x", 1, WIDTH), value("mask", 1, CAPACITY + 1)]
        + [value(name, CAPACITY, WIDTH) for name in CACHES],
        [value("logits", 1, VOCABULARY)] + [value(f"new_{name}", 1, WIDTH) for name in CACHES],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return load(model)


def expected(count: int) -> list[np.ndarray]:
    """The logits of so many tokens, each the likeliest behind the one before."""
    w, table = weights(), embeddings()
    past: dict[str, list[np.ndarray]] = {name: [] for name in CACHES}
    found, token = [], 0
    for _ in range(count):
        x = table[token][None].astype(np.float64)
        for i in range(LAYERS):
            past[f"keys{i}"].append(x @ w[f"k{i}"])
            past[f"values{i}"].append(x @ w[f"v{i}"])
            keys, values = (np.concatenate(past[f"{n}{i}"]) for n in ("keys", "values"))
            scores = np.exp(x @ w[f"q{i}"] @ keys.T * WIDTH**-0.5)
            x = x + scores / scores.sum() @ values @ w[f"o{i}"]
        found.append((x @ w["head"])[0])
        token = int(found[-1].argmax())
    return found


def embeddings() -> np.ndarray:
    return np.random.default_rng(8).standard_normal((VOCABULARY, WIDTH)).astype(np.float32)


def tokens(library: str) -> qnnrt.session.Stats:
    """What a session did that made each token of a full cache, and made the right ones."""
    table = embeddings()
    with (
        qnnrt.alloc(len(CACHES) * CACHE_BYTES) as memory,
        qnnrt.Session(decoder(), library, io="raw") as session,
    ):
        array = memory.array((len(CACHES), CAPACITY, WIDTH), np.float32)
        caches = dict(zip(CACHES, array, strict=True))
        for name, cache in caches.items():
            session.inputs[name].bind(cache)
        mask, token = session.inputs["mask"].array, 0
        mask[...] = -1e4  # of rows that are not there yet: what they hold does not matter
        mask[0, -1] = 0
        for position, logits in enumerate(expected(CAPACITY)):
            for name, cache in caches.items():
                session.outputs[f"new_{name}"].bind(cache[position : position + 1])
            session.inputs["x"].array[0] = table[token]
            session.run()
            found = session.outputs["logits"].array[0]
            np.testing.assert_allclose(found, logits, rtol=0.03, atol=0.03)
            token = int(found.argmax())
            assert token == logits.argmax()
            mask[0, position] = 0
        stats = session.stats
        session.close()
        del array, caches, cache, mask
    return stats


@pytest.mark.foreign
def test_the_client_copies_nothing() -> None:
    stats = tokens(vendor_library("libQnnHtp.so"))
    assert stats.executes == CAPACITY
    assert (stats.copied_bytes, stats.copies) == (0, ())


def test_the_same_calls_tell_here_what_a_backend_copies_that_is_given_addresses() -> None:
    """The simulator does not tell. Registered memory is what spares this list."""
    stats = tokens("htp")
    copied = {(c.tensor, c.direction): c.nbytes // CAPACITY for c in stats.copies}
    rows = {(f"new_{name}", "out"): WIDTH * 4 for name in CACHES}
    assert copied == rows | {(name, "in"): CACHE_BYTES for name in CACHES} | {
        ("x", "in"): WIDTH * 4,
        ("mask", "in"): (CAPACITY + 1) * 4,
        ("logits", "out"): VOCABULARY * 4,
    }
