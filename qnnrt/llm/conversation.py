"""A text and its key-value cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._native import _core
from .decoder import Decoder, Slots
from .sampling import Sampler, Sampling

Buffer: TypeAlias = _core.Buffer
Prefix: TypeAlias = _core.Prefix


class Conversation(_core.Text):
    """A text that grows, and the cache in which a `Decoder` has read it.

    Attributes:
        model: the weights and graphs; several conversations share one.
        tokens: the text so far.
    """

    model: Decoder
    _logits: NDArray[np.floating] | None

    def __init__(self, model: Decoder, prefix: Prefix | bytes | None = None) -> None:
        """
        Args:
            prefix: where to go on; or a message about it (`Prefix.to_bytes`), which is received.

        Raises:
            ValueError: the prefix is of a model with another cache.
            HandoffError: the message is none, or its memory is gone.
        """
        self.model = model
        if prefix is None:
            self._tokens: list[int] = []
        elif isinstance(prefix, bytes):
            model._receive(prefix, self)
        else:
            self._go_on(prefix)

    @property
    def tokens(self) -> list[int]:
        if self._prefix is not None:
            self._tokens, self._prefix = self._prefix._list(), None
        return self._tokens

    @tokens.setter
    def tokens(self, tokens: list[int]) -> None:
        self._tokens, self._prefix = tokens, None

    @property
    def cache(self) -> Buffer:
        """The buffer with the keys and values of all layers; in a `Batch`, of all its texts."""
        return self._slots.buffer

    def _move(self, slots: Slots | None) -> None:
        """To where the text has not been read; None: a cache of its own, made when needed."""
        self._own, self._read = slots, 0

    @property
    def prefix(self) -> Prefix:
        """The text so far, to go on from in another conversation or process. One writer at a time:
        a conversation that goes on from it overwrites what another wrote behind the same text."""
        self._catch_up()
        slots = self._slots
        return Prefix(tuple(self.tokens), slots.buffer, slots.rows, slots.first)

    @property
    def text(self) -> str:
        return str(self._tokenizer.decode(self.tokens))

    @property
    def logits(self) -> NDArray[np.floating]:
        """[vocabulary]: of the token that follows. Raises ValueError: the text is empty."""
        if not self.tokens:
            raise ValueError("the text is empty: append something first")
        if self._logits is None:
            self._read = min(self._read, len(self.tokens) - 1)  # the last one again
            self._catch_up()
        assert self._logits is not None
        return self._logits

    def append(self, text: str | Sequence[int]) -> None:
        """Add to the text, which is read at once: tokens, or text where there is a tokenizer.

        Raises ValueError, and leaves the text as it was: it would be longer than the cache, or has
        a token that the model does not have.
        """
        for _ in self._reading(text, every_row=False):
            pass

    def score(self, text: str | Sequence[int]) -> NDArray[np.float64]:
        """Add to the text, and say how likely it was: the logarithm of each new token's probability
        behind all that comes before it. Of the first token of an empty text, which nothing
        precedes, there is none.

        Returns: float64[new tokens], or one fewer.
        Raises ValueError: as `append`.
        """
        before = [self.logits] if self.tokens else []
        start = len(self.tokens) + 1 - len(before)
        rows = [row for part in self._reading(text, every_row=True) for row in part]
        # The last row is of what comes next.
        pairs = zip([*before, *rows], self.tokens[start:], strict=False)
        return np.array([_log_probability(logits, token) for logits, token in pairs])

    def rewind(self, length: int) -> None:
        """Forget what comes behind the first `length` tokens. Costs nothing: the cache stays as it
        is.

        Raises ValueError: the text is not that long.
        """
        length = index(length)
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot rewind to {length}: the text has {len(self.tokens)} tokens")
        if length < len(self.tokens):
            del self.tokens[length:]
            self._read = min(self._read, length)
            self._logits = None

    def generate(
        self,
        max_tokens: int | None = None,
        sampling: Sampling | None = None,
        *,
        draft: Conversation | None = None,
        **sampled: Any,
    ) -> Iterator[int]:
        """Tokens one by one, which are added to the text as they come; ends behind one of
        `model.end`, behind `max_tokens`, or when the cache is full.

        Args:
            sampling: how tokens are drawn; or its parameters by name. The likeliest unless given.
            draft: a conversation with a smaller model of the same tokens. It proposes what
                follows, and this model checks `model.verify` tokens in one run. The tokens are
                the same as without one, for they are drawn from this model's logits.

        Raises ValueError, with the first token: the text is empty, or its own draft.
        """
        if draft is self:
            raise ValueError("a text cannot be its own draft: that is another conversation")
        sampler = Sampler(Sampling(**sampled) if sampling is None else sampling)
        left = self.model.capacity if max_tokens is None else index(max_tokens)
        while left > 0 and len(self.tokens) < self.model.capacity:
            count = min(left - 1, self.model.verify)
            proposed = [] if draft is None else draft._propose(self, count)
            for token in self._verified(sampler, proposed):
                yield token
                left -= 1
                if token in self.model.end:
                    return

    def stream(self, *arguments: Any, **options: Any) -> Iterator[str]:
        """As `generate`, as pieces of text."""
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=True)
        for token in self.generate(*arguments, **options):
            piece = stream.step(self._tokenizer, token)
            if piece is not None:
                yield piece

    def _propose(self, other: Conversation, count: int) -> list[int]:
        """The likeliest tokens behind the text of `other`, whose text this one takes over."""
        same = 0
        for mine, its in zip(self.tokens, other.tokens, strict=False):
            if mine != its:
                break
            same += 1
        self.rewind(same)
        room = min(self.model.capacity, other.model.capacity) - len(other.tokens)
        count = min(count, room - 1)
        rest = other.tokens[same:]
        if count < 1 or len(other.tokens) > self.model.capacity:
            return []
        if rest and max(rest) >= self.model.vocabulary:  # which may be smaller
            return []
        self.append(rest)
        known = other.model.vocabulary
        return list(takewhile(lambda token: token < known, self.generate(count)))

    def _verified(self, sampler: Sampler, proposed: list[int]) -> Iterator[int]:
        """The next token, and those behind it as far as the proposed ones turn out to be them."""
        token = sampler(self.logits)
        if not proposed or token != proposed[0]:
            self._add(token)
            yield token
            return
        start, size = len(self.tokens), self.model.verify
        if start + size > self.model.capacity:
            size = len(proposed)
        rows = self.model._run(self._slots, [proposed], [start], range(size), size)[0]
        for i, logits in enumerate(rows[: len(proposed)]):
            self.tokens.append(token)
            self._read, self._logits = len(self.tokens), logits
            yield token
            if token in self.model.end:
                return
            token = sampler(logits)
            if i + 1 == len(proposed) or token != proposed[i + 1]:
                break
        if len(self.tokens) < self.model.capacity:
            self._add(token)
            yield token

    def _add(self, token: int) -> None:
        self.tokens.append(token)
        self._logits = None

    def _reading(
        self, text: str | Sequence[int], *, every_row: bool
    ) -> Iterator[NDArray[np.floating]]:
        """Adds to the text, and gives what `_read_on` does; an error leaves the text as it was."""
        tokens = (
            self._tokenizer.encode(text).ids if isinstance(text, str) else list(map(index, text))
        )
        self._check(tokens)
        before = len(self.tokens)
        self.tokens.extend(tokens)
        try:
            yield from self._read_on(every_row=every_row)
        except BaseException:
            del self.tokens[before:]
            self._read, self._logits = min(self._read, before), None
            raise

    def _read_on(
        self, end: int | None = None, *, every_row: bool = False
    ) -> Iterator[NDArray[np.floating]]:
        """Reads what is not in the cache yet, of the first `end` tokens or all, in the largest
        chunks that fit: the logits of each chunk's last token, or of all its tokens."""
        end = len(self.tokens) if end is None else end
        while self._read < end:
            size = self._chunk(end - self._read)
            tokens = self.tokens[self._read : min(self._read + size, end)]
            rows = range(size) if every_row else [len(tokens) - 1]
            made = self.model._run(self._slots, [tokens], [self._read], rows, size)
            logits = made[0, : len(tokens)]
            self._logits = logits[-1]
            self._read += len(tokens)
            yield logits

    def _catch_up(self, end: int | None = None) -> None:
        for _ in self._read_on(end):
            pass

    def _chunk(self, rest: int) -> int:
        """The smallest chunk that takes all of the rest, if less than half of it would be idle and
        the cache has room for it; else the largest that is filled."""
        for size in reversed(self.model.chunks):
            if rest <= size < 2 * rest and self._read + size <= self.model.capacity:
                return size
        return next(size for size in self.model.chunks if size <= rest)

    def _check(self, tokens: Sequence[int]) -> None:
        if len(self.tokens) + len(tokens) > self.model.capacity:
            raise ValueError(
                f"the text has {len(self.tokens)} tokens and {len(tokens)} more do not fit into a "
                f"cache of {self.model.capacity}: rewind, or export it with more"
            )
        wrong = [t for t in tokens if not 0 <= t < self.model.vocabulary]
        if wrong:
            raise ValueError(f"token {wrong[0]} is not one of the model's {self.model.vocabulary}")

    @property
    def _tokenizer(self) -> Any:
        if self.model.tokenizer is None:
            raise ValueError(
                "there is no tokenizer.json beside the model, or the package tokenizers is not "
                "installed (pip install 'qnnrt[llm]'): pass tokens"
            )
        return self.model.tokenizer


def _log_probability(logits: NDArray[np.floating], token: int) -> float:
    shifted = logits.astype(np.float64) - float(logits.max())
    return float(shifted[token] - np.log(np.exp(shifted).sum()))
