"""ONNX Runtime's attentions, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, ours, theirs, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embeddings(interleaved: int, turned: int) -> None:
    heads, size, length = 3, 8, 6
    angles = values(20, (turned or size) // 2)
    caches = [np.cos(angles), np.sin(angles)]
    how = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    if turned:
        how["num_heads"] = heads
    first = np.array([4], np.int64)
    each = np.random.default_rng(0).integers(0, 20, (2, length))
    for places in (first, each):
        flat, image = values(2, length, heads * size), values(2, heads, length, size)
        check("RotaryEmbedding", [flat, places, *caches], static=(2, 3), **how)
        check("RotaryEmbedding", [image, places, *caches], static=(1, 2, 3), **how)


def masks(batch: int, queries: int, keys: int) -> list[np.ndarray | None]:
    rng = np.random.default_rng(0)
    some = rng.integers(0, 2, (batch, keys)).astype(np.int32)
    some[:, 0] = 1
    return [None, some, np.arange(1, batch + 1, dtype=np.int32)]


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_one_product(causal: int) -> None:
    x, weights, bias = values(2, 5, 16), values(16, 48), values(48)
    for mask in masks(2, 5, 5):
        inputs = [x, weights, bias, mask] if mask is not None else [x, weights, bias]
        check("Attention", inputs, static=(1, 2), num_heads=4, unidirectional=causal)
    added = values(2, 4, 5, 5)
    inputs = [x, weights, bias, None, None, added]
    check("Attention", inputs, static=(1, 2), num_heads=4, scale=0.3)
    weights, bias = values(16, 40), values(40)
    sizes = {"qkv_hidden_sizes": [16, 16, 8], "num_heads": 4}
    check("Attention", [x, weights, bias], static=(1, 2), **sizes)


def test_attention_of_queries_keys_and_values() -> None:
    q, k, v = values(2, 5, 16), values(2, 7, 16, seed=1), values(2, 7, 24, seed=2)
    bias = values(56)
    for mask in masks(2, 5, 7):
        check("MultiHeadAttention", [q, k, v, bias, mask], num_heads=4, static=(3,))
    check("MultiHeadAttention", [q, k, v, None, None, values(1, 4, 5, 7)], num_heads=4, scale=0.2)
    same = [values(2, 5, 16, seed=i) for i in range(3)]
    check("MultiHeadAttention", same, num_heads=2, unidirectional=1)
    proto, _ = model_of("MultiHeadAttention", [q, k, v], num_heads=4, unidirectional=1)
    with pytest.raises(UnsupportedOpError, match="unidirectional=1 with 5 queries and 7 keys"):
        importer.load(proto)


def test_a_mask_of_a_single_key() -> None:
    x, ends = values(2, 1, 16), np.array([1, 0], np.int32)
    check("Attention", [x, values(16, 48), values(48), ends], static=(1, 2), num_heads=4)
    q = values(2, 3, 16)
    for mask in (ends, ends[:, None]):
        check("MultiHeadAttention", [q, x, x, None, mask], num_heads=4)


@pytest.mark.parametrize(
    ("batch", "length", "kept", "ends", "total"),
    [
        (1, 4, 0, [3], 4), (2, 4, 0, [3, 3], 4), (1, 1, 6, [6], 7), (1, 1, 10, [6], 7),
        (2, 1, 10, [6, 3], 7), (1, 3, 10, [6], 7), (2, 3, 8, [2, 2], 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "how",
    [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 3},
     {"scale": 0.3, "softcap": 2.0}],
)  # fmt: skip
def test_queries_in_groups_with_a_buffer_of_keys(
    batch: int, length: int, kept: int, ends: list[int], total: int, how: dict[str, Any]
) -> None:
    """The rows of the buffers behind those that count may be anything."""
    heads, groups, size = 4, 2, 16
    angles = values(20, size // 2)
    caches = [np.cos(angles), np.sin(angles)] if "do_rotary" in how else [None, None]
    past = [values(batch, groups, kept, size, seed=i) if kept else None for i in (4, 5)]
    rows = [
        values(batch, length, n * size, seed=n + i) for i, n in enumerate((heads, groups, groups))
    ]
    counts = [np.array(ends, np.int32), np.array([total], np.int32)]
    more = {"num_heads": heads, "kv_num_heads": groups, **how}
    names = ["y", "keys", "values"]
    inputs = [*rows, *past, *counts, *caches]
    for static in ((6,), ()) if kept >= total or not kept else ((6,),):
        proto, feeds = model_of("GroupQueryAttention", inputs, names, static, **more)
        wanted, found = theirs(proto, feeds), ours(proto, feeds)
        np.testing.assert_allclose(found[0], wanted[0], rtol=2e-5, atol=2e-5)
        for a, b in zip(found[1:], wanted[1:], strict=True):
            assert a.shape == b.shape
            for row, end in enumerate(ends):
                np.testing.assert_allclose(
                    a[row, :, : end + 1], b[row, :, : end + 1], rtol=2e-5, atol=2e-5
                )


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_the_keys_of_earlier_steps(causal: int) -> None:
    x, weights, bias = values(2, 3, 16), values(16, 48), values(48)
    past = values(2, 2, 4, 5, 4)
    how: dict[str, Any] = {"static": (1, 2), "num_heads": 4, "unidirectional": causal}
    mask = np.array([[1] * 8, [0, 0, *[1] * 6]], np.int32)
    for masks_ in ([None], [mask]):
        check("Attention", [x, weights, bias, *masks_, past], 2, **how)
    check("Attention", [x, weights, bias], 2, **how)


def test_masks_of_other_forms() -> None:
    x, weights, bias = values(2, 5, 16), values(16, 48), values(48)
    how: dict[str, Any] = {"static": (1, 2), "num_heads": 4}
    check("Attention", [x, weights, bias, np.array([5, 3, 1, 0], np.int32)], **how)
    rng = np.random.default_rng(0)
    each = rng.integers(0, 2, (2, 5, 5)).astype(np.int32) | np.eye(5, dtype=np.int32)
    check("Attention", [x, weights, bias, each], **how)


def test_queries_keys_and_values_in_one_tensor() -> None:
    """ONNX Runtime's CPU provider refuses it: as if they were in three."""
    three, q, two = values(2, 5, 4, 3, 8), values(2, 5, 32), values(2, 7, 4, 2, 8)

    def attention(*inputs: np.ndarray) -> np.ndarray:
        return ours(*model_of("MultiHeadAttention", inputs, num_heads=4))[0]

    def apart(x: np.ndarray) -> list[np.ndarray]:
        return [x[:, :, :, i].reshape(*x.shape[:2], 32) for i in range(x.shape[3])]

    np.testing.assert_allclose(attention(three), attention(*apart(three)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attention(q, two), attention(q, *apart(two)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [0, 1])
def test_heads_with_the_keys_of_earlier_steps(causal: int) -> None:
    q, k, v = (values(2, 3, 16, seed=i) for i in range(3))
    past = [values(2, 4, 5, 4, seed=i) for i in (4, 5)]
    mask = np.array([[1] * 8, [0, 0, *[1] * 6]], np.int32)
    op, how = "MultiHeadAttention", {"num_heads": 4, "unidirectional": causal}
    check(op, [q, k, v, None, None, None, *past], 3, **how)
    check(op, [q, k, v, values(48), mask, None, *past], 3, static=(3,), **how)
    check(op, [q, k, v, None, None, values(1, 4, 3, 8), *past], 3, **how)
    check(op, [q, k, v, values(48)], 3, static=(3,), **how)


def test_keys_that_are_in_heads_already() -> None:
    """As in the attention of a decoder to what an encoder has seen."""
    q, k, v = values(2, 1, 16), values(2, 4, 7, 4), values(2, 4, 7, 4, seed=1)
    check("MultiHeadAttention", [q, k, v], num_heads=4)


@pytest.mark.parametrize("each_column", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_quantized_attention(each_column: bool, causal: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (2, 5, 16)).astype(np.uint8)
    weights = rng.integers(-127, 127, (16, 48)).astype(np.int8)
    scales = np.full(48 if each_column else (), 0.01, np.float32)
    zeros = np.zeros_like(scales, np.int8)
    mask = np.array([[1] * 5, [1] * 3 + [0] * 2], np.int32)
    given = [x, weights, values(48), np.float32(0.02), scales, mask, np.uint8(120), zeros]
    fixed = (1, 2, 3, 4, 6, 7)
    how: dict[str, Any] = {"num_heads": 4, "unidirectional": causal, "static": fixed}
    check("QAttention", list(map(np.asarray, given)), tolerance=2e-4, **how)


GROUPS = {"num_heads": 4, "kv_num_heads": 2}


def group_query(inputs: list[np.ndarray | None], **how: Any) -> None:
    """The first of the results: behind the rows that count, the others may be anything."""
    proto, feeds = model_of("GroupQueryAttention", inputs, ["y", "k", "v"], (6,), **GROUPS, **how)
    found, wanted = ours(proto, feeds), theirs(proto, feeds)
    np.testing.assert_allclose(found[0], wanted[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kept", [0, 6])
@pytest.mark.parametrize("rotary", [False, True])
def test_queries_in_groups_in_one_tensor(rotary: bool, kept: int) -> None:
    length = 1 if kept else 5
    past = [values(2, 2, kept, 16, seed=i) if kept else None for i in (4, 5)]
    end = kept + length
    counts = [np.full(2, end - 1, np.int32), np.array([end], np.int32)]
    caches = [np.cos(values(20, 8)), np.sin(values(20, 8))] if rotary else []
    group_query([values(2, length, 128), None, None, *past, *counts, *caches], do_rotary=rotary)


@pytest.mark.parametrize("kept", [0, 6])
@pytest.mark.parametrize("more", ["places", "bias", "sink", "smooth", "sink and bias", "both ways"])
def test_more_of_queries_in_groups(more: str, kept: int) -> None:
    length = 1 if kept else 5
    past = [values(1, 2, kept, 16, seed=i) if kept else None for i in (4, 5)]
    end = kept + length
    counts = [np.full(1, end - 1, np.int32), np.array([end], np.int32)]
    rows = [values(1, length, n * 16, seed=n) for n in (4, 2, 3)]
    rows[2] = rows[2][..., :32].copy()
    inputs: list[np.ndarray | None] = [*rows, *past, *counts, *[None] * 5]
    how: dict[str, Any] = {}
    if more == "places":
        inputs[7:10] = [
            np.cos(values(20, 8)),
            np.sin(values(20, 8)),
            np.arange(kept, end, dtype=np.int64)[None] + 3,
        ]
        how["do_rotary"] = 1
    if "bias" in more:
        inputs[10] = values(1, 4, length, end)
    if "sink" in more:
        inputs[11] = values(4)
    if more == "smooth":
        how["smooth_softmax"] = 1
    if more == "both ways":
        how["causal"] = 0
    group_query(inputs, **how)


def test_queries_and_keys_that_are_normalized_by_the_operator() -> None:
    """ONNX Runtime's CPU provider refuses it: as if the norms were there before."""
    rows = [values(1, 3, n * 16, seed=n) for n in (4, 2)]
    scales = [values(16, seed=i) for i in (7, 8)]
    counts = [np.full(1, 2, np.int32), np.array([3], np.int32)]
    value = values(1, 3, 32, seed=5)

    def normalized(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        heads = x.reshape(1, 3, -1, 16)
        heads = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-5) * scale
        return heads.reshape(x.shape).astype(np.float32)

    inside = [*rows, value, None, None, *counts, *[None] * 7, *scales]
    proto, feeds = model_of(
        "GroupQueryAttention", inside, ["y"], (6,), **GROUPS, qk_norm_epsilon=1e-5
    )
    before = [normalized(x, s) for x, s in zip(rows, scales, strict=True)]
    outside = model_of("GroupQueryAttention", [*before, value, None, None, *counts], ["y"], (6,),
                       **GROUPS)  # fmt: skip
    np.testing.assert_allclose(ours(proto, feeds)[0], ours(*outside)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("op", "index", "attributes", "message"),
    [
        ("MultiHeadAttention", 8, {}, "past_sequence_length"),
        ("MultiHeadAttention", 9, {}, "cache_indirection"),
        ("Attention", None, {"do_rotary": 1}, "do_rotary=1"),
        ("Attention", None, {"past_present_share_buffer": 1}, "past_present_share_buffer=1"),
        ("GroupQueryAttention", 12, {"k_quant_type": "PER_TENSOR"}, "k_scale"),
        ("GroupQueryAttention", None, {"v_quant_type": "PER_TENSOR"}, "v_quant_type=PER_TENSOR"),
        ("GroupQueryAttention", None, {"sliding_window_cache": 1}, "sliding_window_cache=1"),
        ("GroupQueryAttention", None, {"qk_output": 1}, "qk_output=1"),
        ("RotaryEmbedding", None, {"is_packed_batching": 1}, "is_packed_batching=1"),
    ],
)
def test_an_option_that_is_not_taken_is_named(
    op: str, index: int | None, attributes: dict[str, Any], message: str
) -> None:
    x = values(1, 3, 16)
    one = np.array([2], np.int32)
    heads = {"num_heads": 4} | ({"kv_num_heads": 4} if op.startswith("Group") else {})
    inputs: list[np.ndarray | None] = {
        "Attention": [x, values(16, 48)],
        "MultiHeadAttention": [x, x, x],
        "GroupQueryAttention": [x, x, x, None, None, one, one],
        "RotaryEmbedding": [x, np.array([0], np.int64), values(9, 2), values(9, 2)],
    }[op]
    if index is not None:
        inputs += [None] * (index - len(inputs)) + [one]
    proto, _ = model_of(op, inputs, **heads, **attributes)
    with pytest.raises(UnsupportedOpError, match=message):
        importer.load(proto)


# ---- ONNX's own ----------------------------------------------------------------------------------


def operations(proto: onnx.ModelProto) -> set[str]:
    return set(importer.load(proto).op_counts())


KNOWN = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
#: Forms of masks of 5 queries, 4 heads and 7 keys. No row is masked as a whole.
MASKS = {
    "none": None,
    "floats": KNOWN,
    "bools": KNOWN > -1,
    "of each head": np.stack([KNOWN + i for i in range(4)])[None],
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("how", [{}, {"scale": 0.3}, {"softcap": 1.5}, {"is_causal": 1}])
def test_attention_with_a_known_mask(mask: str, groups: int, how: dict[str, Any]) -> None:
    """In heads and in rows; a product, what is added, a softmax, a product, and nothing else."""
    x = [values(2, n, length, 8, seed=n) for n, length in ((4, 5), (groups, 7), (groups, 7))]
    if "is_causal" in how:
        x = [x[0], *(y[:, :, :5].copy() for y in x[1:])]
    known = MASKS[mask]
    if known is not None:
        known = known[..., : x[1].shape[2]].copy()
    given = [*x, *([known] if known is not None else [])]
    fixed = (3,) if known is not None else ()
    check("Attention", given, static=fixed, domain="", opset=23, **how)
    proto, _ = model_of("Attention", given, static=fixed, domain="", opset=23, **how)
    assert not operations(proto) & {"ElementWiseSelect", "Tile", "ReduceMax", "IsInf"}
    rows = [np.moveaxis(y, 1, 2).reshape(2, y.shape[2], -1) for y in x]
    heads = {"q_num_heads": 4, "kv_num_heads": groups}
    check("Attention", [*rows, *given[3:]], static=fixed, domain="", opset=23, **heads, **how)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_earlier_keys(causal: int) -> None:
    x = [values(2, n, 3, 8, seed=n) for n in (4, 2, 2)]
    past = [values(2, 2, 5, 8, seed=i) for i in (5, 6)]
    check("Attention", [*x, None, *past], 3, domain="", opset=24, is_causal=causal)


@pytest.mark.parametrize("groups", [2, 1])
@pytest.mark.parametrize("kind", ["bools", "floats", "causal"])
def test_attention_of_a_row_that_is_masked_as_a_whole(kind: str, groups: int) -> None:
    """Zeros, also where the function of an older onnx gives NaN; the other rows as without it."""
    seen = np.array([[False] * 3, [True, False, True]])
    mask = seen if kind == "bools" else np.where(seen, np.float32(0), np.float32(-np.inf))
    how = {}
    if kind == "causal":  # the first query sees the first key alone, which the mask hides
        mask, how = np.array([[False, True, True]] * 2), {"is_causal": 1}
        seen = np.array([[False] * 3, [False, True, False]])
    x = [values(1, n, length, 4, seed=length) for n, length in ((2, 2), (groups, 3), (groups, 3))]
    proto, feeds = model_of("Attention", [*x, mask], static=(3,), domain="", opset=24, **how)
    (found,) = ours(proto, feeds)
    k, v = (np.repeat(y, 2 // groups, 1)[:, :, seen[1]] for y in x[1:])
    scores = np.exp(x[0][:, :, 1:] @ np.swapaxes(k, 2, 3) / 2)
    assert not found[:, :, 0].any()
    np.testing.assert_allclose(found[:, :, 1:], scores / scores.sum(-1, keepdims=True) @ v, 1e-5)


def test_fused_attention_is_no_more_than_its_parts() -> None:
    x = values(2, 5, 32)
    proto, _ = model_of("MultiHeadAttention", [x, x, x], num_heads=4)
    assert operations(proto) <= {"MatMul", "Softmax", "Reshape", "Transpose", "ElementWiseMultiply"}
    one = np.array([0], np.int32)
    past = [values(1, 2, 8, 16, seed=i) for i in (4, 5)]
    rows = [values(1, 1, n * 16, seed=n) for n in (4, 2, 2)]
    inputs = [*rows, *past, one + 6, one + 7]
    model = importer.load(model_of("GroupQueryAttention", inputs, 3, (6,), **GROUPS)[0])
    copied = [model.tensors[n.outputs[0]] for n in model.nodes if n.type == "Tile"]
    assert all(t.dtype.kind != "f" for t in copied)  # no keys for each head of queries
