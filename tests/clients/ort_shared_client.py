"""ONNX Runtime as a client that keeps tensors in the provider's shared memory, on its own process.

    python ort_shared_client.py MODEL BACKEND_LIBRARY INPUTS.npz OUTPUTS.npz RUNS CASE.json

CASE: {"memory": {tensor: "Cpu" or "QnnHtpShared"}, "outputs": {name: shape}, "provider": options},
and optionally "places": {tensor: byte in one buffer of "QnnHtpShared"}.
Runs with an IOBinding; prints the live-object counters before, during and after as one JSON line.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime_qnn as ort_qnn

sys.path.insert(0, str(Path(__file__).parent))  # which is not there with PYTHONSAFEPATH

from ort_c_api import Session
from ort_client import described, live_counts

PLACE = 4096  # bytes behind the last of "places"


def main(model: str, backend: str, inputs: str, outputs: str, runs: str, case: str) -> None:
    given = json.loads(Path(case).read_text())
    runtime = ctypes.CDLL(str(Path(backend).with_name("libqnnrt.so")))
    before = live_counts(runtime)
    options = {"backend_path": backend, **given["provider"]}
    # Not verbose (0): there the provider (2.7.0) leaves the type of its memory descriptors unset,
    # and a registration says QURT, which no host has.
    session = Session(model, ort_qnn.EP_NAME, ort_qnn.get_library_path(), options, severity=1)
    feeds = dict(np.load(inputs))
    shapes = {name: feed.shape for name, feed in feeds.items()} | given["outputs"]
    types = {name: feed.dtype.name for name, feed in feeds.items()} | given.get("types", {})
    tensors = {
        n: session.tensor(s, given["memory"].get(n, "Cpu"), types.get(n, "float32"))
        for n, s in shapes.items()
    }
    if places := given.get("places"):
        _, whole = session.tensor([max(places.values()) + PLACE], "QnnHtpShared", "uint8")
        for name, offset in places.items():
            kind = types.get(name, "float32")
            tensors[name] = session.part(whole, "QnnHtpShared", offset, shapes[name], kind)
    for name, feed in feeds.items():
        tensors[name][1][...] = feed
    values = {name: value for name, (value, _) in tensors.items()}
    ins = {name: values[name] for name in feeds}
    outs = {name: values[name] for name in given["outputs"]}
    binding = session.binding(ins, outs)
    for _ in range(int(runs)):
        session.run(binding)
    during = live_counts(runtime)
    htp = described(runtime)
    np.savez(outputs, **{name: tensors[name][1].copy() for name in outs})
    del tensors
    session.api.release("IoBinding", binding)
    session.release_values()
    freed = live_counts(runtime)
    session.close()
    counts = {"before": before, "during": during, "freed": freed, "after": live_counts(runtime)}
    print(json.dumps({"htp": htp, **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
