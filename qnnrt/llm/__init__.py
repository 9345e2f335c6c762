"""Language models on graphs whose cache is updated in place: prefill in chunks, decode, several
conversations over one set of weights. `qnnrt.llm.export` writes the files; see
docs/language-models.md."""

from qnnrt.llm.conversation import Conversation, Prefix
from qnnrt.llm.model import LanguageModel
from qnnrt.llm.sampling import Sampling

__all__ = ["Conversation", "LanguageModel", "Prefix", "Sampling"]
