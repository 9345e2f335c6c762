"""``run(feeds)`` that leaves an input out: fine where it has a value, else an error."""

from __future__ import annotations

import numpy as np
import pytest

import qnnrt
from support.toy import add_model


@pytest.fixture(params=["memhandle", "raw"])
def session(request):
    with qnnrt.Session(add_model(), io=request.param) as s:
        yield s
    s.backend.close()


def feed(s: qnnrt.Session, *names: str) -> dict[str, np.ndarray]:
    return {n: np.full(t.shape, 2, t.dtype) for n, t in s.inputs.items() if n in names}


def test_an_input_that_was_never_given_is_an_error(session) -> None:
    first, second = session.inputs
    missing = f"{second!r} of the inputs was never given"
    for _ in range(2):
        with pytest.raises(ValueError, match=missing):
            session.run(feed(session, first))
    with pytest.raises(ValueError, match=f"{first!r}, {second!r} of the inputs were never given"):
        session.run({})
    assert session.stats.executes == 0
    assert session.stats.copied_bytes == 0  # nothing was written either
    session.run(feed(session, first, second))
    session.run(feed(session, first))  # it has been fed once
    session.run({})


def test_a_bare_run_stays_what_it_is(session) -> None:
    first, second = session.inputs
    session.run()
    with pytest.raises(ValueError, match=f"{second!r} of the inputs was never given"):
        session.run(feed(session, first))


@pytest.mark.parametrize("way", ["array", "buffer", "bind", "write"])
def test_what_was_bound_or_looked_at_may_be_left_out(session, way: str) -> None:
    first, second = session.inputs
    t = session.inputs[second]
    if way == "array":
        t.array[...] = 3
    elif way == "buffer":
        assert t.buffer is not None
    elif way == "bind":
        t.bind(qnnrt.alloc_array(t.shape, t.dtype))
    else:
        session.run(feed(session, first, second))
    session.run(feed(session, first))


def test_the_bound_array_itself_counts_as_fed() -> None:
    with qnnrt.Session(add_model(), strict=True) as s:
        first, second = s.inputs
        own = s.inputs[first].array
        own[...] = 1
        with pytest.raises(ValueError, match="never given"):
            s.run({first: own})
        s.run({first: own, second: s.inputs[second].array})
        s.run({second: s.inputs[second].array})


def test_a_refused_feed_or_bind_gives_nothing(session) -> None:
    first, second = session.inputs
    with pytest.raises(ValueError, match="needs"):
        session.run({**feed(session, first), second: np.zeros(3)})
    with pytest.raises(qnnrt.BindError):
        session.inputs[second].bind(np.zeros(3))
    with pytest.raises(ValueError, match="never given"):
        session.run(feed(session, first))
