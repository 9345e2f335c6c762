"""A deployment of Ray Serve: requests of a few rows, run together."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from ray import serve
from ray.util import metrics
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ..errors import Error, ModelError
from .rows import BatchSession, open_session

__all__ = ["deployment"]

_FAILURES = 3  # runs that fail one after another, until the replica is unhealthy
_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
_MOST = 32  # requests that run together where the model takes any number of rows
_ROWS = [1, 2, 4, 8, 16, 32, 64, 128]


def deployment(
    model: str | PathLike[str],
    backend: str = "cpu",
    *,
    name: str = "qnnrt",
    batch_wait_s: float = 0.002,
    shapes: Any = None,
    session: Mapping[str, Any] | None = None,
    **options: Any,
) -> serve.Application:
    """An application for ``ray.serve.run``, which answers input arrays with output arrays.

    By a handle: ``await handle.remote({"x": rows})``, where an array has any number of rows, and
    may come by ``qnnrt.ray.share`` from a process on the node. By HTTP: a POST of an ``.npz`` file
    with an array for each input, answered by one with the outputs (``numpy.savez``, not compressed;
    400 says what is wrong with it). ``handle.stats.remote()`` has a replica's ``rows``,
    ``executes`` and ``copied_bytes``.

    - *Batches.* What waits is run together, as many requests as the model has rows (32 where it
      takes any number), and no request waits longer than ``batch_wait_s`` for others. Of a model of
      many shapes, requests whose rows are of one shape run together, and no rows are padded but to
      the next shape that there is.
    - *Reload.* ``user_config={"model": path}`` (and the other arguments but ``name``): a new one
      loads the model beside the old one, which answers until then.
    - *Health.* A replica is unhealthy after three runs in a row that failed; Serve replaces it.
    - *Metrics*, beside Serve's own: ``qnnrt_rows``, ``qnnrt_run_seconds``, ``qnnrt_batch_rows`` and
      ``qnnrt_copied_bytes``.

    With a context binary, all replicas of a node map the same weights.

    Args:
        model: the path of a model file on each node.
        backend: as for ``qnnrt.Session``.
        name: of the deployment.
        batch_wait_s: in seconds.
        shapes: of the file, as for ``qnnrt.load``.
        session: options of ``qnnrt.Session``.
        options: of ``serve.deployment``, such as ``num_replicas``, ``max_ongoing_requests`` (32
            unless given) and ``user_config``.
    """
    options.setdefault("max_ongoing_requests", 32)
    made = serve.deployment(name=name, **options)(_Replica)
    return made.bind(str(model), backend, batch_wait_s, dict(session or {}), shapes)


def _problem(batches: BatchSession, feeds: Mapping[str, np.ndarray]) -> ValueError | None:
    """What is wrong with a request, for this model."""
    inputs = batches.session.inputs
    if feeds.keys() != inputs.keys():
        return ValueError(f"expected the inputs {list(inputs)}, not {list(feeds)}")
    try:
        counts = {len(batches.check(name, array)) for name, array in feeds.items()}
    except ValueError as error:
        return error
    return ValueError("expected as many rows for each input") if len(counts) != 1 else None


class _Replica:
    """What runs in Serve's actor."""

    def __init__(
        self,
        model: str,
        backend: str,
        batch_wait_s: float,
        session: dict[str, Any],
        shapes: Any = None,
    ) -> None:
        self._given = {
            "model": model,
            "backend": backend,
            "batch_wait_s": batch_wait_s,
            "session": session,
            "shapes": shapes,
        }
        self._lock = asyncio.Lock()  # who runs, or changes, the model
        self._loading = asyncio.Lock()
        self._failures = 0
        self._batches: BatchSession | None = None
        self._rows = metrics.Counter("qnnrt_rows", "Rows that were inferred.")
        self._copied = metrics.Counter(
            "qnnrt_copied_bytes", "Written to inputs, read from outputs."
        )
        self._seconds = metrics.Histogram("qnnrt_run_seconds", "Of a batch.", boundaries=_SECONDS)
        self._size = metrics.Histogram("qnnrt_batch_rows", "Rows of a batch.", boundaries=_ROWS)

    async def reconfigure(self, user_config: dict[str, Any] | None) -> None:
        """Serve's call, before the first request and with each new ``user_config``."""
        async with self._loading:  # the last one stays
            await self._load(user_config or {})

    async def _load(self, config: dict[str, Any]) -> None:
        if unknown := sorted(config.keys() - self._given.keys()):
            raise ValueError(f"user_config has {unknown}; there are {sorted(self._given)}")
        given = {**self._given, **config}
        which = given["model"], given["backend"], given["shapes"]
        made = await asyncio.to_thread(
            lambda: BatchSession(open_session(*which, **given["session"]))
        )
        async with self._lock:  # after the batch that runs
            old, self._batches, self._failures = self._batches, made, 0
            self._infer.set_max_batch_size(made.rows or _MOST)
            self._infer.set_batch_wait_timeout_s(given["batch_wait_s"])
        if old is not None:
            old.close()

    async def _ready(self) -> BatchSession:
        if self._batches is None:  # Serve calls reconfigure only where there is a user_config
            async with self._loading:
                if self._batches is None:
                    await self._load({})
        assert self._batches is not None
        return self._batches

    async def check_health(self) -> None:
        """Serve's call: raises when requests cannot be answered."""
        await self._ready()
        if self._failures >= _FAILURES:
            raise RuntimeError(f"the last {self._failures} runs failed")

    async def stats(self) -> dict[str, Any]:
        """The model, its rows, and what this replica has run and copied since it loaded it."""
        batches = await self._ready()
        return {
            "rows": batches.rows,
            "executes": batches.session.stats.executes,
            "copied_bytes": batches.copied_bytes,
        }

    async def __call__(self, request: Any) -> Any:
        if isinstance(request, Request):
            return await self._http(request)
        batches = await self._ready()
        feeds = {name: np.asarray(array) for name, array in request.items()}
        if (problem := _problem(batches, feeds)) is not None:
            raise problem
        answer = await self._infer(feeds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _http(self, request: Request) -> Response:
        try:
            body = await request.body()
            with np.load(io.BytesIO(body), allow_pickle=False) as file:
                if sum(member.file_size for member in file.zip.infolist()) > len(body):
                    raise ValueError("its arrays are compressed")  # to any size
                feeds = dict(file)
        except Exception as error:  # numpy raises many kinds for files that are none
            return PlainTextResponse(f"expected an .npz file of arrays: {error}", 400)
        try:
            results = await self(feeds)
        except (ValueError, KeyError) as error:
            return PlainTextResponse(str(error), 400)
        answer = io.BytesIO()
        np.savez(answer, **results)
        return Response(answer.getvalue(), media_type="application/octet-stream")

    @serve.batch(  # type: ignore[untyped-decorator]
        max_batch_size=1, batch_wait_timeout_s=0
    )
    async def _infer(self, requests: list[dict[str, np.ndarray]]) -> list[Any]:
        async with self._lock:
            assert self._batches is not None
            return await asyncio.to_thread(self._run, self._batches, requests)

    def _run(self, batches: BatchSession, requests: list[dict[str, np.ndarray]]) -> list[Any]:
        # Looked at again: another model may have been loaded since.
        answers: list[Any] = [_problem(batches, request) for request in requests]
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i, request in enumerate(requests):
            if answers[i] is None:
                rows = [(request[n].shape[1:], request[n].dtype) for n in batches.session.inputs]
                alike.setdefault(tuple(rows), []).append(i)
        for fit in alike.values():
            found = self._run_fit(batches, [requests[i] for i in fit])
            for i, answer in zip(fit, found, strict=True):
                answers[i] = answer
        return answers

    def _run_fit(self, batches: BatchSession, requests: list[dict[str, np.ndarray]]) -> list[Any]:
        begin, copied = time.perf_counter(), batches.copied_bytes
        columns = {name: [r[name] for r in requests] for name in batches.session.inputs}
        try:
            results = batches.run(columns)
        except (Error, ValueError) as error:
            # That there is no graph for these rows is no failure of the replica's.
            if isinstance(error, Error) and not isinstance(error, ModelError):
                self._failures += 1
            return [error] * len(requests)
        self._failures = 0
        counts = [len(next(iter(r.values()))) for r in requests]
        self._rows.inc(sum(counts))
        self._size.observe(sum(counts))
        self._seconds.observe(time.perf_counter() - begin)
        self._copied.inc(batches.copied_bytes - copied)
        ends = np.cumsum(counts)
        return [
            {name: array[end - count : end] for name, array in results.items()}
            for count, end in zip(counts, ends, strict=True)
        ]
