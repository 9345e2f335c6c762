"""ONNX Runtime as a client of a QNN backend library, in a process of its own.

    python ort_client.py MODEL BACKEND_LIBRARY INPUTS.npz OUTPUTS.npz RUNS [OPTIONS.json]

runs the model with the QNN execution provider on that library by its path, writes the outputs of
the last run, and prints one JSON line: which provider got which ops, and what the backend
library's own live-object counters said before, during and after the session. The log of both,
with everything that the backend says, goes to standard error. The options are a JSON object with
"provider" and "session", each an object of strings; null leaves an option out.
"""

import ctypes
import gc
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn as ort_qnn

# Qnnrt_LiveCounts_t of qnnrt_ext.h
COUNTERS = ["buffers", "maps", "fds", "mem_handles", "contexts", "graphs", "backends", "profiles"]
COUNTERS += ["logs", "devices", "signals"]


def live_counts(library: ctypes.CDLL) -> dict[str, int]:
    values = (ctypes.c_uint64 * len(COUNTERS))()
    library.qnnrt_live_counts(values)
    return dict(zip(COUNTERS, values, strict=True))


def assignment(session: ort.InferenceSession) -> dict[str, Counter[str]]:
    """Provider -> op type -> count. (The parts keep the session alive: none is left behind.)"""
    assigned: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        ops = assigned.setdefault(part.ep_name, Counter())
        ops.update(node.op_type for node in part.get_nodes())
    return assigned


def described(library: ctypes.CDLL) -> dict | None:
    """What the htp backend keeps of devices, contexts and votes."""
    library.qnnrt_htp_describe.restype = ctypes.c_char_p
    return json.loads(library.qnnrt_htp_describe(None))


def main(
    model: str, backend: str, inputs: str, outputs: str, runs: str, more: str | None = None
) -> None:
    given = json.loads(Path(more).read_text()) if more else {}
    ort.set_default_logger_severity(0)
    ort.register_execution_provider_library(ort_qnn.EP_NAME, ort_qnn.get_library_path())
    devices = [d for d in ort.get_ep_devices() if d.ep_name == ort_qnn.EP_NAME]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    # What stays with the CPU provider is computed exactly, also on processors without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    for name, value in given.get("session", {}).items():
        options.add_session_config_entry(name, value)
    provider = {"backend_path": backend, **given.get("provider", {})}
    provider = {name: value for name, value in provider.items() if value is not None}
    options.add_provider_for_devices(devices[:1], provider)

    # The same library that the provider opens: the counters are those of its one instance.
    runtime = ctypes.CDLL(str(Path(backend).with_name("libqnnrt.so")))
    before = live_counts(runtime)
    session = ort.InferenceSession(model, options)
    assigned = assignment(session)
    feeds = dict(np.load(inputs))
    for _ in range(int(runs)):
        results = session.run(None, feeds)
    during = live_counts(runtime)
    htp = described(runtime)
    np.savez(outputs, *results)
    del session
    gc.collect()
    after = live_counts(runtime)
    counts = {"before": before, "during": during, "after": after}
    print(json.dumps({"assigned": assigned, "htp": htp, **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
