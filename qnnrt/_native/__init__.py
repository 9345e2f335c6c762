"""The one binding: the module ``_core`` is a QNN client, written in Cython."""

try:
    from ._core import version  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._core":
        raise
    raise ImportError(
        f"qnnrt was imported from its sources ({__path__[0]}), where its native module is not "
        "built for this Python: start Python in another folder to import the installed package, "
        "or build it in place with pip install -e ."
    ) from None
