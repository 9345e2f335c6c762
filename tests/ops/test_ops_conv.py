"""The convolution family gives what its definition says, for any geometry, on all kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qnnrt.errors import QnnError
from support import reference
from support.one_node import KERNELS, close, pairs, run_op, u32
from support.processor import HAS_TILES


def conv_case(seed: int) -> dict[str, Any]:
    r = np.random.default_rng(seed)
    spatial = int(r.choice([1, 2, 2, 3]))
    group = int(r.choice([1, 1, 2, 3]))
    cin, cout = int(r.choice([1, 3, 5, 8, 16, 20])), int(r.choice([1, 4, 7, 16, 33]))
    depthwise = r.random() < 0.3
    if depthwise:
        group, cin, cout = int(r.choice([3, 16, 17, 40])), 1, int(r.choice([1, 1, 2, 3]))
    kernel = r.integers(1, 5, spatial)
    stride, dilation = r.integers(1, 4, spatial), r.integers(1, 3, spatial)
    before, after = r.integers(0, 3, spatial), r.integers(0, 3, spatial)
    least = np.maximum(dilation * (kernel - 1) + 1 - before - after, 1)
    size = least + r.integers(0, 9, spatial)
    x = r.standard_normal((int(r.integers(1, 3)), *size, cin * group), np.float32)
    w = r.standard_normal((*kernel, cin, cout * group), np.float32)
    bias = r.standard_normal(cout * group).astype(np.float32) if r.random() < 0.7 else None
    named = depthwise and spatial < 3 and r.random() < 0.7
    params: dict[str, Any] = {"pad_amount": pairs(before, after)}
    if spatial == 1:
        params |= {"stride": int(stride[0]), "dilation": int(dilation[0])}
        params["pad_amount"] = params["pad_amount"].reshape(2)
    else:
        params |= {"stride": u32(*stride), "dilation": u32(*dilation)}
    if not named:
        params["group"] = group
    op = f"{'DepthWise' if named else ''}Conv{spatial}d"
    return {
        "op": op,
        "inputs": [x, w, bias],
        "params": params,
        "static": (1, 2) if r.random() < 0.7 else (),
        "expected": reference.of(op, [x, w, bias], params),
    }


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(60))
def test_convolution_of_any_geometry_matches_its_definition(seed: int, kernels: str) -> None:
    case = conv_case(seed)
    expected = case.pop("expected")
    (got,) = run_op(
        case["op"], case["inputs"], [expected.shape], case["params"], static=case["static"],
        kernels=kernels, threads=1 + seed % 3,
    )  # fmt: skip
    close(got, expected)


@pytest.mark.parametrize("seed", range(100, 112))
def test_convolution_takes_half_precision(seed: int) -> None:
    case = conv_case(seed)
    half = [None if v is None else v.astype(np.float16) for v in case["inputs"]]
    expected = case["expected"]
    for kernels in KERNELS:
        (got,) = run_op(
            case["op"], half, [expected.shape], case["params"], static=case["static"],
            kernels=kernels,
        )  # fmt: skip
        close(got, expected, 1e-2)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(200, 208))
def test_an_activation_merged_into_a_convolution_changes_nothing(seed: int, kernels: str) -> None:
    case = conv_case(seed)
    expected = np.clip(case["expected"], 0, 6)
    (got,) = run_op(
        case["op"], case["inputs"], [expected.shape], case["params"], static=case["static"],
        kernels=kernels, then=[("Relu6", {})],
    )  # fmt: skip
    close(got, expected)


@pytest.mark.parametrize(("channels", "taps"), [(3000, 1), (300, 9), (2, 121)])
def test_long_reductions_are_cut_without_loss(channels: int, taps: int) -> None:
    r = np.random.default_rng(channels)
    side = int(taps**0.5)
    x = r.standard_normal((1, 13, 12, channels), np.float32)
    w = r.standard_normal((side, side, channels, 35), np.float32)
    params = {"stride": u32(1, 1), "pad_amount": pairs((2, 2), (2, 2))}
    expected = reference.of("Conv2d", [x, w], params)
    (got,) = run_op("Conv2d", [x, w], [expected.shape], params, static=[1])
    close(got, expected)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(40))
def test_transpose_convolution_matches_its_definition(seed: int, kernels: str, rank: int) -> None:
    r = np.random.default_rng(seed)
    group = int(r.choice([1, 1, 2, 3]))
    cin, cout = group * int(r.choice([1, 3, 8, 17])), int(r.choice([1, 4, 16, 33]))
    kernel, stride = r.integers(1, 6, rank), r.integers(1, 4, rank)
    before, after = r.integers(0, 3, rank), r.integers(0, 3, rank)
    extra = [int(r.integers(0, s)) for s in stride]
    size = r.integers(2, 8 if rank == 2 else 5, rank)
    grown = (size - 1) * stride + kernel + extra
    before = np.minimum(before, (grown - 1) // 2)
    after = np.minimum(after, (grown - 1) // 2)
    x = r.standard_normal((2, *size, cin), np.float32)
    w = r.standard_normal((*kernel, cin, cout), np.float32)
    bias = r.standard_normal(cout * group).astype(np.float32) if seed % 3 else None
    params = {
        "stride": u32(*stride), "pad_amount": pairs(before, after), "group": group,
        "output_padding": u32(*extra),
    }  # fmt: skip
    op = f"TransposeConv{rank}d"
    expected = reference.of(op, [x, w, bias], params)
    static = (1, 2) if seed % 2 else ()
    (got,) = run_op(op, [x, w, bias], [expected.shape], params, static=static, kernels=kernels)
    close(got, expected)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("group", "cin", "cout"),
    [(64, 1, 1), (48, 1, 1), (37, 1, 1), (33, 1, 2), (35, 2, 3), (100, 3, 1), (6, 5, 17)],
)
def test_transpose_convolution_of_many_groups(
    group: int, cin: int, cout: int, kernels: str
) -> None:
    """Depthwise ones, and others in groups that do not fill a vector."""
    r = np.random.default_rng(group)
    x = r.standard_normal((2, 5, 4, group * cin), np.float32)
    w = r.standard_normal((3, 4, group * cin, cout), np.float32)
    bias = r.standard_normal(group * cout).astype(np.float32)
    params = {"stride": u32(2, 2), "pad_amount": pairs((1, 0), (0, 1)), "group": group}
    expected = reference.of("TransposeConv2d", [x, w, bias], params)
    for static in ((1, 2), ()):
        (got,) = run_op(
            "TransposeConv2d", [x, w, bias], [expected.shape], params, static=static,
            kernels=kernels,
        )  # fmt: skip
        close(got, expected)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("rank", [2, 3])
def test_the_shape_of_its_output_says_a_transpose_convolutions_padding(
    rank: int, kernels: str
) -> None:
    """As clients say it that leave output_padding at 0 where the shape is asked for."""
    r = np.random.default_rng(rank)
    op = f"TransposeConv{rank}d"
    x = r.standard_normal((1, *[4] * rank, 16), np.float32)
    w = r.standard_normal((*[3] * rank, 16, 8), np.float32)
    params = {"stride": u32(*[3] * rank), "pad_amount": pairs([0] * rank, [1] * rank)}
    for extra in (0, 1, 2):
        padding = {"output_padding": u32(*[extra] * rank)}
        expected = reference.of(op, [x, w], params | padding)
        for given in (
            {},
            {"output_padding": u32(*[0] * rank)},
            {"output_padding": u32(2, *[1] * (rank - 1))},
        ):
            (got,) = run_op(
                op, [x, w], [expected.shape], params | given, static=(1,), kernels=kernels
            )
            close(got, expected)
    for side in (10, 14):  # by a whole stride too large, and too small
        with pytest.raises(QnnError, match="comes out as"):
            run_op(op, [x, w], [(1, *[side] * rank, 8)], params, static=(1,))


def refusal(inputs: list[np.ndarray | None], shape: tuple[int, ...], **params: Any) -> str:
    with pytest.raises(QnnError) as error:
        run_op("Conv2d", inputs, [shape], params, static=(1,))
    return str(error.value)


def test_a_bad_convolution_is_refused_with_the_rule_it_breaks() -> None:
    x, w = np.zeros((1, 5, 5, 4), np.float32), np.zeros((3, 3, 4, 8), np.float32)
    good = {"stride": u32(1, 1), "pad_amount": pairs((0, 0), (0, 0))}
    huge = pairs((2**31 - 1, 0), (2**31 - 1, 0))  # 2^32 + 1 rows, which is 1 in 32 bits
    shape = (1, 3, 3, 8)
    run_op("Conv2d", [x, w], [shape], good, static=[1])
    refused = [
        ([x, w], shape, {"pad_amount": good["pad_amount"]}, "stride"),
        ([x, w], shape, good | {"stride": u32(0, 1)}, "stride"),
        ([x, w], shape, good | {"stride": u32(1)}, "stride"),
        ([x, w], shape, good | {"group": 3}, "group"),
        ([x, w], shape, good | {"strid": 1}, "strid"),
        ([x, w[:, :, :2]], shape, good, "weight"),
        ([x, w, np.zeros(7, np.float32)], shape, good, "bias"),
        ([x, np.zeros((7, 3, 4, 8), np.float32)], shape, good, "height"),
        ([x, w], (1, 4, 3, 8), good, "[1, 3, 3, 8]"),
        ([x, w], (1, 1, 3, 8), good | {"pad_amount": huge}, "height of the padded input would be"),
        ([x, w.astype(np.float16)], shape, good, "FLOAT_16"),
        ([x.astype(np.int32), w], shape, good, "INT_32"),
        ([x[0], w], shape, good, "rank"),
    ]
    for inputs, declared, params, word in refused:
        message = refusal(inputs, declared, **params)
        assert "node" in message, message
        assert word in message, message


#: Of an image: kernel, stride, before, after, dilation of the lines, and size. Lines of one piece,
#: windows that hang over on every side, and all of them.
IMAGES = [
    ((3, 3), (2, 2), (0, 0), (0, 0), 1, (31, 45)),
    ((3, 3), (1, 1), (1, 1), (1, 1), 1, (5, 29)),
    ((3, 3), (2, 1), (2, 2), (2, 2), 2, (4, 3)),
    ((1, 5), (1, 3), (0, 4), (0, 1), 1, (2, 40)),
    ((5, 5), (1, 1), (2, 2), (2, 2), 1, (14, 14)),
]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("number", range(len(IMAGES)))
def test_an_image_of_few_channels_is_read_as_it_lies(
    number: int, channels: int, kernels: str
) -> None:
    kernel, stride, before, after, dilation, size = IMAGES[number]
    r = np.random.default_rng(number)
    x = r.standard_normal((2, *size, channels), np.float32)
    w = r.standard_normal((*kernel, channels, 67), np.float32)
    bias = r.standard_normal(67, np.float32)
    params = {
        "stride": u32(*stride), "pad_amount": pairs(before, after), "dilation": u32(dilation, 1),
    }  # fmt: skip
    expected = reference.of("Conv2d", [x, w, bias], params)
    for then in ([("Relu", {})], []):
        (got,) = run_op(
            "Conv2d", [x, w, bias], [expected.shape], params, static=(1, 2), kernels=kernels,
            threads=1 + number % 2, then=then,
        )  # fmt: skip
        close(got, np.maximum(expected, 0) if then else expected)


@pytest.mark.parametrize("then", ["", "Relu", "Tanh"])
@pytest.mark.parametrize(
    ("side", "channels", "before", "after"),
    [
        (5, 1, (2, 2), (2, 2)),
        (3, 2, (0, 1), (1, 2)),
        (3, 3, (2, 0), (0, 2)),
        (5, 1, (0, 0), (4, 4)),
    ],
)
def test_threads_share_the_lines_of_an_image_of_few_channels_in_bfloat16(
    side: int, channels: int, before: tuple[int, int], after: tuple[int, int], then: str
) -> None:
    """Windows hang over by so many lines and columns, before the image and after it."""
    r = np.random.default_rng(side)
    x, w, bias = (
        r.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((1, 61, 47, channels), (side, side, channels, 64), (64,))
    )
    params = {"stride": u32(1, 1), "pad_amount": pairs(before, after)}
    right = reference.of("Conv2d", [a.astype(np.float32) for a in (x, w, bias)], params)
    right = np.maximum(right, 0) if then == "Relu" else np.tanh(right) if then else right
    (got,) = run_op(
        "Conv2d", [x, w, bias], [right.shape], params, static=(1, 2), threads=2,
        then=[(then, {})] if then else [],
    )  # fmt: skip
    np.testing.assert_allclose(got.astype(np.float32), right, rtol=2**-7, atol=2e-3)


#: Of a depthwise one: kernel, stride, before, after and size. Lines of one tile of pixels, of
#: several and of less than one, windows that hang over by all but a column, and by more.
WINDOWS = [
    ((3, 3), (1, 1), (1, 1), (1, 1), (9, 28)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (15, 41)),
    ((2, 3), (1, 1), (3, 4), (0, 5), (2, 3)),
    ((5, 5), (1, 1), (2, 2), (2, 2), (6, 16)),
    ((5, 5), (2, 2), (4, 4), (4, 4), (3, 1)),
    ((5, 5), (1, 1), (4, 4), (4, 4), (7, 37)),
    ((3, 7), (3, 1), (0, 3), (0, 6), (8, 20)),
    ((7, 7), (1, 1), (9, 8), (7, 7), (5, 19)),
    ((7, 7), (1, 2), (3, 3), (3, 3), (5, 30)),
    ((2, 3), (4, 2), (1, 1), (3, 1), (21, 17)),  # lines between windows that none of them sees
    ((3, 3), (3, 1), (2, 0), (0, 2), (10, 6)),
]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("channels", [16, 24, 49])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_a_depthwise_window_may_hang_over_on_every_side(
    number: int, channels: int, kernels: str
) -> None:
    """In FLOAT_32 and BFLOAT_16, with what follows: limits, and a pass of its own."""
    kernel, stride, before, after, size = WINDOWS[number]
    r = np.random.default_rng(number)
    x, w, bias = (
        r.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((2, *size, channels), (*kernel, 1, channels), (channels,))
    )
    params = {"stride": u32(*stride), "pad_amount": pairs(before, after)}
    wide = [a.astype(np.float32) for a in (x, w, bias)]
    for given in (wide, [x, w, bias], [x, w]):
        expected = reference.of("DepthWiseConv2d", wide[: len(given)], params)
        for op, of in (
            ("", None),
            ("Relu", lambda y: np.maximum(y, 0)),
            ("HardSwish", lambda y: y * np.clip(y + 3, 0, 6) / 6),
            ("Tanh", np.tanh),
        ):
            (got,) = run_op(
                "DepthWiseConv2d", given, [expected.shape], params, static=range(1, len(given)),
                kernels=kernels, threads=1 + number % 2, then=[(op, {})] if op else [],
            )  # fmt: skip
            right = of(expected) if of else expected
            if given is wide:
                close(got, right)
            else:
                np.testing.assert_allclose(got.astype(np.float32), right, rtol=2**-7, atol=1e-4)


@pytest.mark.parametrize("then", ["", "Relu", "HardSwish", "Tanh"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_threads_share_the_channels_of_a_large_window_over_few_lines(dtype: Any, then: str) -> None:
    """Results are those of one thread, to the last bit."""
    r = np.random.default_rng(7)
    x, w, bias = (
        r.standard_normal(shape).astype(dtype)
        for shape in ((1, 7, 7, 1184), (5, 5, 1, 1184), (1184,))
    )
    params = {"stride": u32(1, 1), "pad_amount": pairs((2, 2), (2, 2))}
    one, *others = (
        run_op(
            "DepthWiseConv2d", [x, w, bias], [x.shape], params, static=(1, 2), threads=threads,
            then=[(then, {})] if then else [],
        )[0]
        for threads in (1, 2, 3, 8)
    )  # fmt: skip
    for got in others:
        assert got.tobytes() == one.tobytes()


@pytest.mark.parametrize("channels", [1, 3, 33])
@pytest.mark.parametrize(("op", "window", "stride"), [
    ("Conv2d", 1, 1), ("Conv2d", 3, 1), ("Conv2d", 5, 1), ("Conv2d", 5, 2), ("Conv2d", 2, 2),
    ("Conv2d", 4, 4), ("TransposeConv2d", 2, 2),
])  # fmt: skip
def test_infinity_stays_within_the_windows_that_see_it(
    op: str, window: int, stride: int, channels: int
) -> None:
    """Sums of odd numbers of BFLOAT_16, which processors multiply in pairs, end within one, and a
    window's lines within a tile of them."""
    r = np.random.default_rng(channels)
    x, w = (
        r.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((1, 12, 12, channels), (window, window, channels, 16))
    )
    x[0, 4, 4, 0] = np.inf
    params = {"stride": u32(stride, stride), "pad_amount": pairs((0, 0), (0, 0))}
    side = 12 * stride if op.startswith("Transpose") else (12 - window) // stride + 1
    given = (op, [x, w], [(1, side, side, 16)], params)
    for threads in (1, 2):
        got, wanted = (
            run_op(*given, static=(1,), threads=threads, kernels=kernels)[0].astype(np.float32)
            for kernels in ("auto", "portable")
        )
        np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
        assert not np.isnan(got).any()
        assert 0 < np.isinf(got).sum() < got.size


