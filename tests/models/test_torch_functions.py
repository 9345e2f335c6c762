"""Functions of torch as its exporter writes them, compared with torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import qnnrt
from qnnrt.importers import onnx as importer

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

OPSET = 20
Case = tuple[Callable[..., object], tuple[Tensor, ...]]


class Function(nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*inputs)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def places(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


LINE, ROWS, IMAGE = numbers(2, 3, 8), numbers(4, 6), numbers(1, 3, 8, 8)
VOLUME = numbers(1, 2, 4, 5, 6)
#: Some of them outside of the image.
GRID, VOLUME_GRID = numbers(1, 5, 6, 2), numbers(1, 3, 4, 5, 3)
WORDS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])


def bag(mode: str) -> nn.EmbeddingBag:
    torch.manual_seed(0)
    return nn.EmbeddingBag(10, 4, mode=mode).requires_grad_(False)


def cases() -> Iterator[tuple[str, Case]]:
    for mode in ("constant", "reflect", "replicate", "circular"):
        for name, x, pads in (
            ("1d", LINE, (2, 3)), ("2d", IMAGE, (1, 2, 3, 1)), ("3d", VOLUME, (1, 2, 1, 1, 2, 0)),
        ):  # fmt: skip
            yield f"pad {mode} {name}", (lambda x, p=pads, m=mode: F.pad(x, p, m), (x,))
    yield "pad crops", (lambda x: F.pad(x, (-1, 2, -2, 1)), (IMAGE,))
    for mode in ("bilinear", "nearest", "bicubic"):
        for edge in ("zeros", "border", "reflection"):
            for aligned in (True, False):
                how = (mode, edge, aligned)
                label = f"grid_sample {mode} {edge} {aligned}"
                yield label, (lambda x, g, h=how: F.grid_sample(x, g, *h), (IMAGE, GRID))
                if mode != "bicubic":
                    inputs = VOLUME, VOLUME_GRID
                    yield f"{label} 3d", (lambda x, g, h=how: F.grid_sample(x, g, *h), inputs)
    for aligned in (True, False):
        for size in ((1, 3, 4, 5), (1, 3, 1, 5)):
            yield f"affine_grid {aligned} {size}", (
                lambda t, a=aligned, s=size: F.affine_grid(t, s, a), (numbers(1, 2, 3),)
            )  # fmt: skip
    for mode in ("nearest", "bilinear", "bicubic"):
        for scale in (1.5, 0.6, 2.0):
            yield f"interpolate {mode} {scale}", (
                lambda x, m=mode, s=scale: F.interpolate(x, scale_factor=s, mode=m), (IMAGE,)
            )  # fmt: skip
    yield "unfold", (lambda x: F.unfold(x, 3, padding=1, stride=2), (IMAGE,))
    yield "fold", (lambda x: F.fold(x, (8, 8), 3, padding=1, stride=2), (numbers(1, 27, 16),))
    for mode in ("sum", "mean", "max"):
        bags = bag(mode)
        yield f"embedding_bag {mode}", (bags, (WORDS.view(2, 4),))
        yield f"embedding_bag {mode} with offsets", (
            lambda i, b=bags: b(i, torch.tensor([0, 3, 5])), (WORDS,)
        )  # fmt: skip
    yield "index_put", (
        lambda x, i, v: x.clone().index_put((i,), v), (ROWS, torch.tensor([0, 2]), numbers(2, 6))
    )  # fmt: skip
    yield "scatter_reduce", (
        lambda x, i, v: x.scatter_reduce(1, i, v, "amax"), (ROWS, places(6, 4, 3), numbers(4, 3))
    )  # fmt: skip
    yield "topk", (lambda x: x.topk(3), (ROWS,))
    yield "sort", (lambda x: x.sort(1), (ROWS,))
    yield "roll", (lambda x: x.roll((1, 2), (2, 3)), (IMAGE,))
    yield "flip", (lambda x: x.flip(2, 3), (IMAGE,))
    yield "einsum", (lambda a, b: torch.einsum("bij,bkj->bik", a, b),
                     (numbers(2, 3, 4), numbers(2, 5, 4)))  # fmt: skip
    yield "bucketize", (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), (ROWS,))
    yield "one_hot", (lambda x: F.one_hot(x, 10), (WORDS,))
    yield "repeat_interleave", (
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 3]), 0), (ROWS,)
    )  # fmt: skip
    yield "cumsum", (lambda x: x.cumsum(1), (ROWS,))
    yield "var", (lambda x: x.var((2, 3), unbiased=False), (IMAGE,))
    yield "adaptive_max_pool2d", (lambda x: F.adaptive_max_pool2d(x, 2), (IMAGE,))
    yield "max_pool2d with indices", (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,))
    yield "pixel_shuffle", (lambda x: F.pixel_shuffle(x, 2), (numbers(1, 8, 3, 3),))
    yield "cdist", (lambda a, b: torch.cdist(a, b), (numbers(2, 4, 3), numbers(2, 5, 3)))
    yield "atan2", (torch.atan2, (ROWS, numbers(4, 6) + 1))
    yield "remainder", (lambda x: torch.remainder(x, 0.7), (ROWS,))
    yield "nan_to_num", (torch.nan_to_num, (ROWS,))
    yield "unbind", (lambda x: x.unbind(1)[2], (ROWS,))
    yield (
        "scaled_dot_product_attention",
        (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            (numbers(1, 2, 5, 8), numbers(1, 2, 5, 8) + 1, numbers(1, 2, 5, 8) - 1),
        ),
    )


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_torch(name: str) -> None:
    function, inputs = CASES[name]
    module = function if isinstance(function, nn.Module) else Function(function)
    module.eval()
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = module(*inputs)
        torch.onnx.export(module, inputs, file, dynamo=False, opset_version=OPSET)
    model = importer.load(file.getvalue())
    feeds = {n: x.numpy() for n, x in zip(model.inputs, inputs, strict=True)}
    with qnnrt.Session(model, "cpu", threads=1) as session:
        found = [y.copy() for y in session.run(feeds).values()]
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    for y, ref in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, ref.numpy(), rtol=1e-4, atol=2e-5)
