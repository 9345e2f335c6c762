"""A decoder, and the texts that it reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batch import Batch
from .conversation import Conversation, Prefix
from .decoder import Decoder

__all__ = ["LanguageModel"]


class LanguageModel(Decoder):
    """A decoder, as `qnnrt.llm.export` writes it, the graphs that run it, and its conversations."""

    if TYPE_CHECKING:

        def conversation(self, prefix: Prefix | bytes | None = None) -> Conversation: ...

    def _conversation(self, prefix: Prefix | bytes | None) -> Conversation:
        """What `conversation` calls, but for a message that it receives itself."""
        return Conversation(self, prefix)

    def batch(self, size: int) -> Batch:
        """Room for so many texts that go on together; see `Batch`."""
        return Batch(self, size)
