"""Normalizations as TFLite files spell them out are one step, whichever framework wrote them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

pytest.importorskip("ai_edge_litert")

from support.tflite.blocks import Blocks, steps

#: TFLite's runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

C, GROUPS = 16, 4
IMAGE = (2, 8, 6, C)
Axes = tuple[int, ...]


def _mean(g: Blocks, x: int, axes: Axes, count: int, form: str) -> int:
    if form == "mean":
        return g.mean(x, *axes)
    total = g.reduce("SUM", x, *axes, keep=form != "flat sum")
    if form == "sum / n":
        return g.div(total, g.const(count))
    mean = g.times(total, 1 / count)
    return mean if form == "sum" else g.reshape(mean, *IMAGE[:-1], 1)


def _variance(g: Blocks, x: int, mean: int, axes: Axes, count: int, form: str, sums: str) -> int:
    if form == "moments":
        squares = _mean(g, g.mul(x, x), axes, count, sums)
        return g("RELU", g.sub(squares, g("SQUARE", mean)))
    if form == "squared difference":
        return _mean(g, g("SQUARED_DIFFERENCE", x, mean), axes, count, sums)
    d = g.sub(x, mean)
    square = {
        "product": lambda: g.mul(d, d),
        "square": lambda: g("SQUARE", d),
        "power": lambda: g("POW", d, g.const(2)),
    }[form]()
    return _mean(g, square, axes, count, sums)


def _inverse(g: Blocks, variance: int, form: str) -> int:
    if form == "rsqrt":
        return g("RSQRT", variance)
    if form == "power":
        return g("POW", variance, g.const(-0.5))
    return g.div(g.const(1), g("SQRT", variance))


def _normalized(
    g: Blocks, x: int, axes: Axes, count: int, *, variance: str = "product", sums: str = "mean",
    root: str = "rsqrt", end: str = "none", weights: tuple[int, ...] = (C,),
) -> int:  # fmt: skip
    """`end`: what weights there are, and where they join."""
    mean = _mean(g, x, axes, count, sums)
    under = g.add(_variance(g, x, mean, axes, count, variance, sums), g.const(1e-3))
    r = _inverse(g, under, root)
    w, b = (g.weights(*weights) for _ in range(2))
    if end == "folded":  # as tf.nn.batch_normalization has it
        r = g.mul(r, w)
        return g.add(g.mul(x, r), g.sub(b, g.mul(mean, r)))
    if end == "no weights":
        return g.add(g.mul(x, r), g("NEG", g.mul(mean, r)))
    d = g.sub(x, mean)
    if end == "root":
        return g.add(g.mul(d, g.mul(r, w)), b)
    y = g.mul(d, r)
    return y if end == "none" else g.add(g.mul(y, w), b)


ENDS = ("folded", "no weights", "root", "none", "last")


SUMS = ("mean", "sum", "sum / n", "flat sum")
ROOTS = ("rsqrt", "power", "1 /")
VARIANCES = ("moments", "squared difference", "product", "square", "power")


@pytest.mark.parametrize("end", ENDS)
def test_layer_norm(end: str) -> None:
    """Each pair of two of these."""
    for (i, variance), (j, sums) in itertools.product(enumerate(VARIANCES), enumerate(SUMS)):
        root = ROOTS[(i + j + ENDS.index(end)) % 3]
        g = Blocks(IMAGE)
        y = _normalized(
            g, g.inputs[0], (-1,), C, variance=variance, sums=sums, root=root, end=end
        )  # fmt: skip
        assert steps(*g.finish(y)) == ["LayerNorm"], (variance, sums, root)


def test_layer_norm_with_means_that_were_broadcast() -> None:
    g = Blocks(IMAGE)
    (x,) = g.inputs

    def spread(v: int) -> int:
        return g("BROADCAST_TO", v, g.ints(*IMAGE), version=2)

    d = g.sub(x, spread(g.mean(x, -1)))
    r = g("RSQRT", g.add(g.mean(g.mul(d, d), -1), g.const(1e-5)))
    y = g.add(g.mul(g.mul(d, spread(r)), g.weights(C)), g.weights(C))
    assert steps(*g.finish(y)) == ["LayerNorm"]


@pytest.mark.parametrize("end", ["root", "last"])
@pytest.mark.parametrize("square", ["SQUARE", "POW", "MUL"])
def test_rms_norm(square: str, end: str) -> None:
    g = Blocks(IMAGE)
    (x,) = g.inputs
    more = {"SQUARE": [], "POW": [g.const(2)], "MUL": [x]}[square]
    r = g("RSQRT", g.add(g.mean(g(square, x, *more), -1), g.const(1e-6)))
    w = g.weights(C)
    y = g.mul(x, g.mul(r, w)) if end == "root" else g.mul(w, g.mul(x, r))
    assert steps(*g.finish(y)) == ["RmsNorm"]


@pytest.mark.parametrize("end", ["folded", "last"])
def test_instance_norm(end: str) -> None:
    g = Blocks(IMAGE)
    y = _normalized(g, g.inputs[0], (1, 2), 48, end=end)
    assert steps(*g.finish(y)) == ["InstanceNorm"]


def _split(g: Blocks, x: int) -> int:
    """Keras: channels as groups, with the weights among them."""
    n, h, w, c = IMAGE
    y = g.reshape(x, n, h, w, GROUPS, c // GROUPS)
    weights = (1, 1, 1, GROUPS, c // GROUPS)
    y = _normalized(g, y, (1, 2, 4), h * w * c // GROUPS, end="folded", weights=weights)
    return g.reshape(y, *IMAGE)


def _split_flat(g: Blocks, x: int) -> int:
    """The same of pixels in a row, the weights behind it."""
    n, h, w, c = IMAGE
    y = g.reshape(x, n, h * w, GROUPS, c // GROUPS)
    y = g.reshape(_normalized(g, y, (1, 3), h * w * c // GROUPS), *IMAGE)
    return g.add(g.mul(y, g.weights(c)), g.weights(c))


def _planes(flat: bool) -> Callable[[Blocks, int], int]:
    """torch: channels first, between transposes."""

    def build(g: Blocks, x: int) -> int:
        n, h, w, c = IMAGE
        split = (n, GROUPS, c // GROUPS * h * w) if flat else (n, GROUPS, c // GROUPS, h * w)
        y = g.reshape(g.transpose(x, 0, 3, 1, 2), *split)
        axes = (2,) if flat else (2, 3)
        y = g.reshape(_normalized(g, y, axes, h * w * c // GROUPS), n, c, h, w)
        y = g.add(g.mul(y, g.weights(1, c, 1, 1)), g.weights(1, c, 1, 1))
        return g.transpose(y, 0, 2, 3, 1)

    return build


@pytest.mark.parametrize("build", [_split, _split_flat, _planes(True), _planes(False)])
def test_group_norm_between_convolutions(build: Callable[[Blocks, int], int]) -> None:
    g = Blocks(IMAGE)
    y = build(g, g.conv(g.inputs[0], C, C, 3))
    y = g.conv(g.mul(y, g("LOGISTIC", y)), C, 8)
    assert steps(*g.finish(y)) == ["Conv2d", "GroupNorm+Swish", "Conv2d"]


@pytest.mark.parametrize(
    ("axes", "count", "becomes"), [((1,), C, "LayerNorm"), ((2, 3), 48, "InstanceNorm")]
)
def test_a_norm_of_channels_first_between_transposes(axes: Axes, count: int, becomes: str) -> None:
    g = Blocks(IMAGE)
    y = g.transpose(g.conv(g.inputs[0], C, C), 0, 3, 1, 2)
    y = _normalized(g, y, axes, count, end="last", weights=(C, 1, 1))
    y = g.conv(g.transpose(y, 0, 2, 3, 1), C, 8)
    assert steps(*g.finish(y)) == ["Conv2d", becomes, "Conv2d"]


def test_weights_of_each_pixel_stay_a_step() -> None:
    g = Blocks(IMAGE)
    y = _normalized(g, g.inputs[0], (1, 2), 48)
    y = g.mul(y, g.weights(1, *IMAGE[1:3], 1))
    assert steps(*g.finish(y)) == ["InstanceNorm", "ElementWiseMultiply"]


@pytest.mark.parametrize("what", ["mean", "root", "other axis", "other numerator"])
def test_what_is_no_layer_norm_stays_arithmetic(what: str) -> None:
    g = Blocks(IMAGE)
    (x,) = g.inputs
    mean = g.mean(x, -1)
    d = g.sub(x, mean)
    r = g("RSQRT", g.add(g.mean(g.mul(d, d), 2 if what == "other axis" else -1), g.const(1e-3)))
    y = g.mul(g.sub(x, g.times(mean, 0.5)) if what == "other numerator" else d, r)
    outputs = {"mean": [y, mean], "root": [y, r]}.get(what, [y])
    found = steps(*g.finish(*outputs))
    assert "LayerNorm" not in found
    assert ("RmsNorm" in found) == (what in ("mean", "other axis"))


def _first_group_norm(g: Blocks, x: int) -> int:
    n, c, h, w = (IMAGE[0], C, *IMAGE[1:3])
    y = g.reshape(x, n, GROUPS, c // GROUPS * h * w)
    y = g.reshape(_normalized(g, y, (2,), h * w * c // GROUPS), n, c, h, w)
    return g.add(g.mul(y, g.weights(1, c, 1, 1)), g.weights(1, c, 1, 1))


FIRST = {
    "GroupNorm": _first_group_norm,
    "InstanceNorm": lambda g, x: _normalized(g, x, (2, 3), 48, end="last", weights=(C, 1, 1)),
    "LayerNorm": lambda g, x: _normalized(g, x, (1,), C, end="folded", weights=(C, 1, 1)),
}


@pytest.mark.parametrize("becomes", FIRST)
def test_residual_blocks_of_channels_first(becomes: str) -> None:
    """A norm of each sum, which no transpose has made."""
    g = Blocks((IMAGE[0], C, *IMAGE[1:3]))
    (x,) = g.inputs
    for _ in range(2):
        y = FIRST[becomes](g, x)
        y = g.mul(y, g("LOGISTIC", y))
        y = g.transpose(g.conv(g.transpose(y, 0, 2, 3, 1), C, C, 3), 0, 3, 1, 2)
        x = g.add(y, x)
    found = steps(*g.finish(x))
    block = [step for step in found if step != "Transpose"]
    assert len(found) - len(block) == 2
    # LayerNorm takes no activation.
    norm = ["LayerNorm", "Swish"] if becomes == "LayerNorm" else [f"{becomes}+Swish"]
    assert block == [*norm, "Conv2d+Add"] * 2


def test_a_norm_of_channels_first_alone_is_not_transposed() -> None:
    g = Blocks((IMAGE[0], C, *IMAGE[1:3]))
    found = steps(*g.finish(_normalized(g, *g.inputs, (2, 3), 48)))
    assert found == ["LayerNorm"]
