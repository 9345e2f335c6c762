"""Ctrl-C while the ``qnnrt`` command starts up or goes down: it ends at once, without a traceback.

Imported before anything else of the package, since importing the rest takes most of a start.
Until the command begins its work, and after that, SIGINT has its default action, as in any other
tool. Where the command was started with SIGINT ignored, as in the background of a script, it stays
so. Programs that import the package are left alone.
"""

import sys
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)
from collections.abc import Callable
from os.path import basename

INTERRUPTED = 130  # the exit status: what a shell says of a command that SIGINT has ended


def _is_command() -> bool:
    if sys.argv[:1] == ["-m"]:  # what it is while packages are imported for `python -m`
        module = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]
        return module.removeprefix("-m") in ("qnnrt", "qnnrt.__main__")
    name = basename((sys.argv or [""])[0]).removesuffix(".exe")
    return name == "qnnrt" or name.startswith("qnn-")


_own = _is_command() and getsignal(SIGINT) is default_int_handler
if _own:
    signal(SIGINT, SIG_DFL)


def interruptible(work: Callable[[], int]) -> int:
    """Do the work of the command: there Ctrl-C is KeyboardInterrupt, so that what is open is
    closed."""
    if not _own:
        return work()
    try:
        signal(SIGINT, default_int_handler)
        status = work()
        signal(SIGINT, SIG_DFL)
        return status
    except KeyboardInterrupt:
        signal(SIGINT, SIG_DFL)
        return INTERRUPTED
