"""Context binaries that are not sound, or not for this machine: one clear error."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core, qnn
from support.binaries import (
    BACKENDS,
    PAGE,
    aligned,
    binary_of,
    dense,
    expect,
    made_for,
    prepared,
    run,
)
from support.outside import printed
from support.toy import conv_model


def test_what_is_no_sound_binary_is_refused_in_one_sentence(backend):
    data = binary_of(backend, dense())
    cases = [
        (b"", 5005, "no context binary"),
        (b"CDSP" * 100, 5005, "no context binary.*vendor"),
        (data[:-1], 5005, "truncated"),
        (data + b"\0", 5005, "something was added"),
        (data[:400] + bytes([data[400] ^ 4]) + data[401:], 5005, "damaged"),
        (data[:8] + b"\x01" + data[9:], 5004, "format 1.*formats 2 and 3.*prepare"),
        (data[:8] + b"\x07" + data[9:], 5004, "format 7.*formats 2"),
    ]
    for bad, code, message in cases:
        for call in (qnn.Context.from_binary, qnn.Context.validate_binary):
            with pytest.raises(qnnrt.ContextError, match=message) as e:
                call(backend, bad)
            assert e.value.code == code
            assert "\n" not in e.value.message


def test_altered_weights_are_found_before_they_are_used(backend):
    data = bytearray(binary_of(backend, dense()))
    sound = aligned(bytes(data))
    data[-1000] ^= 1
    memory = aligned(bytes(data))
    with qnn.Context.from_binary(backend, memory, persistent_binary=True) as context:
        graph = context.graph("dense")
        for _ in range(2):
            with pytest.raises(qnnrt.QnnError, match=r"weights of graph 'dense'.*altered") as e:
                run(graph)
            assert e.value.code == 5005
        with pytest.raises(qnnrt.ContextError, match="altered"):
            context.binary()
    for attempt in (
        lambda: qnn.Context.validate_binary(backend, memory),
        lambda: qnn.Context.from_binary(backend, memory, persistent_binary=False),
        lambda: qnn.Context.from_binary(
            backend, memory, persistent_binary=True, binary_compatibility="strict"
        ),
    ):
        with pytest.raises(qnnrt.ContextError, match="altered") as e:
            attempt()
        assert e.value.code == 5005
    qnn.Context.validate_binary(backend, sound)


@BACKENDS
def test_a_binary_runs_on_the_other_backends_of_this_runtime(name):
    other = {"cpu": "htp", "htp": "cpu"}[name]
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    with qnnrt.Session(dense(), name) as s:
        expected = s.run({"x": x})["y"]
        data = s.context.binary()
    with qnn.Backend.open(other) as b, qnn.Context.from_binary(b, data) as context:
        y = np.empty_like(expected)
        context.graph("dense").execute({"x": x}, {"y": y})
        np.testing.assert_array_equal(y, expected)


def test_a_binary_of_floats_is_not_for_lpai():
    data = prepared(dense(), "cpu")
    with qnn.Backend.open("lpai") as b:
        for attempt in (qnn.Context.from_binary, qnn.Context.validate_binary):
            with pytest.raises(qnnrt.QnnError, match=r"are float: 'x' \(FLOAT_32\)") as e:
                attempt(b, data)
            assert e.value.code == 5008


@BACKENDS
def test_a_binary_of_another_backend_is_refused(name):
    data = made_for(prepared(dense(), name), 4)
    with qnn.Backend.open(name) as b, pytest.raises(qnnrt.ContextError) as e:
        qnn.Context.from_binary(b, data)
    assert e.value.code == 5008
    assert re.search(r"id 4\b.*id \d+.*prepare the model again", e.value.message)


def load_elsewhere(path: Path, **environment: str) -> str:
    """What a process with other kernels says to a binary."""
    code = (
        "import sys, qnnrt\n"
        "try:\n"
        "    with qnnrt.Session(sys.argv[1], 'htp') as s: s.run()\n"
        "except qnnrt.QnnError as e: print(e.code, e.message)\n"
        "else: print('loaded')\n"
    )
    return printed(code, str(path), **environment)


@pytest.mark.skipif(
    qnnrt._core.kernel_library().startswith("portable"), reason="oneDNN is not installed"
)
def test_a_binary_of_other_kernels_is_refused(tmp_path):
    path = tmp_path / "conv.bin"
    path.write_bytes(prepared(conv_model(), options={"keep_constants": False}))
    assert load_elsewhere(path) == "loaded\n"
    said = load_elsewhere(path, QNNRT_ONEDNN="none")
    assert re.search("^1008 .*the context binary was prepared for other kernels", said)
    assert "prepare the model again on this machine, or with its constants" in said


def test_strict_refuses_what_was_prepared_for_other_threads(caplog):
    caplog.set_level(logging.WARNING, "qnnrt")
    with qnn.Backend.open("htp", options=[(2, b"threads:1")]) as one:
        data = binary_of(one, dense())
        with qnn.Context.from_binary(one, data, binary_compatibility="strict"):
            pass
    with qnn.Backend.open("htp", options=[(2, b"threads:3")], log_level="warn") as three:
        with qnn.Context.from_binary(three, data) as context:
            np.testing.assert_allclose(run(context.graph("dense")), expect(dense()), rtol=1e-4)
        assert any("for 1 threads" in r.getMessage() for r in caplog.records)
        with pytest.raises(qnnrt.ContextError, match="prepared for 1 threads") as e:
            qnn.Context.from_binary(three, data, binary_compatibility="strict")
        assert e.value.code == 5011


# Every byte of a small binary, through the whole of loading and executing.
def test_no_flipped_byte_gets_through(backend):
    data = binary_of(backend, dense("dense", 8))
    expected = expect(dense("dense", 8))
    memory = aligned(data)
    end = len(data)
    loaded = 0
    codes = set()
    for at in [*range(0, PAGE, 5), *range(PAGE, end, 97)]:
        memory[at] ^= 0x41
        try:
            with qnn.Context.from_binary(backend, memory, persistent_binary=True) as context:
                loaded += 1
                with pytest.raises(qnnrt.QnnError, match="checksum"):
                    np.testing.assert_allclose(run(context.graph("dense"), 8), expected)
        except qnnrt.ContextError as e:
            codes.add(e.code)
        memory[at] ^= 0x41
    assert loaded > 0
    assert codes <= {5004, 5005}
    with qnn.Context.from_binary(backend, memory, persistent_binary=True) as context:
        np.testing.assert_allclose(run(context.graph("dense"), 8), expected, rtol=1e-4)


def test_every_allocation_may_fail_while_loading_and_writing(backend):
    data = aligned(binary_of(backend, dense(), dense("two", seed=2)))
    codes = []
    for n in range(1, 10000):
        _core.debug_fail_allocation(n)
        try:
            context = qnn.Context.from_binary(backend, data, persistent_binary=True)
        except qnnrt.QnnError as e:
            codes.append(e.code)
            continue
        finally:
            _core.debug_fail_allocation(-1)
        with context:
            if context._unknown:  # it was Python's own look at the binary that failed
                continue
            np.testing.assert_allclose(run(context.graph("dense")), expect(dense()), rtol=1e-4)
        break
    assert len(codes) > 50
    assert set(codes) == {1002}
    with qnn.Context.from_binary(backend, data) as context:
        for n in range(1, 10000):
            _core.debug_fail_allocation(n)
            try:
                written = context.binary()
            except qnnrt.QnnError as e:
                codes.append(e.code)
                continue
            finally:
                _core.debug_fail_allocation(-1)
            assert written == data
            break
    assert len(codes) > 60
    assert set(codes) == {1002}
