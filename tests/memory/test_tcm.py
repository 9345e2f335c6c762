"""TCM through Python: the rules of the documentation's section and its log lines, word for word."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt import _core
from qnnrt.errors import BufferInUseError, ClosedError, MemError
from qnnrt.lpai import TCM_BYTES, TCM_PIECES, Allocator
from qnnrt.qnn.backend import Backend

POOL_LINE = (logging.INFO, "TCM pool current size: 2035712 max_size: 2035712")
Lines = list[tuple[int, str]]


@pytest.fixture
def direct() -> Iterator[Backend]:
    with Backend.open("lpai", log_level="debug", options=[(2, "direct_mode:adsp")]) as backend:
        yield backend


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """(level, text) of the lines that the backend wrote since."""
    found: Lines = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append((record.levelno, record.getMessage()))

    handler, logger = Keep(), logging.getLogger("qnnrt")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(level)


def counts() -> dict[str, int]:
    gc.collect()
    _core.pool_trim()
    return _core.live_counts()


def test_numbers_of_the_documentation() -> None:
    assert (TCM_BYTES, TCM_PIECES) == (2_035_712, 32)


def test_lines_of_allocations(direct: Backend, lines: Lines) -> None:
    lines.clear()
    with Allocator(direct, "tcm") as allocator:
        assert lines == []  # the pool is made by the first allocation
        pieces = [allocator.alloc(n) for n in (1000, 64)]
        assert lines == [
            POOL_LINE,
            (logging.INFO, "Allocate size 1000 from tcm pool 0"),
            (logging.INFO, "Allocate size 64 from tcm pool 0"),
        ]
        assert [p.nbytes for p in pieces] == [1000, 64]


def test_info_lines_need_the_level_info(lines: Lines) -> None:
    options = [(2, "direct_mode:adsp")]
    with Backend.open("lpai", log_level="warn", options=options) as backend:
        lines.clear()
        allocator = Allocator(backend, "tcm")
        piece = allocator.alloc(64)
        with pytest.raises(MemError):
            allocator.alloc(TCM_BYTES)
        assert lines == [
            (logging.ERROR, f"TCM memory allocation failure: required size: {TCM_BYTES}")
        ]
        del piece


def test_pieces_are_buffers(direct: Backend) -> None:
    allocator = Allocator(direct, "tcm")
    first, second = allocator.alloc(100), allocator.alloc(5000)
    assert (first.heap, first.fd_offset, second.fd_offset) == ("tcm", 0, 128)
    assert first.fd_size == second.fd_size >= TCM_BYTES
    assert second.address - first.address == 128
    assert first.address % 64 == 0
    array = second.array((50, 25), np.float32)
    array[...] = 7
    assert qnnrt.buffer_of(array[3]) == (second, 300)
    # The same memory, by fd and offset: what the LPAI memory descriptor says.
    mapped = qnnrt.Buffer.from_fd(second.fd, second.nbytes, second.fd_offset)
    assert (mapped.array(1250, np.float32) == 7).all()
    assert (allocator.pieces, allocator.used_bytes) == (2, 5100)
    assert repr(allocator) == "<qnnrt.lpai.Allocator tcm, 2 pieces, 5100 of 2035712 bytes>"


def test_the_whole_pool_fits_and_not_a_byte_more(direct: Backend, lines: Lines) -> None:
    allocator = Allocator(direct, "tcm")
    assert allocator.free_bytes == TCM_BYTES
    lines.clear()
    with pytest.raises(MemError) as caught:
        allocator.alloc(TCM_BYTES + 1)
    assert caught.value.code == 1002
    assert "TCM memory allocation failure: required size: 2035713: the TCM pool" in str(
        caught.value
    )
    assert lines == [
        POOL_LINE,
        (logging.ERROR, "TCM memory allocation failure: required size: 2035713"),
    ]
    piece = allocator.alloc(TCM_BYTES)
    assert (allocator.used_bytes, allocator.free_bytes) == (TCM_BYTES, 0)
    with pytest.raises(MemError, match="required size: 1: "):  # and nothing comes out of DDR
        allocator.alloc(1)
    assert allocator.pieces == 1
    piece.close()
    assert allocator.free_bytes == TCM_BYTES


def test_the_33rd_piece_is_fatal_for_the_allocator_not_the_process(
    direct: Backend, lines: Lines
) -> None:
    allocator = Allocator(direct, "tcm")
    pieces = [allocator.alloc(64) for _ in range(TCM_PIECES)]
    assert not allocator.fatal
    lines.clear()
    with pytest.raises(MemError, match="more than 32 pieces of TCM were asked for, which is fatal"):
        allocator.alloc(64)
    assert lines == [(logging.ERROR, "TCM memory allocation failure: required size: 64")]
    assert allocator.fatal
    with pytest.raises(MemError) as caught:
        allocator.free(pieces[0])
    assert caught.value.code == 1011
    pieces.pop().close()  # which helps no more
    with pytest.raises(MemError) as caught:
        allocator.alloc(64)
    assert caught.value.code == 1011
    pieces[0].array(64, np.uint8)[...] = 3  # what was given out is memory still
    other = Allocator(direct, "tcm")
    other.alloc(64)
    other.close()
    allocator.close()


def test_pieces_that_go_make_room(direct: Backend) -> None:
    allocator = Allocator(direct, "tcm")
    for i in range(99):
        piece = allocator.alloc(1_500_000)
        if i % 3 == 0:
            allocator.free(piece)
        elif i % 3 == 1:
            piece.close()
        del piece
    assert (allocator.pieces, allocator.used_bytes, allocator.fatal) == (0, 0, False)
    with pytest.raises(ValueError, match="no piece of this allocator"):
        allocator.free(qnnrt.alloc(64))
    closed = allocator.alloc(64)
    allocator.free(closed)
    with pytest.raises(ValueError, match="or was closed"):
        allocator.free(closed)


def test_ddr_is_the_default_and_has_no_limits(direct: Backend, lines: Lines) -> None:
    lines.clear()
    with Backend.open("lpai", log_level="debug") as plain:
        lines.clear()
        for backend in (direct, plain):
            with Allocator(backend) as allocator:
                assert allocator.mem_type == "ddr"
                pieces = [allocator.alloc(64) for _ in range(40)]
                pieces.append(allocator.alloc(2 * TCM_BYTES))
                assert all(p.heap != "tcm" for p in pieces)
                assert (allocator.pieces, allocator.used_bytes, allocator.free_bytes) == (41, 0, 0)
                assert repr(allocator) == "<qnnrt.lpai.Allocator ddr, 41 pieces>"
        assert lines == []


@pytest.mark.parametrize("mem_type", ["llc", "psram", "TCM", ""])
def test_an_unknown_type_is_undefined(direct: Backend, lines: Lines, mem_type: str) -> None:
    lines.clear()
    allocator = Allocator(direct, mem_type)
    assert allocator.mem_type == "undefined"
    assert lines == [(logging.ERROR, "Invalid memory type")]
    with pytest.raises(MemError, match="Memory type only supports DDR & TCM") as caught:
        allocator.alloc(64)
    assert caught.value.code == 1004
    assert lines == [
        (logging.ERROR, "Invalid memory type"),
        (logging.ERROR, "Memory type only supports DDR & TCM"),
    ]


def test_tcm_needs_direct_mode() -> None:
    with (
        Backend.open("lpai") as backend,
        pytest.raises(MemError, match="TCM is there in aDSP direct mode alone") as caught,
    ):
        Allocator(backend, "tcm")
    assert caught.value.code == 1006


def test_other_backends_have_no_such_allocator() -> None:
    for name in ("cpu", "htp"):
        with (
            Backend.open(name) as backend,
            pytest.raises(ValueError, match=r"is no lpai backend of qnnrt: use qnnrt\.alloc"),
        ):
            Allocator(backend)


def test_alignment_is_the_backends() -> None:
    options = [(2, "direct_mode:adsp;start_alignment:1024")]
    with Backend.open("lpai", options=options) as backend:
        allocator = Allocator(backend, "tcm")
        pieces = [allocator.alloc(1) for _ in range(3)]
        assert [p.fd_offset for p in pieces] == [0, 1024, 2048]
        assert all(p.address % 1024 == 0 for p in pieces)


@pytest.mark.parametrize("nbytes", [0, -1, 1.5, 1 << 63])
def test_sizes_that_are_none(direct: Backend, nbytes: int) -> None:
    with pytest.raises(ValueError, match="must be a positive integer"):
        Allocator(direct, "tcm").alloc(nbytes)


@pytest.mark.parametrize("mem_type", ["ddr", "tcm"])
def test_pieces_in_use_stay(direct: Backend, mem_type: str) -> None:
    allocator = Allocator(direct, mem_type)
    piece = allocator.alloc(256)
    view = piece.array(256, np.uint8)
    for close in (piece.close, lambda: allocator.free(piece), allocator.close):
        with pytest.raises(BufferInUseError, match="in use by 1 view"):
            close()
    view[...] = 1
    del view
    allocator.close()
    allocator.close()
    with pytest.raises(ClosedError, match=r"an LPAI allocator .* is closed"):
        allocator.alloc(64)
    assert repr(allocator) == "<qnnrt.lpai.Allocator, closed>"


def test_pieces_keep_their_allocator(direct: Backend) -> None:
    before = counts()
    array = Allocator(direct, "tcm").alloc(4096).array(1024, np.float32)
    array[...] = 2
    assert counts()["lpai_allocators"] == before["lpai_allocators"] + 1
    assert array.sum() == 2048
    del array
    assert counts() == before


def test_an_allocator_outlives_its_backend(direct: Backend) -> None:
    allocator = Allocator(direct, "tcm")
    piece = allocator.alloc(64)
    direct.close()
    allocator.alloc(64).array(64, np.uint8)[...] = 1
    piece.array(64, np.uint8)[...] = 2


def test_files_are_read_into_a_piece(direct: Backend, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(os.urandom(300_000))
    with Allocator(direct, "tcm") as allocator:
        piece = allocator.read(path)
        assert bytes(piece) == path.read_bytes()
        path.write_bytes(bytes(TCM_BYTES))
        with pytest.raises(MemError, match="required size: 2035712: "):
            allocator.read(path)
        path.write_bytes(b"")
        with pytest.raises(ValueError, match="must be a positive integer"):
            allocator.read(path)
        with pytest.raises(FileNotFoundError):
            allocator.read(tmp_path / "none.bin")
        assert allocator.pieces == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_refused(direct: Backend) -> None:
    allocator = Allocator(direct, "tcm")
    piece = allocator.alloc(64)
    child = os.fork()
    if child == 0:
        try:
            allocator.alloc(64)
        except qnnrt.errors.ForkError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    allocator.free(piece)


def test_nothing_is_left_behind(direct: Backend) -> None:
    before = counts()
    for mem_type in ("tcm", "ddr"):
        with Allocator(direct, mem_type) as allocator:
            pieces = [allocator.alloc(10_000) for _ in range(20)]
            del pieces[::2]
        assert all(p.closed for p in pieces)
    assert counts() == before
