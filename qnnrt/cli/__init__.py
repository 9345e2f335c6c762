"""The ``qnnrt`` command: one file for a subcommand, each with ``add`` (its options) and ``run``.

Exit status: 0 done, 1 the work failed, 2 a bad option or file (one line on stderr says which), 130
interrupted by Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from .._native import _core
from .._start import INTERRUPTED, interruptible
from ..errors import BackendNotFoundError, Error, ModelError
from ..support.json_checks import JsonError
from . import (
    bench,
    context_binary_generator,
    context_binary_utility,
    demo,
    info,
    inspect,
    net_run,
    paths,
    platform_validator,
    profile_viewer,
    run,
    sdk_root,
    throughput_net_run,
)
from ._common import UsageError

__all__ = ["main", "sdk_tool"]

_MOST_TEXT = 8000  # characters of an error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit status 2, without the usage text that hides it."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:

    parser = _Parser(prog="qnnrt", description="Neural networks over QNN with shared buffers.")
    parser.add_argument("--version", action="version", version=f"qnnrt {_core.version()}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for module in (
        info,
        run,
        bench,
        demo,
        context_binary_generator,
        context_binary_utility,
        inspect,
        net_run,
        throughput_net_run,
        profile_viewer,
        platform_validator,
        paths,
        sdk_root,
    ):
        module.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command, the process's own unless given; returns its exit status."""
    return interruptible(lambda: _main(argv))


def sdk_tool() -> int:
    """``qnn-net-run`` and the others that are called as the SDK's tools: ``qnnrt`` commands."""
    name = os.path.basename(sys.argv[0]).removesuffix(".exe").removeprefix("qnn-")
    sys.argv[1:1] = [name]
    return main()


def _main(argv: Sequence[str] | None) -> int:
    if argv is None:
        _keep_stdout()
    parser = _parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments = " ".join(unknown)
        parser.prog += f" {options.command}"
        parser.error(f"unrecognized arguments: {arguments}")
    try:
        status: int = options.run(options)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
        return status
    except (UsageError, JsonError) as error:
        return _report(options.command, error, 2)
    except (ModelError, BackendNotFoundError) as error:
        return _report(options.command, error, 2)
    except OSError as error:
        _discard_unwritten()
        if isinstance(error, BrokenPipeError):  # the reader, e.g. `head`, has what it wanted
            return 1
        return _report(options.command, error, 2)
    except Error as error:
        return _report(options.command, error, 1)
    except KeyboardInterrupt:
        return INTERRUPTED


def _keep_stdout() -> None:
    """Leaves stdout to the command alone: some backend libraries print there, which would spoil
    --json. Whatever else writes to file descriptor 1 from now on ends on stderr. A name that stdout
    cannot be given as it is, such as a file's that is no text, is written as stderr does it."""
    old = sys.stdout
    if not isinstance(old, io.TextIOWrapper):
        return
    old.reconfigure(errors="backslashreplace")
    with suppress(OSError, ValueError):
        if old.fileno() == 1:
            old.flush()
            os.fstat(2)
            new = open(os.dup(1), "w", encoding=old.encoding, errors=old.errors)  # noqa: SIM115
            new.reconfigure(line_buffering=old.line_buffering, write_through=old.write_through)
            os.dup2(2, 1)
            sys.stdout = new


def _discard_unwritten() -> None:
    """What stdout does not take now the interpreter would try to write once more at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(command: str, error: Exception, status: int) -> int:
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = " ".join(str(error).split()) if status == 2 else str(error)
    if len(text) > _MOST_TEXT:  # names and values in a file may have any length
        text = f"{text[: _MOST_TEXT // 2]} ... {text[-_MOST_TEXT // 2 :]}"
    print(f"qnnrt {command}: error: {text}", file=sys.stderr)
    return status
