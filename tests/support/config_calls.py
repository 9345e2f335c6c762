"""The calls of the function table that carry configs, to try values in."""

from __future__ import annotations

import ctypes
from typing import Any

from qnnrt import qnn
from qnnrt.qnn.backend import library_path
from support.c_table import Configs, Table
from support.config_values import BYTES, FLOAT, relu

#: What has configs -> the calls that take them.
CALLS = {
    "global": ["set"],
    "backend": ["create", "set"],
    "device": ["create", "set"],
    "context": ["create", "binary", "set"],
    "graph": ["create", "set"],
    "profile": ["set"],
}


class Calls:
    """The calls that carry configs, on one backend; each returns its error code."""

    def __init__(self, name: str) -> None:
        self.backend = qnn.Backend.open(name)
        self.table = Table(library_path(name))
        with self.backend.create_context() as context, context.create_graph("g") as graph:
            relu(graph, FLOAT if name != "lpai" else BYTES)
            self.binary = context.binary()

    def close(self) -> None:
        self.backend.close()

    def __call__(self, scope: str, call: str, option: int, value: Any) -> int:
        entry = (option, value)
        if scope.startswith(("htp ", "lpai ", "qnnrt ")):
            entry = (0, value)
        method = getattr(self, f"_{scope.split()[-1]}_{call}")
        return method(Configs([entry], 8 if scope == "global" else 16))

    def _global_set(self, configs: Configs) -> int:
        return self.table.globalConfigSet(configs)

    def _created(self, function: str, free: str, *args: Any, more: tuple[Any, ...] = ()) -> int:
        handle = ctypes.c_void_p(0xDEAD)
        code = getattr(self.table, function)(*args, ctypes.byref(handle), *more)
        if code:
            assert not handle.value, "after an error there is no handle"
        else:
            extra = (None,) if free == "contextFree" else ()
            assert getattr(self.table, free)(handle, *extra) == 0
        return code

    def _backend_create(self, configs: Configs) -> int:
        return self._created("backendCreate", "backendFree", None, configs)

    def _backend_set(self, configs: Configs) -> int:
        return self.table.backendSetConfig(self.backend.handle, configs)

    def _device_create(self, configs: Configs) -> int:
        return self._created("deviceCreate", "deviceFree", None, configs)

    def _device_set(self, configs: Configs) -> int:
        if not self.backend.has_device:
            return self.table.deviceSetConfig(0, configs)
        return self.table.deviceSetConfig(self.backend._device_handle, configs)

    def _context_create(self, configs: Configs) -> int:
        return self._created("contextCreate", "contextFree", self.backend.handle, None, configs)

    def _context_binary(self, configs: Configs) -> int:
        data = ctypes.create_string_buffer(bytes(self.binary), len(self.binary))
        sized = (ctypes.byref(data), len(self.binary))
        args = (self.backend.handle, None, configs, *sized)
        return self._created("contextCreateFromBinary", "contextFree", *args, more=(None,))

    def _context_set(self, configs: Configs) -> int:
        with self.backend.create_context() as context:
            return self.table.contextSetConfig(context.handle, configs)

    def _graph_create(self, configs: Configs) -> int:
        with self.backend.create_context() as context:
            handle = ctypes.c_void_p()
            name = ctypes.c_char_p(b"g")
            code = self.table.graphCreate(context.handle, name, configs, ctypes.byref(handle))
            assert bool(handle.value) == (code == 0)
            return code

    def _graph_set(self, configs: Configs) -> int:
        with self.backend.create_context() as context, context.create_graph("g") as graph:
            return self.table.graphSetConfig(graph.handle, configs)

    def _profile_set(self, configs: Configs) -> int:
        with self.backend.create_profile() as profile:
            return self.table.profileSetConfig(profile.handle, configs)
