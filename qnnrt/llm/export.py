"""Writes a decoder of Hugging Face's transformers as one ONNX file whose cache has a fixed capacity
and is updated in place.

    python -m qnnrt.llm.export Qwen/Qwen2.5-0.5B folder --capacity 2048

The file's operators are ONNX's own (opset 24): TensorScatter writes the new keys and values into
the cache, Attention reads as many of its slots as are filled. Inputs and outputs:

- tokens, int64[batch, sequence]: what comes next in each of so many texts.
- position, int64[batch]: how many tokens of each the cache holds already.
- rows, int64[wanted]: which of the new tokens' logits are wanted.
- past_key_values.N.key and .value, float[batch, heads, capacity, size]: the cache of layer N.
- logits, float[batch, wanted, vocabulary].
- present.N.key and .value: the same cache, with the new tokens in it.

The dimensions `batch`, `sequence` and `wanted` are symbolic: `qnnrt.load(path, shapes=...)` chooses
them.
Needs the packages torch, transformers and onnxscript: ``pip install 'qnnrt[llm-export]'``.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, causal_mask_function
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .decoder import INPUTS

_OPSET = 24  # the first with TensorScatter and the number of valid keys of an Attention


def _op(
    name: str, dtype: torch.dtype, shape: Sequence[Any], inputs: Sequence[Any], **attributes: Any
) -> torch.Tensor:
    """A node of the exported graph."""
    result: torch.Tensor = torch.onnx.ops.symbolic(
        name, inputs, attributes, dtype=dtype, shape=shape, version=_OPSET
    )
    return result


class _Cache:
    """What a model takes for its cache, as far as any is asked."""

    is_compileable = False

    def __init__(self, capacity: int):
        self.capacity = capacity

    def get_seq_length(self, layer: int = 0) -> int:
        return 0  # positions are given

    def get_query_offset(self, layer: int = 0) -> int:
        return 0

    def get_mask_sizes(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.capacity, 0


class _SlotCache(_Cache):
    """Tensors with a slot for each position, of each layer in `layers`."""

    def __init__(
        self,
        layers: Sequence[int],
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        at: torch.Tensor,
    ):
        super().__init__(keys[0].shape[2])
        self.keys, self.values, self._layers, self._at = list(keys), list(values), layers, at

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        i = self._layers.index(layer)
        for parts, new in ((self.keys, key), (self.values, value)):
            parts[i] = self._written(parts[i], new)
        return self.keys[i], self.values[i]

    def _written(self, slots: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return _op("TensorScatter", slots.dtype, slots.shape, (slots, new, self._at), axis=2)

    def __len__(self) -> int:
        return len(self.keys)


class _EagerSlotCache(_SlotCache):
    """The same for one text that torch computes."""

    def _written(self, slots: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        at = int(self._at)
        slots = slots.clone()
        slots[:, :, at : at + new.shape[2]] = new
        return slots


class _Seen(_Cache):
    """Notes what a model would put into its cache: layer -> shapes of its keys and values. Layers
    may differ, and some read what another one has put there."""

    def __init__(self, capacity: int):
        super().__init__(capacity)
        self.shapes: dict[int, tuple[torch.Size, torch.Size]] = {}

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.shapes[layer] = key.shape, value.shape
        keys, values = (x.new_zeros(*x.shape[:2], self.capacity, x.shape[3]) for x in (key, value))
        return keys, values

    def __len__(self) -> int:
        return len(self.shapes)


@dataclass
class _Run:
    """A run of a model: the positions of its tokens, [batch, sequence], the slots that are filled
    behind them, and those that there are. `fused`: attention is one node. `added`: masks are added
    to scores. `attentions` counts how often transformers was asked to attend."""

    at: torch.Tensor
    filled: torch.Tensor
    capacity: int
    fused: bool
    added: torch.dtype | None
    attentions: int = 0


_runs: list[_Run] = []


class _Complex:
    """What a model takes for complex numbers, which ONNX does not have: `pairs` of real ones, in a
    last dimension of two. As far as those who turn pairs by angles ask for it."""

    def __init__(self, pairs: torch.Tensor):
        self.pairs, self.device = pairs, pairs.device

    def to(self, *_: Any, **__: Any) -> _Complex:
        return self

    def unsqueeze(self, dim: int) -> _Complex:
        return _Complex(self.pairs.unsqueeze(dim if dim >= 0 else dim - 1))

    def __getitem__(self, at: Any) -> _Complex:
        return _Complex(self.pairs[(*at, slice(None)) if isinstance(at, tuple) else at])

    def __mul__(self, other: Any) -> _Complex:
        if not isinstance(other, _Complex):
            return _Complex(self.pairs * other)
        (a, b), (c, d) = self.pairs.unbind(-1), other.pairs.unbind(-1)
        return _Complex(torch.stack((a * c - b * d, a * d + b * c), -1))

    __rmul__ = __mul__


@contextmanager
def _real_numbers() -> Iterator[None]:
    """Torch makes `_Complex` of what would be complex tensors."""
    instead = {
        "polar": lambda size, angle: _Complex(
            torch.stack((size * angle.cos(), size * angle.sin()), -1)
        ),
        "complex": lambda real, imag: _Complex(torch.stack((real, imag), -1)),
        "view_as_complex": _Complex,
        "view_as_real": lambda numbers: numbers.pairs,
    }
    before = {name: getattr(torch, name) for name in instead}
    for name, function in instead.items():
        setattr(torch, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch, name, function)


def _mask(*, mask_function: Callable[..., torch.Tensor], **_: Any) -> torch.Tensor:
    """transformers asks for a mask: which slots each token sees, [batch, 1, sequence, slots]."""
    run = _runs[-1]
    slots = torch.arange(run.capacity)[None, None, None, :]
    mask = mask_function(0, 0, run.at[:, None, :, None], slots)
    if run.added is None:
        return mask
    return torch.zeros_like(mask, dtype=run.added).masked_fill(~mask, torch.finfo(run.added).min)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    if kwargs.get("position_bias") is not None:
        raise NotImplementedError("an attention with position_bias is not exported")
    run = _runs[-1]
    run.attentions += 1
    mask = attention_mask
    if mask is None:  # a model that makes masks by itself, and has none without padding
        mask = _mask(mask_function=causal_mask_function)
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    softcap, sinks = kwargs.get("softcap"), kwargs.get("s_aux")
    if sinks is not None or not run.fused:
        result = _attended(query, key, value, mask, scale, softcap, sinks)
    else:
        attributes = {"scale": scale} | ({} if softcap is None else {"softcap": float(softcap)})
        shape = (*query.shape[:3], value.shape[3])
        inputs = (query, key, value, mask, None, None, run.filled)
        result = _op("Attention", query.dtype, shape, inputs, **attributes)
    return result.transpose(1, 2).contiguous(), None


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """What the operator computes, by products. `sinks`: a score of each head that nothing has."""
    heads = query.shape[1]
    groups = heads // key.shape[1]  # of queries that share keys
    rows = query.reshape(query.shape[0], key.shape[1], -1, query.shape[3])
    scores = (rows @ key.transpose(2, 3)) * scale
    scores = scores.reshape(query.shape[0], heads, -1, key.shape[2])
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    else:
        scores = scores + mask
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).to(scores.dtype).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], dim=3)
    parts = torch.softmax(scores, dim=3)[..., : key.shape[2]]
    parts = parts.reshape(query.shape[0], heads // groups, -1, key.shape[2])
    return (parts @ value).reshape(query.shape[0], heads, -1, value.shape[3])


def _caches(
    shapes: list[tuple[torch.Size, torch.Size]], batch: int, capacity: int, dtype: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Empty slots, for the keys and values of each layer."""
    keys, values = (
        [torch.zeros(batch, s[1], capacity, s[3], dtype=dtype) for s in part]
        for part in zip(*shapes, strict=True)
    )
    return keys, values


