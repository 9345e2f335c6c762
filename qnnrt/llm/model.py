"""A decoder, and the texts that it reads and writes."""

from __future__ import annotations

from .batch import Batch
from .conversation import Conversation, Prefix
from .decoder import Decoder

__all__ = ["LanguageModel"]


class LanguageModel(Decoder):
    """A decoder, as `qnnrt.llm.export` writes it, the graphs that run it, and its conversations."""

    def conversation(self, prefix: Prefix | bytes | None = None) -> Conversation:
        """An empty text, or one that goes on where `prefix` (of this process or another) ends, in
        the same memory. A message about one (`Prefix.to_bytes`) is received here, and its memory
        bound at once, which is the fastest way.

        Raises:
            ValueError: the prefix is of a model with another cache.
            HandoffError: the message is none, or its memory is gone.
        """
        return Conversation(self, prefix)

    def batch(self, size: int) -> Batch:
        """Room for so many texts that go on together; see `Batch`."""
        return Batch(self, size)
