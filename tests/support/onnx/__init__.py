"""ONNX models made in memory, and the node cases of the onnx package."""
