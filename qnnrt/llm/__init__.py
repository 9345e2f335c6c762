"""Language models on graphs whose cache is updated in place: prefill in chunks, decode, several
conversations over one set of weights. `qnnrt.llm.export` writes the files; see
docs/language-models.md."""

from .conversation import Conversation, Prefix
from .model import LanguageModel
from .sampling import Sampling

__all__ = ["Conversation", "LanguageModel", "Prefix", "Sampling"]