#: Kernel, stride, before, after and size of windows that share at most every second pixel: side by
#: side, with gaps, hanging over, of one dimension and three, of few results and many.
ROWS = [
    ("Conv2d", (2, 2), (2, 2), (0, 0), (0, 0), (28, 30)),
    ("Conv2d", (3, 2), (3, 4), (2, 1), (1, 0), (23, 40)),
    ("Conv2d", (4, 4), (3, 3), (3, 3), (3, 2), (17, 19)),
    ("Conv1d", (3,), (2,), (0,), (0,), (701,)),
    ("Conv1d", (10,), (5,), (9,), (4,), (333,)),
    ("Conv1d", (3,), (2,), (1,), (1,), (60,)),
    ("Conv3d", (2, 3, 2), (2, 3, 2), (1, 0, 1), (0, 2, 1), (6, 12, 9)),
]


@pytest.mark.parametrize("then", ["", "Relu", "Gelu"])
@pytest.mark.parametrize("channels", [1, 40, 80])
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_windows_that_hardly_overlap_are_products_of_their_rows_in_bfloat16(
    number: int, channels: int, then: str
) -> None:
    op, kernel, stride, before, after, size = ROWS[number]
    r = np.random.default_rng(number)
    x, w, bias = (
        r.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((2, *size, channels), (*kernel, channels, 48), (48,))
    )
    # Numbers that are none stay within the windows that see them.
    x[1, 0] = np.inf
    one = len(size) == 1
    params = {
        "stride": np.uint32(stride[0]) if one else u32(*stride),
        "pad_amount": pairs(before, after).reshape(2) if one else pairs(before, after),
    }
    given = [x, w, bias]
    right = reference.of(op, [a.astype(np.float32) for a in given], params)
    tails = [(then, {})] if then else []
    results = [
        run_op(
            op, given, [right.shape], params, static=(1, 2), threads=threads, kernels=kernels,
            then=tails,
        )[0].astype(np.float32)
        for threads, kernels in ((1, "auto"), (2, "auto"), (8, "auto"), (1, "portable"))
    ]  # fmt: skip
    # Without tiles they are windows to oneDNN, which sums them in an order by the threads.
    room = 0 if HAS_TILES else 2**-7
    for other in results[1:3]:
        np.testing.assert_allclose(results[0], other, rtol=room, atol=room / 8)
    seen = np.isfinite(right)
    assert 0 < seen.sum() < seen.size
    np.testing.assert_allclose(results[0][seen], results[3][seen], rtol=2**-7, atol=1e-3)
