"""Run by test_gpu_ops_tiles.py on oclgrind's device: every kind of kernel for products on the same
cases, whose memory accesses are checked, against the cpu backend."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import numpy as np
import test_gpu_ops_conv as conv
import test_gpu_ops_matmul as matmul

import qnnrt
from qnnrt.gpu import tune
from qnnrt.gpu.ir import Launch
from qnnrt.gpu.ops import gemm, tensor, tiles
from qnnrt.gpu.ops.product import Product
from qnnrt.gpu.target import Target
from support.gpu.cases import against_cpu, normal
from support.one_node import Case, case

#: A small one, since every access is simulated, and one whose work items are not square.
SMALL = tiles.Tile(16, 32, 8, 4, 4, 1.0)
OBLONG = tiles.Tile(32, 32, 16, 8, 4, 1.0)
FLAT = tensor.Block(32, 64, 64, 1, 2, 2)
UPRIGHT = tensor.Block(64, 32, 64, 2, 1, 3)
SLICED = tensor.Block(32, 32, 64, 1, 1, 2, slices=3)
#: Tiles one after the other, as by tensor maps: whole pieces of 16 bytes.
MAPPED = tensor.Block(64, 64, 128, 4, 1, 2, grouped=True, copiers=32, maps=True)


def main() -> None:
    cases = [matmul.product(seed) for seed in (1, 7)]
    cases += [matmul.product(4, np.float16), conv.convolution(60, np.float16)]
    cases += [conv.convolution(seed) for seed in (0, 2, 3, 13)]
    for tile, parts in ((SMALL, 1), (SMALL, 3), (OBLONG, 2)):
        use = functools.partial(tiles.tiles, tile=tile, parts=parts)
        run(use, cases)
        # Sizes that are multiples of the tiles' and of vectors.
        turned = {"transpose_in0": True, "transpose_in1": True}
        a, b, flat = normal(64, 32), normal(32, 64), (64, 64)
        run(use, [case("MatMul", [a, b, normal(64)], [flat]), case("MatMul", [b, a], [(32, 32)])])
        run(use, [case("MatMul", [normal(64, 32), normal(32, 64)], [(32, 32)], turned)])
    # What tensor cores do, done by the kernel, which rounds 32-bit floats.
    half = [matmul.product(4, np.float16), conv.convolution(60, np.float16)]
    half += [matmul.product(seed, np.float16) for seed in (1, 7)]
    half.append(conv.convolution(13, np.float16))
    for block, parts in ((FLAT, 1), (UPRIGHT, 2), (SLICED, 1)):
        run(functools.partial(tensor.make, block=block, parts=parts), half)
    run(functools.partial(tensor.make, block=FLAT, parts=1), cases[:2], rtol=2e-3)
    a, b = normal(72, 136, dtype=np.float16), normal(136, 72, dtype=np.float16)
    mapped = case("MatMul", [a, b], [(72, 72)])
    run(functools.partial(tensor.make, block=MAPPED, parts=1), [mapped])
    w = normal(9, 44)
    run(
        tiles.dots,
        [
            case("FullyConnected", [normal(rows, 44, dtype=t), w.astype(t), None], [(rows, 9)])
            for rows, t in ((1, np.float32), (3, np.float32), (4, np.float16))
        ]
        # Of more terms than are on their way at a time.
        + [
            case("FullyConnected", [normal(rows, k), normal(9, k), None], [(rows, 9)])
            for rows, k in ((1, 1500), (1, 301), (3, 700))
        ]
        + [
            case("FullyConnected", [normal(2, k, dtype=h), w, None], [(2, 9)])
            for h, k in ((np.float16, 48), (np.float16, 2600))
            for w in (normal(9, k, dtype=h),)
        ]
        + [case("MatMul", [normal(3, 2, 7), normal(3, 7, 5)], [(3, 2, 5)], static=[1])],
    )


def run(use: Callable[..., list[Launch]], cases: list[Case], **near: float) -> None:
    """Cases with one variant of the kernels."""

    def only(x: Product, target: Target) -> tune.Variants:
        return {"only": functools.partial(use, x, target)}

    usual, gemm.variants = gemm.variants, only
    against_cpu(*cases, terms=100, **near)
    gemm.variants = usual


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with qnnrt.qnn.Backend.shared("gpu"):
        main()
    print("all agree")
