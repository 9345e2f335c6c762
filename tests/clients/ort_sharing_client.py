"""Sessions of ONNX Runtime that compile models into one shared QNN context, in one process.

    python ort_sharing_client.py BACKEND_LIBRARY FOLDER MODEL ...

Writes FOLDER/0.onnx, 1.onnx, ... and the binary that they share; prints as JSON what each session
ended with: null or its error.
"""

import json
import os
import sys

import onnxruntime as ort
import onnxruntime_qnn as ort_qnn


def main(backend: str, folder: str, *models: str) -> None:
    ort.register_execution_provider_library(ort_qnn.EP_NAME, ort_qnn.get_library_path())
    devices = [d for d in ort.get_ep_devices() if d.ep_name == ort_qnn.EP_NAME]
    sessions, errors = [], []
    for i, model in enumerate(models):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        for name, value in (
            ("ep.context_enable", "1"),
            ("ep.context_embed_mode", "0"),
            ("ep.context_file_path", f"{folder}/{i}.onnx"),
            ("ep.share_ep_contexts", "1"),
            ("ep.stop_share_ep_contexts", str(int(i == len(models) - 1))),
        ):
            options.add_session_config_entry(name, value)
        options.add_provider_for_devices(devices[:1], {"backend_path": backend})
        try:
            sessions.append(ort.InferenceSession(model, options, enable_fallback=0))
            errors.append(None)
        except Exception as e:
            errors.append(str(e))
    print(json.dumps(errors), flush=True)
    os._exit(0)  # what a foreign library does at its exit does not matter here


if __name__ == "__main__":
    main(*sys.argv[1:])
