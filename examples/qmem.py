"""Raw or memory handle, when a graph is prepared and when it is run: what each way costs.

An accelerator sees shared buffers alone. A tensor run as RAW memory is copied through a buffer that
the runtime reserves: when the graph is finalized if the tensor was prepared raw, in the first run
if it was prepared for a memory handle. A tensor run by its handle is used where it is.
"""

import tempfile
from pathlib import Path

import numpy as np

import qnnrt
from qnnrt.model import Model, Node, Tensor

FRAME = (1, 720, 1280, 4)
float32 = np.dtype(np.float32)
model = Model(
    "frames",
    {name: Tensor(name, FRAME, float32) for name in ("frame", "shown")},
    [Node("clip", "ReluMinMax", ["frame"], ["shown"],
          {"min_value": np.float32(0), "max_value": np.float32(1)})],
    ["frame"],
    ["shown"],
)  # fmt: skip


def report(title: str, session: qnnrt.Session) -> None:
    at_finalize = session.stats.reserved_bytes
    for _ in range(3):
        session.run()
    stats = session.stats
    print(
        f"{title:24} reserved at finalize {at_finalize:9,}  at execute "
        f"{stats.reserved_at_execute:9,}  copied in 3 runs {stats.copied_bytes:10,}"
    )


print("prepared / run")
for prepare in ("raw", "memhandle"):
    for io in ("raw", "memhandle"):
        with qnnrt.Session(model, "htp", prepare=prepare, io=io) as session:
            report(f"{prepare} / {io}", session)
            for copy in session.stats.copies:
                print(f"    {copy.tensor}: {copy.nbytes:,} bytes {copy.direction}, {copy.reason}")

# Each tensor may choose for itself: here the result goes into memory of the program's own.
with qnnrt.Session(model, "htp", io={"shown": "raw"}) as session:
    session.outputs["shown"].bind(np.empty(FRAME, np.float32))
    report("mixed", session)

# Where a copy would be a mistake, say so.
try:
    qnnrt.Session(model, "htp", io="raw", strict=True)
except qnnrt.CopyError as error:
    print("strict:", error)

# What was prepared is kept in a context binary, which is mapped, not read, when it is loaded.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "frames.bin"
    with qnnrt.Session(model, "htp") as session:
        session.save_binary(path)
    print(qnnrt.load(path).summary().replace(folder, "..."))
    with qnnrt.Session(path, "htp", strict=True) as session:
        report("from a binary", session)
