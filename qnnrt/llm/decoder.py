"""A decoder with one graph for each number of tokens at once, over one set of weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import index
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._native import _core
from ..errors import ClosedError, ModelError
from ..importers import load
from ..memory import alloc
from ..model import DynamicModel
from ..session.dynamic import DynamicSession, ShapeSession
from ..support.guard import Guard

#: But for the cache.
INPUTS = ("tokens", "position", "rows")
DIMENSIONS = {"batch", "sequence", "wanted"}


Slots: TypeAlias = _core.Slots


class Decoder(_core.Receiver):
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
            ModelError: the file has other inputs and outputs than `qnnrt.llm.export` says; or what
                lies beside it cannot be read.
            ValueError: a chunk that is not positive.
        """
        chunks, verify = [index(n) for n in chunks], index(verify)
        if any(n < 1 for n in chunks) or verify < 1:
            raise ValueError(f"chunks {tuple(chunks)} and verify {verify} have to be positive")
        path = Path(path)
        if not path.suffix and not path.exists():
            raise ModelError(f"there is no folder {path}: python -m qnnrt.llm.export makes one")
        folder = path if path.is_dir() else path.parent
        self._path = path / "model.onnx" if path.is_dir() else path
        self._guard = Guard()
        self._sessions: dict[tuple[int, int, int], ShapeSession] = {}
        self._bound: dict[tuple[int, int, int], Slots] = {}
        self._parts: dict[tuple[int, int, int], Any] = {}
        self.verify = verify
        model = load(self._path, shapes="any")
        assert isinstance(model, DynamicModel)
        open_dims = {d for i in model.inputs.values() for d in i.dims or ()}
        if model.outputs[:1] != ("logits",) or not open_dims >= DIMENSIONS:
            raise ModelError(
                f"{self._path} is no decoder as qnnrt.llm.export writes them, with the open "
                f"dimensions {', '.join(sorted(DIMENSIONS))}: export it again"
            )
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
        self._cache_sizes: dict[int, int] = {}
        self._row_bytes = [t.nbytes for t in step.state.values()]
        self.cache_bytes = self._cache_bytes(1)
        self.capacity = next(iter(step.state.values())).shape[2]
        self.chunks = tuple(sorted({*(n for n in chunks if n <= self.capacity), 1}, reverse=True))
        try:
            self.tokenizer, self.end = _tokenizer(folder), _end(folder)
        except ModelError:
            self.close()
            raise

    def close(self) -> None:
        """Gives the graphs back. Conversations keep their text and cache, and cannot go on."""
        with self._guard.lock:
            self._bound.clear()
            self._binder = None
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

    def _session(self, tokens: int, rows: int, texts: int = 1) -> ShapeSession:
        """The graph for so many tokens of so many texts, of which so many have their logits
        computed."""
        key = tokens, rows, texts
        if key not in self._sessions:
            if self._graphs is None:
                raise ClosedError("this language model is closed")
            shape = {"batch": texts, "sequence": tokens, "wanted": rows}
            self._sessions[key] = self._graphs.at(shape)
            self._graphs._forget_states()  # what it was made with goes when its own is bound
        return self._sessions[key]

    def _new_slots(self, rows: int = 1) -> Slots:
        return Slots(alloc(self._cache_bytes(rows)), rows, 0, rows)

    def _cache_bytes(self, rows: int) -> int:
        """Size of a buffer with the caches of so many texts."""
        known = self._cache_sizes.get(rows)
        if known is None:
            known = _core.place_caches(self._row_bytes, rows, 0)[1]
            self._cache_sizes[rows] = known
        return known

    def _run(
        self,
        slots: Slots,
        tokens: Sequence[Sequence[int]],
        positions: Sequence[int],
        rows: Sequence[int],
        size: int,
    ) -> NDArray[np.floating]:
        """Logits [texts, len(rows), vocabulary] (a copy) of the `tokens` of each text, which come
        at its position, in the graph for `size` tokens. What lies behind position + len(tokens) in
        a cache is undefined afterwards."""
        with self._guard.lock:
            session = self._bind(slots, size, len(rows))
            given = session.inputs["tokens"].array
            given[...] = 0
            for row, some in enumerate(tokens):
                given[row, : len(some)] = some
            session.inputs["position"].array[:] = positions
            session.inputs["rows"].array[:] = rows
            session.run()
            binder = self._binder
            gone = None if binder is None else binder.settle()
            logits: NDArray[np.floating] = session.outputs["logits"].array.copy()
        del gone  # without the lock
        return logits

    def _bind_anew(self, slots: Slots, tokens: int, rows: int) -> ShapeSession:
        """``_bind``, where they may not be bound."""
        key = tokens, rows, slots.count
        session = self._sessions.get(key) or self._session(*key)
        bound = self._bound.get(key)
        if bound is slots or (bound and bound.buffer is slots.buffer and bound == slots):
            return session
        if slots.rows > 1:
            self._release_others(slots)
        place = slots.rows, slots.first, slots.count
        parts = self._parts.get(place)
        if parts is None:
            parts = self._parts[place] = session._state_parts(
                *_core.place_caches(self._row_bytes, slots.rows, slots.first)
            )
        group = session._bind_state_parts(slots.buffer, parts)
        if slots.rows == 1:  # rows of several are registered with other shapes, too
            slots.kept = group
        self._bound[key] = slots
        return session

    def _receive(self, message: bytes, text: _core.Text) -> None:
        """Lets a text go on from a message, bound to the graph of single tokens where it can be.
        Raises HandoffError: the message is none, or its memory is gone."""
        binder = self._binder
        if binder is None:
            key = 1, 1, 1
            with self._guard.lock:
                session = self._session(1, 1)
                if (1, 0, 1) in self._parts:
                    self._binder = session._prefix_binder(
                        self._parts, self._row_bytes, self._guard, self._bound, key
                    )
                binder = self._binder
        if binder is not None:
            binder.receive(message, text)
        else:  # nothing was bound yet by which it could be
            prefix = _core.Prefix.from_bytes(message)
            text._go_on(prefix)

    def _check_cache(self, prefix: _core.Prefix, slots: Slots) -> None:
        """Raises ValueError: the prefix is of a model with another cache."""
        expected = self._cache_bytes(slots.rows)
        if prefix.cache.nbytes != expected:
            raise ValueError(
                f"the prefix has a cache of {prefix.cache.nbytes} bytes, this model's are "
                f"{expected}: it is of another model or capacity"
            )

    def _release_others(self, slots: Slots) -> None:
        """A context has one registration at a place: what begins there with other shapes goes."""
        for key, bound in list(self._bound.items()):
            begins = bound.buffer._is(slots.buffer) and bound.first == slots.first
            if begins and bound.count != slots.count:
                del self._bound[key]
                for tensor in self._sessions[key].state.values():
                    if tensor.io == "memhandle" and tensor.handle is not None:
                        tensor.handle.close()


def _tokenizer(folder: Path) -> Any:
    file = folder / "tokenizer.json"
    if not file.exists():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # pragma: no cover
        return None
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the package has no class of its own for it
        raise ModelError(f"{file} is no tokenizer that can be read: {error}") from error


def _end(folder: Path) -> frozenset[int]:
    """The tokens that end a text."""
    file = folder / "qnnrt.json"
    if not file.exists():
        return frozenset()
    try:
        return frozenset(index(token) for token in json.loads(file.read_text())["end"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f'{file} is not {{"end": [tokens that end a text]}}, as qnnrt.llm.export writes it: '
            f"{error!r}"
        ) from error
