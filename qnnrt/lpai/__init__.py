"""LPAI: the memory that a client gives to graphs, and the other options of such a backend.

The workflow that the QNN documentation recommends, by hand::

    backend = Backend.open("lpai")
    graph = backend.create_context().create_graph("g")
    ...                                                  # tensors and nodes
    needed = lpai.alignment(backend)                     # 1
    sizes = lpai.pool_sizes(graph)                       # 2, 3
    scratch = lpai.alloc(backend, sizes.scratch)         # 4
    lpai.set_scratch(graph, scratch)                     # 5, and set_persistent likewise
    graph.finalize()                                     # 6
    graph.execute({"x": x}, {"y": y})                    # 7, 8

``allocate_pools`` does 1 to 5, ``Session(model, "lpai")`` all of it. See docs/lpai.md. Everything
goes through the QNN API, so it also drives a vendor's libQnnLpai.so.
"""

from __future__ import annotations

from .hardware import (
    ID,
    Affinity,
    ClientType,
    CoreInfo,
    HardwareVersion,
    MemType,
    Target,
    backend_options,
    cores,
    describe,
    island,
    model_memory,
    requires_persistent_binary,
    set_affinity,
    set_performance,
    set_prepare,
)
from .options import Options
from .pools import (
    Alignment,
    Pools,
    PoolSizes,
    alignment,
    alloc,
    allocate_pools,
    io_array,
    pool_sizes,
    pools_of,
    set_persistent,
    set_scratch,
)
from .tcm import TCM_BYTES, TCM_PIECES, Allocator

__all__ = [
    "ID",
    "TCM_BYTES",
    "TCM_PIECES",
    "Affinity",
    "Alignment",
    "Allocator",
    "ClientType",
    "CoreInfo",
    "HardwareVersion",
    "MemType",
    "Options",
    "PoolSizes",
    "Pools",
    "Target",
    "alignment",
    "alloc",
    "allocate_pools",
    "backend_options",
    "cores",
    "describe",
    "io_array",
    "island",
    "model_memory",
    "pool_sizes",
    "pools_of",
    "requires_persistent_binary",
    "set_affinity",
    "set_performance",
    "set_persistent",
    "set_prepare",
    "set_scratch",
]
