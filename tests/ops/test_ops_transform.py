"""HadamardTransform and RotaryEmbedding against their definitions and the vendor's simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import close, run_op


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 8), (2, 3, 5, 64), (4, 1024)])
def test_a_row_is_multiplied_by_the_hadamard_matrix(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    matrix = np.ones((1, 1))
    while len(matrix) < shape[-1]:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    for scale in (1.0, 0.25):
        expected = x.astype(np.float64) @ matrix * scale / np.sqrt(shape[-1])
        (got,) = run_op("HadamardTransform", [x], [shape], {} if scale == 1 else {"scale": scale})
        close(got, expected, 1e-6)
        wanted = reference.of("HadamardTransform", [x], {"scale": scale})
        np.testing.assert_allclose(wanted, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("shape", "turned"),
    [
        ((1, 2, 6, 8), 8),
        ((2, 3, 5, 8), 4),
        ((2, 3, 5, 7), 6),
        ((1, 1, 1, 2), 2),
        ((2, 8, 70, 64), 64),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_pairs_of_a_head_are_turned(
    shape: tuple[int, ...], turned: int, interleaved: bool, dtype: str
) -> None:
    op = pytest.importorskip("onnx.reference.ops.op_rotary_embedding")
    r = np.random.default_rng(1)
    x = r.normal(size=shape).astype(dtype)
    angle = r.uniform(-3, 3, (shape[0], shape[2], turned // 2))
    cosine, sine = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
    whole = turned == shape[3]
    params = {"interleaved": interleaved, "rotary_embedding_dim": np.uint32(0 if whole else turned)}
    expected = op.rotary_embedding(
        x.astype(np.float64), cosine.astype(np.float64), sine.astype(np.float64),
        interleaved=interleaved, rotary_embedding_dim=0 if whole else turned,
    )  # fmt: skip
    (got,) = run_op("RotaryEmbedding", [x, cosine, sine], [shape], params)
    close(got, expected, 1e-6)
    close(reference.of("RotaryEmbedding", [x, cosine, sine], params), expected, 1e-12)


def test_what_breaks_a_rule_is_refused() -> None:
    x, c = np.zeros((1, 2, 3, 8), np.float32), np.zeros((1, 3, 4), np.float32)
    cases: list[tuple[str, list[np.ndarray], dict[str, Any], str]] = [
        ("HadamardTransform", [x[..., :6]], {}, "is 6.*a power of two"),
        ("RotaryEmbedding", [x, c, c[..., :2]], {}, r"sines.*\[1, 3, 4\].*\[1, 3, 2\]"),
        ("RotaryEmbedding", [x, c, c], {"rotary_embedding_dim": 6}, r"cosines.*\[1, 3, 3\]"),
        ("RotaryEmbedding", [x, c, c], {"rotary_embedding_dim": 5}, "5 elements.*even"),
        ("RotaryEmbedding", [x, c, c], {"rotary_embedding_dim": 10}, r"\[0, 8\], got 10"),
        ("RotaryEmbedding", [x[0], c, c], {}, "rank 3"),
    ]
    for op, inputs, params, message in cases:
        with pytest.raises(QnnError, match=message) as e:
            run_op(op, inputs, [inputs[0].shape], params)
        assert op in str(e.value)