def _text(model: PreTrainedModel) -> Any:
    """The configuration of the decoder, which may be one part of a model's."""
    return model.config.get_text_config(decoder=True)


class _Step(torch.nn.Module):
    def __init__(self, model: PreTrainedModel, capacity: int):
        super().__init__()
        self.model, self.capacity = model, capacity
        named = "cache" in inspect.signature(model.forward).parameters  # by its newer name
        self._cache_name = "cache" if named else "past_key_values"
        self.layers: list[int] = []  # that have a cache
        self.own_code = False  # attention, of which masks are added to scores

    def shapes(self) -> list[tuple[torch.Size, torch.Size]]:
        """Of the keys and values that each of `layers` caches, which it finds by running the model.

        Raises ValueError: the model computes something else with a cache of slots.
        """
        tokens, position = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        seen = _Seen(self.capacity)
        attentions = self._run(tokens, position, position, seen)[1]
        self.own_code = attentions < max(_text(self.model).num_hidden_layers, len(seen))
        self.layers = sorted(seen.shapes)
        shapes = [seen.shapes[layer] for layer in self.layers]
        if self.own_code or self.model.dtype == torch.float32:  # else no better than by chance
            self._check(shapes)
        return shapes

    def forward(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        rows: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        cache = _SlotCache(self.layers, keys, values, position)
        logits, _ = self._run(tokens, position, rows, cache, fused=True)
        return logits, cache.keys, cache.values

    def _check(self, shapes: list[tuple[torch.Size, torch.Size]]) -> None:
        """Reads some tokens in two parts, and compares with what the model has for them by itself.

        Raises ValueError: the logits are others.
        """
        why, tokens = type(self.model).__name__, min(12, self.capacity)
        if self.own_code:
            why += " computes attention by code of its own, not by transformers' interface"
        if not shapes:
            raise ValueError(f"{why}, and puts no keys and values into a cache")
        random = torch.Generator().manual_seed(1)
        text = torch.randint(_text(self.model).vocab_size, (1, tokens), generator=random)
        keys, values = _caches(shapes, 1, self.capacity, self.model.dtype)
        position = torch.zeros(1, dtype=torch.int64)
        for part in (text[:, : tokens // 2], text[:, tokens // 2 :]):
            cache = _EagerSlotCache(self.layers, keys, values, position)
            logits, _ = self._run(part, position, torch.tensor([part.shape[1] - 1]), cache)
            keys, values, position = cache.keys, cache.values, position + part.shape[1]
        own = self._by_itself(text)
        difference = float((logits[:, -1] - own).abs().max() / own.abs().max())
        if not difference < (1e-3 if self.model.dtype == torch.float32 else 0.1):
            raise ValueError(
                f"{why}: with a cache that has slots for all positions its logits differ by "
                f"{difference:.1g} of the largest one"
            )

    def _by_itself(self, text: torch.Tensor) -> torch.Tensor:
        config = _text(self.model)
        slots = config._attn_implementation
        config._attn_implementation = "eager"
        try:
            logits: torch.Tensor = self.model(input_ids=text, use_cache=False).logits
        finally:
            config._attn_implementation = slots
        return logits[:, -1]

    def _run(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        rows: torch.Tensor,
        cache: _Cache,
        fused: bool = False,
    ) -> tuple[torch.Tensor, int]:
        """The logits, and how often transformers was asked to attend."""
        at = position[:, None] + torch.arange(tokens.shape[1])[None, :]
        added = self.model.dtype if self.own_code else None
        _runs.append(_Run(at, position + tokens.shape[1], self.capacity, fused, added))
        try:
            with _real_numbers():
                out = self.model(
                    input_ids=tokens,
                    position_ids=at,
                    use_cache=True,
                    logits_to_keep=rows,
                    **{self._cache_name: cache},
                )
        finally:
            attentions = _runs.pop().attentions
        return out.logits, attentions


def _check(model: PreTrainedModel, capacity: int) -> None:
    config = _text(model)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if others := kinds - {"full_attention", "sliding_attention", "chunked_attention"}:
        raise ValueError(
            f"{type(model).__name__} has layers of other kinds than attention "
            f"({', '.join(sorted(others))}), which a cache of keys and values does not serve"
        )
    longest = getattr(config, "max_position_embeddings", capacity)
    if not 2 <= capacity <= longest:
        raise ValueError(f"capacity is {capacity}; this model has positions for 2 to {longest}")
    tuned = getattr(config, "attn_temperature_tuning", False)
    if tuned and capacity >= (scale := getattr(config, "floor_scale", capacity + 1)):
        # Where that begins to count: before, the factor is 1.
        raise ValueError(
            f"capacity is {capacity}; from {scale:.0f} tokens on {type(model).__name__} multiplies "
            "queries by what a cache of its own says of positions: export it with fewer"
        )


@contextmanager
def _named(model: PreTrainedModel, what: str) -> Iterator[None]:
    """Errors of a model's own code, or of torch about it, in one line each."""
    try:
        yield
    except (ValueError, MemoryError):
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = next(iter(str(cause).strip().splitlines()), "")
        raise ValueError(
            f"{type(model).__name__} {what}: {type(cause).__name__}: {line}"
        ) from error


def export(model: PreTrainedModel, path: str | Path, *, capacity: int = 2048) -> Path:
    """Writes `model`, a decoder of transformers, to `path` (weights beside it in ``<path>.data``).

    capacity: slots of the cache, the longest text in tokens. The dtype is the model's.
    Errors: ValueError for a model with layers that such a cache does not serve, or a capacity that
    its positions do not.
    """
    _check(model, capacity)
    config = _text(model)
    # Sizes that nothing else in a model has, so that none is taken for a constant.
    batch, sequence, wanted = 5, 7, 3
    ALL_ATTENTION_FUNCTIONS.register("qnnrt_slots", _attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("qnnrt_slots", _mask)
    before = config._attn_implementation
    config._attn_implementation = "qnnrt_slots"
    experts = getattr(config, "_experts_implementation", None)
    if experts is not None:  # in one product with the weights of those that are chosen
        model.set_experts_implementation("batched_mm")
    try:
        step = _Step(model, capacity).eval()
        with torch.no_grad(), _named(model, "does not run with a cache that has slots"):
            shapes = step.shapes()
        layers = len(shapes)
        example = (
            torch.zeros(batch, sequence, dtype=torch.int64),
            torch.zeros(batch, dtype=torch.int64),
            torch.zeros(wanted, dtype=torch.int64),
            *_caches(shapes, batch, capacity, model.dtype),
        )
        slots = [{0: "batch"}] * layers
        parts = [f"{n}.{part}" for part in ("key", "value") for n in range(layers)]
        with torch.no_grad(), _named(model, "is not converted by torch"):
            program = torch.onnx.export(
                step,
                example,
                dynamo=True,
                opset_version=_OPSET,
                dynamic_shapes=(
                    {0: "batch", 1: "sequence"},
                    {0: "batch"},
                    {0: "wanted"},
                    slots,
                    slots,
                ),
                input_names=[*INPUTS, *(f"past_key_values.{p}" for p in parts)],
                output_names=["logits", *(f"present.{p}" for p in parts)],
                verbose=False,
            )
    finally:
        config._attn_implementation = before
        if experts is not None:
            model.set_experts_implementation(experts)
    assert program is not None
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(path, external_data=True)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m qnnrt.llm.export", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "model", help="a folder with a model of transformers, or its name on the hub"
    )
    parser.add_argument("folder", type=Path, help="gets model.onnx and tokenizer.json")
    parser.add_argument(
        "--capacity", type=int, default=2048, help="slots of the cache (default 2048)"
    )
    args = parser.parse_args(arguments)
    try:
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        export(model, args.folder / "model.onnx", capacity=args.capacity)
    except (OSError, ValueError) as error:  # no such model, or one that cannot be exported
        parser.exit(1, f"{parser.prog}: error: {' '.join(str(error).split())}\n")
    tokenizer.save_pretrained(args.folder)
    ends = model.generation_config.eos_token_id
    settings = {"end": ends if isinstance(ends, list) else [] if ends is None else [ends]}
    (args.folder / "qnnrt.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    main()
