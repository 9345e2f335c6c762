"""One change of a source, and how it is named from one run to the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mutant:
    id: int
    path: str
    line: int
    text: str  # of the line
    what: str

    @property
    def key(self) -> str:
        """Stays the same while the line does, wherever it moves in its file."""
        return f"{self.path} :: {self.text} :: {self.what}"


@dataclass
class Numbering:
    """Gives mutants their numbers, from 1 on."""

    count: int = 0
    _seen: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def make(self, path: str, source: str, at: int, what: str) -> Mutant:
        """For the place ``at`` in a file; the second of its kind on a line is #2."""
        line = source.count("\n", 0, at) + 1
        begin = source.rfind("\n", 0, at) + 1
        text = " ".join(source[begin : source.find("\n", at)].split())
        self._seen[path, line, what] += 1
        nth = self._seen[path, line, what]
        self.count += 1
        return Mutant(self.count, path, line, text, what if nth == 1 else f"{what} #{nth}")
