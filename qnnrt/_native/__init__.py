"""The one binding: the module ``_core`` is a QNN client, written in Cython."""
