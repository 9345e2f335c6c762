"""One-operator models of random shapes and options, for what the listed cases do not think of."""

from __future__ import annotations

import random
from collections.abc import Callable

from support.tflite.case import BOOL, F32, I32, I64, Case, Given, k, w, x

Chance = random.Random


def _shape(chance: Chance, low: int = 1, high: int = 5) -> tuple[int, ...]:
    return tuple(chance.randint(1, 6) for _ in range(chance.randint(low, high)))


def _narrower(chance: Chance, shape: tuple[int, ...]) -> tuple[int, ...]:
    """What broadcasts to `shape`."""
    ones = tuple(1 if chance.random() < 0.3 else d for d in shape)
    return ones[chance.randint(0, len(ones)) :] if chance.random() < 0.3 else ones


def conv(chance: Chance) -> Case:
    height, width, channels = (
        chance.randint(1, 4),
        chance.randint(1, 4),
        chance.choice((1, 3, 4, 8)),
    )
    groups = chance.choice([g for g in (1, 1, 2, 4) if channels % g == 0])
    out, apart = groups * chance.randint(1, 4), chance.choice((1, 1, 2, 3))
    rows = chance.randint((height - 1) * apart + 1, 14)
    given = x(chance.randint(1, 2), rows, chance.randint(width, 12), channels)
    weights = w(out, height, width, channels // groups)
    fields = {
        "strideH": chance.randint(1, 3),
        "strideW": chance.randint(1, 3),
        "dilationHFactor": apart,
        "dilationWFactor": 1,
        "padding": chance.randint(0, 1),
        "fusedActivationFunction": chance.randint(0, 3),
    }
    return Case("CONV_2D", [given, weights, w(out)], "Conv2DOptions", fields)


def transpose_conv(chance: Chance) -> Case:
    height, width, inner, out = (chance.randint(1, 4) for _ in range(4))
    n, rows, columns = chance.randint(1, 2), chance.randint(1, 6), chance.randint(1, 6)
    stride, padding = (chance.randint(1, 3), chance.randint(1, 3)), chance.randint(0, 1)
    if padding == 0:
        size = [rows * stride[0], columns * stride[1]]
        size = [d - chance.randint(0, s - 1) for d, s in zip(size, stride, strict=True)]
    else:
        size = [(rows - 1) * stride[0] + height, (columns - 1) * stride[1] + width]
    given: list[Given | None] = [k([n, *size, out]), w(out, height, width, inner)]
    given += [x(n, rows, columns, inner), w(out) if chance.random() < 0.6 else None]
    fields = {"strideH": stride[0], "strideW": stride[1], "padding": padding}
    return Case("TRANSPOSE_CONV", given, "TransposeConvOptions", fields, version=3)


def pool(chance: Chance) -> Case:
    height, width = chance.randint(1, 4), chance.randint(1, 4)
    shape = (chance.randint(1, 2), chance.randint(height, 10), chance.randint(width, 10))
    fields = {
        "strideH": chance.randint(1, 3),
        "strideW": chance.randint(1, 3),
        "filterHeight": height,
        "filterWidth": width,
        "padding": chance.randint(0, 1),
        "fusedActivationFunction": chance.randint(0, 3),
    }
    kind = chance.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    return Case(kind, [x(*shape, chance.randint(1, 5))], "Pool2DOptions", fields)


def product(chance: Chance) -> Case:
    batch = _shape(chance, 0, 2)
    rows, inner, columns = chance.randint(1, 6), chance.randint(1, 9), chance.randint(1, 6)
    turned = chance.random() < 0.5, chance.random() < 0.5
    first = (inner, rows) if turned[0] else (rows, inner)
    second = (columns, inner) if turned[1] else (inner, columns)
    given = [x(*batch, *first), x(*_narrower(chance, batch), *second)]
    fields = {"adjX": turned[0], "adjY": turned[1]}
    return Case("BATCH_MATMUL", given, "BatchMatMulOptions", fields)


def dense(chance: Chance) -> Case:
    inner, out = chance.randint(1, 17), chance.randint(1, 9)
    given = [x(*_shape(chance, 1, 3), inner), w(out, inner)]
    bias = w(out) if chance.random() < 0.7 else None
    fields = {
        "keepNumDims": chance.random() < 0.5,
        "fusedActivationFunction": chance.randint(0, 3),
    }
    return Case("FULLY_CONNECTED", [*given, bias], "FullyConnectedOptions", fields)


def pair(chance: Chance) -> Case:
    kind = chance.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"))
    shape = _shape(chance)
    shapes = [shape, _narrower(chance, shape)]
    chance.shuffle(shapes)
    given = [x(*shapes[0]), (w if chance.random() < 0.3 else x)(*shapes[1])]
    if kind in ("MAXIMUM", "MINIMUM"):
        return Case(kind, given)
    fields = {"fusedActivationFunction": chance.randint(0, 3)}
    return Case(kind, given, f"{kind.title()}Options", fields)


def reduction(chance: Chance) -> Case:
    shape = _shape(chance)
    axes = chance.sample(range(len(shape)), chance.randint(1, len(shape)))
    axes = [a - len(shape) if chance.random() < 0.3 else a for a in axes]
    kind = chance.choice(("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN"))
    fields = {"keepDims": chance.random() < 0.5}
    return Case(kind, [x(*shape), k(axes)], "ReducerOptions", fields)


def cut(chance: Chance) -> Case:
    shape = tuple(d + 1 for d in _shape(chance))
    count = chance.randint(1, len(shape))
    ranges = []
    for size in shape[:count]:
        first, last = sorted(chance.sample(range(size + 1), 2))
        forward = chance.random() < 0.7
        begin, end = (first, last) if forward else (last - 1, first - 1 - size)
        if not forward and first == 0:
            end = -size - 1
        ranges.append((begin, end, chance.choice((1, 1, 2, 3)) * (1 if forward else -1)))
    dtype = chance.choice((F32, F32, I32, I64, BOOL))
    given = [x(*shape, dtype=dtype), *(k(list(part)) for part in zip(*ranges, strict=True))]
    fields = {"beginMask": chance.getrandbits(count), "endMask": chance.getrandbits(count)}
    return Case("STRIDED_SLICE", given, "StridedSliceOptions", fields, outputs=(dtype,))


def pad(chance: Chance) -> Case:
    shape = _shape(chance)
    pads = [[chance.randint(0, 2), chance.randint(0, 2)] for _ in shape]
    return Case("PAD", [x(*shape), k(pads, chance.choice((I32, I64)))])


def resize(chance: Chance) -> Case:
    shape = (chance.randint(1, 2), *(chance.randint(1, 9) for _ in range(2)), chance.randint(1, 4))
    align, half = chance.choice(((False, False), (True, False), (False, True)))
    fields = {"alignCorners": align, "halfPixelCenters": half}
    kind, table = chance.choice((
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ))  # fmt: skip
    size = k([chance.randint(1, 17), chance.randint(1, 17)])
    return Case(kind, [x(*shape), size], table, fields, version=3)


FAMILIES: dict[str, Callable[[Chance], Case]] = {
    made.__name__: made
    for made in (conv, transpose_conv, pool, product, dense, pair, reduction, cut, pad, resize)
}


def random_case(family: str, seed: int) -> Case:
    """The same one for the same seed."""
    case = FAMILIES[family](random.Random(f"{family} {seed}"))
    case.label = str(seed)
    return case
