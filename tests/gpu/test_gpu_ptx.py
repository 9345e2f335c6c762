"""The instructions in tensor.cl are such that NVIDIA's assembler takes, and leave room."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qnnrt.gpu.ir import Lead, Node, Value
from qnnrt.gpu.ops import tensor
from qnnrt.gpu.ops.product import Product, Window
from qnnrt.gpu.target import Target
from support.gpu import ptx

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

if reason := ptx.why_not():
    pytest.skip(reason, allow_module_level=True)

DTYPES = [np.float16, np.float32]
#: Registers of a multiprocessor, from compute capability 8.0 to 9.0.
REGISTERS = 65536
#: Bytes of local memory that a kernel may declare, by the letter.
SHARED = 48 << 10
WINDOW = Window((14, 14), 256, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1))
POINTS = Window((14, 14), 256, (14, 14), (1, 1), (1, 1), (1, 1), (0, 0))
COLOURS = Window((224, 224), 3, (112, 112), (7, 7), (2, 2), (1, 1), (3, 3))


def product(
    dtype: Any,
    size: int = 256,
    turned: tuple[bool, bool] = (False, False),
    window: Window | None = None,
    lead: bool | None = None,
) -> Product:
    """Of square matrices, or a convolution, with a bias; with a ``lead``, which may end at 0."""
    dtype = np.dtype(dtype)
    depth = window.channels if window else size
    terms = Value("", 0, (depth,), dtype, 0, "static", np.ones(depth, dtype))
    first = None if lead is None else Lead(terms, terms, lead)
    a, b, bias, y = (Value("", 0, (size, size), dtype, 0, "native") for _ in range(4))
    return Product(
        Node("n", "MatMul", [a, b, bias], [y], {}, lead=first), a, b, bias, y, 1, size, size, depth,
        a_matrix=0, a_row=1 if turned[0] else depth, a_step=size if turned[0] else 1,
        b_count=1, b_matrix=0, b_step=1 if turned[1] else size, b_column=depth if turned[1] else 1,
        y_matrix=0, y_row=size, window=window,
    )  # fmt: skip


def used(x: Product, block: tensor.Block, folder: Path, parts: int = 1) -> list[ptx.Usage]:
    device: Any = SimpleNamespace(tensor_cores=True, raw=SimpleNamespace(max_compute_units=132))
    made = tensor.make(x, Target(device, tf32=True), block, parts)
    launch = next(launch for launch in made if launch.file in ("tensor", "mapped"))
    archs = ("sm_90a",) if block.grouped else ("sm_80", "sm_90")
    return [ptx.assembled(launch, arch, folder) for arch in archs]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", tensor.BLOCKS, ids=str)
def test_every_block_fits_a_device(block: tensor.Block, dtype: Any, tmp_path: Path) -> None:
    if block.local_bytes > SHARED:  # ptxas takes that from a driver alone
        fewer = "line" if block.slices > 1 else "stages"
        fits = getattr(block, fewer) * SHARED // block.local_bytes
        block = dataclasses.replace(block, **{fewer: fits})
    for usage in used(product(dtype, turned=(False, True)), block, tmp_path):
        assert usage.spilled == 0
        assert usage.local_bytes == block.local_bytes
        assert usage.registers * block.items <= REGISTERS


HOW = {
    "plain": {"turned": (False, False)},
    "turned": {"turned": (True, False)},
    "even": {"size": 254, "turned": (True, True)},
    "odd": {"size": 255},
    "fours": {"size": 252, "turned": (False, True)},
    "window": {"window": WINDOW, "turned": (False, True)},
    "colours": {"window": COLOURS, "turned": (False, True)},
    "scaled": {"window": POINTS, "turned": (False, True), "lead": False},
    "scaled, above 0": {"window": POINTS, "turned": (False, True), "lead": True},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_every_way_to_copy_and_to_read(how: dict[str, Any], dtype: Any, tmp_path: Path) -> None:
    for usage in used(product(dtype, **how), tensor.BLOCKS[0], tmp_path, parts=2):
        assert usage.spilled == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [*tensor.GROUPED, *tensor.MAPPED], ids=str)
def test_four_warps_together_wait_for_nothing(
    block: tensor.Block, dtype: Any, tmp_path: Path
) -> None:
    """With ``wgmma``, whose products follow one another while the compiler sees that nothing else
    has their registers. ptxas takes more local memory for sm_90a."""
    for name in ("plain", "turned") if block.maps else ("plain", "turned", "fours", "window"):
        (usage,) = used(product(dtype, **HOW[name]), block, tmp_path)
        assert usage.spilled == 0
        assert usage.local_bytes == block.local_bytes
        assert usage.registers * block.items * block.together <= REGISTERS, name
        assert not usage.serialized, name


def test_two_groups_of_the_first_block_run_at_a_time(tmp_path: Path) -> None:
    """By registers, with 16-bit floats; by local memory they do from 100 KiB on."""
    block = tensor.BLOCKS[0]
    for layout in ((False, False), (False, True)):
        for usage in used(product(np.float16, turned=layout), block, tmp_path):
            assert 2 * usage.registers * block.items <= REGISTERS
