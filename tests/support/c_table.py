"""The function table of a backend library, called with ctypes: what the binding does not wrap."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from qnnrt import _core

TABLE_OFFSET = 40
SLOTS = {
    "backendCreate": 1,
    "backendRegisterOpPackage": 5,
    "graphCreateSubgraph": 16,
    "tensorCreateContextTensor": 23,
    "tensorCreateGraphTensor": 24,
    "logCreate": 25,
    "logFree": 27,
    "errorGetVerboseMessage": 49,
    "contextCreateFromBinaryWithSignal": 55,
    "tensorUpdateGraphTensors": 57,
    "contextApplyBinarySection": 61,
    "contextGetIncrementalBinary": 64,
    "backendSetConfig": 2,
    "contextCreate": 9,
    "contextSetConfig": 10,
    "contextCreateFromBinary": 13,
    "contextFree": 14,
    "graphCreate": 15,
    "graphSetConfig": 17,
    "backendFree": 8,
    "profileSetConfig": 29,
    "deviceGetInfrastructure": 39,
    "deviceCreate": 40,
    "deviceSetConfig": 41,
    "deviceFree": 43,
    "graphGetProperty": 53,
    "backendGetProperty": 62,
    "globalConfigSet": 67,
}


class Table:
    """``Table(path).contextCreate(handle, ...)`` returns the error code; pointers are ints."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        providers = ctypes.POINTER(ctypes.c_void_p)()
        count = ctypes.c_uint32()
        assert library.QnnInterface_getProviders(ctypes.byref(providers), ctypes.byref(count)) == 0
        self._table = (ctypes.c_void_p * 71).from_address(providers[0] + TABLE_OFFSET)

    def __getattr__(self, name: str) -> Any:
        address = self._table[SLOTS[name]]

        def call(*args: Any) -> int:
            types = [ctypes.c_uint64 if isinstance(a, int) else ctypes.c_void_p for a in args]
            return ctypes.CFUNCTYPE(ctypes.c_uint64, *types)(address)(*args) & 0xFFFF

        return call


class Configs:
    """A NULL-terminated list of config structs of 16 bytes; each (option, value) as for
    ``_core.Config``, where bytes are a struct that the config points to."""

    def __init__(self, entries: Sequence[tuple[int, Any]], size: int = 16) -> None:
        self._keep: list[Any] = []
        pointers = []
        for option, value in entries:
            buffer = ctypes.create_string_buffer(self._entry(option, value, size), size)
            self._keep.append(buffer)
            pointers.append(ctypes.addressof(buffer))
        self.list = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)

    def _entry(self, option: int, value: Any, size: int) -> bytes:
        head = option.to_bytes(4, "little")
        if size == 8:
            return head + value.to_bytes(4, "little")
        return head + bytes(4) + self._word(value).to_bytes(8, "little")

    def _word(self, value: Any) -> int:
        if isinstance(value, tuple):
            return value[0] | value[1] << 32
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            value = value.encode() + b"\0"
        if isinstance(value, list):
            texts = [ctypes.create_string_buffer(text.encode()) for text in value]
            self._keep.append(texts)
            array = (ctypes.c_void_p * (len(texts) + 1))(*map(ctypes.addressof, texts), None)
            self._keep.append(array)
            return ctypes.addressof(array)
        buffer = ctypes.create_string_buffer(bytes(value), len(value))
        self._keep.append(buffer)
        return ctypes.addressof(buffer)

    @property
    def _as_parameter_(self) -> Any:
        return self.list


def last_error(library: _core.Library, code: int) -> str:
    return library.error_message(code)
