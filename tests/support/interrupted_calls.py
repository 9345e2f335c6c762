"""Calls that take a while, for the campaign that interrupts them: name -> what makes (call, end).

None with asyncio, which is not whole at every interrupt itself.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import as_completed, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import qnnrt
from support.hand_over import NBYTES, Peer
from support.lpai_models import quantized_conv
from support.toy import conv_model

Call = Callable[[], object]
BACKENDS = ("cpu", "htp", "lpai", "gpu")


def available(name: str) -> bool:
    """Whether this machine has what the call needs."""
    if "-gpu" not in name:
        return True
    from qnnrt import gpu

    try:
        return not gpu.why_not()
    except ImportError:
        return False


def _model(backend: str) -> Any:
    return quantized_conv() if backend == "lpai" else conv_model()


def _session(backend: str) -> qnnrt.Session:
    return qnnrt.Session(_model(backend), backend)


def _of_session(backend: str, what: Callable[[qnnrt.Session], Call]) -> tuple[Call, Call]:
    s = _session(backend)

    def end() -> None:
        s.run()
        s.close()
        assert s.context.closed

    return what(s), end


def _feeds(s: qnnrt.Session) -> Call:
    feeds = {name: np.zeros(t.shape, t.dtype) for name, t in s.inputs.items()}
    return lambda: s.run(feeds)


def _result(s: qnnrt.Session) -> Call:
    return lambda: s.run_async().result(120)


def _many(s: qnnrt.Session) -> Call:
    return lambda: list(as_completed([s.run_async() for _ in range(12)], 120))


def _wait(s: qnnrt.Session) -> Call:
    return lambda: wait([s.run_async(lambda f: None) for _ in range(4)], 120)


def _bind(s: qnnrt.Session) -> Call:
    t = next(iter(s.inputs.values()))

    def call() -> None:
        t.bind(qnnrt.alloc_array(t.shape, t.dtype))
        s.run()

    return call


def _save(s: qnnrt.Session) -> Call:
    folder = tempfile.mkdtemp(prefix="qnnrt-signals-")
    return lambda: s.save_binary(Path(folder) / "m.bin")


def _whole(backend: str) -> tuple[Call, Call]:
    """A session's life."""
    model = _model(backend)
    opened = qnnrt.qnn.Backend.open(backend)

    def call() -> None:
        with qnnrt.Session(model, opened) as s:
            s.run()

    return call, opened.close


def _backend(backend: str) -> tuple[Call, Call]:
    kept = qnnrt.qnn.Backend.open(backend)

    def call() -> None:
        with qnnrt.qnn.Backend.open(backend) as opened:
            opened.create_context().close()

    return call, kept.close


def _close(backend: str) -> tuple[Call, Call]:
    """Closing with runs in flight. An interrupted one is closed the next time."""
    model = _model(backend)
    opened = qnnrt.qnn.Backend.open(backend)
    sessions: list[qnnrt.Session] = []

    def call() -> None:
        while sessions:
            sessions[0].close()
            assert sessions[0].context.closed
            sessions.pop()
        sessions.append(qnnrt.Session(model, opened))
        sessions[0].run_async()

    def end() -> None:
        call()
        sessions[0].close()
        opened.close()

    return call, end


def _binary(backend: str) -> tuple[Call, Call]:
    path = Path(tempfile.mkdtemp(prefix="qnnrt-signals-")) / "m.bin"
    opened = qnnrt.qnn.Backend.open(backend)
    with qnnrt.Session(_model(backend), opened) as s:
        s.save_binary(path)

    def call() -> None:
        with qnnrt.Session(path, opened) as s:
            s.run()

    return call, opened.close


def _load() -> tuple[Call, Call]:
    from support.tflite.models import toy

    data = toy()
    path = Path(tempfile.mkdtemp(prefix="qnnrt-signals-")) / "m.tflite"
    path.write_bytes(data)
    return lambda: qnnrt.load(path), lambda: None


def _alloc() -> tuple[Call, Call]:
    def call() -> None:
        a = qnnrt.alloc_array((64, 64))
        buffer, _ = qnnrt.buffer_of(a[3:])
        del a
        buffer.close()

    return call, lambda: None


