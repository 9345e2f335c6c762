"""Language models on graphs whose cache is updated in place: prefill in chunks, decode, several
conversations over one set of weights, one by one or in one run.

`qnnrt.llm.export` writes the files; see docs/language-models.md.
"""

from .batch import Batch
from .conversation import Conversation, Prefix
from .model import LanguageModel
from .sampling import Sampling

__all__ = ["Batch", "Conversation", "LanguageModel", "Prefix", "Sampling"]
