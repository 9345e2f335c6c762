"""Transformers on words."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .inputs import Built, Ids, Mask
from .layers import Attention, PostNorm, RootMeanSquareNorm


class Bert(nn.Module):
    def __init__(self, words: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(512, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            PostNorm(width, heads, 4 * width, eps=1e-12, explicit=True) for _ in range(depth)
        )
        self.register_buffer("places", torch.arange(length)[None])

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> Tensor:
        x = self.words(ids) + self.kinds(kinds) + self.positions(self.places[:, : ids.shape[1]])
        x = self.norm(x)
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, hidden)
        return x


def bert(tiny: bool) -> Built:
    """BERT-base, without what is behind its last layer."""
    words, length = (60, 10) if tiny else (30522, 128)
    module = Bert(words, length, *((32, 4, 2) if tiny else (768, 12, 12)))
    return module, {
        "ids": Ids((1, length), words),
        "mask": Mask((1, length), length // 8),
        "kinds": Ids((1, length), 2),
    }


class Projection(nn.Module):
    """GPT-2's product: its weights lie the other way round, its rows are those of a matrix."""

    transposed_weight = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return rows.view(*x.shape[:-1], self.weight.shape[1])


class Gpt2Layer(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = Projection(width, 3 * width), Projection(width, width)
        self.grow, self.shrink = Projection(width, 4 * width), Projection(4 * width, width)
        self.register_buffer(
            "seen", torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        )

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (
            part.view(shape).transpose(1, 2) for part in self.qkv(x).split(self.width, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        least = torch.finfo(torch.float32).min
        scores = torch.where(
            self.seen[:, :, :length, :length], scores, torch.full([], least, dtype=scores.dtype)
        )
        y = torch.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        y = self.grow(self.second(x))
        # "gelu_new", as its own code writes it out
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
        return x + self.shrink(y)


class Gpt2(nn.Module):
    """The scores of the next word at every place; the words' vectors serve at both ends."""

    def __init__(self, words: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.layers = nn.Sequential(*(Gpt2Layer(width, heads, length) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("places", torch.arange(length)[None])

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.positions(self.places[:, : ids.shape[1]])
        return functional.linear(self.norm(self.layers(x)), self.words.weight)


def gpt2(tiny: bool) -> Built:
    """GPT-2 small, 64 words at once."""
    words, length = (60, 9) if tiny else (50257, 64)
    module = Gpt2(words, length, *((32, 4, 2) if tiny else (768, 12, 12)))
    return module, {"ids": Ids((1, length), words)}


def turned(x: Tensor) -> Tensor:
    low, high = x.chunk(2, dim=-1)
    return torch.cat([-high, low], dim=-1)


class LlamaLayer(nn.Module):
    """Groups of heads share keys and values; positions are rotations of queries and keys."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.first, self.second = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, shared * self.size, bias=False)
        self.v = nn.Linear(width, shared * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.grow = nn.Linear(width, hidden, bias=False)
        self.shrink = nn.Linear(hidden, width, bias=False)

    def attention(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, length, self.shared, self.size).transpose(1, 2)
        v = self.v(x).view(batch, length, self.shared, self.size).transpose(1, 2)
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        times = self.heads // self.shared
        shape = (batch, self.shared, times, length, self.size)
        k = k[:, :, None].expand(shape).reshape(batch, self.heads, length, self.size)
        v = v[:, :, None].expand(shape).reshape(batch, self.heads, length, self.size)
        y = functional.scaled_dot_product_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.first(x), cos, sin, mask)
        y = self.second(x)
        return x + self.shrink(functional.silu(self.gate(y)) * self.grow(y))


class Llama(nn.Module):
    def __init__(
        self,
        words: int,
        length: int,
        width: int,
        heads: int,
        shared: int,
        hidden: int,
        depth: int,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, shared, hidden) for _ in range(depth))
        self.norm = RootMeanSquareNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        half = width // heads // 2
        speeds = 10000.0 ** (-torch.arange(half) / half)
        angles = torch.arange(length)[:, None] * torch.cat([speeds, speeds])[None]
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        least = torch.finfo(torch.float32).min
        self.register_buffer("mask", torch.full((length, length), least).triu(1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        n = ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:n], self.sin[:n], self.mask[:n, :n])
        return self.head(self.norm(x))


def llama(tiny: bool) -> Built:
    words, length = (60, 9) if tiny else (32000, 64)
    module = Llama(words, length, *((32, 4, 2, 48, 2) if tiny else (768, 12, 4, 2048, 6)))
    return module, {"ids": Ids((1, length), words)}


class T5Layer(nn.Module):
    """Scores are not scaled; a bias by distance is added. A decoder's also looks at `memory`."""

    def __init__(self, width: int, heads: int, hidden: int, decodes: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(3 if decodes else 2))
        self.own = T5Attention(width, heads)
        self.other = T5Attention(width, heads) if decodes else None
        self.feed = nn.Sequential(
            nn.Linear(width, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, width, bias=False)
        )

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.own(y, y, bias)
        if self.other is not None:
            assert memory is not None
            x = x + self.other(self.norms[1](x), memory, None)
        return x + self.feed(self.norms[-1](x))


class T5Attention(Attention):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, parts="")

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor | None) -> Tensor:  # type: ignore[override]
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        # Its weights are trained to be small where others divide; ours are random.
        scores = (q / self.size**0.5) @ k.transpose(-2, -1)
        if bias is not None:
            scores = scores + bias
        y = torch.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


def buckets(length: int, both: bool, count: int = 32, farthest: int = 128) -> Tensor:
    """Which of `count` biases two places have: one for a small distance, shared by large ones."""
    apart = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    first = torch.zeros_like(apart)
    if both:
        count //= 2
        first, apart = (apart > 0) * count, apart.abs()
    else:
        apart = (-apart).clamp(min=0)
    exact = count // 2
    scale = (count - exact) / math.log(farthest / exact)
    far = exact + (torch.log(apart.clamp(min=1) / exact) * scale).long()
    return first + torch.where(apart < exact, apart, far.clamp(max=count - 1))


class T5(nn.Module):
    def __init__(
        self,
        words: int,
        lengths: tuple[int, int],
        width: int,
        heads: int,
        hidden: int,
        depth: int,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(T5Layer(width, heads, hidden, False) for _ in range(depth))
        self.decoder = nn.ModuleList(T5Layer(width, heads, hidden, True) for _ in range(depth))
        self.norms = nn.ModuleList(RootMeanSquareNorm(width) for _ in range(2))
        self.biases = nn.ModuleList(nn.Embedding(32, heads) for _ in range(2))
        self.register_buffer("encoder_buckets", buckets(lengths[0], True))
        self.register_buffer("decoder_buckets", buckets(lengths[1], False))
        self.register_buffer("causal", torch.full((lengths[1],) * 2, -1e9).triu(1)[None, None])
        self.width = width

    def forward(self, ids: Tensor, decoder_ids: Tensor) -> Tensor:
        x, y = self.words(ids), self.words(decoder_ids)
        n, m = ids.shape[1], decoder_ids.shape[1]
        bias = self.biases[0](self.encoder_buckets[:n, :n]).permute(2, 0, 1)[None]
        for layer in self.encoder:
            x = layer(x, bias)
        x = self.norms[0](x)
        bias = self.biases[1](self.decoder_buckets[:m, :m]).permute(2, 0, 1)[None]
        bias = bias + self.causal[..., :m, :m]
        for layer in self.decoder:
            y = layer(y, bias, x)
        return functional.linear(self.norms[1](y), self.words.weight)


def t5(tiny: bool) -> Built:
    """T5-small: encoder and decoder."""
    words, lengths = (60, (10, 6)) if tiny else (32128, (64, 16))
    module = T5(words, lengths, *((32, 4, 48, 2) if tiny else (512, 8, 2048, 6)))
    return module, {"ids": Ids((1, lengths[0]), words), "decoder_ids": Ids((1, lengths[1]), words)}
