"""A decoder, and the texts that it reads and writes."""

from __future__ import annotations

from .batch import Batch
from .conversation import Conversation, Prefix
from .decoder import Decoder

__all__ = ["LanguageModel"]


class LanguageModel(Decoder):
    """A decoder, as `qnnrt.llm.export` writes it, the graphs that run it, and its conversations."""

    def conversation(self, prefix: Prefix | None = None) -> Conversation:
        """An empty text, or one that goes on where `prefix` (of this process or another) ends, in
        the same memory."""
        return Conversation(self, prefix)

    def batch(self, size: int) -> Batch:
        """Room for so many texts that go on together; see `Batch`."""
        return Batch(self, size)
