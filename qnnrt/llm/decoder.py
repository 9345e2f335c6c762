"""A decoder with one graph for each number of tokens at once, over one set of weights."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._native._core import Buffer
from ..errors import ClosedError, ModelError
from ..importers import load
from ..memory import alloc
from ..model import DynamicModel
from ..session.dynamic import DynamicSession, ShapeSession

#: But for the cache.
INPUTS = ("tokens", "position", "rows")
_ALIGNMENT = 4096  # of each tensor in a conversation's buffer


class Decoder:
    """A decoder, as `qnnrt.llm.export` writes it, and the graphs that run it.

    Attributes:
        capacity: slots of a conversation's cache: its longest text, in tokens.
        vocabulary: how many tokens there are.
        tokenizer: a ``tokenizers.Tokenizer``, or None.
        end: tokens that end a text.
        chunks: how many tokens a run can take, largest first.
        cache_bytes: size of a conversation's cache.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        chunks: Sequence[int] = (128, 32, 8, 1),
        verify: int = 4,
        **session: Any,
    ) -> None:
        """Read ``path``, and make the graph of single tokens; others are made when first needed.

        Args:
            path: the folder that `qnnrt.llm.export` made, or an ``.onnx`` file like its own.
            chunks: how many tokens a run takes while a text is read, at most. 1 is always among
                them.
            verify: how many tokens a draft model may propose at once (`Conversation.generate`).
            session: what ``qnnrt.Session`` takes: backend, precision, threads, strict, ...

        Raises:
            ModelError: the file has other inputs and outputs than `qnnrt.llm.export` says.
            ValueError: a chunk that is not positive.
        """
        if any(n < 1 for n in chunks) or verify < 1:
            raise ValueError(f"chunks {tuple(chunks)} and verify {verify} have to be positive")
        path = Path(path)
        folder = path if path.is_dir() else path.parent
        self._path = path / "model.onnx" if path.is_dir() else path
        self._lock = threading.RLock()
        self._sessions: dict[tuple[int, int], ShapeSession] = {}
        self._bound: dict[tuple[int, int], Buffer] = {}
        self.verify = verify
        model = load(self._path, shapes="any")
        if not isinstance(model, DynamicModel) or model.outputs[:1] != ("logits",):
            raise ModelError(f"{self._path} is no decoder as qnnrt.llm.export writes them")
        model.set_state("auto")
        self._copied = 0
        self._graphs: DynamicSession | None = DynamicSession(model, **session)
        step = self._session(1, 1)
        names = [*step.inputs, *step.outputs]
        if sorted(names) != sorted((*INPUTS, "logits")):
            self.close()
            raise ModelError(
                f"{self._path}: a decoder has the inputs {', '.join(INPUTS)}, the output logits "
                f"and a cache that is updated in place, not {', '.join(names)}. qnnrt.llm.export "
                "writes such files"
            )
        self.vocabulary = int(step.outputs["logits"].shape[-1])
        self._layout, self.cache_bytes = _layout(step.state)
        self.capacity = next(iter(step.state.values())).shape[2]
        self.chunks = tuple(sorted({*(n for n in chunks if n <= self.capacity), 1}, reverse=True))
        self.tokenizer = _tokenizer(folder)
        settings = folder / "qnnrt.json"
        self.end = frozenset(json.loads(settings.read_text())["end"] if settings.exists() else ())

    def close(self) -> None:
        """Gives the graphs back. Conversations keep their text and cache, and cannot go on."""
        with self._lock:
            self._bound.clear()
            self._sessions.clear()
            if self._graphs is not None:
                self._copied = self._graphs.stats.copied_bytes
                self._graphs.close()
                self._graphs = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def copied_bytes(self) -> int:
        """Bytes that all runs so far have copied between memory of the caller's and the
        runtime's."""
        graphs = self._graphs
        return self._copied if graphs is None else graphs.stats.copied_bytes

    def _session(self, tokens: int, rows: int) -> ShapeSession:
        """The graph for so many tokens, of which so many have their logits computed."""
        key = tokens, rows
        if key not in self._sessions:
            if self._graphs is None:
                raise ClosedError("this language model is closed")
            self._sessions[key] = self._graphs.at({"sequence": tokens, "wanted": rows})
        return self._sessions[key]

    def _new_cache(self) -> Buffer:
        return alloc(self.cache_bytes)

    def _run(
        self, cache: Buffer, tokens: Sequence[int], position: int, rows: Sequence[int], size: int
    ) -> NDArray[np.floating]:
        """Logits [len(rows), vocabulary] (a copy) of `tokens`, which come at `position`, in the
        graph for `size` tokens. What lies behind position + len(tokens) in the cache is undefined
        afterwards."""
        with self._lock:
            session = self._session(size, len(rows))
            key = size, len(rows)
            if self._bound.get(key) is not cache:
                session.bind_state(self._views(cache))
                self._bound[key] = cache
            given = session.inputs["tokens"].array
            given[0, : len(tokens)] = tokens
            given[0, len(tokens) :] = 0
            session.inputs["position"].array[0] = position
            session.inputs["rows"].array[:] = rows
            session.run()
            logits: NDArray[np.floating] = session.outputs["logits"].array[0].copy()
            return logits

    def _views(self, cache: Buffer) -> Mapping[str, NDArray[Any]]:
        return {
            name: cache.array(shape, dtype, offset)
            for name, (shape, dtype, offset) in self._layout.items()
        }


def _layout(
    state: Mapping[str, Any],
) -> tuple[dict[str, tuple[tuple[int, ...], np.dtype[Any], int]], int]:
    """name -> (shape, dtype, offset) of the tensors of a cache in one buffer, and its size."""
    layout, at = {}, 0
    for name, tensor in state.items():
        layout[name] = tuple(tensor.shape), np.dtype(tensor.dtype), at
        at += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    return layout, at


def _tokenizer(folder: Path) -> Any:
    file = folder / "tokenizer.json"
    if not file.exists():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # pragma: no cover
        return None
    return Tokenizer.from_file(str(file))
