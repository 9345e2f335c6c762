"""Random ONNX graphs of the patterns that exporters write, and of near misses of these.

`random_models` has every operator, a few of them in a graph; here graphs are made of what passes
look for: norms, attention, GELU, convolutions with what follows them, views, moves that cancel.
A graph is a function of a seed and a number. What it should give ONNX Runtime says, with its own
optimizations off.
"""