def _register(backend: str) -> tuple[Call, Call]:
    opened = qnnrt.qnn.Backend.open(backend)
    context = opened.create_context()
    buffer = qnnrt.alloc(1 << 14)
    kind = {"lpai": "lpai", "gpu": "opencl"}.get(backend, "ion")

    def call() -> None:
        context.get_or_register(buffer, (16,), np.float32, kind=kind).close()
        with context.register(buffer, (32,), np.float32, kind=kind) as handle:
            assert not handle.closed

    def end() -> None:
        call()
        context.close()
        opened.close()
        buffer.close()

    return call, end


def _share() -> tuple[Call, Call]:
    buffer = qnnrt.alloc(4096)

    def call() -> None:
        received = pickle.loads(pickle.dumps(buffer))
        assert received.nbytes == buffer.nbytes
        received.close()

    return call, buffer.close


def _hand_over(by_fd: bool) -> tuple[Call, Call]:
    """A buffer to another process, by its fd; or there and back, by pickle."""
    peer = Peer()
    buffer = qnnrt.alloc(NBYTES)

    def there_and_back() -> None:
        back = peer.echo(buffer)
        assert back.nbytes == NBYTES
        back.close()

    def end() -> None:
        before = memoryview(buffer)[0]
        peer.give(buffer)
        assert memoryview(buffer)[0] == (before + 1) % 256
        peer.close()
        buffer.close()

    return (lambda: peer.give(buffer)) if by_fd else there_and_back, end


def _signal(backend: str) -> tuple[Call, Call]:
    opened = qnnrt.qnn.Backend.open(backend)

    def call() -> None:
        with opened.create_signal(abort=True), qnnrt.qnn.Profile(opened, "basic"):
            pass

    return call, opened.close


def _invoke(delegated: bool) -> tuple[Call, Call]:
    stack = ExitStack()
    it = stack.enter_context(_interpreter(delegated))
    it.allocate_tensors()
    return it.invoke, stack.close


def _interpreter(delegated: bool) -> Any:
    from qnnrt import tflite
    from support.tflite.models import toy

    delegates = [tflite.QnnDelegate({"backend_type": "htp"})] if delegated else []
    return tflite.Interpreter(model_content=toy(), experimental_delegates=delegates)


def _interpret(delegated: bool) -> tuple[Call, Call]:
    kept = [qnnrt.qnn.Backend.open(name) for name in ("cpu", "htp")]

    def call() -> None:
        with _interpreter(delegated) as it:
            it.allocate_tensors()
            it.invoke()

    def end() -> None:
        for backend in kept:
            backend.close()

    return call, end


_ON_SESSIONS: dict[str, Callable[[qnnrt.Session], Call]] = {
    "run": lambda s: s.run,
    "feeds": _feeds,
    "result": _result,
    "as_completed": _many,
    "wait": _wait,
    "bind": _bind,
    "save_binary": _save,
}
_BY_BACKEND = {
    "session": _whole,
    "backend": _backend,
    "close": _close,
    "binary": _binary,
    "register": _register,
}
CALLS: dict[str, Callable[[], tuple[Call, Call]]] = {
    **{
        f"{name}-{backend}": partial(_of_session, backend, what)
        for backend in BACKENDS
        for name, what in _ON_SESSIONS.items()
        if (name, backend) != ("save_binary", "gpu")
    },
    **{
        f"{name}-{backend}": partial(make, backend)
        for backend in BACKENDS
        for name, make in _BY_BACKEND.items()
        if (name, backend) != ("binary", "gpu")
    },
    "signal-htp": partial(_signal, "htp"),
    "load": _load,
    "alloc": _alloc,
    "share": _share,
    "hand_over": partial(_hand_over, False),
    "hand_over-fd": partial(_hand_over, True),
    "invoke": partial(_invoke, False),
    "invoke-delegate": partial(_invoke, True),
    "interpreter": partial(_interpret, False),
    "interpreter-delegate": partial(_interpret, True),
}
