"""The htp backend's memory rules, as a C program sees them through the installed libraries."""

import os
import subprocess
from pathlib import Path

import pytest

import qnnrt
from support.building import WARNINGS, Builder

PACKAGE = Path(qnnrt.__file__).parent


def compiled(builder: Builder, name: str) -> Path:
    include = f"-I{PACKAGE / 'include'}"
    source = Path(__file__).with_name(name)
    return builder.program(source, *WARNINGS, "-pedantic", include, "-ldl")


@pytest.fixture(scope="module")
def client(builder: Builder) -> Path:
    return compiled(builder, "qmem_client.c")


def run(client: Path, *what: str, **environment: str) -> subprocess.CompletedProcess[str]:
    libraries = [str(PACKAGE / "lib" / name) for name in ("libQnnHtp.so", "libcdsprpc.so")]
    return subprocess.run(
        [str(client), *libraries, *what],
        env={**os.environ, "QNNRT_ONEDNN": "none", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("heap", ["", "memfd"])
def test_every_row_of_the_memory_table_reserves_and_copies_to_the_byte(client, heap) -> None:
    done = run(client, "table", **({"QNNRT_HEAP": heap} if heap else {}))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_what_may_be_registered_and_executed_when(builder: Builder) -> None:
    done = run(compiled(builder, "qmem_rules.c"))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    # Freed before it was deregistered: that is told, once.
    assert done.stderr.count("warning") == 1, done.stderr
    assert "memDeRegister before rpcmem_free" in done.stderr


def test_a_process_domain_that_is_full_is_8003_and_says_who_holds_it(client) -> None:
    done = run(client, "budget", QNNRT_HTP_DOMAIN_BYTES="100000")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_a_budget_that_is_no_number_is_told_and_the_usual_one_taken(client) -> None:
    done = run(client, "table", QNNRT_HTP_DOMAIN_BYTES="3.3GB")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "QNNRT_HTP_DOMAIN_BYTES" in done.stderr
    assert "3300000000" in done.stderr
