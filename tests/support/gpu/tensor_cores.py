"""What tests of products on tensor cores share: tiles, products, and a GPU that is not there."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qnnrt.gpu import tune
from qnnrt.gpu.ops import gemm, tensor
from qnnrt.gpu.ops.product import Product
from qnnrt.gpu.target import Target
from support.one_node import Case, case

F32 = np.dtype(np.float32)
DTYPES = [np.float16, np.float32]
#: Small ones, since drivers of CPUs compile them for long; tiles of other shapes than square.
TALL = tensor.Block(64, 32, 64, 2, 1, 3)
WIDE = tensor.Block(32, 64, 64, 1, 2, 2)
DEEP = tensor.Block(64, 32, 128, 2, 1, 4)
#: The next words are loaded early: with one step a stage, and with several.
FLAT_AHEAD = tensor.Block(32, 64, 32, 1, 2, 4, ahead=True)
DEEP_AHEAD = tensor.Block(64, 32, 128, 2, 1, 2, ahead=True)
#: Slices of the sum, and some that are ahead.
SLICED = tensor.Block(32, 64, 64, 1, 2, 3, slices=3)
SLICED_AHEAD = tensor.Block(64, 32, 128, 2, 1, 2, ahead=True, slices=2)
#: Four warps multiply together: one group of them, and two, of two blocks each.
FOUR = tensor.Block(64, 64, 128, 4, 1, 3, grouped=True)
EIGHT = tensor.Block(256, 64, 128, 8, 1, 4, grouped=True)
#: Others copy for them.
SERVED = tensor.Block(64, 64, 128, 4, 1, 4, grouped=True, copiers=32)
#: Tiles come one after the other, by tensor maps.
MAPPED = dataclasses.replace(SERVED, maps=True)
MAPPED_EIGHT = dataclasses.replace(MAPPED, rows=128, columns=128, down=8, stages=3)

Use = Callable[..., None]


@pytest.fixture(name="only")
def by_one_variant(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Products by one variant from now on."""

    def use(block: tensor.Block, parts: int = 1) -> None:
        def variants(x: Product, target: Target) -> tune.Variants:
            return {"only": functools.partial(tensor.make, x, target, block, parts)}

        monkeypatch.setattr(gemm, "variants", variants)

    return use


def numbers(*shape: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Small whole ones: sums of their products are whole, and exact in every precision."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def product(
    sizes: tuple[int, int, int], layout: tuple[bool, bool], dtype: Any, **more: Any
) -> Case:
    m, n, k = sizes
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1)
    turned = [x.T if turn else x for x, turn in zip((a, b), layout, strict=True)]
    params = dict(zip(("transpose_in0", "transpose_in1"), layout, strict=True))
    return case("MatMul", turned, [(m, n)], params, **more)


def described(extensions: str, major: int) -> SimpleNamespace:
    """A GPU as pyopencl has it, and as libQnnGpu.so tells its compiler."""
    return SimpleNamespace(
        name="d", type=4, version="v", driver_version="1", host_unified_memory=0,
        mem_base_addr_align=1024, extensions=extensions, compute_capability_major_nv=major,
        max_compute_units=132, max_work_group_size=1024, local_mem_size=48 << 10,
        max_mem_alloc_size=1 << 34, native_vector_width_float=1,
        platform=SimpleNamespace(name="p"),
    )  # fmt: skip
