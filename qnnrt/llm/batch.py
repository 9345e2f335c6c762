"""Texts that go on together: one run gives each its next token, and reads the weights once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .conversation import Conversation
from .decoder import Decoder, Slots
from .sampling import Sampler, Sampling


@dataclass
class _Entry:
    text: Conversation
    sampler: Sampler
    left: int  # tokens that it may still get


class Batch:
    """Continuous batching: texts come and go between steps, and none of the others is moved.

    Their caches are rows of one buffer. A text that comes is read into a free row; what goes leaves
    its row to the next one. A step runs the graph for as many rows as are in use, or the next power
    of two. Of one thread.

    Attributes:
        model: the weights and graphs.
        size: how many texts there is room for.
    """

    def __init__(self, model: Decoder, size: int) -> None:
        """Raises ValueError: a size that is not positive."""
        if size < 1:
            raise ValueError(f"size is {size}: a batch has room for one text at least")
        self.model, self.size = model, size
        self._slots = model._new_slots(size)
        self._entries: dict[int, _Entry] = {}  # by row

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Those that go on, in the order of their rows."""
        return tuple(self._entries[row].text for row in sorted(self._entries))

    def add(
        self,
        text: str | Sequence[int],
        max_tokens: int | None = None,
        sampling: Sampling | None = None,
        **sampled: Any,
    ) -> Conversation:
        """Reads a text, which goes on from the next step on.

        Args:
            text, max_tokens, sampling: as `Conversation.append` and `Conversation.generate`.

        Raises:
            ValueError: there is no room, for the text in the batch or for its next token in the
                cache; the text is empty, max_tokens not positive; or as `Conversation.append` and
                `Sampling`. The batch stays as it was.
        """
        row = next((r for r in range(self.size) if r not in self._entries), None)
        if row is None:
            raise ValueError(f"the batch has {self.size} texts, which is all it has room for")
        left = self.model.capacity if max_tokens is None else max_tokens
        if left < 1:
            raise ValueError(f"max_tokens is {left}: a text in a batch gets one at least")
        sampler = Sampler(Sampling(**sampled) if sampling is None else sampling)
        conversation = Conversation(self.model)
        conversation._move(Slots(self._slots.buffer, self.size, row))
        conversation.append(text)
        if not 0 < len(conversation.tokens) < self.model.capacity:
            raise ValueError(
                f"a text of {len(conversation.tokens)} tokens does not go on: it needs 1 to "
                f"{self.model.capacity - 1}"
            )
        self._entries[row] = _Entry(conversation, sampler, left)
        return conversation

    def remove(self, conversation: Conversation) -> None:
        """Takes a text out. It stays as it is; to go on by itself it is read again, into a cache of
        its own.

        Raises ValueError: it is not in the batch (any more).
        """
        for row, entry in self._entries.items():
            if entry.text is conversation:
                del self._entries[row]
                conversation._move(None)
                return
        raise ValueError("this text is not in the batch (any more)")

    def step(self) -> dict[Conversation, int]:
        """The next token of each text, which is added to it. A text ends as with
        `Conversation.generate`, and is taken out then. Nothing, when the batch is empty."""
        for text in self.conversations:
            if len(text.tokens) == self.model.capacity:  # appended to meanwhile
                self.remove(text)
            elif not text.tokens:
                raise ValueError("a text in the batch is empty: append to it, or remove it")
        self._read()
        made = {}
        for entry in list(self._entries.values()):
            text, model = entry.text, self.model
            token = made[text] = entry.sampler(text.logits)
            text._add(token)
            entry.left -= 1
            if token in model.end or not entry.left or len(text.tokens) == model.capacity:
                self.remove(text)
        return made

    def _read(self) -> None:
        """The last token of each text whose logits are not there, in one run."""
        last = {r: e.text for r, e in self._entries.items() if e.text._logits is None}
        for text in last.values():
            text._catch_up(len(text.tokens) - 1)
        if not last:
            return
        count = min(1 << max(self._entries).bit_length(), self.size)
        tokens, positions = [[0]] * count, [0] * count
        for row, entry in self._entries.items():
            positions[row] = len(entry.text.tokens)  # where nothing is read before it is written
        for row, text in last.items():
            tokens[row], positions[row] = text.tokens[-1:], len(text.tokens) - 1
        slots = Slots(self._slots.buffer, self.size, 0, count)
        logits = self.model._run(slots, tokens, positions, [0], 1)
        for row, text in last.items():
            text._read, text._logits = len(text.tokens), logits[row, 0]
